"""Experiments that do not count because an animal of theirs is not valid: `experiment.validity`.

The rules judge an experiment by its own document. Experiments without an error that name a specimen whose current
version is not valid are `INVALID_ANIMAL`, and valid again once it is. Contexts are built after this, from the same
documents.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, or_, select

from dcc.databases.columns import MYSQL_FAMILY
from dcc.databases.list_parameters import as_json, change_rows, numbers_in, sorted_chunks
from dcc.naming import DocumentKind
from dcc.qc.apply.upload_lock import lock_centres_of
from dcc.qc.apply.versions import same_animal, with_experiments
from dcc.qc.archive_scope import ArchiveScope
from dcc.qc.contexts.affected_runs import changed_by_documents, document_parameters, is_changed_version_of
from dcc.qc.contexts.builds import DUE, Build
from dcc.qc.models import DOCUMENT, EXPERIMENT, FINDING, LIFETIME, NAMED, SPECIMEN
from dcc.vocabulary import DocumentAction, EntityKind, Validity


def update_validity(connection: Connection, scope: ArchiveScope) -> set[int]:
    """Update the validity of experiments with animals in documents due for contexts; returns these documents.

    Nobody else applies documents of their centres, or builds, until the transaction ends.
    """
    found = {row.id for row in connection.execute(_DUE) if scope.has(row.zip_file)}
    lock_centres_of(connection, found)
    due = [row for row in connection.execute(_DUE) if row.id in found]
    of_experiments = [row.id for row in due if row.kind == DocumentKind.EXPERIMENT.value]
    for documents in sorted_chunks(of_experiments):
        _set(connection, connection.scalars(_OWN_TO_FLAG, {"documents": as_json(documents)}), Validity.INVALID_ANIMAL)
    touched: set[int] = set()
    for documents in sorted_chunks(row.id for row in due if row.changes_animals):
        for statement in _TOUCHED:
            touched.update(connection.scalars(statement, document_parameters("documents", documents)))
    _judge_by_animals(connection, touched)
    return {row.id for row in due}


def update_all_validity(connection: Connection) -> None:
    """As `update_validity`, for all experiments."""
    touched = set(connection.scalars(select(EXPERIMENT.c.id).where(EXPERIMENT.c.validity == Validity.INVALID_ANIMAL)))
    touched.update(connection.scalars(_ALL_TO_FLAG))
    _judge_by_animals(connection, touched)


def _judge_by_animals(connection: Connection, experiments: Iterable[int]) -> None:
    """Update the validity of these experiments by their animals; those with errors of their own stay as they are."""
    for ids in sorted_chunks(experiments):
        before = {row.id: row.validity for row in connection.execute(_VALIDITY, {"experiments": as_json(ids)})}
        flagged = set(connection.scalars(_NAMING_INVALID, {"experiments": as_json(ids)}))
        for validity, wanted in (
            (Validity.INVALID_ANIMAL, flagged & before.keys()),
            (Validity.VALID, before.keys() - flagged),
        ):
            _set(connection, (one for one in wanted if before[one] != validity), validity)


def _set(connection: Connection, experiments: Iterable[int], validity: int) -> None:
    change_rows(connection, EXPERIMENT.c.id, set(experiments), validity=validity)


def _experiments_by(name: str, column: ColumnElement[int]) -> Select[Any]:
    """The experiments whose column is among the given numbers; looked up by these, not the other way round."""
    given = numbers_in(name).subquery()
    found = select(EXPERIMENT.c.id).select_from(given).join(EXPERIMENT, column == given.c.value)
    for family in MYSQL_FAMILY:
        found = found.prefix_with("STRAIGHT_JOIN", dialect=family)
    return found


def _naming_invalid(experiments: Select[Any]) -> Select[Any]:
    """The experiments that name a specimen which is not valid now."""
    return (
        experiments.join(NAMED, NAMED.c.experiment_row == EXPERIMENT.c.id)
        .join(SPECIMEN, same_animal(EXPERIMENT))
        .where(SPECIMEN.c.is_current, SPECIMEN.c.validity == Validity.INVALID)
    )


def _touched() -> tuple[Select[Any], ...]:
    """The experiments on specimens of which documents opened or ended a version, and those that they restored."""
    changed = select(EXPERIMENT.c.id).select_from(LIFETIME)
    about = with_experiments(changed.join(SPECIMEN, is_changed_version_of(EntityKind.SPECIMEN)))
    back = changed.join(EXPERIMENT, is_changed_version_of(EntityKind.EXPERIMENT))
    return (
        about.where(changed_by_documents(LIFETIME.c.opened_by, "documents")),
        about.where(changed_by_documents(LIFETIME.c.ended_by, "documents")),
        back.where(changed_by_documents(LIFETIME.c.opened_by, "documents")),
    )


def _due() -> Select[Any]:
    """The documents due for contexts, and which of them may change the validity of others' animals.

    New animals do not, unless a finding was made on them, now or before.
    """
    is_new = DOCUMENT.c.action == DocumentAction.ADD.value
    found = exists().where(FINDING.c.document_id == DOCUMENT.c.id)
    invalid = exists().where(SPECIMEN.c.document_id == DOCUMENT.c.id, SPECIMEN.c.validity == Validity.INVALID)
    of_specimens = DOCUMENT.c.kind == DocumentKind.SPECIMEN.value
    is_undo = DOCUMENT.c.action == DocumentAction.UNDO.value
    changes = or_(is_undo, and_(of_specimens, or_(~is_new, found, invalid)))
    columns = (DOCUMENT.c.id, DOCUMENT.c.kind, DOCUMENT.c.zip_file, changes.label("changes_animals"))
    return select(*columns).where(DUE[Build.CONTEXTS])


_DUE: Final = _due()
_TOUCHED: Final = _touched()
_OF_DOCUMENTS: Final = _experiments_by("documents", EXPERIMENT.c.document_id)
_THESE: Final = _experiments_by("experiments", EXPERIMENT.c.id)
_VALIDITY: Final = _THESE.add_columns(EXPERIMENT.c.validity).where(
    EXPERIMENT.c.validity.in_((Validity.VALID, Validity.INVALID_ANIMAL))
)
_ALL_TO_FLAG: Final = _naming_invalid(select(EXPERIMENT.c.id)).where(EXPERIMENT.c.validity == Validity.VALID)
_OWN_TO_FLAG: Final = _naming_invalid(_OF_DOCUMENTS).where(EXPERIMENT.c.validity == Validity.VALID)
_NAMING_INVALID: Final = _naming_invalid(_THESE)
