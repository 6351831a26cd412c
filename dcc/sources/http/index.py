"""The index page of a directory on a web server: the names that it links to.

It understands the pages of Apache's mod_autoindex, nginx, lighttpd, Caddy, IIS, Python's http.server and others that
link to each entry; it ignores links that lead out of the directory. Of sizes, it reads only nginx's, which are exact.
Times are rounded, in time zones of their own, and are not read.

libxml2's parser of HTML takes hours for a few megabytes of tags that are never closed. The one here goes through a page
once, in time and memory that grow with the page alone, and knows only what an index page needs.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote_to_bytes

from dcc.messages import mark, size_detail
from dcc.sources.http.client import HttpResponse, Site, UnusableAnswerError
from dcc.sources.listing import ARCHIVE_ENDINGS, Entry, EntryKind
from dcc.sources.listing_watch import watched

MAX_LINKS: Final = 1_000_000
MAX_TAGS: Final = 5_000_000
_OF_HOST_NAMES: Final = ("idna", "punycode")
"""Encodings whose time grows with the square of a text: a long link would take hours."""
_TITLES = re.compile(r"index of|directory listing|directory:|parent directory|folder listing", re.IGNORECASE)
_UP = ("..", "../", "./..", "./../")
_TITLE_TAGS = (b"title", b"h1", b"h2", b"a")
# Ends of elements, and bare tags of two letters, are passed over: they are two thirds of a page. A link as servers
# write it is taken at once; all other tags take several steps.
_MARKUP = re.compile(
    rb"<(?!/[A-Za-z]{1,20}+>|[a-z]{2}>)"
    rb"(?:[Aa] +href=\"(?P<link>[^\"&<>\s]*+)\">"
    rb"|(?P<comment>!--)|(?P<other>[!?])|(?P<close>/?)(?P<name>[A-Za-z][^\s/>]{0,20}))"
)
# As nginx writes it. A size of digits alone is exact; rounded ones have a unit or a point.
_EXACT_SIZE = re.compile(
    rb"[^<>\r\n]{0,300}+</a> ++[0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9]{2}:[0-9]{2} {1,99}+([0-9]{1,18})\r?+\n"
)
_REST_OF_TAG = re.compile(rb"(?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+'|))*+>")
_ATTRIBUTE = re.compile(rb"([^\s/>=]++)\s*+(?:=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s>]*+)))?")
_RAW_TEXT = {name: re.compile(rb"</" + name, re.IGNORECASE) for name in (b"script", b"style")}
_ANY_TAG = re.compile(rb"<[^>]*+>?")
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?([A-Za-z0-9_-]{1,40})", re.IGNORECASE)
_HEAD_BYTES = 4096
_TITLE_BYTES = 1000
_MAX_TITLES = 1000
MAX_PAGE_BYTES = 128 * 1024 * 1024
_PLAIN = re.compile(r"[A-Za-z0-9_.~%-]+/?")
_END = re.compile(rb"</(html|body|pre|table|ul)\s*>", re.IGNORECASE)
_TAIL_BYTES = 4096
_LINK = b"href="


@dataclass
class Page:
    """A page's links as they are written, each once, and their base address, if any.

    A link may have the exact size, in bytes, of its target, if the page prints it.
    """

    links: dict[str, int | None] = field(default_factory=dict)
    base: str = ""
    is_index: bool = False


def read_page(content: bytes, encoding: str | None) -> Page:
    """Read a page; `encoding` is the one that its server announces.

    Raises UnusableAnswerError for more than MAX_LINKS links or MAX_TAGS tags.
    """
    encoding = encoding or _announced(content)
    if encoding.startswith(("utf-16", "utf-32")):
        content, encoding = content.decode(encoding, "replace").encode(), "utf-8"
    page = Page()
    position = count = titles = 0
    while (found := _MARKUP.search(content, position)) is not None:
        count += 1
        if count > MAX_TAGS:
            raise UnusableAnswerError(mark("its index page has more than {number} tags"), number=MAX_TAGS)
        if found["link"] is not None:
            position, name = found.end(), b"a"
            size = _EXACT_SIZE.match(content, position)
            _keep(page, _decoded(found["link"], encoding), int(size[1]) if size else None)
        else:
            position = _end_of(content, found)
            name = found["name"].lower() if found["name"] else b""
            if position and not found["close"] and name in (b"a", b"base"):
                link = _href(content[found.end() : position - 1], encoding)
                if name == b"a":
                    _keep(page, link)
                else:
                    page.base = page.base or link
        if position and not found["close"]:
            if name in _TITLE_TAGS and not page.is_index and titles < _MAX_TITLES:
                titles += 1
                page.is_index = _TITLES.search(_title(content, position, name, encoding)) is not None
            if name in _RAW_TEXT:
                end = _RAW_TEXT[name].search(content, position)
                position = end.start() if end else 0
        if not position:
            break
    return page


def _end_of(content: bytes, found: re.Match[bytes]) -> int:
    """Where the construct at this position ends; 0 if it does not."""
    if found["comment"] or found["other"]:
        end = b"-->" if found["comment"] else b">"
        place = content.find(end, found.end())
        return place + len(end) if place >= 0 else 0
    rest = _REST_OF_TAG.match(content, found.end())
    return rest.end() if rest else 0


def _keep(page: Page, link: str, size: int | None = None) -> None:
    """Keep a link, unless it is empty or known; a link upwards makes the page an index."""
    if link:
        page.links.setdefault(link, size)
        page.is_index = page.is_index or link in _UP
        if len(page.links) > MAX_LINKS:
            raise UnusableAnswerError(mark("its index page has more than {number} links"), number=MAX_LINKS)


def _href(attributes: bytes, encoding: str) -> str:
    for found in _ATTRIBUTE.finditer(attributes):
        if found[1].lower() == b"href":
            return html.unescape(_decoded(found[2] or found[3] or found[4] or b"", encoding)).strip()
    return ""


def _title(content: bytes, start: int, name: bytes, encoding: str) -> str:
    """The text of an element, or the beginning of it."""
    text = content[start : start + _TITLE_BYTES]
    end = text.lower().find(b"</" + name)
    return html.unescape(_decoded(_ANY_TAG.sub(b"", text if end < 0 else text[:end]), encoding))


def _announced(content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    found = _CHARSET.search(content[:_HEAD_BYTES])
    return (_known(found[1].decode("ascii")) if found else None) or "utf-8"


def _decoded(text: bytes, encoding: str) -> str:
    try:
        return text.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return text.decode("utf-8", "replace") if encoding != "utf-8" else text.decode("latin-1")


def read_index(site: Site, answer: HttpResponse) -> Iterator[Entry]:
    """The entries that the index page of a directory links to, without time, each once.

    Raises FAILURES of the client, among them UnusableAnswerError if the page is no index, or incomplete: an error page
    taken for an empty directory would make its archives seem gone.
    """
    kind = answer.headers.get_content_type()
    if kind not in ("text/html", "application/xhtml+xml"):
        text = mark("it answered with '{kind}' and not with an index page")
        raise UnusableAnswerError(text, kind=kind[:60])
    page = read_page(_content(answer), _known(answer.headers.get_content_charset()))
    names: dict[bytes, tuple[EntryKind, int | None]] = {}
    for link, size in page.links.items():
        found = _entry(site, answer.target, page.base, link)
        if found is not None:
            name, what = found
            names.setdefault(name, (what, size if what is EntryKind.FILE else None))
    if not page.is_index and not any(name.endswith(ARCHIVE_ENDINGS) for name in names):
        raise UnusableAnswerError(mark("it answered with a page that is no index of a directory"))
    return (Entry(name, kind, size) for name, (kind, size) in names.items())


def _content(answer: HttpResponse) -> bytes:
    """The complete page; refused if it is too large, empty or truncated."""
    content, watch, links = bytearray(), watched(), 0
    for block in answer.blocks():
        content += block
        if watch is not None:
            links += block.count(_LINK)
            watch.note(links)
        if len(content) > MAX_PAGE_BYTES:
            raise UnusableAnswerError(mark("its index page is larger than {size}"), size=size_detail(MAX_PAGE_BYTES))
    if not content:
        raise UnusableAnswerError(mark("it answered with an empty page"))
    if answer.length is None and _END.search(content[-_TAIL_BYTES:]) is None:
        raise UnusableAnswerError(mark("its index page broke off"))
    return bytes(content)


def _known(encoding: str | None) -> str | None:
    """The usual name of an encoding that a page may have; None for others."""
    try:
        name = codecs.lookup(encoding).name if encoding else None
    except (LookupError, ValueError):
        return None
    return None if name in _OF_HOST_NAMES else name


def _entry(site: Site, directory: str, base: str, link: str) -> tuple[bytes, EntryKind] | None:
    """Name and kind of a link's target, directly below the directory; None if it leads anywhere else."""
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
