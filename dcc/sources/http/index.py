"""The index page of a directory on a web server: the names that it links to.

Understood are the pages of Apache's mod_autoindex, nginx, lighttpd, Caddy, IIS, Python's http.server and others that
link to each entry; links that lead out of the directory are left aside. Of sizes, only those that nginx prints exactly
are read; others are rounded. Times are rounded too, in time zones of their own, and are not read.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from dcc.sources.http.client import Answer, Site, UnusableAnswerError
from dcc.sources.http.page import TooManyLinksError, read_page
from dcc.sources.listing import Entry, EntryKind
from dcc.sources.listing_watch import watched

MAX_PAGE_BYTES = 128 * 1024 * 1024
"""Size of an index page beyond which it is refused."""

_PLAIN = re.compile(r"[A-Za-z0-9_.~%-]+/?")
_END = re.compile(rb"</(html|body|pre|table|ul)\s*>", re.IGNORECASE)
_TAIL_BYTES = 4096
_LINK = b"href="


def read_index(site: Site, answer: Answer) -> Iterator[Entry]:
    """The entries that the index page of a directory links to, without time, each once.

    Raises FAILURES of the client, among them UnusableAnswerError where the page is no index, or not whole: an error
    page that passed for an empty directory would make its archives seem gone.
    """
    kind = answer.headers.get_content_type()
    if kind not in ("text/html", "application/xhtml+xml"):
        raise UnusableAnswerError(f"it answered with {kind[:60]!r} and not with an index page")
    content = _content(answer)
    try:
        page = read_page(content, _encoding(answer))
    except TooManyLinksError as error:
        raise UnusableAnswerError(f"its index page has {error}") from error
    names: dict[bytes, tuple[EntryKind, int | None]] = {}
    for link, size in page.links.items():
        found = _entry(site, answer.target, page.base, link)
        if found is not None:
            name, what = found
            names.setdefault(name, (what, size if what is EntryKind.FILE else None))
    if not page.is_index and not any(name.endswith(b".zip") for name in names):
        raise UnusableAnswerError("it answered with a page that is no index of a directory")
    return (Entry(name, kind, size) for name, (kind, size) in names.items())


def _content(answer: Answer) -> bytes:
    """The whole page; refused where it is too large, empty or cut off."""
    content, watch, links = bytearray(), watched(), 0
    for block in answer.blocks():
        content += block
        if watch is not None:
            links += block.count(_LINK)
            watch.note(links)
        if len(content) > MAX_PAGE_BYTES:
            raise UnusableAnswerError(f"its index page is larger than {MAX_PAGE_BYTES:,} bytes")
    if not content:
        raise UnusableAnswerError("it answered with an empty page")
    if answer.length is None and _END.search(content[-_TAIL_BYTES:]) is None:
        raise UnusableAnswerError("its index page broke off")
    return bytes(content)


def _encoding(answer: Answer) -> str | None:
    name = answer.headers.get_content_charset()
    try:
        return codecs.lookup(name).name if name else None
    except (LookupError, ValueError):
        return None


def _entry(site: Site, directory: str, base: str, link: str) -> tuple[bytes, EntryKind] | None:
    """Name and kind of what a link leads to, directly below the directory; None if it leads anywhere else."""
    if not base and directory.endswith("/") and _PLAIN.fullmatch(link):
        kind = EntryKind.DIRECTORY if link.endswith("/") else EntryKind.FILE
        return unquote_to_bytes(link.rstrip("/")) if "%" in link else link.rstrip("/").encode("ascii"), kind
    try:
        start = site.resolve(directory, base) if base else directory
        target = site.resolve(start, link) if start is not None else None
    except ValueError:
        return None
    if target is None or "?" in target:
        return None
    steps, here = _steps(target), _steps(directory)
    rest = steps[len(here) - 1 :]
    if steps[: len(here) - 1] != here[:-1] or not rest or not rest[0] or rest[1:] not in ([], [b""]):
        return None
    return rest[0], EntryKind.FILE if len(rest) == 1 else EntryKind.DIRECTORY


def _steps(target: str) -> list[bytes]:
    """The names along a path; the last one is empty where it ends in a slash."""
    return [unquote_to_bytes(step) for step in target.partition("?")[0].split("/")]
