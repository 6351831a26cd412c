"""Retrieves reference data from web servers: tables, and IMPReSS from its public API, a request for each answer.

A few answers are requested at a time, and only if they changed since they were last received: the QC database stores
completely received pages. Nothing else is written; a set is checked before any of it is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from queue import SimpleQueue
from typing import Final, Self
from urllib.parse import quote

from sqlalchemy import Connection, Engine, and_, delete, not_, or_, select
from sqlalchemy.sql.elements import ColumnElement

from dcc.databases.transactions import insert_rows, run_reading, run_writing
from dcc.errors import ReferenceDataError
from dcc.qc.models import FETCHED_PAGE
from dcc.qc.models.base import ID_LENGTH, URI_LENGTH
from dcc.reference.impress import Impress, ParameterType
from dcc.reference.impress_api import impress_from_answers
from dcc.reference.loading import checksum_of_answers, parse_json
from dcc.reference.snapshots import Provenance, Snapshot
from dcc.reference.web_reader import MAX_BYTES, Page, WebReader, set_of_page
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.settings.reference import shown_source, url_below

_MAX_BYTES_KEPT: Final = 8_000_000
_LONGEST_TIME: Final = 64
_KEYS_AT_ONCE: Final = 500


def load_pages(connection: Connection, source: str) -> dict[str, Page]:
    """The stored pages of a source, which is an address or a prefix of addresses, by their address for messages."""
    columns = FETCHED_PAGE.c
    query = select(columns.address, columns.content, columns.entity_tag, columns.last_modified, columns.retrieved)
    return {
        row.address: Page(row.address, row.content.encode(), row.entity_tag, row.last_modified, row.retrieved)
        for row in connection.execute(query.where(_is_of(source)))
    }


def save_pages(connection: Connection, pages: Sequence[Page]) -> None:
    """Store pages, replacing those of the same addresses, if they can be requested conditionally."""
    rows = {row["address_md5"]: row for page in pages if (row := _row(page)) is not None}
    keys = list(rows)
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        part = keys[start : start + _KEYS_AT_ONCE]
        connection.execute(delete(FETCHED_PAGE).where(FETCHED_PAGE.c.address_md5.in_(part)))
        insert_rows(connection, FETCHED_PAGE, [rows[key] for key in part])


def remove_pages_but_of(connection: Connection, sources: Collection[str]) -> None:
    """Remove pages of sources that are not used any more."""
    connection.execute(delete(FETCHED_PAGE).where(*(not_(_is_of(source)) for source in sources)))


def _is_of(source: str) -> ColumnElement[bool]:
    place, found, asked = shown_source(source).partition("?")
    address = FETCHED_PAGE.c.address
    url_below = and_(
        address.startswith(f"{place.rstrip('/')}/", autoescape=True), address.endswith(found + asked, autoescape=True)
    )
    return or_(address == f"{place}{found}{asked}", url_below)


def _row(page: Page) -> dict[str, object] | None:
    entity_tag = _usable_header(page.entity_tag, ID_LENGTH)
    last_modified = _usable_header(page.last_modified, _LONGEST_TIME)
    if entity_tag is None and last_modified is None:
        return None
    if len(page.address) > URI_LENGTH or len(page.content) > _MAX_BYTES_KEPT:
        return None
    try:
        text = page.content.decode()
    except UnicodeDecodeError:
        return None
    return {
        "address_md5": hashlib.md5(page.address.encode(), usedforsecurity=False).hexdigest(),
        "address": page.address,
        "entity_tag": entity_tag,
        "last_modified": last_modified,
        "retrieved": page.retrieved,
        "content": text,
    }


def _usable_header(header: str | None, longest: int) -> str | None:
    """A header that can be sent back; None for any other."""
    fits = header is not None and len(header) <= longest and header.isascii() and header.isprintable()
    return header if fits else None


_AT_ONCE: Final = 4
_MAX_BYTES_OF_ANSWER: Final = 10_000_000
_MAX_ANSWERS: Final = 500_000
_SAVED_AT_ONCE: Final = 1_000
_COLLECTIONS: Final = {
    "pipeline": (("procedureCollection", "procedure"), ("scheduleCollection", "schedule")),
    "schedule": (("procedureCollection", "procedure"),),
    "procedure": (("parameterCollection", "parameter"),),
    "parameter": (("optionCollection", "option"), ("incrementCollection", "increment")),
    "ontologygroup": (("paramOntologyoptionCollection", "paramontologyoption"),),
}
_ONLY_IF: Final = {"option": "isOption", "increment": "isIncrement"}


def retrieve(qc: Engine, settings: Settings, name: str, url: str) -> Snapshot:
    """A set as a server has it now.

    For IMPReSS the URL is that of the API, or of a file of its answers if it ends in `.json`. Raises
    ReferenceUnreachableError, ReferenceDataError, and database errors.
    """
    if name == Impress.NAME and not url.lower().endswith(".json"):
        return _retrieve_impress(qc, settings, url)
    pages = run_reading(qc, lambda connection: load_pages(connection, url))
    known = pages.get(shown_source(url))
    with closing(WebReader(settings)) as reader:
        page = reader.read(url, known, MAX_BYTES)
    snapshot = set_of_page(name, page)
    if page is not known:
        run_writing(qc, lambda connection: save_pages(connection, [page]))
    return snapshot


def _retrieve_impress(qc: Engine, settings: Settings, url: str) -> Impress:
    with _Api(qc, settings, url) as api:
        due = ["pipeline/list"]
        while due:
            api.ask(due)
            following = (address for asked in due for address in _following(asked, api.answer(asked)))
            due = [address for address in dict.fromkeys(following) if address not in api.pages]
        provenance = Provenance(shown_source(url), utc_now(), "")
        impress = impress_from_answers(api.answer, provenance)
        api.save()
        checksum = checksum_of_answers({address: page.content for address, page in api.pages.items()})
        return replace(impress, provenance=replace(provenance, checksum=checksum))


class _Api:
    """The answers of an API, as `pages` by address: received few at a time, and stored in the QC database."""

    def __init__(self, qc: Engine, settings: Settings, url: str) -> None:
        self._qc, self._base = qc, url
        self._known = run_reading(qc, lambda connection: load_pages(connection, self._base))
        self.pages: dict[str, Page] = {}
        self._parsed: dict[str, object] = {}
        self._unsaved: list[Page] = []
        self._readers = [WebReader(settings) for _ in range(_AT_ONCE)]
        self._idle: SimpleQueue[WebReader] = SimpleQueue()
        for reader in self._readers:
            self._idle.put(reader)
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="dcc-reference")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        for reader in self._readers:
            reader.close()

    def answer(self, address: str) -> object:
        """The API's answer at an address. Raises ReferenceUnreachableError, ReferenceDataError."""
        if address not in self.pages:
            self.ask([address])
        return self._parsed[address]

    def ask(self, addresses: Sequence[str]) -> None:
        """Receive the answers at some addresses. Raises as `answer`, and then requests no more."""
        if len(self.pages) + len(addresses) > _MAX_ANSWERS:
            raise ReferenceDataError(
                f"{shown_source(self._base)} names more than {_MAX_ANSWERS:,} entries. Check that it is the API of "
                "IMPReSS."
            )
        for address, page in zip(addresses, self._threads.map(self._read, addresses), strict=True):
            self._parsed[address] = parse_json(page.address, page.content)
            self.pages[address] = page
            if page is not self._known.get(page.address):
                self._unsaved.append(page)
            if len(self._unsaved) >= _SAVED_AT_ONCE:
                self.save()

    def save(self) -> None:
        """Store changed pages for the next time."""
        pages, self._unsaved = self._unsaved, []
        run_writing(self._qc, lambda connection: save_pages(connection, pages))

    def _read(self, address: str) -> Page:
        url = url_below(self._base, quote(address, safe="/"))
        reader = self._idle.get()
        try:
            return reader.read(url, self._known.get(shown_source(url)), _MAX_BYTES_OF_ANSWER)
        finally:
            self._idle.put(reader)


def _following(address: str, answer: object) -> Iterator[str]:
    """The addresses in an answer. `impress_from_answers` refuses one with another form."""
    kind, _, which = address.partition("/")
    if not isinstance(answer, dict):
        return
    if which == "list":
        yield from (f"{kind}/{each}" for each in answer if kind == "pipeline")
        return
    for collection, member in _COLLECTIONS.get(kind, ()):
        wanted = member not in _ONLY_IF or answer.get(_ONLY_IF[member])
        entries = answer.get(collection) if wanted else None
        for entry in entries if isinstance(entries, list) else ():
            yield from _following_entry(member, entry)
    if kind == "parameter" and answer.get("type") == ParameterType.ONTOLOGY:
        yield from _following_entry("ontologygroup", answer.get("ontologyGroupId"))
    if kind == "paramontologyoption" and not answer.get("isDeleted"):
        yield from _following_entry("ontologyterm", answer.get("ontologyTermId"))


def _following_entry(kind: str, entry: object) -> Iterator[str]:
    if isinstance(entry, dict):
        yield from _following(f"{kind}/", entry)
    elif isinstance(entry, int | str):
        yield f"{kind}/{entry}"
