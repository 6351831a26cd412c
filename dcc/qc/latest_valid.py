"""The latest valid version of each entity: what there would be if changes with errors had not been submitted.

The present is what was submitted last, valid or not. Here a version with errors does not hide the valid one that it
replaced. What was deleted has no version, even if it came again with errors, and what was withdrawn counts for nothing.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, and_, exists, or_

from dcc.qc.apply.versions import is_lifetime_of, same_animal, same_key
from dcc.qc.models import DOCUMENT, ENTITY_TABLES, LIFETIME, NAMED, SPECIMEN
from dcc.vocabulary import DocumentAction, DocumentState, EntityKind, Validity


def is_latest_valid(kind: EntityKind, version: Any = None) -> ColumnElement[bool]:
    """The condition on an entity's table, or on its alias `version`, that a version is the latest valid one.

    Of an experiment the version has no errors, and all its animals have a latest valid version. Validity is that of the
    present for current versions, and for others that from when they were replaced.
    """
    own = ENTITY_TABLES[kind] if version is None else version
    current, newer = ENTITY_TABLES[kind].alias("present"), ENTITY_TABLES[kind].alias("newer")
    is_there = exists().where(same_key(kind, own, current), current.c.is_current == 1)
    is_hidden = exists().where(
        same_key(kind, own, newer),
        or_(
            and_(newer.c.id > own.c.id, _is_valid(kind, newer), _counted(kind, newer)),
            and_(newer.c.id >= own.c.id, _was_deleted(kind, newer)),
        ),
    )
    return and_(_is_valid(kind, own), or_(own.c.is_current == 1, and_(is_there, _counted(kind, own), ~is_hidden)))


def _is_valid(kind: EntityKind, version: Any) -> ColumnElement[bool]:
    """Whether a version has no errors; an experiment also, whether no animal of it lacks a valid version."""
    valid: ColumnElement[bool] = version.c.validity == Validity.VALID
    if kind is not EntityKind.EXPERIMENT:
        return valid
    own_valid = version.c.validity.in_((Validity.VALID, Validity.INVALID_ANIMAL))
    return or_(and_(valid, version.c.is_current == 1), and_(own_valid, ~_lacks_animal(version)))


def _counted(kind: EntityKind, version: Any) -> ColumnElement[bool]:
    """Whether a version was current at a time, by a document that is not withdrawn."""
    lifetime, document = LIFETIME.alias(), DOCUMENT.alias()
    return and_(
        exists().where(is_lifetime_of(kind, lifetime, version)),
        exists().where(document.c.id == version.c.document_id, document.c.state == DocumentState.APPLIED.value),
    )


def _was_deleted(kind: EntityKind, version: Any) -> ColumnElement[bool]:
    """Whether a version was current until a deletion that is not withdrawn."""
    lifetime, document = LIFETIME.alias(), DOCUMENT.alias()
    return exists().where(
        is_lifetime_of(kind, lifetime, version),
        document.c.id == lifetime.c.ended_by,
        document.c.action == DocumentAction.DELETE.value,
        document.c.state == DocumentState.APPLIED.value,
    )


def _lacks_animal(experiment: Any) -> ColumnElement[bool]:
    """Whether an animal of an experiment was submitted, and has no latest valid version.

    Of an animal that never was, the experiment's own validity says whether it needs it.
    """
    named, known, valid = NAMED.alias("named"), SPECIMEN.alias("known"), SPECIMEN.alias("animal")
    is_known = exists().where(same_animal(experiment, named, known), _counted(EntityKind.SPECIMEN, known))
    is_valid = exists().where(same_animal(experiment, named, valid), is_latest_valid(EntityKind.SPECIMEN, valid))
    return exists().where(named.c.experiment_row == experiment.c.id, is_known, ~is_valid)
