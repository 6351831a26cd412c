"""Facts as Dagster's event metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from dagster import MetadataValue, TableColumn, TableMetadataValue, TableRecord, TableSchema

from dcc.runtime.legible_text import legible

if TYPE_CHECKING:
    from dagster._core.definitions.metadata import RawMetadataValue

    Metadata: TypeAlias = dict[str, RawMetadataValue]
else:
    Metadata = dict


LONGEST_CELL: Final = 400
"""Characters of a text that a table shows, so that an event with a hundred rows stays below 100 KB."""


def table(columns: Sequence[str], rows: Sequence[Sequence[str | int | None]]) -> TableMetadataValue:
    """A table of texts and numbers; None is left empty, long texts are cut. `dcc show` has all."""
    return MetadataValue.table(
        [TableRecord({column: _cell(cell) for column, cell in zip(columns, row, strict=True)}) for row in rows],
        TableSchema([TableColumn(column, "any") for column in columns]),
    )


def first_rows(
    name: str, columns: Sequence[str], rows: Sequence[Sequence[str | int | None]], most: int, total: int = 0
) -> Metadata:
    """The table of the first rows under a name, and the number of those that are not shown; nothing without rows.

    There are as many as given, or `total` if that is more.
    """
    left = max(total, len(rows)) - min(len(rows), most)
    shown: Metadata = {name: table(columns, rows[:most])} if rows else {}
    return shown | ({f"{name} not shown": left} if left else {})


def _cell(value: str | int | None) -> str | int:
    if value is None:
        return ""
    if not isinstance(value, str):
        return value
    return legible(value if len(value) <= LONGEST_CELL else f"{value[: LONGEST_CELL - 1]}…")


def as_shown(metadata: Mapping[str, RawMetadataValue]) -> Metadata:
    """Metadata with legible texts, whatever centres wrote; none of them becomes a link or Markdown."""
    return {name: legible(value) if isinstance(value, str) else value for name, value in metadata.items()}


def utc_timestamp(time: datetime) -> float:
    """Seconds since 1970 of a time from the tracker: naive, in UTC."""
    return time.replace(tzinfo=UTC).timestamp() if time.tzinfo is None else time.timestamp()
