"""Which documents must be judged again, because of other documents, waivers or reference data.

All queries are set-based, and may return a document too many, never one too few: judging an unchanged document again
changes nothing. So a document with more findings than are recorded counts as one with the wanted finding. Only applied
documents that were judged before are returned; the others wait for it anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import date, datetime, time
from functools import partial
from typing import Any, Final

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    bindparam,
    exists,
    func,
    or_,
    select,
)

from dcc.databases.list_parameters import IDS, change_rows, rows_about, rows_with, sorted_chunks
from dcc.qc.apply.versions import is_lifetime_of
from dcc.qc.archive_scope import ArchiveScope
from dcc.qc.judging.finding_store import FINDING_AND_OWNER, OWN_CENTRE, OWN_PROCEDURE
from dcc.qc.judging.lookups import documents_of_repeats, on_animals_of
from dcc.qc.models import (
    DOCUMENT,
    ENTITY_TABLES,
    EXPERIMENT,
    FINDING,
    LIFETIME,
    NAMED,
    RELATED,
    SNAPSHOT,
    SPECIMEN,
    WAIVER,
)
from dcc.qc.rows.documents import has_state
from dcc.rules.checking import ABOUT_SPECIMENS
from dcc.rules.findings import MORE_RULE
from dcc.rules.waivers import Waiver
from dcc.vocabulary import DocumentAction, DocumentState, EntityKind, Severity, WaiverEffect

_IS_OPEN: Final = FINDING.c.closed.is_(None)
_IS_UNDO: Final = DOCUMENT.c.action == DocumentAction.UNDO.value
_APPLIED: Final = has_state(DocumentState.APPLIED)
_STANDS: Final = and_(_APPLIED, ~_IS_UNDO, DOCUMENT.c.judged_at.is_not(None))
_ABOUT_SPECIMENS: Final = select(FINDING.c.id).where(FINDING.c.rule.in_(sorted(ABOUT_SPECIMENS)), _IS_OPEN).limit(1)
_MORE: Final = select(FINDING.c.id).where(FINDING.c.rule == MORE_RULE, FINDING.c.is_active).limit(1)
_DOCUMENTS: Final[BindParameter[Any]] = bindparam("documents", expanding=True)
_WITHDRAWALS: Final = select(DOCUMENT.c.id).where(DOCUMENT.c.id.in_(_DOCUMENTS), _IS_UNDO)
_STANDING: Final = select(DOCUMENT.c.id).where(DOCUMENT.c.id.in_(IDS), _STANDS)


def documents_to_judge_again(connection: Connection, document_ids: Collection[int]) -> list[int]:
    """The other documents that must be judged again after documents were applied or withdrawn, ascending.

    They have an open finding about a specimen that came, changed or went, or a current experiment on, or relative of, a
    specimen that changed or went. Or they have an experiment that a new one repeats, or one that went did. Or they have
    entities that were replaced or deleted, or came back.
    """
    if not document_ids:
        return []
    found: set[int] = set()
    # Reading all specimens of many documents is expensive, and useless without a finding on any.
    unrecorded = connection.scalar(_MORE) is not None
    about_specimens = unrecorded or connection.scalar(_ABOUT_SPECIMENS) is not None
    for chunk in sorted_chunks(set(document_ids)):
        given = {"documents": chunk, "first": chunk[0], "last": chunk[-1]}
        for statement in _touched_by(about_specimens=about_specimens, unrecorded=unrecorded):
            found.update(connection.scalars(statement, given))
        # Others open versions of their own.
        withdrawals = connection.scalars(_WITHDRAWALS, {"documents": chunk}).all()
        for kind, table in ENTITY_TABLES.items() if withdrawals else ():
            brought_back = _versions(kind, table).where(LIFETIME.c.opened_by.in_(withdrawals))
            found.update(connection.scalars(brought_back))
    return sorted(row.id for row in rows_about(connection, _STANDING, found - set(document_ids)))


def _touched_by(*, about_specimens: bool, unrecorded: bool) -> Iterator[Select[Any]]:
    """Queries of the documents that must be judged again because of `documents`, from the `first` to the `last`."""
    has_finding = partial(_has_finding, unrecorded=unrecorded)
    for side in ("opened_by", "ended_by"):
        # MariaDB uses an index with many nulls for a range only.
        between = LIFETIME.c[side].between(bindparam("first"), bindparam("last"))
        touched = between & LIFETIME.c[side].in_(_DOCUMENTS)
        for owner, named, row in _NAMING:
            base = _naming(owner, named, row).where(touched)
            if about_specimens:
                yield base.where(has_finding(owner, ABOUT_SPECIMENS))
            if side == "ended_by":
                # One that was refused has a finding, and is none of the current ones.
                yield base.where(owner.c.is_current | has_finding(owner))
        of_experiment = LIFETIME.c.entity_kind == EntityKind.EXPERIMENT.value
        experiments = select(LIFETIME.c.entity_id).where(of_experiment, touched)
        if side == "opened_by":
            yield documents_of_repeats(experiments)
        elif about_specimens:
            beside = select(EXPERIMENT.c.document_id).distinct().select_from(on_animals_of(experiments))
            yield beside.where(has_finding(EXPERIMENT, ABOUT_SPECIMENS))
    for kind, table in ENTITY_TABLES.items():
        yield _versions(kind, table).where(LIFETIME.c.ended_by.in_(_DOCUMENTS), has_finding(table))


def _versions(kind: EntityKind, table: Table) -> Select[Any]:
    """The documents of versions, with the lifetimes of these."""
    return select(table.c.document_id).distinct().join(LIFETIME, is_lifetime_of(kind))


_RELATIVE: Final = SPECIMEN.alias("relative")
_NAMING: Final = (
    (EXPERIMENT, NAMED, "experiment_row"),
    (_RELATIVE, RELATED, "specimen_row"),
)
"""How entities name specimens: the kind, its table of names, and the reference."""


def _naming(owner: Any, named: Table, row: str) -> Select[Any]:
    """The documents of entities, of any version, that name specimens which documents opened or ended."""
    return (
        select(owner.c.document_id)
        .distinct()
        .select_from(LIFETIME)
        .join(SPECIMEN, is_lifetime_of(EntityKind.SPECIMEN))
        .join(named, named.c.specimen_id == SPECIMEN.c.specimen_id)
        .join(owner, and_(owner.c.id == named.c[row], owner.c.centre == SPECIMEN.c.centre))
    )


def _has_finding(owner: Any, rules: Collection[str] | None = None, *, unrecorded: bool) -> ColumnElement[bool]:
    """Whether an entity has an open finding of one of the rules, or its document `unrecorded` ones, if any has."""
    kind = EntityKind.SPECIMEN.value if owner is _RELATIVE else owner.name
    condition = (FINDING.c.entity_kind == kind) & (FINDING.c.entity_id == owner.c.id) & _IS_OPEN
    recorded = exists().where(condition if rules is None else condition & FINDING.c.rule.in_(sorted(rules)))
    of_document = (FINDING.c.document_id == owner.c.document_id) & FINDING.c.is_active
    return recorded | exists().where(of_document, FINDING.c.code == MORE_RULE) if unrecorded else recorded


def documents_to_be_judged(connection: Connection) -> list[int]:
    """The applied documents that were not judged yet, or must be judged again."""
    return list(connection.scalars(select(DOCUMENT.c.id).where(_APPLIED, ~_IS_UNDO, DOCUMENT.c.judged_at.is_(None))))


def mark_for_judging(connection: Connection, document_ids: Iterable[int]) -> None:
    """Let the next session judge applied documents again, within a write transaction."""
    change_rows(connection, DOCUMENT.c.id, document_ids, _STANDS, judged_at=None)


def withdrawals_to_follow(connection: Connection, scope: ArchiveScope) -> list[int]:
    """The withdrawals, documents themselves, whose consequences for judging are not followed yet.

    They are those that contexts do not include: these are built after documents are judged.
    """
    query = select(DOCUMENT.c.id, DOCUMENT.c.zip_file).where(_IS_UNDO, DOCUMENT.c.contexts_built.is_(False))
    return [row.id for row in connection.execute(query) if scope.has(row.zip_file)]


def withdrawals_of(connection: Connection, document_ids: Iterable[int]) -> list[int]:
    """The withdrawals of documents, by the ids of these."""
    return [row.id for row in rows_with(connection, select(DOCUMENT.c.id), DOCUMENT.c.undoes, document_ids)]


def documents_of_rule(connection: Connection, rule: str, centre: str | None = None) -> list[int]:
    """The documents with open findings of a rule, including waived ones; only those of a centre, if given."""
    return _with_findings(connection, (FINDING.c.rule == rule) | _counts_more_of(rule), centre)


def documents_of_waiver(connection: Connection, waiver: Waiver) -> list[int]:
    """The documents with open findings that a waiver covers, or that it decided."""
    decided = set() if waiver.id is None else set(_with_findings(connection, FINDING.c.waiver_id == waiver.id))
    return sorted(decided.union(_covered(connection, waiver)))


def documents_of_begun_waivers(connection: Connection, waivers: Iterable[Waiver]) -> list[int]:
    """The documents with active findings that a waiver in force covers and that are not judged by it yet.

    Documents that were judged since the waiver was given and began are left out.
    """
    found: set[int] = set()
    for waiver in waivers:
        before = or_(
            DOCUMENT.c.judged_at <= select(WAIVER.c.created).where(WAIVER.c.id == waiver.id).scalar_subquery(),
            DOCUMENT.c.judged_at < datetime.combine(waiver.valid_from, time()),
        )
        undecided = before & FINDING.c.is_active & (FINDING.c.severity != Severity.UNCHECKED.value)
        if waiver.effect is WaiverEffect.WARN:
            undecided &= FINDING.c.waiver_id.is_(None)
        found.update(_covered(connection, waiver, undecided))
    return sorted(found)


def _covered(connection: Connection, waiver: Waiver, which: ColumnElement[bool] | None = None) -> list[int]:
    covered = FINDING.c.rule == waiver.rule
    if waiver.centre is not None:
        covered &= func.coalesce(OWN_CENTRE.element, DOCUMENT.c.centre) == waiver.centre
    if waiver.procedure is not None:
        covered &= OWN_PROCEDURE.element == waiver.procedure
    covered |= _counts_more_of(waiver.rule)
    return _with_findings(connection, covered if which is None else covered & which)


def _counts_more_of(rule: str) -> ColumnElement[bool]:
    """Whether a finding is the number of those that are not recorded, some of them of a rule."""
    return (FINDING.c.rule == MORE_RULE) & FINDING.c.details.contains(f'"{rule} ')


def documents_of_lapsed_waivers(connection: Connection, today: date) -> list[int]:
    """The documents with open findings that were decided by a waiver which is not in force on a day."""
    not_begun, over = WAIVER.c.valid_from > today, WAIVER.c.valid_until < today
    lapsed = select(WAIVER.c.id).where(or_(not_begun, over, WAIVER.c.revoked.is_not(None)))
    return _with_findings(connection, FINDING.c.waiver_id.in_(lapsed))


def documents_unchecked(connection: Connection, *, not_by: str) -> list[int]:
    """The documents that could not be checked completely, and were judged by another signature than `not_by`.

    Also those with findings by the name of a centre where colonies are registered: it may have been wrong. And those
    with more findings than are recorded, some of which may be by former reference data.
    """
    return sorted(connection.scalars(_UNCHECKED, {"not_by": not_by}))


def documents_of_superseded_snapshots(connection: Connection) -> list[int]:
    """The documents with open findings, also waived ones, by reference data that are not active any more."""
    return sorted(connection.scalars(_BY_SUPERSEDED))


def _with_findings(connection: Connection, which: ColumnElement[bool], centre: str | None = None) -> list[int]:
    statement = _FOUND_IN.where(which)
    if centre is not None:
        statement = statement.where(DOCUMENT.c.centre == centre)
    return sorted(connection.scalars(statement))


_FOUND_IN: Final = (
    select(FINDING.c.document_id)
    .distinct()
    .select_from(FINDING_AND_OWNER.join(DOCUMENT, DOCUMENT.c.id == FINDING.c.document_id))
    .where(_STANDS, _IS_OPEN)
)
_UNCHECKED: Final = _FOUND_IN.where(
    (FINDING.c.severity == Severity.UNCHECKED.value) | FINDING.c.rule.in_(["S6", MORE_RULE]),
    DOCUMENT.c.judged_by.is_(None) | (DOCUMENT.c.judged_by != bindparam("not_by")),
)
_BY_SUPERSEDED: Final = _FOUND_IN.where(
    FINDING.c.snapshot_id.in_(select(SNAPSHOT.c.id).where(SNAPSHOT.c.is_active.is_(False)))
)
