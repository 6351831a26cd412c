"""The index page of a directory on a web server: the names that it links to.

Understood are the pages of Apache's mod_autoindex, nginx, lighttpd, Caddy, IIS, Python's http.server and others that
link to each entry; links that lead out of the directory are left aside. Sizes and times on such pages are rounded, in
formats and time zones of their own, and are not read.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote_to_bytes

from lxml import etree

from dcc_resources.file_sources.http_client import Answer, Site, UnusableAnswerError
from dcc_resources.file_sources.listing import Entry, EntryKind

MAX_PAGE_BYTES = 256 * 1024 * 1024
"""Size of an index page beyond which it is refused."""

_TITLES = re.compile(r"index of|directory listing|directory:|parent directory|folder listing", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z0-9_.~%-]+/?")
_UP = ("..", "../", "./..", "./../")
_END = re.compile(rb"</(html|body|pre|table|ul)\s*>", re.IGNORECASE)
_TITLE_TAGS = ("title", "h1", "h2", "a")
_TAIL_BYTES = 4096
_TITLE_PIECES = 20


def read_index(site: Site, answer: Answer) -> Iterator[Entry]:
    """The entries that the index page of a directory links to, without size and time, each once.

    Raises FAILURES of the client, among them UnusableAnswerError where the page is no index, or not whole: an error
    page that passed for an empty directory would make its archives seem gone.
    """
    kind = answer.headers.get_content_type()
    if kind not in ("text/html", "application/xhtml+xml"):
        raise UnusableAnswerError(f"it answered with {kind[:60]!r} and not with an index page")
    page = _Page()
    parser = etree.HTMLParser(target=page, encoding=_encoding(answer), huge_tree=True)
    _feed(parser, answer)
    names: dict[bytes, EntryKind] = {}
    for link in page.links:
        found = _entry(site, answer.target, page.base, link)
        if found is not None:
            names.setdefault(*found)
    if not page.is_index and not any(name.endswith(b".zip") for name in names):
        raise UnusableAnswerError("it answered with a page that is no index of a directory")
    return (Entry(name, kind) for name, kind in names.items())


class _Page:
    """Gathers links while the parser goes through a page, of which nothing else is kept."""

    def __init__(self) -> None:
        self.links: dict[str, None] = {}
        self.base = ""
        self.is_index = False
        self._titles: list[str] | None = None

    def start(self, tag: str | bytes, attrib: dict[Any, Any]) -> None:
        """Called for each start tag."""
        link = str(attrib.get("href", "")).strip()
        if tag == "a" and link:
            self.links.setdefault(link)
            self.is_index = self.is_index or link in _UP
        elif tag == "base" and link and not self.base:
            self.base = link
        if tag in _TITLE_TAGS and not self.is_index:
            self._titles = []

    def data(self, data: str | bytes) -> None:
        """Called for each piece of text."""
        if self._titles is not None and len(self._titles) < _TITLE_PIECES:
            self._titles.append(str(data))

    def comment(self, text: str | bytes) -> None:
        """Called for each comment."""

    def end(self, tag: str | bytes) -> None:
        """Called for each end tag."""
        if tag in _TITLE_TAGS and self._titles is not None:
            self.is_index = self.is_index or _TITLES.search("".join(self._titles)) is not None
            self._titles = None

    def close(self) -> None:
        """Called at the end."""


def _feed(parser: etree.HTMLParser, answer: Answer) -> None:
    size, tail = 0, b""
    for block in answer.blocks():
        size += len(block)
        if size > MAX_PAGE_BYTES:
            raise UnusableAnswerError(f"its index page is larger than {MAX_PAGE_BYTES:,} bytes")
        tail = (tail + block)[-_TAIL_BYTES:]
        parser.feed(block)
    if size == 0:
        raise UnusableAnswerError("it answered with an empty page")
    if answer.length is None and _END.search(tail) is None:
        raise UnusableAnswerError("its index page broke off")
    try:
        parser.close()
    except etree.XMLSyntaxError as error:
        raise UnusableAnswerError("it answered with a page that is no HTML") from error


def _encoding(answer: Answer) -> str | None:
    name = answer.headers.get_content_charset()
    try:
        return codecs.lookup(name).name if name else None
    except (LookupError, ValueError):
        return None


def _entry(site: Site, directory: str, base: str, link: str) -> tuple[bytes, EntryKind] | None:
    """Name and kind of what a link leads to, directly below the directory; None if it leads anywhere else."""
    if not base and directory.endswith("/") and _PLAIN.fullmatch(link):
        return unquote_to_bytes(link.rstrip("/")), EntryKind.DIRECTORY if link.endswith("/") else EntryKind.FILE
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
