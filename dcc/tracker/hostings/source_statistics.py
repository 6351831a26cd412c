"""Failures and speed of sources, which order the sources of a submission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, insert, select, update

from dcc.tracker.models import FileSourceStatistics


@dataclass
class TransferStatistics:
    """A source's behaviour in this session, which orders sources in the next one."""

    arrived: int = 0
    failures: int = 0
    bytes: int = 0
    seconds: float = 0.0


def record_transfer_statistics(connection: Connection, transfer_statistics: Mapping[int, TransferStatistics]) -> None:
    """Add a session's observations of each source (by id).

    Failures fade: if the source also delivered, those of earlier sessions count half, so that a server which was down
    for a day is not avoided for a year.
    """
    table = FileSourceStatistics
    for source_id, seen in transfer_statistics.items():
        failures = table.failures // 2 if seen.arrived else table.failures
        summed: dict[str, ColumnElement[Any]] = {
            "failures": failures + seen.failures,
            "bytes": table.bytes + seen.bytes,
            "seconds": table.seconds + seen.seconds,
        }
        if not connection.execute(update(table).where(table.file_source_id == source_id).values(summed)).rowcount:
            first = {"failures": seen.failures, "bytes": seen.bytes, "seconds": seen.seconds}
            connection.execute(insert(table).values(file_source_id=source_id, **first))


def source_rates(connection: Connection) -> dict[int, float]:
    """The bytes that each source sent in a second, by its id, if it has sent any."""
    known = connection.execute(select(FileSourceStatistics.__table__).where(FileSourceStatistics.seconds > 0))
    return {row.file_source_id: row.bytes / row.seconds for row in known if row.bytes}
