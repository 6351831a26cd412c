"""Facts in the form in which Dagster shows them beside an event."""

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
"""Characters of a text that a table shows; an event with a hundred rows stays below 100 KB."""


def table(columns: Sequence[str], rows: Sequence[Sequence[str | int | None]]) -> TableMetadataValue:
    """A table of text and numbers; what is None is left empty, what is long is cut. `dcc show` has it whole."""
    return MetadataValue.table(
        [TableRecord({column: _cell(cell) for column, cell in zip(columns, row, strict=True)}) for row in rows],
        TableSchema([TableColumn(column, "any") for column in columns]),
    )


def _cell(value: str | int | None) -> str | int:
    if value is None:
        return ""
    if not isinstance(value, str):
        return value
    return legible(value if len(value) <= LONGEST_CELL else f"{value[: LONGEST_CELL - 1]}…")


def as_shown(metadata: Mapping[str, RawMetadataValue]) -> Metadata:
    """Metadata whose texts are legible, whatever centres put into them; none of them is a link or Markdown."""
    return {name: legible(value) if isinstance(value, str) else value for name, value in metadata.items()}


def utc_timestamp(time: datetime) -> float:
    """Seconds since 1970 of a time as the tracker stores it: naive, in UTC."""
    return time.replace(tzinfo=UTC).timestamp() if time.tzinfo is None else time.timestamp()
