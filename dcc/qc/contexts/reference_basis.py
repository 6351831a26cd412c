"""The snapshots of reference data that contexts and overviews are built with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final

from sqlalchemy import Connection, delete, func, insert, select

from dcc.qc.apply.upload_lock import lock_all
from dcc.qc.models import BUILD_BASIS, SNAPSHOT
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
    wanted = dict.fromkeys(names, NO_SNAPSHOT)
    statement = select(SNAPSHOT.c.name, func.max(SNAPSHOT.c.id)).where(
        SNAPSHOT.c.is_active, SNAPSHOT.c.name.in_(wanted)
    )
    return wanted | dict(connection.execute(statement.group_by(SNAPSHOT.c.name)).all())


def recorded_basis(connection: Connection, build: Build) -> Basis:
    """The snapshots of the last build; empty before the first."""
    statement = select(BUILD_BASIS.c.name, BUILD_BASIS.c.snapshot_id).where(BUILD_BASIS.c.build == build.value)
    return dict(connection.execute(statement).all())


def _record_basis(connection: Connection, build: Build, basis: Basis) -> None:
    """Record the snapshots of a build."""
    connection.execute(delete(BUILD_BASIS).where(BUILD_BASIS.c.build == build.value))
    rows = [{"build": build.value, "name": name, "snapshot_id": row_id} for name, row_id in basis.items()]
    connection.execute(insert(BUILD_BASIS), rows)


def follow_basis(connection: Connection, build: Build, names: Iterable[str], renew: Callable[[Basis], None]) -> None:
    """Have a build follow the active snapshots of these sets: `renew` if it was built with others; record them."""
    if active_basis(connection, names) == recorded_basis(connection, build):
        return
    lock_all(connection)
    basis, recorded = active_basis(connection, names), recorded_basis(connection, build)
    if basis != recorded:
        if recorded:
            renew(basis)
        _record_basis(connection, build, basis)
