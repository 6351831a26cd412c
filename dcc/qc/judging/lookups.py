"""The rules' queries to the QC database: answers for many entities or documents in a few statements."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import date
from typing import Final

from sqlalchemy import Connection, FromClause, Select, bindparam, case, exists, func, or_, select

from dcc.databases.list_parameters import as_json, numbers_in, sorted_chunks
from dcc.qc.apply.versions import same_animal
from dcc.qc.models import DOCUMENT, EXPERIMENT, NAMED, RELATED, SPECIMEN, STATUS_CODE
from dcc.rules.checking import ABOUT_SPECIMENS
from dcc.rules.context import KnownSpecimen, RunKey
from dcc.vocabulary import GENDER_OF_PARENT, EntityKind

_SPECIMENS: Final = (
    select(*(SPECIMEN.c[name] for name in ("centre", "specimen_id", "gender", "dob", "lexical")))
    .where(
        SPECIMEN.c.centre == bindparam("of_centre"),
        SPECIMEN.c.specimen_id.in_(bindparam("names", expanding=True)),
        SPECIMEN.c.is_current,
    )
    .order_by(SPECIMEN.c.id)
)
_OF_EXPERIMENT: Final = NAMED.c.experiment_row == EXPERIMENT.c.id
_KEY: Final = (NAMED.c.specimen_id, *(EXPERIMENT.c[name] for name in ("procedure_id", "date", "sequence_id")))
_HAS_CODE: Final = exists().where(
    STATUS_CODE.c.owner_kind == EntityKind.EXPERIMENT.value, STATUS_CODE.c.owner_id == EXPERIMENT.c.id
)
_RUNS: Final = (
    select(*_KEY, EXPERIMENT.c.centre, EXPERIMENT.c.experiment_id, DOCUMENT.c.file_name)
    .select_from(NAMED.join(EXPERIMENT, _OF_EXPERIMENT).join(DOCUMENT, DOCUMENT.c.id == EXPERIMENT.c.document_id))
    .where(
        NAMED.c.specimen_id.in_(bindparam("names", expanding=True)),
        EXPERIMENT.c.procedure_id.in_(bindparam("procedures", expanding=True)),
        EXPERIMENT.c.date.in_(bindparam("days", expanding=True)),
        EXPERIMENT.c.is_current,
        ~_HAS_CODE,
    )
    .order_by(EXPERIMENT.c.id)
)


class SqlLookups:
    """The `Lookups` of a database connection: a statement for every 2,000 animals, and one for their experiments.

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

    def known_runs(self, centre: str, keys: Collection[RunKey]) -> Mapping[RunKey, Mapping[str, str]]:
        """The current experiments of a centre with these keys, without status codes, in the order of their rows."""
        found: dict[RunKey, dict[str, str]] = {}
        given = {"procedures": sorted({key.procedure_id for key in keys}), "days": sorted({key.day for key in keys})}
        for chunk in sorted_chunks(key.specimen_id for key in keys):
            for *key, of_centre, experiment_id, document in self._connection.execute(_RUNS, {"names": chunk, **given}):
                run = RunKey(*key)
                if of_centre == centre and run in keys:
                    found.setdefault(run, {})[experiment_id] = document
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


def on_animals_of(experiments: Select[tuple[int]]) -> FromClause:
    """All experiments on the animals of those with these ids, joined with the names of these animals."""
    named = NAMED.alias("named")
    animals = select(named.c.specimen_id).distinct().where(named.c.experiment_row.in_(experiments)).subquery()
    return animals.join(NAMED, NAMED.c.specimen_id == animals.c.specimen_id).join(EXPERIMENT, _OF_EXPERIMENT)


def documents_of_repeats(experiments: Select[tuple[int]]) -> Select[tuple[int]]:
    """The documents of current experiments that repeat those with these ids, and of these: X17 may object to them.

    Each experiment on their animals is read once. In another order, MariaDB takes a hundred times as long.
    """
    some = EXPERIMENT.alias("some")
    days = select(some.c.procedure_id, some.c.date).distinct().where(some.c.id.in_(experiments)).subquery()
    is_of_day = (days.c.procedure_id == EXPERIMENT.c.procedure_id) & (days.c.date == EXPERIMENT.c.date)
    number = func.count().over(partition_by=(EXPERIMENT.c.centre, *_KEY)).label("number")
    counted = (
        select(EXPERIMENT.c.document_id, number)
        .select_from(on_animals_of(experiments).join(days, is_of_day))
        .where(EXPERIMENT.c.is_current)
        .prefix_with("STRAIGHT_JOIN", dialect="mysql")
        .prefix_with("STRAIGHT_JOIN", dialect="mariadb")
        .subquery()
    )
    return select(counted.c.document_id).distinct().where(counted.c.number > 1)


_OWN: Final = EXPERIMENT.alias("own")
_QUESTIONABLE: Final = {
    ("E4", "E8"): _questionable_experiments(),
    ("S14", "X8"): _questionable_relations(),
    ("X17",): documents_of_repeats(select(_OWN.c.id).where(_OWN.c.document_id.in_(numbers_in("documents")))),
}
"""The queries, by the rules that they stand for."""
WITHOUT_QUERY: Final = ABOUT_SPECIMENS.difference(*_QUESTIONABLE)
"""Rules of `ABOUT_SPECIMENS` that nobody wrote a query for, such as those of installed packages."""
_AT_ONCE: Final = 250


def questionable(connection: Connection, document_ids: Collection[int], latest_day: date) -> set[int]:
    """The documents in which the rules `ABOUT_SPECIMENS` may find something now.

    It may name one too many, never one too few: the rule itself decides. For documents all of whose entities have
    rows; `latest_day` is the last that is not in the future. Three statements for every 250 documents. With a rule
    without a query here, it names all.
    """
    if WITHOUT_QUERY:
        return set(document_ids)
    found: set[int] = set()
    for some in sorted_chunks(document_ids, _AT_ONCE):
        given = {"documents": as_json(some), "latest_day": latest_day}
        for query in _QUESTIONABLE.values():
            found.update(connection.scalars(query, given))
    return found.intersection(document_ids)
