"""What a server last had of a set of reference data and was not taken over: kept in the QC database until one is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, delete, insert, select

from dcc.qc.models import ReferenceRefusal
from dcc.settings.reference_addresses import shown_source

REFUSAL: Final = ReferenceRefusal.__table__
_LONGEST: Final = 1_024


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the set `name` could not be read from `source`, an address as it is shown, when it was last tried."""

    name: str
    source: str
    refused: datetime
    reason: str


def source_of(configured: str) -> str:
    """The address of a setting as it is remembered: without what it asks with, and no longer than fits."""
    return shown_source(configured)[:_LONGEST]


def refusals(connection: Connection) -> dict[str, Refusal]:
    """What is remembered, by the name of the set; it counts only while the set is read from the same source."""
    found = connection.execute(select(REFUSAL))
    return {row.name: Refusal(row.name, row.source, row.refused, row.reason) for row in found}


def remember_refusal(connection: Connection, refusal: Refusal) -> None:
    """Remember this of a set, in place of what was remembered."""
    forget_refusal(connection, refusal.name)
    connection.execute(insert(REFUSAL).values(asdict(refusal)))


def forget_refusal(connection: Connection, name: str) -> None:
    """Remember nothing of a set any more."""
    connection.execute(delete(REFUSAL).where(REFUSAL.c.name == name))
