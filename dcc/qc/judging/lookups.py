"""The rules' queries to the QC database: answers for many entities or documents in a few statements."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import date
from typing import Final

from sqlalchemy import Connection, Select, bindparam, case, or_, select

from dcc.databases.list_parameters import as_json, numbers_in, sorted_chunks
from dcc.qc.apply.versions import same_animal
from dcc.qc.models import EXPERIMENT, NAMED, RELATED, SPECIMEN
from dcc.rules.checking import ABOUT_SPECIMENS
from dcc.rules.context import KnownSpecimen
from dcc.vocabulary import GENDER_OF_PARENT

_SPECIMENS: Final = (
    select(*(SPECIMEN.c[name] for name in ("centre", "specimen_id", "gender", "dob", "lexical")))
    .where(
        SPECIMEN.c.centre == bindparam("of_centre"),
        SPECIMEN.c.specimen_id.in_(bindparam("names", expanding=True)),
        SPECIMEN.c.is_current,
    )
    .order_by(SPECIMEN.c.id)
)


class SqlLookups:
    """The `Lookups` of a database connection: a statement for every 2,000 animals.

    Names are compared exactly, even if the database treats texts as equal that differ in trailing blanks.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def known_specimens(self, centre: str, ids: Collection[str]) -> Mapping[str, tuple[KnownSpecimen, ...]]:
        """The current specimens of a centre that have one of the ids, by their id."""
        found: dict[str, tuple[KnownSpecimen, ...]] = {}
        wanted = frozenset(ids)
        for chunk in sorted_chunks(wanted):
            rows = self._connection.execute(_SPECIMENS, {"of_centre": centre, "names": chunk}).all()
            for of_centre, specimen_id, gender, dob, lexical in rows:
                if of_centre == centre and specimen_id in wanted:
                    known = KnownSpecimen(gender, _born(dob, lexical))
                    found[specimen_id] = (*found.get(specimen_id, ()), known)
        return found


def _born(dob: date | None, lexical: str | None) -> str | None:
    """The xs:date of a mouse's birth as written."""
    written = json.loads(lexical).get("DOB") if lexical else None
    if written is not None:
        return str(written)
    return None if dob is None else dob.isoformat()


_OWNER: Final = SPECIMEN.alias("owner")


def _questionable_experiments() -> Select[tuple[int]]:
    """E4 and E8: a specimen is missing, the date is in the future or before a birth, or either is unknown."""
    same = same_animal(EXPERIMENT) & SPECIMEN.c.is_current
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
    same = same_animal(_OWNER, RELATED) & SPECIMEN.c.is_current
    expected = case(GENDER_OF_PARENT, value=RELATED.c.relationship, else_=SPECIMEN.c.gender)
    return (
        select(_OWNER.c.document_id)
        .distinct()
        .select_from(_OWNER.join(RELATED, RELATED.c.specimen_row == _OWNER.c.id).outerjoin(SPECIMEN, same))
        .where(
            _OWNER.c.document_id.in_(numbers_in("documents")),
            or_(SPECIMEN.c.id.is_(None), SPECIMEN.c.gender != expected),
        )
    )


_QUESTIONABLE: Final = {("E4", "E8"): _questionable_experiments(), ("S14", "X8"): _questionable_relations()}
"""The queries, by the rules that they stand for."""
WITHOUT_QUERY: Final = ABOUT_SPECIMENS.difference(*_QUESTIONABLE)
"""Rules of `ABOUT_SPECIMENS` that nobody wrote a query for, such as those of installed packages."""
_AT_ONCE: Final = 250


def questionable(connection: Connection, document_ids: Collection[int], latest_day: date) -> set[int]:
    """The documents in which the rules `ABOUT_SPECIMENS` may find something now.

    It may name one too many, never one too few: the rule itself decides. For documents all of whose entities have
    rows; `latest_day` is the last that is not in the future. Two statements for every 250 documents. With a rule
    without a query here, it names all.
    """
    if WITHOUT_QUERY:
        return set(document_ids)
    found: set[int] = set()
    for some in sorted_chunks(document_ids, _AT_ONCE):
        given = {"documents": as_json(some), "latest_day": latest_day}
        for query in _QUESTIONABLE.values():
            found.update(connection.scalars(query, given))
    return found
