"""The procedure runs that documents affect, for data contexts and overviews.

A document affects the experiments, lines and housings of which it opened or ended a version, its own ones (which may
have been judged again). It also affects the current experiments on specimens of which it opened or ended a version:
these may have another genotype or strain now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, false, func, select, union_all

from dcc.databases.list_parameters import as_json, numbers_in, only_compared, sorted_chunks
from dcc.naming import DocumentKind
from dcc.qc.apply.versions import is_run_of, with_experiments
from dcc.qc.contexts.builds import DUE, Build
from dcc.qc.contexts.membership import own_strain
from dcc.qc.models import DOCUMENT, ENTITY_TABLES, EXPERIMENT, LIFETIME, LINE, RUN, SPECIMEN
from dcc.vocabulary import DocumentAction, EntityKind


def affected_runs(connection: Connection, document_ids: Collection[int], build: Build | None = None) -> dict[int, int]:
    """The procedure runs that documents affect, each with the newest of these documents.

    For documents of `due_documents` for a build, without runs that come with the remaining ones. Otherwise a new animal
    would bring the runs of all waiting documents into one transaction, as its own, before those that they replace go.
    """
    found: dict[int, int] = {}
    # Documents are queried oldest first: those of a later portion are newer.
    for portion in sorted_chunks(document_ids):
        rows = _described(connection, portion)
        of_specimens = [row.id for row in rows if row.kind == DocumentKind.SPECIMEN]
        if of_specimens and connection.scalar(_MAY_FOLLOW[build], {"newest": of_specimens[-1]}) is None:
            of_specimens = []
        given = {
            **document_parameters("withdrawals", _withdrawals(rows)),
            **document_parameters("of_specimens", of_specimens),
            **document_parameters("documents", portion),
        }
        found.update(connection.execute(_OWN, given).all())
        for run_id, document_id in connection.execute(_OF_OTHERS[build], given):
            found[run_id] = max(document_id, found.get(run_id, document_id))
    return found


def waiting_runs(connection: Connection) -> set[int]:
    """The procedure runs that documents affect which the contexts do not include yet."""
    waiting = connection.scalars(select(DOCUMENT.c.id).where(DOCUMENT.c.contexts_built.is_(False)))
    return set(affected_runs(connection, waiting.all()))


def withdrawals_among(connection: Connection, document_ids: Collection[int]) -> list[int]:
    """The documents that withdrew others, ascending: only they open versions of others' entities."""
    return _withdrawals(_described(connection, document_ids))


def _withdrawals(rows: Iterable[Any]) -> list[int]:
    return [row.id for row in rows if row.action == DocumentAction.UNDO]


def _described(connection: Connection, document_ids: Collection[int]) -> Sequence[Any]:
    """The id, kind and action of documents, in the order of their ids."""
    return connection.execute(_DESCRIBED, {"documents": as_json(document_ids)}).all()


def _of_others(is_due: ColumnElement[bool]) -> Select[Any]:
    """The runs of others that the given documents affect, each with the newest of these documents."""
    opened_by, ended_by = LIFETIME.c.opened_by, LIFETIME.c.ended_by
    affected = union_all(
        # A document that opens a version of something else than a specimen brought it, or withdrew another document.
        _with_changed_owner(opened_by, "withdrawals"),
        _on_changed_animal(opened_by, "of_specimens", is_due),
        _with_changed_owner(ended_by, "documents"),
        _on_changed_animal(ended_by, "documents", is_due),
    ).subquery()
    return select(affected.c.id, func.max(affected.c.changed_by)).group_by(affected.c.id)


def _with_changed_owner(changed_by: ColumnElement[Any], given: str) -> Select[Any]:
    """The runs that others brought, if the given documents opened or ended their experiment, line or housing."""
    owned = and_(RUN.c.owner_kind == LIFETIME.c.entity_kind, RUN.c.owner_id == LIFETIME.c.entity_id)
    has_runs = only_compared(LIFETIME.c.entity_kind) != EntityKind.SPECIMEN.value
    runs = select(RUN.c.id, changed_by.label("changed_by")).select_from(LIFETIME).join(RUN, owned)
    return runs.where(changed_by_documents(changed_by, given), RUN.c.document_id != changed_by, has_runs)


def _on_changed_animal(changed_by: ColumnElement[Any], given: str, is_due: ColumnElement[bool]) -> Select[Any]:
    """The runs of current experiments on animals, if the given documents opened or ended a version of these.

    Without those whose own document is due and newer: it is given, too, and then their cause, or comes later.
    """
    specimens = select(RUN.c.id, changed_by.label("changed_by")).select_from(LIFETIME)
    given_specimens = specimens.join(SPECIMEN, is_changed_version_of(EntityKind.SPECIMEN))
    runs = _experiments_about(given_specimens.where(changed_by_documents(changed_by, given)))
    own = select(DOCUMENT.c.id).where(DOCUMENT.c.id == EXPERIMENT.c.document_id, DOCUMENT.c.id > changed_by, is_due)
    return runs.where(~own.exists())


def _may_follow(is_due: ColumnElement[bool]) -> Select[Any]:
    """A document of experiments that is older than `newest`, the last one of specimens, or not due; or none.

    Specimens affect runs of such documents only (`_on_changed_animal`). The newest are read first: those that are due
    and, in a database that is up to date otherwise, one more.
    """
    may = (DOCUMENT.c.id < bindparam("newest")) | ~is_due
    of_experiments = DOCUMENT.c.kind == DocumentKind.EXPERIMENT.value
    return select(DOCUMENT.c.id).where(of_experiments, may).order_by(DOCUMENT.c.id.desc()).limit(1)


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


def is_changed_version_of(kind: EntityKind) -> ColumnElement[bool]:
    """Whether a lifetime is that of a version in an entity's table; for lifetimes found by `changed_by_documents`."""
    entity = ENTITY_TABLES[kind]
    return and_(only_compared(LIFETIME.c.entity_kind) == kind.value, LIFETIME.c.entity_id == entity.c.id)


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


_DESCRIBED: Final = (
    select(DOCUMENT.c.id, DOCUMENT.c.kind, DOCUMENT.c.action)
    .where(DOCUMENT.c.id.in_(numbers_in("documents")))
    .order_by(DOCUMENT.c.id)
)
_OWN: Final = select(RUN.c.id, RUN.c.document_id).where(RUN.c.document_id.in_(numbers_in("documents")))
_IS_DUE: Final[Mapping[Build | None, ColumnElement[bool]]] = {
    None: false(),
    Build.CONTEXTS: DUE[Build.CONTEXTS],
    # Overviews get what contexts include, after them.
    Build.OVERVIEWS: DUE[Build.CONTEXTS] | DUE[Build.OVERVIEWS],
}
_OF_OTHERS: Final = {build: _of_others(is_due) for build, is_due in _IS_DUE.items()}
_MAY_FOLLOW: Final = {build: _may_follow(is_due) for build, is_due in _IS_DUE.items()}
