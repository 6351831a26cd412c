"""Failures and speed of sources, which order the sources of a submission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from dcc.tracker.models import FileSourceStatistics


@dataclass
class Conduct:
    """A source's behaviour in this session, which orders sources in the next one."""

    arrived: int = 0
    failures: int = 0
    bytes: int = 0
    seconds: float = 0.0


def record_conduct(connection: Connection, conduct: Mapping[int, Conduct]) -> None:
    """Add a session's observations of each source (by id).

    Failures fade: if the source also delivered, those of earlier sessions count half, so that a server which was down
    for a day is not avoided for a year.
    """
    known = {
        row.file_source_id: row
        for row in connection.execute(
            select(FileSourceStatistics.__table__).where(FileSourceStatistics.file_source_id.in_(list(conduct)))
        )
    }
    for source_id, seen in conduct.items():
        row = known.get(source_id)
        failures = 0 if row is None else row.failures
        values = {
            "failures": (failures // 2 if seen.arrived else failures) + seen.failures,
            "bytes": (0 if row is None else row.bytes) + seen.bytes,
            "seconds": (0.0 if row is None else row.seconds) + seen.seconds,
        }
        if row is None:
            connection.execute(insert(FileSourceStatistics).values(file_source_id=source_id, **values))
        else:
            connection.execute(
                update(FileSourceStatistics).where(FileSourceStatistics.file_source_id == source_id).values(**values)
            )


def source_rates(connection: Connection) -> dict[int, float]:
    """The bytes that each source sent in a second, by its id, if it has sent any."""
    known = connection.execute(select(FileSourceStatistics.__table__).where(FileSourceStatistics.seconds > 0))
    return {row.file_source_id: row.bytes / row.seconds for row in known if row.bytes}
