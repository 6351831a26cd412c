"""Which animals and colonies lack which procedures that their pipeline asks for at their age.

IMPReSS says which procedures of a pipeline are mandatory, and at which age or embryonic stage they are due. A procedure
counts whatever its version is: IMPC_CBC_001 is what IMPC_CBC_003 asks for. A procedure on a line is due when the first
mutant animal of the colony has the age.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from typing import Any, Final

from sqlalchemy import (
    Case,
    ColumnElement,
    Connection,
    Select,
    Subquery,
    and_,
    case,
    exists,
    false,
    func,
    literal,
    null,
    or_,
    select,
)

from dcc.qc.models import (
    Experiment,
    ExperimentSpecimen,
    ImpressProcedure,
    Line,
    ReferenceSnapshot,
    Specimen,
    StatusCodeRow,
)
from dcc.reference.impress import Impress
from dcc.vocabulary import Validity

_SPECIMEN: Final = Specimen.__table__.c
_EXPERIMENT: Final = Experiment.__table__.c
_ANIMAL: Final = ExperimentSpecimen.__table__.c
_LINE: Final = Line.__table__.c
_STATUS: Final = StatusCodeRow.__table__.c
_PROCEDURE: Final = ImpressProcedure.__table__.c
_SNAPSHOT: Final = ReferenceSnapshot.__table__.c
_VERSION: Final = len("_001")
_DAYS: Final = 7


class Delivery(IntEnum):
    """What is there of a procedure that is due, the best first.

    A status code of the experiment, line or animal is a reason why there are no data.
    """

    DELIVERED = 1
    INVALID = 2
    EXPLAINED = 3
    MISSING = 4


@dataclass(frozen=True, slots=True)
class Expected:
    """Selects animals and colonies: of a centre, of a pipeline; `day` is the one on which their age counts."""

    day: date
    centre: str | None = None
    pipeline: str | None = None


@dataclass(frozen=True, slots=True)
class ProcedureDeliveries:
    """Of how many animals (or colonies, `level` line) a centre delivered a procedure that is due.

    `procedure` is the newest key in use. `due` is an age ("16 weeks") or an embryonic stage.
    """

    centre: str
    pipeline: str
    procedure: str
    name: str
    level: str
    due: str
    delivered: int
    invalid: int
    explained: int
    missing: int

    @property
    def expected(self) -> int:
        """Of how many it is due."""
        return self.delivered + self.invalid + self.explained + self.missing


@dataclass(frozen=True, slots=True)
class LackingProcedure:
    """A procedure of which an animal or a colony (`level` line) has no valid data, and what there is instead."""

    centre: str
    pipeline: str
    procedure: str
    level: str
    due: str
    specimen: str | None
    colony: str | None
    born: date | None
    stage: str | None
    state: Delivery
    status_code: str | None


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Current animals of a centre and pipeline about which nothing can be said, because IMPReSS names no due ages.

    `stages` counts the embryos whose stages IMPReSS does not know, in pipelines that it does.
    """

    centre: str
    pipeline: str
    specimens: int


def count_deliveries(connection: Connection, wanted: Expected) -> list[ProcedureDeliveries]:
    """The numbers of each centre, pipeline and procedure; nothing without IMPReSS, or without due ages in it."""
    found = []
    for pairs in _pairs(connection, wanted):
        keys = (pairs.c.centre, pairs.c.pipeline, pairs.c.procedure, pairs.c.name, pairs.c.level)
        due = (pairs.c.weeks, pairs.c.due_stage)
        numbers = [func.sum(case((pairs.c.state == state, 1), else_=0)) for state in Delivery]
        query = select(*keys, *due, *numbers).group_by(*keys, *due)
        for row in connection.execute(query):
            delivered, invalid, explained, missing = map(int, row[7:])
            found.append(
                ProcedureDeliveries(
                    row.centre,
                    row.pipeline,
                    row.procedure,
                    row.name or "",
                    row.level,
                    _due(row.weeks, row.due_stage),
                    delivered,
                    invalid,
                    explained,
                    missing,
                )
            )
    return sorted(found, key=lambda one: (one.centre, one.pipeline, one.procedure, one.level))


