"""Archives whose size is unusual for their centre: judged when they are listed or, without a size there, on arrival."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from sqlalchemy import Connection, select

from dcc.databases.list_parameters import rows_with
from dcc.databases.transactions import insert_rows
from dcc.messages import Message, mark, message
from dcc.outcomes import ZipKey
from dcc.tracker.crawls import UNUSUAL_SIZE
from dcc.tracker.models import CrawlFinding, ZipFile, utc_now
from dcc.tracker.problems import message_columns

LEAST_EARLIER: Final = 20
"""The number of earlier archives of a centre from which on an unusual size is noticed."""

_LAST = 50
"""The last archives of a centre that say what size is usual."""
_TIMES: Final = 10


@dataclass(frozen=True, slots=True)
class ArrivedArchive:
    """An archive whose bytes have arrived from a source."""

    zip_id: int
    za_id: int
    source_id: int
    key: ZipKey
    size_bytes: int


def unusual_size(key: ZipKey, size: int | None, earlier: Sequence[int]) -> Message | None:
    """A message about an archive ten times larger, or smaller, than the median of earlier ones of its centre, or None.

    Not without a size, nor without `LEAST_EARLIER` of them.
    """
    if size is None or len(earlier) < LEAST_EARLIER:
        return None
    usual = median(earlier)
    if usual / _TIMES <= size <= usual * _TIMES:
        return None
    text = mark(
        "{archive} has {size} bytes; the median of the last {count} archives of its centre is {usual}. It is "
        "processed anyway. Ask the centre whether it is what it meant to submit."
    )
    return message(text, archive=str(key), size=size, count=len(earlier), usual=round(usual))


def earlier_sizes(connection: Connection, centre_id: int, but_not: Collection[str]) -> list[int]:
    """The sizes of the last archives of a centre, without those of some names."""
    query = (
        select(ZipFile.file_name, ZipFile.size_bytes)
        .where(ZipFile.centre_id == centre_id, ZipFile.size_bytes.is_not(None))
        .order_by(ZipFile.id.desc())
        .limit(_LAST + len(but_not))
    )
    return [size or 0 for name, size in connection.execute(query) if name not in but_not][:_LAST]


def note_arrived(connection: Connection, session_id: int, arrived: Collection[ArrivedArchive]) -> None:
    """Add findings about archives of unusual size that had no size before, which must be recorded afterwards."""
    by_zip = {one.zip_id: one for one in arrived}
    rows = []
    unsized = (ZipFile.size_bytes.is_(None), ZipFile.centre_id.is_not(None))
    query = select(ZipFile.id, ZipFile.centre_id).where(*unsized)
    for zip_id, centre_id in list(rows_with(connection, query, ZipFile.id, by_zip)):
        one = by_zip[zip_id]
        text = unusual_size(one.key, one.size_bytes, earlier_sizes(connection, centre_id, [one.key.file_name]))
        if text is not None:
            columns = {"session_id": session_id, "file_source_id": one.source_id, "za_id": one.za_id}
            facts = {"file_name": str(one.key)[:160], "kind": UNUSUAL_SIZE, "created": utc_now()}
            rows.append({**columns, **facts, **message_columns(text)})
    insert_rows(connection, CrawlFinding, rows)
