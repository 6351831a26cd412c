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
    current, newer = ENTITY_TABLES[kind].alias(f"present_{kind}"), ENTITY_TABLES[kind].alias(f"newer_{kind}")
    is_there = _exists(current, same_key(kind, own, current), current.c.is_current == 1, current.c.id > own.c.id)
    is_hidden = _exists(
        newer,
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
        _exists(lifetime, is_lifetime_of(kind, lifetime, version)),
        _exists(document, document.c.id == version.c.document_id, document.c.state == DocumentState.APPLIED.value),
    )


def _was_deleted(kind: EntityKind, version: Any) -> ColumnElement[bool]:
    """Whether a version was current until a deletion that is not withdrawn."""
    lifetime, document = LIFETIME.alias(), DOCUMENT.alias()
    stands = document.c.state == DocumentState.APPLIED.value
    is_deletion = and_(document.c.action == DocumentAction.DELETE.value, stands)
    by_deletion = _exists(document, document.c.id == lifetime.c.ended_by, is_deletion)
    return _exists(lifetime, is_lifetime_of(kind, lifetime, version), by_deletion)


def _lacks_animal(experiment: Any) -> ColumnElement[bool]:
    """Whether an animal of an experiment was submitted, and has no latest valid version.

    Of an animal that never was, the experiment's own validity says whether it needs it.
    """
    named, known, valid = NAMED.alias("named"), SPECIMEN.alias("known"), SPECIMEN.alias("animal")
    # MariaDB keeps a subquery's result for the same values of the columns that it names, and takes texts that differ in
    # trailing blanks for the same. The place of a name is always another.
    own_place = and_(named.c.experiment_row == experiment.c.id, named.c.position >= 0)
    is_known = _exists(known, same_animal(experiment, named, known), own_place, _counted(EntityKind.SPECIMEN, known))
    is_latest = is_latest_valid(EntityKind.SPECIMEN, valid)
    is_valid = _exists(valid, same_animal(experiment, named, valid), own_place, is_latest)
    return _exists(named, named.c.experiment_row == experiment.c.id, is_known, ~is_valid)


def _exists(table: Any, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether a row of a table meets conditions; all other tables are those of the queries around it, at any level."""
    return exists().where(*conditions).correlate_except(table)
