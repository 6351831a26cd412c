"""What contexts and overviews include: documents, and snapshots of reference data, which both follow.

`due_documents` are those that a build lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from sqlalchemy import ColumnElement, Connection, delete, false, func, insert, or_, select

from dcc.databases.list_parameters import as_json, change_rows, numbers_in
from dcc.phases import Phase
from dcc.qc.apply.upload_lock import lock_all, lock_centres_of
from dcc.qc.archive_scope import ArchiveScope
from dcc.qc.models import BUILD_BASIS, DOCUMENT
from dcc.qc.reference.snapshots import active_snapshots
from dcc.reference.impress import Impress
from dcc.reference.snapshots import Colonies, Strains
from dcc.vocabulary import DocumentAction, DocumentState

NO_SNAPSHOT: Final = 0
"""The id for a missing snapshot."""

COLONIES: Final = Colonies.NAME
STRAINS: Final = Strains.NAME
IMPRESS: Final = Impress.NAME

Basis = Mapping[str, int]
"""The id of a snapshot by the name of its set."""


class Build(StrEnum):
    """What is built; a document has a column `..._built` for each."""

    CONTEXTS = "contexts"
    OVERVIEWS = "overviews"


_BUILT_IN: Final = {Build.CONTEXTS: Phase.CONTEXT, Build.OVERVIEWS: Phase.OVERVIEW}


def active_basis(connection: Connection, names: Iterable[str]) -> Basis:
    """The active snapshots of these sets; `NO_SNAPSHOT` if there is none."""
    active = active_snapshots(connection)
    return {name: active[name].id if name in active else NO_SNAPSHOT for name in names}


def recorded_basis(connection: Connection, build: Build) -> Basis:
    """The snapshots of the last build; empty before the first."""
    statement = select(BUILD_BASIS.c.name, BUILD_BASIS.c.snapshot_id).where(BUILD_BASIS.c.build == build.value)
    return dict(connection.execute(statement).all())


def follow_basis(connection: Connection, build: Build, names: Iterable[str], renew: Callable[[Basis], None]) -> None:
    """Have a build follow the active snapshots of these sets: `renew` if it was built with others; record them."""
    if active_basis(connection, names) == recorded_basis(connection, build):
        return
    lock_all(connection)
    basis, recorded = active_basis(connection, names), recorded_basis(connection, build)
    if basis != recorded:
        if recorded:
            renew(basis)
        connection.execute(delete(BUILD_BASIS).where(BUILD_BASIS.c.build == build.value))
        rows = [{"build": build.value, "name": name, "snapshot_id": row_id} for name, row_id in basis.items()]
        connection.execute(insert(BUILD_BASIS), rows)


DOCUMENTS_AT_ONCE: Final = 2_500
MEASUREMENTS_AT_ONCE: Final = 500_000
"""The most documents, and measurements of them, in one transaction."""


def due_documents(connection: Connection, build: Build, scope: ArchiveScope) -> list[int]:
    """The next documents that a build does not include yet, oldest first; at least one, as many as fit a transaction.

    They are locked with their centres until the transaction ends. Contexts: an applied document waits until it is
    judged, so that its data do not disappear meanwhile; a held one has changed nothing. Overviews follow contexts.
    """
    condition = DUE[build]
    while taken := _first_documents(connection, condition, scope):
        lock_centres_of(connection, taken)
        if connection.dialect.name == "sqlite":
            return taken
        # Locked by their ids: a search would wait for all rows that it meets, such as documents that others judge.
        given = numbers_in("documents").subquery()
        these = select(DOCUMENT.c.id).prefix_with("STRAIGHT_JOIN").select_from(given)
        these = these.join(DOCUMENT, DOCUMENT.c.id == given.c.value).where(condition).with_for_update()
        locked = set(connection.scalars(these, {"documents": as_json(taken)}))
        # Documents may have been judged again before they were locked.
        if locked:
            return [document_id for document_id in taken if document_id in locked]
    return []


def count_due(connection: Connection, until: Phase) -> int:
    """The number of documents that builds up to a phase do not include; nothing is locked."""
    due = or_(false(), *(DUE[build] for build, phase in _BUILT_IN.items() if phase <= until))
    return connection.scalar(select(func.count()).select_from(DOCUMENT).where(due)) or 0


def documents_behind(connection: Connection, document_ids: Collection[int]) -> set[int]:
    """Those documents that contexts do not include as they are, or that wait to be judged."""
    return set(connection.scalars(_BEHIND, {"documents": as_json(document_ids)}))


def _due_for_contexts() -> ColumnElement[bool]:
    """Whether contexts could include a document and do not; see `due_documents`."""
    table = DOCUMENT.c
    without_data = table.state.in_([DocumentState.UNDONE.value, DocumentState.REFUSED.value])
    judged = table.judged_at.is_not(None) | (table.action == DocumentAction.UNDO.value)
    settled = without_data | ((table.state == DocumentState.APPLIED.value) & judged)
    return table.contexts_built.is_(False) & settled


def _first_documents(connection: Connection, condition: ColumnElement[bool], scope: ArchiveScope) -> list[int]:
    table = DOCUMENT.c
    statement = select(table.id, table.measurements, table.zip_file).where(condition).order_by(table.id)
    if scope.is_everything:
        statement = statement.limit(DOCUMENTS_AT_ONCE)
    taken: list[int] = []
    measurements = 0
    for document_id, measured, zip_file in connection.execute(statement).all():
        if not scope.has(zip_file):
            continue
        measurements += measured
        if len(taken) == DOCUMENTS_AT_ONCE or (taken and measurements > MEASUREMENTS_AT_ONCE):
            break
        taken.append(document_id)
    return taken


def mark_built(connection: Connection, document_ids: Sequence[int], build: Build) -> None:
    """Record that a build includes documents; the others follow contexts."""
    values = {f"{each}_built": False for each in Build} if build is Build.CONTEXTS else {}
    change_rows(connection, DOCUMENT.c.id, document_ids, **values | {f"{build}_built": True})


DUE: Final = {
    Build.CONTEXTS: _due_for_contexts(),
    Build.OVERVIEWS: DOCUMENT.c.contexts_built.is_(True) & DOCUMENT.c.overviews_built.is_(False),
}
"""Whether a build lacks a document."""
_BEHIND: Final = select(DOCUMENT.c.id).where(
    DOCUMENT.c.id.in_(numbers_in("documents")),
    DOCUMENT.c.contexts_built.is_(False) | DOCUMENT.c.judged_at.is_(None),
)
