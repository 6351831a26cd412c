"""The procedure runs that documents affect, for data contexts and overviews.

A document affects the experiments, lines and housings of which it opened or ended a version, its own ones (which may
have been judged again). It also affects the current experiments on specimens of which it opened or ended a version:
these may have another genotype or strain now.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, exists, func, select, union_all

from dcc.databases.list_parameters import as_json, numbers_in, only_compared, sorted_chunks
from dcc.naming import DocumentKind
from dcc.qc.apply.versions import is_run_of, with_experiments
from dcc.qc.contexts.builds import DUE, Build
from dcc.qc.models import DOCUMENT, EXPERIMENT, LIFETIME, LINE, RUN, SPECIMEN
from dcc.vocabulary import DocumentAction, EntityKind


def affected_runs(connection: Connection, document_ids: Collection[int], build: Build | None = None) -> dict[int, int]:
    """The procedure runs that documents affect, each with the newest of these documents.

    For documents of `due_documents` for a build, without runs that come with the remaining ones. Otherwise a new animal
    would bring the runs of all waiting documents into one transaction, as its own, before those that they replace go.
    """
    statement, by_specimens = _TOUCHING[build]
    found: dict[int, int] = {}
    # Documents are queried oldest first: those of a later portion are newer.
    for portion in sorted_chunks(document_ids):
        withdrawals, of_specimens = _roles(connection, portion)
        if of_specimens and by_specimens is not None:
            may = connection.scalar(by_specimens, {"newest": of_specimens[-1]}) is not None
            of_specimens = of_specimens if may else []
        given = {
            **document_parameters("withdrawals", withdrawals),
            **document_parameters("of_specimens", of_specimens),
            **document_parameters("documents", portion),
        }
        found.update(connection.execute(_OWN, given).all())
        for run_id, document_id in connection.execute(statement, given):
            found[run_id] = max(document_id, found.get(run_id, document_id))
    return found


def waiting_runs(connection: Connection) -> set[int]:
    """The procedure runs that documents affect which the contexts do not include yet."""
    waiting = connection.scalars(select(DOCUMENT.c.id).where(DOCUMENT.c.contexts_built.is_(False)))
    return set(affected_runs(connection, waiting.all()))


def withdrawals_among(connection: Connection, document_ids: Collection[int]) -> list[int]:
    """The documents that withdrew others, ascending: only they open versions of others' entities."""
    return _roles(connection, document_ids)[0]


def _roles(connection: Connection, document_ids: Collection[int]) -> tuple[list[int], list[int]]:
    """The documents that withdrew others, and those that open or end versions of specimens; ascending."""
    withdrawals: list[int] = []
    of_specimens: list[int] = []
    for document_id, kind, action in connection.execute(_ROLES, {"documents": as_json(document_ids)}):
        if action == DocumentAction.UNDO.value:
            withdrawals.append(document_id)
        if kind == DocumentKind.SPECIMEN.value:
            of_specimens.append(document_id)
    return sorted(withdrawals), sorted(of_specimens)


class _Touching(NamedTuple):
    """How affected runs of other documents are found: a statement, and one that tells whether specimens may matter.

    The latter is for specimens whose newest document is `newest`. It uses documents of experiments alone, newest first:
    once all documents that are older than the waiting ones are included, it has seen all waiting ones.
    """

    statement: Select[Any]
    by_specimens: Select[Any] | None