def lacking_procedures(connection: Connection, wanted: Expected) -> Iterator[LackingProcedure]:
    """Each animal or colony with each procedure of which it has no valid data, by centre, pipeline and procedure."""
    for pairs in _pairs(connection, wanted):
        each = pairs.c
        query = (
            select(
                each.centre,
                each.pipeline,
                each.procedure,
                each.level,
                each.weeks,
                each.due_stage,
                each.specimen_id,
                each.colony_id,
                each.dob,
                each.stage,
                each.state,
                each.status_code,
            )
            .where(each.state > Delivery.DELIVERED)
            .order_by(each.centre, each.pipeline, each.procedure, each.colony_id, each.specimen_id)
        )
        for row in connection.execution_options(yield_per=10_000).execute(query):
            yield LackingProcedure(*row[:4], _due(*row[4:6]), *row[6:10], Delivery(row[10]), row[11])


def uncovered_specimens(connection: Connection, wanted: Expected) -> list[Uncovered]:
    """Current animals of pipelines, or embryos of stages, for which IMPReSS names nothing that is due."""
    asked = _asked(wanted).subquery("asked")
    own = _SPECIMEN
    of_kind = or_(
        and_(own.kind == "mouse", asked.c.weeks.is_not(None), own.dob.is_not(None)),
        and_(own.kind == "embryo", _is_stage(asked.c.stage)),
    )
    query = (
        select(own.centre, own.pipeline, func.count())
        .where(own.is_current, *_chosen(own, wanted), ~exists().where(asked.c.pipeline == own.pipeline, of_kind))
        .group_by(own.centre, own.pipeline)
        .order_by(own.centre, own.pipeline)
    )
    return [Uncovered(*row) for row in connection.execute(query)]


def _due(weeks: float | None, stage: str | None) -> str:
    return stage or "" if weeks is None else f"{weeks:g} weeks"


def _asked(wanted: Expected) -> Select[Any]:
    """The mandatory procedures of IMPReSS that are due at some time, the versions of one as one."""
    own = _PROCEDURE
    active = select(func.max(_SNAPSHOT.id)).where(_SNAPSHOT.name == Impress.NAME, _SNAPSHOT.is_active)
    level = case((own.level == "line", "line"), else_="experiment")
    stem = _stem(own.procedure_id)
    conditions = [own.pipeline == wanted.pipeline] if wanted.pipeline else []
    return (
        select(
            own.pipeline,
            stem.label("stem"),
            level.label("level"),
            own.stage,
            func.max(own.procedure_id).label("procedure"),
            func.max(own.name).label("name"),
            func.min(own.weeks).label("weeks"),
        )
        .where(
            own.snapshot_id == active.scalar_subquery(),
            own.is_active,
            own.is_mandatory,
            or_(own.weeks.is_not(None), own.stage.is_not(None)),
            func.coalesce(own.level, "") != "housing",
            *conditions,
        )
        .group_by(own.pipeline, stem, level, own.stage)
    )


def _pairs(connection: Connection, wanted: Expected) -> tuple[Subquery, Subquery]:
    """Each animal, and each colony, with each procedure that is due, and its `Delivery`."""
    asked = _asked(wanted).subquery("asked")
    return _animal_pairs(connection, wanted, asked), _colony_pairs(connection, wanted, asked)


def _animal_pairs(connection: Connection, wanted: Expected, asked: Subquery) -> Subquery:
    own, done = _SPECIMEN, _done_on_animals(wanted)
    is_due = or_(
        and_(own.kind == "mouse", _age_in_days(connection, own.dob, wanted.day) >= asked.c.weeks * _DAYS),
        and_(own.kind == "embryo", _is_stage(asked.c.stage)),
    )
    state = func.coalesce(
        done.c.state, case((own.status_code.is_not(None), Delivery.EXPLAINED), else_=Delivery.MISSING)
    )
    return (
        _paired(own.centre, own.specimen_id, own.colony_id, own.dob, own.stage, asked=asked)
        .add_columns(state.label("state"), func.coalesce(done.c.code, own.status_code).label("status_code"))
        .select_from(Specimen.__table__)
        .join(asked, and_(asked.c.pipeline == own.pipeline, asked.c.level == "experiment", is_due))
        .outerjoin(
            done,
            and_(done.c.centre == own.centre, done.c.specimen_id == own.specimen_id, done.c.stem == asked.c.stem),
        )
        .where(own.is_current, *_chosen(own, wanted))
        .subquery("pairs")
    )


