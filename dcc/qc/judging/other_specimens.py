"""Which documents the rules about other documents' specimens may object to, for many documents at once.

It may return a document too many, never one too few: the rule itself decides.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import date
from typing import Final

from sqlalchemy import Select, and_, bindparam, case, or_, select
from sqlalchemy.engine import Connection

from dcc.databases.list_parameters import as_json, numbers_in, portions
from dcc.qc.apply.versions import same_text
from dcc.qc.models import EXPERIMENT, NAMED, RELATED, SPECIMEN

_OWNER: Final = SPECIMEN.alias("owner")


def _questionable_experiments() -> Select[tuple[int]]:
    """E4 and E8: a specimen is missing, the date is in the future or before a birth, or either is unknown."""
    same = and_(
        SPECIMEN.c.centre == EXPERIMENT.c.centre,
        same_text(SPECIMEN.c.specimen_id, NAMED.c.specimen_id),
        SPECIMEN.c.is_current,
    )
    day, born = EXPERIMENT.c.date, SPECIMEN.c.dob
    return (
        select(EXPERIMENT.c.document_id)
        .distinct()
        .select_from(EXPERIMENT.outerjoin(NAMED, NAMED.c.experiment_row == EXPERIMENT.c.id).outerjoin(SPECIMEN, same))
        .where(
            EXPERIMENT.c.document_id.in_(numbers_in("documents")),
            or_(
                SPECIMEN.c.id.is_(None),
                day.is_(None),
                day > bindparam("latest_day"),
                day < born,
                # An embryo has no day of birth; a mouse has one, which the column may not be able to hold.
                born.is_(None) & (SPECIMEN.c.kind == "mouse"),
            ),
        )
    )


def _questionable_relations() -> Select[tuple[int]]:
    """S14 and X8: a relative is missing, or a mother not female, a father not male."""
    same = and_(
        SPECIMEN.c.centre == _OWNER.c.centre,
        same_text(SPECIMEN.c.specimen_id, RELATED.c.specimen_id),
        SPECIMEN.c.is_current,
    )
    expected = case({"mother": "female", "father": "male"}, value=RELATED.c.relationship, else_=SPECIMEN.c.gender)
    return (
        select(_OWNER.c.document_id)
        .distinct()
        .select_from(_OWNER.join(RELATED, RELATED.c.specimen_row == _OWNER.c.id).outerjoin(SPECIMEN, same))
        .where(
            _OWNER.c.document_id.in_(numbers_in("documents")),
            or_(SPECIMEN.c.id.is_(None), SPECIMEN.c.gender != expected),
        )
    )


_QUESTIONABLE: Final = (_questionable_experiments(), _questionable_relations())
_AT_ONCE: Final = 250


def questionable(connection: Connection, document_ids: Collection[int], latest_day: date) -> set[int]:
    """The documents in which the rules `ABOUT_SPECIMENS` may find something now.

    For documents all of whose entities have rows; `latest_day` is the last that is not in the future. Two statements
    for every 250 documents.
    """
    found: set[int] = set()
    for some in portions(document_ids, _AT_ONCE):
        given = {"documents": as_json(some), "latest_day": latest_day}
        for asked in _QUESTIONABLE:
            found.update(connection.scalars(asked, given))
    return found
