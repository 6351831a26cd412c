"""Which animals and colonies lack which procedures that their pipeline asks for at their age.

IMPReSS says which procedures of a pipeline are mandatory, and at which age or embryonic stage they are due. A procedure
counts whatever its version is: IMPC_CBC_001 is what IMPC_CBC_003 asks for. A procedure on a line is due when the first
mutant animal of the colony has the age.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import IntEnum
from json import JSONDecoder
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, FromClause, String, and_, case, cast, func, null, select
from sqlalchemy.sql.selectable import ScalarSelect

from dcc.databases.list_parameters import equal
from dcc.errors import NotFoundError
from dcc.nearest_names import nearest_sentence
from dcc.qc.apply.versions import same_text
from dcc.qc.models import EXPERIMENT, LINE, NAMED, PROCEDURE, SPECIMEN, STATUS_CODE
from dcc.qc.reference.snapshots import active_snapshot
from dcc.reference.impress import Impress
from dcc.rules.values import days_of_stage, is_blank
from dcc.vocabulary import Validity

_VERSION: Final = len("_001")
_AT_ONCE: Final = 2_000
_INVALID: Final = {Validity.INVALID, Validity.INVALID_ANIMAL}
_DECODER: Final = JSONDecoder()


class Delivery(IntEnum):
    """What is there of a procedure that is due, the best first.

    A status code of the experiment, line or animal is a reason why there are no data.
    """

    DELIVERED = 1
    INVALID = 2
    EXPLAINED = 3
    MISSING = 4


@dataclass(frozen=True, slots=True)
class DeliveryCriteria:
    """Selects animals and colonies: of a centre, of a pipeline; `day` is the one on which their age counts."""

    day: date
    centre: str | None = None
    pipeline: str | None = None


class DueProcedure(NamedTuple):
    """A mandatory procedure of a pipeline, by its newest key in use, on an animal or (`level` line) on a colony.

    It is due at an age of `weeks`, or of embryos at a stage, such as E15.5.
    """

    pipeline: str
    procedure: str
    name: str
    level: str
    weeks: float | None
    stage: str | None

    @property
    def due(self) -> str:
        """The age or stage for people."""
        return self.stage or "" if self.weeks is None else f"{self.weeks:g} weeks"

    @property
    def days(self) -> int:
        """The age in whole days, 0 of embryos."""
        return math.floor((self.weeks or 0) * 7)

    def can_concern(self, subject: Subject) -> bool:
        """Whether it is due at some time."""
        if subject.stage is not None:
            return self.stage == subject.stage
        return self.weeks is not None and subject.born is not None


class Subject(NamedTuple):
    """An animal or, without `specimen`, a colony; `born` of a colony is when its first mutant animal was.

    `stage` is an embryo's, such as E15.5, and "" for one in another unit than DPC. `status_code` is an animal's own.
    """

    centre: str
    pipeline: str
    specimen: str | None
    colony: str | None
    born: date | None
    stage: str | None
    status_code: str | None


class _SubjectRecords(NamedTuple):
    """An animal or colony, and what is there of it: the text of `_done`, None for nothing."""

    subject: Subject
    done: str | None


class LackingProcedure(NamedTuple):
    """A procedure of which an animal or colony has no valid data, what there is instead, and a status code of it."""

    subject: Subject
    due: DueProcedure
    state: Delivery
    status_code: str | None


class ProcedureDeliveries(NamedTuple):
    """Of how many animals or colonies of a centre a procedure is due, and of how many it is delivered."""

    centre: str
    due: DueProcedure
    delivered: int
    invalid: int
    explained: int
    missing: int

    @property
    def expected(self) -> int:
        """Of how many it is due."""
        return self.delivered + self.invalid + self.explained + self.missing


@dataclass(slots=True)
class Deliveries:
    """Numbers of animals and colonies, complete once `lacking_procedures` is read to its end.

    `counts` has those of each state, by centre and procedure. `uncovered` counts the current animals, by centre and
    pipeline, of which IMPReSS does not say that anything is ever due.
    """

    counts: defaultdict[tuple[str, DueProcedure], Counter[Delivery]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    uncovered: Counter[tuple[str, str]] = field(default_factory=Counter)

    def by_procedure(self) -> list[ProcedureDeliveries]:
        """The counts in the order of centre, pipeline and procedure."""
        deliveries = []
        for (centre, due), states in self.counts.items():
            number = ProcedureDeliveries(
                centre,
                due,
                delivered=states[Delivery.DELIVERED],
                invalid=states[Delivery.INVALID],
                explained=states[Delivery.EXPLAINED],
                missing=states[Delivery.MISSING],
            )
            deliveries.append(number)
        return sorted(deliveries)


def count_deliveries(connection: Connection, criteria: DeliveryCriteria) -> Deliveries:
    """The numbers alone."""
    counted = Deliveries()
    for _ in lacking_procedures(connection, criteria, counted):
        pass
    return counted


def lacking_procedures(
    connection: Connection, criteria: DeliveryCriteria, counted: Deliveries
) -> Iterator[LackingProcedure]:
    """Each animal, then each colony, with each procedure that is due and of which it has no valid data.

    Adds all numbers to `counted`. Animals come in the order of their submission.
    """
    due = due_procedures(connection, criteria)
    for level, subjects in (("experiment", _animals), ("line", _colonies)):
        by_pipeline: defaultdict[str, list[tuple[DueProcedure, int]]] = defaultdict(list)
        for procedure in due:
            if procedure.level == level:
                by_pipeline[procedure.pipeline].append((procedure, procedure.days))
        for subject, done in subjects(connection, criteria):
            asked = [pair for pair in by_pipeline.get(subject.pipeline, ()) if pair[0].can_concern(subject)]
            if level == "experiment" and not asked:
                counted.uncovered[subject.centre, subject.pipeline] += 1
            states = _states(done) if done else {}
            age = None if subject.born is None else (criteria.day - subject.born).days
            for one, days in asked:
                if age is not None and age < days:
                    continue
                state, code = states.get(one.procedure[:-_VERSION], _NOTHING_THERE)
                if state is Delivery.MISSING and not is_blank(subject.status_code):
                    state, code = Delivery.EXPLAINED, subject.status_code
                counted.counts[subject.centre, one][state] += 1
                if state is not Delivery.DELIVERED:
                    yield LackingProcedure(subject, one, state, code)


def require_pipeline(connection: Connection, pipeline: str) -> None:
    """Raise NotFoundError for a pipeline that neither IMPReSS nor an animal names."""
    own = PROCEDURE.c
    query = select(own.pipeline).where(own.snapshot_id == active_snapshot(Impress.NAME)).distinct()
    known = sorted(connection.scalars(query))
    animals = select(SPECIMEN.c.id).where(SPECIMEN.c.pipeline == pipeline).limit(1)
    if pipeline not in known and connection.scalar(animals) is None:
        raise NotFoundError(
            f"Neither the IMPReSS that is in use nor an animal names a pipeline {pipeline!r}."
            f"{nearest_sentence(pipeline, known)} `dcc qc expected` without --pipeline is of all pipelines."
        )


def due_procedures(connection: Connection, criteria: DeliveryCriteria) -> list[DueProcedure]:
    """The mandatory procedures in use that have an age or stage, the versions of one as one."""
    own = PROCEDURE.c
    query = select(own.pipeline, own.procedure_id, own.name, own.level, own.weeks, own.stage).where(
        own.snapshot_id == active_snapshot(Impress.NAME), own.is_active, own.is_mandatory
    )
    found: dict[tuple[str, ...], DueProcedure] = {}
    for row in connection.execute(query.order_by(own.pipeline, own.procedure_id)):
        if (
            row.level == "housing"
            or (row.weeks is None and not row.stage)
            or criteria.pipeline not in (None, row.pipeline)
        ):
            continue
        level = "line" if row.level == "line" else "experiment"
        stage = row.stage and (_stage_of(row.stage) or row.stage)
        key = (row.pipeline, row.procedure_id[:-_VERSION], stage or "")
        found[key] = DueProcedure(row.pipeline, row.procedure_id, row.name or "", level, row.weeks, stage)
    return list(found.values())


class _BestState(NamedTuple):
    """What is there of a procedure, and a status code that explains it."""

    state: Delivery
    code: str | None = None


_NOTHING_THERE: Final = _BestState(Delivery.MISSING)


def _states(done: str) -> Mapping[str, _BestState]:
    """The best state of each procedure, by its key without version, with a status code; `done` is that of `_done`."""
    found: dict[str, _BestState] = {}
    for procedure, validity, code in _elements(done):
        is_explained = not is_blank(code)
        state = Delivery.EXPLAINED if is_explained else Delivery.INVALID if validity in _INVALID else Delivery.DELIVERED
        stem = procedure[:-_VERSION]
        if stem not in found or state < found[stem].state:
            found[stem] = _BestState(state, code if is_explained else None)
    return found


def _elements(done: str) -> Iterator[tuple[str, int, str | None]]:
    """The elements of a text of `_done` up to the one at which a server cut it off."""
    position = 0
    while position < len(done):
        try:
            element, end = _DECODER.raw_decode(done, position)
        except ValueError:
            return
        yield element
        position = end + len(",")


def _animals(connection: Connection, criteria: DeliveryCriteria) -> Iterator[_SubjectRecords]:
    own = SPECIMEN.c
    of_animal = and_(same_text(NAMED.c.specimen_id, own.specimen_id), EXPERIMENT.c.centre == own.centre)
    joined = NAMED.join(EXPERIMENT, EXPERIMENT.c.id == NAMED.c.experiment_row)
    done = _done(EXPERIMENT.c, "experiment", joined, of_animal)
    stage = case((own.kind == "embryo", case((own.stage_unit == "DPC", own.stage), else_="")), else_=null())
    query = (
        select(own.centre, own.pipeline, own.specimen_id, own.colony_id, own.dob, stage, own.status_code, done)
        .where(own.is_current, *_chosen(criteria))
        .order_by(own.id)
    )
    for subject, of_subject in _subjects(connection, query):
        in_one_form = subject if subject.stage is None else subject._replace(stage=_stage_of(subject.stage))
        yield _SubjectRecords(in_one_form, of_subject)


def _stage_of(text: str) -> str:
    """A DPC stage in one form, such as E15.5 for 15.50; "" for what is none."""
    days = days_of_stage(text)
    return "" if days is None else f"E{days:g}"


def _colonies(connection: Connection, criteria: DeliveryCriteria) -> Iterator[_SubjectRecords]:
    own = SPECIMEN.c
    colony = (
        select(own.centre, own.pipeline, own.colony_id, func.min(own.dob).label("dob"))
        .where(own.is_current, own.is_baseline.is_(False), own.colony_id.is_not(None), own.dob.is_not(None))
        .where(*_chosen(criteria))
        .group_by(own.centre, own.pipeline, own.colony_id)
        .subquery()
    )
    of_colony = and_(same_text(LINE.c.colony_id, colony.c.colony_id), LINE.c.centre == colony.c.centre)
    keys = (colony.c.centre, colony.c.pipeline, null().label("specimen"), colony.c.colony_id, colony.c.dob)
    query = select(*keys, null().label("stage"), null().label("status_code"), _done(LINE.c, "line", LINE, of_colony))
    yield from _subjects(connection, query.order_by(colony.c.centre, colony.c.pipeline, colony.c.colony_id))


def _subjects(connection: Connection, query: Any) -> Iterator[_SubjectRecords]:
    for row in connection.execute(query, execution_options={"yield_per": _AT_ONCE}):
        yield _SubjectRecords(Subject(*row[:7]), row[7])


def _done(own: Any, kind: str, joined: FromClause, of_subject: ColumnElement[bool]) -> ScalarSelect[str]:
    """What is there of a subject, as one text: JSON arrays of procedure, validity and status code, between commas."""
    # MySQL would hand out joined JSON as bytes.
    each = cast(func.json_array(own.procedure_id, own.validity, STATUS_CODE.c.code), String)
    with_codes = joined.outerjoin(STATUS_CODE, and_(STATUS_CODE.c.owner_kind == kind, STATUS_CODE.c.owner_id == own.id))
    return (
        select(func.group_concat(each.distinct()))
        .select_from(with_codes)
        .where(of_subject, own.is_current, own.procedure_id.is_not(None))
        .scalar_subquery()
    )


def _chosen(criteria: DeliveryCriteria) -> list[ColumnElement[bool]]:
    return equal((SPECIMEN.c.centre, criteria.centre), (SPECIMEN.c.pipeline, criteria.pipeline))