def _colony_pairs(connection: Connection, wanted: Expected, asked: Subquery) -> Subquery:
    own = _SPECIMEN
    colony = (
        select(own.centre, own.pipeline, own.colony_id, func.min(own.dob).label("dob"))
        .where(own.is_current, own.is_baseline == false(), own.colony_id.is_not(None), own.dob.is_not(None))
        .where(*_chosen(own, wanted))
        .group_by(own.centre, own.pipeline, own.colony_id)
        .subquery("colony")
    )
    stem, codes = _stem(_LINE.procedure_id), _codes_of("line")
    done = (
        select(_LINE.centre, _LINE.colony_id, stem.label("stem"), *_state_of(_LINE, codes))
        .outerjoin(codes, codes.c.owner_id == _LINE.id)
        .where(_LINE.is_current, _LINE.procedure_id.is_not(None))
        .group_by(_LINE.centre, _LINE.colony_id, stem)
        .subquery("done")
    )
    is_due = _age_in_days(connection, colony.c.dob, wanted.day) >= asked.c.weeks * _DAYS
    return (
        _paired(colony.c.centre, null(), colony.c.colony_id, colony.c.dob, null(), asked=asked)
        .add_columns(func.coalesce(done.c.state, Delivery.MISSING).label("state"), done.c.code.label("status_code"))
        .select_from(colony)
        .join(asked, and_(asked.c.pipeline == colony.c.pipeline, asked.c.level == "line", is_due))
        .outerjoin(
            done,
            and_(
                done.c.centre == colony.c.centre,
                done.c.colony_id == colony.c.colony_id,
                done.c.stem == asked.c.stem,
            ),
        )
        .subquery("pairs")
    )


def _paired(
    centre: ColumnElement[Any],
    specimen: ColumnElement[Any],
    colony: ColumnElement[Any],
    dob: ColumnElement[Any],
    stage: ColumnElement[Any],
    *,
    asked: Subquery,
) -> Select[Any]:
    return select(
        centre.label("centre"),
        asked.c.pipeline.label("pipeline"),
        asked.c.procedure.label("procedure"),
        asked.c.name.label("name"),
        asked.c.level.label("level"),
        asked.c.weeks.label("weeks"),
        asked.c.stage.label("due_stage"),
        specimen.label("specimen_id"),
        colony.label("colony_id"),
        dob.label("dob"),
        stage.label("stage"),
    )


def _done_on_animals(wanted: Expected) -> Subquery:
    stem = _stem(_EXPERIMENT.procedure_id)
    of_centre = [_EXPERIMENT.centre == wanted.centre] if wanted.centre else []
    codes = _codes_of("experiment")
    return (
        select(_EXPERIMENT.centre, _ANIMAL.specimen_id, stem.label("stem"), *_state_of(_EXPERIMENT, codes))
        .join(ExperimentSpecimen.__table__, _ANIMAL.experiment_row == _EXPERIMENT.id)
        .outerjoin(codes, codes.c.owner_id == _EXPERIMENT.id)
        .where(_EXPERIMENT.is_current, _EXPERIMENT.procedure_id.is_not(None), *of_centre)
        .group_by(_EXPERIMENT.centre, _ANIMAL.specimen_id, stem)
        .subquery("done")
    )


def _state_of(own: Any, codes: Subquery) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """The best `Delivery` of a group of experiments or lines, and a status code of them."""
    code = codes.c.code
    invalid = own.validity.in_([Validity.INVALID, Validity.INVALID_ANIMAL])
    state: Case[int] = case(
        (code.is_not(None), Delivery.EXPLAINED), (invalid, Delivery.INVALID), else_=Delivery.DELIVERED
    )
    return func.min(state).label("state"), func.min(code).label("code")


def _codes_of(kind: str) -> Subquery:
    """The first status code of each experiment or line that has one."""
    of_kind = select(_STATUS.owner_id, func.min(_STATUS.code).label("code")).where(_STATUS.owner_kind == kind)
    return of_kind.group_by(_STATUS.owner_id).subquery("codes")


def _chosen(own: Any, wanted: Expected) -> list[ColumnElement[bool]]:
    given = ((own.centre, wanted.centre), (own.pipeline, wanted.pipeline))
    return [column == value for column, value in given if value is not None]


def _stem(procedure_id: ColumnElement[Any]) -> ColumnElement[str]:
    """A procedure's key without its version."""
    return func.substr(procedure_id, 1, func.length(procedure_id) - _VERSION)


def _is_stage(asked: ColumnElement[Any]) -> ColumnElement[bool]:
    return and_(_SPECIMEN.stage_unit == "DPC", asked == literal("E").concat(_SPECIMEN.stage))


def _age_in_days(connection: Connection, dob: ColumnElement[Any], day: date) -> ColumnElement[Any]:
    text = literal(day.isoformat())
    if connection.dialect.name == "sqlite":
        return func.julianday(text) - func.julianday(dob)
    return func.datediff(text, dob)
