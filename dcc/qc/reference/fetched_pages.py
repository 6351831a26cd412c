"""What servers answered last, kept in the QC database, so that next time they are asked only for what has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import Connection, and_, delete, not_, or_, select
from sqlalchemy.sql.elements import ColumnElement

from dcc.qc.database import insert_rows
from dcc.qc.models import FetchedPage
from dcc.qc.models.base import ID_LENGTH, URI_LENGTH
from dcc.reference.web_reader import Page
from dcc.settings.reference_addresses import shown_source

_PAGE: Final = FetchedPage.__table__
_MOST_BYTES: Final = 8_000_000
_LONGEST_TIME: Final = 64
_AT_ONCE: Final = 500


def load_pages(connection: Connection, source: str) -> dict[str, Page]:
    """The pages kept of a source, which is an address or what addresses begin with, by their address as it is shown."""
    columns = _PAGE.c
    query = select(columns.address, columns.content, columns.entity_tag, columns.last_modified, columns.retrieved)
    return {
        row.address: Page(row.address, row.content.encode(), row.entity_tag, row.last_modified, row.retrieved)
        for row in connection.execute(query.where(_is_of(source)))
    }


def save_pages(connection: Connection, pages: Sequence[Page]) -> None:
    """Keep pages, in place of those of the same addresses; what cannot be asked for conditionally is not kept."""
    rows = {row["address_md5"]: row for page in pages if (row := _row(page)) is not None}
    keys = list(rows)
    for start in range(0, len(keys), _AT_ONCE):
        part = keys[start : start + _AT_ONCE]
        connection.execute(delete(_PAGE).where(_PAGE.c.address_md5.in_(part)))
        insert_rows(connection, FetchedPage, [rows[key] for key in part])


def remove_pages_but_of(connection: Connection, sources: Collection[str]) -> None:
    """Remove what is kept of sources that are not asked any more."""
    connection.execute(delete(_PAGE).where(*(not_(_is_of(source)) for source in sources)))


def _is_of(source: str) -> ColumnElement[bool]:
    place, found, asked = shown_source(source).partition("?")
    address = _PAGE.c.address
    below = and_(
        address.startswith(f"{place.rstrip('/')}/", autoescape=True), address.endswith(found + asked, autoescape=True)
    )
    return or_(address == f"{place}{found}{asked}", below)


def _row(page: Page) -> dict[str, object] | None:
    entity_tag = _kept(page.entity_tag, ID_LENGTH)
    last_modified = _kept(page.last_modified, _LONGEST_TIME)
    if entity_tag is None and last_modified is None:
        return None
    if len(page.address) > URI_LENGTH or len(page.content) > _MOST_BYTES:
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


def _kept(header: str | None, longest: int) -> str | None:
    """A header that can be sent back as it came; None for any other."""
    fits = header is not None and len(header) <= longest and header.isascii() and header.isprintable()
    return header if fits else None