def _touching(left: ColumnElement[bool] | None) -> _Touching:
    """The runs of others that documents affect, each with the newest of these documents.

    Runs affected by specimens are left out if their own document is `left` and newer: it is among these documents, and
    then their cause, or comes later.
    """
    parts = []
    owned = and_(RUN.c.owner_kind == LIFETIME.c.entity_kind, RUN.c.owner_id == LIFETIME.c.entity_id)
    is_specimen = only_compared(LIFETIME.c.entity_kind) == EntityKind.SPECIMEN.value
    of_specimen = and_(is_specimen, LIFETIME.c.entity_id == SPECIMEN.c.id)
    # A document that opens a version of something else than a specimen brought it, or withdrew another document.
    for changed_by, given, given_of_specimens in (
        (LIFETIME.c.opened_by, "withdrawals", "of_specimens"),
        (LIFETIME.c.ended_by, "documents", "documents"),
    ):
        touched = select(RUN.c.id, changed_by.label("changed_by")).select_from(LIFETIME)
        others = touched.where(changed_by_documents(changed_by, given)).join(RUN, owned)
        of_specimens = touched.where(changed_by_documents(changed_by, given_of_specimens))
        about = _experiments_about(of_specimens.join(SPECIMEN, of_specimen))
        if left is not None:
            its_own = (DOCUMENT.c.id == EXPERIMENT.c.document_id) & (DOCUMENT.c.id > changed_by)
            about = about.where(~exists().where(its_own & left))
        parts += [others.where(RUN.c.document_id != changed_by, ~is_specimen), about]
    touching = union_all(*parts).subquery()
    statement = select(touching.c.id, func.max(touching.c.changed_by)).group_by(touching.c.id)
    return _Touching(statement, None if left is None else _not_left(left))


def _not_left(left: ColumnElement[bool]) -> Select[Any]:
    older = DOCUMENT.c.id < bindparam("newest")
    of_experiments = DOCUMENT.c.kind == DocumentKind.EXPERIMENT.value
    return select(DOCUMENT.c.id).where(of_experiments, older | ~left).order_by(DOCUMENT.c.id.desc()).limit(1)


def document_parameters(name: str, ordered: Sequence[int]) -> dict[str, object]:
    """The parameters of `changed_by_documents` for documents, ascending; possibly none."""
    first, last = (ordered[0], ordered[-1]) if ordered else (1, 0)
    return {name: as_json(ordered), f"{name}_from": first, f"{name}_to": last}


def changed_by_documents(changed_by: ColumnElement[Any], given: str) -> ColumnElement[bool]:
    """Whether a version was opened or ended by one of the documents in the `document_parameters` of this name.

    MariaDB does not use an index with mostly nulls, except for a range whose ends it can read first.
    """
    within = changed_by.between(bindparam(f"{given}_from"), bindparam(f"{given}_to"))
    return within & changed_by.in_(numbers_in(given))


def runs_by_colony(connection: Connection) -> list[int]:
    """The procedure runs whose strain comes from the reference data of their colony."""
    lines = select(RUN.c.id).select_from(LINE).join(RUN, is_run_of(EntityKind.LINE)).where(LINE.c.is_current)
    unnamed = own_strain(SPECIMEN).is_(None) & SPECIMEN.c.is_current
    about = _experiments_about(select(RUN.c.id).select_from(SPECIMEN)).where(unnamed)
    return sorted(set(connection.scalars(union_all(lines, about))))


def all_current_runs(connection: Connection) -> list[int]:
    """The procedure runs of all current experiments and lines."""
    chosen = []
    for kind, table in ((EntityKind.EXPERIMENT, EXPERIMENT), (EntityKind.LINE, LINE)):
        chosen.append(select(RUN.c.id).select_from(table).join(RUN, is_run_of(kind)).where(table.c.is_current))
    return sorted(connection.scalars(union_all(*chosen)))


def _experiments_about(of_specimens: Select[Any]) -> Select[Any]:
    """Joins the runs of current experiments that name the specimens of a query."""
    runs: Select[Any] = with_experiments(of_specimens).join(RUN, is_run_of(EntityKind.EXPERIMENT))
    return runs.where(EXPERIMENT.c.is_current)


def own_strain(specimen: Any) -> ColumnElement[str | None]:
    """The strain that a specimen itself names; null if it is missing or blank."""
    return func.nullif(func.rtrim(specimen.c.strain_id), "")


_ROLES: Final = select(DOCUMENT.c.id, DOCUMENT.c.kind, DOCUMENT.c.action).where(
    DOCUMENT.c.id.in_(numbers_in("documents"))
)
_OWN: Final = select(RUN.c.id, RUN.c.document_id).where(RUN.c.document_id.in_(numbers_in("documents")))
_TOUCHING: Final = {
    None: _touching(None),
    Build.CONTEXTS: _touching(DUE[Build.CONTEXTS]),
    # Overviews get what contexts include, after them.
    Build.OVERVIEWS: _touching(DUE[Build.CONTEXTS] | DUE[Build.OVERVIEWS]),
}
