"""The snapshots of reference data that contexts and overviews are built with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from sqlalchemy import Connection, delete, func, insert, select

from dcc.qc.models import BuildBasis, ReferenceSnapshot
from dcc.reference.impress import Impress
from dcc.reference.snapshots import Colonies, Strains

NO_SNAPSHOT: Final = 0
"""The id for a missing snapshot."""

COLONIES: Final = Colonies.NAME
STRAINS: Final = Strains.NAME
IMPRESS: Final = Impress.NAME

Basis = Mapping[str, int]
"""The id of a snapshot by the name of its set."""


class Build(StrEnum):
    """What is built."""

    CONTEXTS = "contexts"
    OVERVIEWS = "overviews"


def active_basis(connection: Connection, names: Iterable[str]) -> Basis:
    """The active snapshots of these sets; `NO_SNAPSHOT` if there is none."""
    snapshot = ReferenceSnapshot.__table__.c
    wanted = dict.fromkeys(names, NO_SNAPSHOT)
    statement = select(snapshot.name, func.max(snapshot.id)).where(snapshot.is_active, snapshot.name.in_(wanted))
    return wanted | dict(connection.execute(statement.group_by(snapshot.name)).all())


def recorded_basis(connection: Connection, build: Build) -> Basis:
    """The snapshots of the last build; empty before the first."""
    basis = BuildBasis.__table__.c
    statement = select(basis.name, basis.snapshot_id).where(basis.build == build.value)
    return dict(connection.execute(statement).all())


def record_basis(connection: Connection, build: Build, basis: Basis) -> None:
    """Record the snapshots of a build."""
    table = BuildBasis.__table__
    connection.execute(delete(table).where(table.c.build == build.value))
    rows = [{"build": build.value, "name": name, "snapshot_id": row_id} for name, row_id in basis.items()]
    connection.execute(insert(table), rows)
