"""Measurements of one parameter for a picture: a bounded number of rows, the same ones whenever they are asked for.

What is drawn is what the view `current_measurement` shows with `is_valid` and a number. Of a parameter with more
measurements at a centre than are drawn, those are taken whose ids come first in an order that has nothing to do with
them (their product with a large number, modulo a prime): the database tells that from an index, without looking at the
rows that are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select, true

from dcc.databases.list_parameters import as_json, numbers_in, only_compared
from dcc.errors import NotFoundError
from dcc.outcomes import ZipKey
from dcc.qc.apply.versions import same_text
from dcc.qc.models import (
    Document,
    Experiment,
    Housing,
    ImpressParameter,
    Line,
    Measurement,
    ProcedureRun,
    ReferenceSnapshot,
    Specimen,
)
from dcc.vocabulary import EntityKind, MeasurementType, Validity

MOST_VALUES: Final = 20_000
"""Measurements of a parameter at one centre, or in one submission, that a picture is made of."""

_PRIME: Final = 4_294_967_291
_FACTOR: Final = 1_597_334_677
"""Products of the two stay below 2**63, the largest whole number of databases."""

_MEASUREMENT: Final = Measurement.__table__
_RUN: Final = ProcedureRun.__table__
_SPECIMEN: Final = Specimen.__table__
_DOCUMENT: Final = Document.__table__
_OWNERS: Final = {
    EntityKind.EXPERIMENT: Experiment.__table__,
    EntityKind.LINE: Line.__table__,
    EntityKind.HOUSING: Housing.__table__,
}


class Value(NamedTuple):
    """A measurement, and whom it was made on; `gender`, `zygosity` and `specimen_id` are None where not of one animal.

    `increment` is None but in a series, in which `item` is its place.
    """

    id: int
    number: float
    unit: str
    gender: str | None
    zygosity: str | None
    specimen_id: str | None
    run: int
    increment: str | None
    item: int | None


@dataclass(frozen=True, slots=True)
class Sample:
    """Measurements that were taken, in the order of their ids, and of how many that may be drawn or not."""

    values: tuple[Value, ...]
    of: int
    is_whole: bool


class Parameter(NamedTuple):
    """A parameter as IMPReSS calls it; `name` is its key where IMPReSS has no name. `type`: `MeasurementType`."""

    parameter_id: str
    name: str
    type: str


def scattered(number: int) -> int:
    """A number below 2**32 that depends on an id and looks like chance."""
    return number % _PRIME * _FACTOR % _PRIME


def documents_of(connection: Connection, key: ZipKey) -> list[int]:
    """The ids of the documents of a zip action in the QC database."""
    wanted = (_DOCUMENT.c.zip_file == key.file_name) & (_DOCUMENT.c.zip_action == key.action.value)
    rows = connection.scalars(select(_DOCUMENT.c.id).where(wanted).order_by(_DOCUMENT.c.id))
    return [int(row) for row in rows]


def require_brought(connection: Connection, key: ZipKey) -> None:
    """Raise NotFoundError unless documents of a zip action came to the QC database."""
    if not documents_of(connection, key):
        raise NotFoundError(
            f"Nothing of {key} has come to the QC database. See `dcc report {key}` for what became of it, or correct "
            "the name."
        )


def parameter_named(connection: Connection, parameter_id: str) -> Parameter | None:
    """A parameter that there are measurements of; None where there are none."""
    kind = connection.scalar(select(_MEASUREMENT.c.type).where(_MEASUREMENT.c.parameter_id == parameter_id).limit(1))
    if kind is None:
        return None
    known, snapshot = ImpressParameter.__table__.c, ReferenceSnapshot.__table__.c
    active = select(snapshot.id).where(snapshot.name == "impress", snapshot.is_active)
    named = select(func.min(known.name)).where(known.snapshot_id.in_(active), known.parameter_id == parameter_id)
    return Parameter(parameter_id, connection.scalar(named) or parameter_id, kind)


def centres_with(connection: Connection, parameter_id: str) -> dict[str, int]:
    """The centres with measurements of a parameter, and how many, whether they are current and valid or not."""
    own = _MEASUREMENT.c
    statement = select(own.centre, func.count()).where(own.parameter_id == parameter_id).group_by(own.centre)
    numbers: Counter[str] = Counter()
    for centre, number in connection.execute(statement.order_by(own.centre)):
        numbers[centre.rstrip(" ")] += number
    return dict(numbers)


def sample_of_centre(
    connection: Connection,
    parameter_id: str,
    centre: str,
    *,
    before: Collection[int] = (),
    most: int = MOST_VALUES,
) -> Sample:
    """Measurements of a parameter at a centre; of documents applied before the last of those given, and not of these.

    `most` of them or a few more; all that there are, whoever brought them, where no documents are given.
    """
    own = _MEASUREMENT.c
    of_centre = (own.parameter_id == parameter_id) & (own.centre == centre)
    there = connection.scalar(select(func.count()).select_from(_MEASUREMENT).where(of_centre)) or 0
    left_out = set(before)
    wanted = _values(of_centre & _share(there, most)).add_columns(_RUN.c.document_id)
    rows = connection.execute(wanted.where(_RUN.c.document_id < max(before)) if before else wanted)
    kept = (Value(*row[:-1]) for row in rows if row[-1] not in left_out)
    return _sampled(kept, there, most)


def sample_of_documents(
    connection: Connection, parameter_id: str, documents: Collection[int], *, most: int = MOST_VALUES
) -> Sample:
    """Measurements of a parameter that these documents brought; `most` or a few more."""
    # The runs of the documents are looked up, not all measurements of the parameter.
    there = _RUN.c.document_id.in_(numbers_in("documents")) & (
        only_compared(_MEASUREMENT.c.parameter_id) == parameter_id
    )
    given = {"documents": as_json(documents)}
    joined = _MEASUREMENT.join(_RUN, _RUN.c.id == _MEASUREMENT.c.procedure_run_id)
    number = connection.scalar(select(func.count()).select_from(joined).where(there), given) or 0
    rows = connection.execute(_values(there & _share(number, most)), given)
    return _sampled((Value(*row) for row in rows), number, most)


def _sampled(rows: Iterable[Value], there: int, most: int) -> Sample:
    values = sorted(islice(rows, 2 * most))
    return Sample(tuple(values), there, there <= most)


def _share(there: int, most: int) -> ColumnElement[bool]:
    """The condition that about `most` of so many measurements fulfil, by their ids alone."""
    if there <= most:
        return true()
    return _MEASUREMENT.c.id % _PRIME * _FACTOR % _PRIME < int(_PRIME * most / there)


def _values(wanted: ColumnElement[bool]) -> Select[Any]:
    """The query for the columns of `Value`, of current, valid measurements with a number."""
    own = _MEASUREMENT.c
    statement = (
        select(
            own.id,
            own.number,
            func.coalesce(own.unit, ""),
            _SPECIMEN.c.gender,
            _SPECIMEN.c.zygosity,
            own.specimen_id,
            own.procedure_run_id,
            own.increment,
            own.item,
        )
        .select_from(_MEASUREMENT)
        .join(_RUN, _RUN.c.id == own.procedure_run_id)
    )
    for kind, table in _OWNERS.items():
        statement = statement.outerjoin(table, and_(_RUN.c.owner_kind == kind.value, table.c.id == _RUN.c.owner_id))
    same_animal = (_SPECIMEN.c.centre == own.centre) & same_text(_SPECIMEN.c.specimen_id, own.specimen_id)
    statement = statement.outerjoin(_SPECIMEN, same_animal & _SPECIMEN.c.is_current)
    owners = _OWNERS.values()
    return statement.where(
        wanted,
        own.number.is_not(None),
        func.coalesce(*(owner.c.is_current for owner in owners)) == 1,
        func.coalesce(*(owner.c.validity for owner in owners)) == Validity.VALID,
    )


def is_series(parameter: Parameter) -> bool:
    """Whether a parameter's values are those of a series."""
    return parameter.type == MeasurementType.SERIES.value
