"""The latest valid version of each entity: what there would be if changes with errors had not been submitted.

The present is what was submitted last, valid or not. Here a version with errors does not hide the valid one that it
replaced. What was deleted has no version, and what was withdrawn counts for nothing.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, and_, exists, or_, select

from dcc.qc.apply.versions import is_lifetime_of, same_animal, same_key
from dcc.qc.models import DOCUMENT, ENTITY_TABLES, EXPERIMENT, LIFETIME, NAMED, SPECIMEN
from dcc.vocabulary import DocumentState, EntityKind, Validity


def is_latest_valid(kind: EntityKind) -> ColumnElement[bool]:
    """The condition on an entity's table that a version is the latest valid one of its entity.

    Of an experiment the version has no errors, and all its animals have a latest valid version. Validity is that of the
    present for current versions, and for others that from when they were replaced.
    """
    if kind is EntityKind.EXPERIMENT:
        return _is_latest(kind, EXPERIMENT, Validity.VALID, Validity.INVALID_ANIMAL) & _has_valid_animals()
    return _is_latest(kind, ENTITY_TABLES[kind], Validity.VALID)


def _is_latest(kind: EntityKind, own: Any, *valid: int) -> ColumnElement[bool]:
    current, newer = ENTITY_TABLES[kind].alias("present"), ENTITY_TABLES[kind].alias("newer")
    is_there = exists().where(same_key(kind, own, current), current.c.is_current == 1)
    is_hidden = exists().where(
        same_key(kind, own, newer), newer.c.id > own.c.id, newer.c.validity.in_(valid), _counted(kind, newer)
    )
    replaced = and_(is_there, _counted(kind, own), ~is_hidden)
    return and_(own.c.validity.in_(valid), or_(own.c.is_current == 1, replaced))


def _counted(kind: EntityKind, version: Any) -> ColumnElement[bool]:
    """Whether a version was current at a time, by a document that is not withdrawn."""
    lifetime, document = LIFETIME.alias(), DOCUMENT.alias()
    return and_(
        exists().where(is_lifetime_of(kind, lifetime, version)),
        exists().where(document.c.id == version.c.document_id, document.c.state == DocumentState.APPLIED.value),
    )


def _has_valid_animals() -> ColumnElement[bool]:
    """Whether a version of an experiment is current and valid, or each of its animals has a latest valid version."""
    named, animal = NAMED.alias("named"), SPECIMEN.alias("animal")
    valid = select(animal.c.id).where(
        same_animal(EXPERIMENT, named, animal), _is_latest(EntityKind.SPECIMEN, animal, Validity.VALID)
    )
    lacking = exists().where(named.c.experiment_row == EXPERIMENT.c.id, ~valid.exists())
    return or_(and_(EXPERIMENT.c.is_current == 1, EXPERIMENT.c.validity == Validity.VALID), ~lacking)
