"""Experiments that do not count because an animal of theirs is not valid: `experiment.validity`.

The rules judge an experiment by its own document. Experiments without an error that name a specimen whose current
version is not valid are `INVALID_ANIMAL`, and valid again once it is. Contexts are built after this, from the same
documents.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, or_, select, update

from dcc.databases.columns import MYSQL_FAMILY
from dcc.databases.list_parameters import as_json, numbers_in, only_compared, portions
from dcc.naming import DocumentKind
from dcc.qc.apply.upload_lock import lock_centres_of
from dcc.qc.apply.versions import in_chunks
from dcc.qc.contexts.affected_runs import (
    OfArchives,
    changed_by_documents,
    document_parameters,
    documents_due_for_contexts,
    same_length,
)
from dcc.qc.models import Document, Experiment, ExperimentSpecimen, Finding, Lifetime, Specimen
from dcc.vocabulary import DocumentAction, EntityKind, Validity

_DOCUMENT: Final = Document.__table__
_EXPERIMENT: Final = Experiment.__table__
_FINDING: Final = Finding.__table__
_LIFETIME: Final = Lifetime.__table__
_NAMED: Final = ExperimentSpecimen.__table__
_SPECIMEN: Final = Specimen.__table__


def update_validity(connection: Connection, is_own: OfArchives = None) -> set[int]:
    """Update the validity of experiments with animals in documents due for contexts; returns these documents.

    Nobody else applies documents of their centres, or builds, until the transaction ends.
    """
    found = {row.id for row in connection.execute(_DUE) if is_own is None or is_own(row.zip_file)}
    lock_centres_of(connection, found)
    due = [row for row in connection.execute(_DUE) if row.id in found]
    of_experiments = [row.id for row in due if row.kind == DocumentKind.EXPERIMENT.value]
    for documents in portions(of_experiments):
        _set(connection, connection.scalars(_OWN_TO_FLAG, {"documents": as_json(documents)}), Validity.INVALID_ANIMAL)
    touched: set[int] = set()
    for documents in portions(row.id for row in due if row.changes_animals):
        for statement in _TOUCHED:
            touched.update(connection.scalars(statement, document_parameters("documents", documents)))
    _judge_by_animals(connection, touched)
    return {row.id for row in due}


def update_all_validity(connection: Connection) -> None:
    """As `update_validity`, for all experiments."""
    touched = set(connection.scalars(select(_EXPERIMENT.c.id).where(_EXPERIMENT.c.validity == Validity.INVALID_ANIMAL)))
    touched.update(connection.scalars(_ALL_TO_FLAG))
    _judge_by_animals(connection, touched)


def _judge_by_animals(connection: Connection, experiments: Iterable[int]) -> None:
    """Update the validity of these experiments by their animals; those with errors of their own stay as they are."""
    for ids in portions(experiments):
        before = {row.id: row.validity for row in connection.execute(_VALIDITY, {"experiments": as_json(ids)})}
        flagged = set(connection.scalars(_NAMING_INVALID, {"experiments": as_json(ids)}))
        for validity, wanted in (
            (Validity.INVALID_ANIMAL, flagged & before.keys()),
            (Validity.VALID, before.keys() - flagged),
        ):
            _set(connection, (one for one in wanted if before[one] != validity), validity)


def _set(connection: Connection, experiments: Iterable[int], validity: int) -> None:
    for chunk in in_chunks(sorted(set(experiments))):
        connection.execute(update(_EXPERIMENT).where(_EXPERIMENT.c.id.in_(chunk)).values(validity=validity))


def _named_by(specimen: Any) -> Any:
    """Joins an experiment, its `_NAMED` and the specimens of that name, of any version."""
    return and_(
        specimen.c.centre == _EXPERIMENT.c.centre,
        specimen.c.specimen_id == _NAMED.c.specimen_id,
        same_length(specimen, _NAMED),
    )


def _given(name: str, column: ColumnElement[int]) -> Select[Any]:
    """The experiments whose column is among the given numbers; looked up by these, not the other way round."""
    given = numbers_in(name).subquery()
    found = select(_EXPERIMENT.c.id).select_from(given).join(_EXPERIMENT, column == given.c.value)
    for family in MYSQL_FAMILY:
        found = found.prefix_with("STRAIGHT_JOIN", dialect=family)
    return found


def _naming_invalid(experiments: Select[Any]) -> Select[Any]:
    """The experiments that name a specimen which is not valid now."""
    return (
        experiments.join(_NAMED, _NAMED.c.experiment_row == _EXPERIMENT.c.id)
        .join(_SPECIMEN, _named_by(_SPECIMEN))
        .where(_SPECIMEN.c.is_current, _SPECIMEN.c.validity == Validity.INVALID)
    )


def _touched() -> tuple[Select[Any], ...]:
    """The experiments on specimens of which documents opened or ended a version, and those that they restored."""
    kind = only_compared(_LIFETIME.c.entity_kind)
    of_specimen = (kind == EntityKind.SPECIMEN.value) & (_LIFETIME.c.entity_id == _SPECIMEN.c.id)
    of_experiment = (kind == EntityKind.EXPERIMENT.value) & (_LIFETIME.c.entity_id == _EXPERIMENT.c.id)
    about = (
        select(_EXPERIMENT.c.id)
        .select_from(_LIFETIME)
        .join(_SPECIMEN, of_specimen)
        .join(_NAMED, and_(_NAMED.c.specimen_id == _SPECIMEN.c.specimen_id, same_length(_NAMED, _SPECIMEN)))
        .join(
            _EXPERIMENT, and_(_EXPERIMENT.c.id == _NAMED.c.experiment_row, _EXPERIMENT.c.centre == _SPECIMEN.c.centre)
        )
    )
    back = select(_EXPERIMENT.c.id).select_from(_LIFETIME).join(_EXPERIMENT, of_experiment)
    return (
        about.where(changed_by_documents(_LIFETIME.c.opened_by, "documents")),
        about.where(changed_by_documents(_LIFETIME.c.ended_by, "documents")),
        back.where(changed_by_documents(_LIFETIME.c.opened_by, "documents")),
    )


def _due() -> Select[Any]:
    """The documents due for contexts, and which of them may change the validity of others' animals.

    New animals do not, unless a finding was made on them, now or before.
    """
    is_new = _DOCUMENT.c.action == DocumentAction.ADD.value
    found = exists().where(_FINDING.c.document_id == _DOCUMENT.c.id)
    invalid = exists().where(_SPECIMEN.c.document_id == _DOCUMENT.c.id, _SPECIMEN.c.validity == Validity.INVALID)
    of_specimens = _DOCUMENT.c.kind == DocumentKind.SPECIMEN.value
    is_undo = _DOCUMENT.c.action == DocumentAction.UNDO.value
    changes = or_(is_undo, and_(of_specimens, or_(~is_new, found, invalid)))
    columns = (_DOCUMENT.c.id, _DOCUMENT.c.kind, _DOCUMENT.c.zip_file, changes.label("changes_animals"))
    return select(*columns).where(documents_due_for_contexts())


_DUE: Final = _due()
_TOUCHED: Final = _touched()
_OF_DOCUMENTS: Final = _given("documents", _EXPERIMENT.c.document_id)
_THESE: Final = _given("experiments", _EXPERIMENT.c.id)
_VALIDITY: Final = _THESE.add_columns(_EXPERIMENT.c.validity).where(
    _EXPERIMENT.c.validity.in_((Validity.VALID, Validity.INVALID_ANIMAL))
)
_ALL_TO_FLAG: Final = _naming_invalid(select(_EXPERIMENT.c.id)).where(_EXPERIMENT.c.validity == Validity.VALID)
_OWN_TO_FLAG: Final = _naming_invalid(_OF_DOCUMENTS).where(_EXPERIMENT.c.validity == Validity.VALID)
_NAMING_INVALID: Final = _naming_invalid(_THESE)
