"""The values that a picture of a parameter is made of, and the rule that marks outliers (Tukey's outer fences).

Only rows of `current_measurement` with `is_valid` and a number are drawn. Of a parameter with more measurements at a
centre than a picture holds, a sample is drawn. It is always the same: those whose ids come first when multiplied with a
large number, modulo a prime. The database tells that from an index, without reading the other rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, Select, and_, func, select, true

from dcc.databases.list_parameters import as_json, numbers_in, only_compared
from dcc.errors import NotFoundError
from dcc.outcomes import SubmissionKey
from dcc.qc.apply.versions import same_animal
from dcc.qc.models import DOCUMENT, EXPERIMENT, HOUSING, LINE, MEASUREMENT, PARAMETER, RUN, SPECIMEN
from dcc.qc.reference.snapshots import active_snapshot
from dcc.reference.impress import Impress
from dcc.vocabulary import EntityKind, MeasurementType, Validity

Numbers = NDArray[np.float64]

RANGES: Final = 3
"""A value is an outlier when it is more than so many interquartile ranges below the first or above the third quartile.

Quartiles, unlike mean and standard deviation, are not moved by a few wrong values. Of normally distributed values, one
in 425,000 is marked.
"""
LEAST_VALUES: Final = 20
"""Values that a group must have for any to be marked."""


@dataclass(frozen=True, slots=True)
class Box:
    """Quartiles of a group of `count` values, and the fences beyond which a value is an outlier.

    `low` and `high` are infinite where no value is marked: there are fewer than 20, or the quartiles are equal, so that
    any other value would be beyond them.
    """

    count: int
    first: float
    median: float
    third: float
    low: float
    high: float

    def outside(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Which of these values are outliers."""
        return (numbers < self.low) | (numbers > self.high)

    def ranges_from(self, number: float) -> float:
        """How many interquartile ranges a value is beyond the nearer quartile; 0 between them, or without a range."""
        width = self.third - self.first
        return max(self.first - number, number - self.third, 0.0) / width if width > 0 else 0.0


def box_of(numbers: Numbers) -> Box | None:
    """The box of a group; None where it has no values."""
    if not numbers.size:
        return None
    first, median, third = (float(each) for each in np.quantile(numbers, [0.25, 0.5, 0.75]))
    width = third - first
    marked = numbers.size >= LEAST_VALUES and width > 0
    low, high = (first - RANGES * width, third + RANGES * width) if marked else (-np.inf, np.inf)
    return Box(int(numbers.size), first, median, third, low, high)


def judging_box(*candidates: Numbers) -> Box | None:
    """The box that values are judged by: that of the first of these sets of values that has enough, 20.

    Without such a set, that of the last of them, by which none is marked. None where that has no values.
    """
    return box_of(next((numbers for numbers in candidates if numbers.size >= LEAST_VALUES), candidates[-1]))


def numbers_of(numbers: Any) -> Numbers:
    """Numbers as an array; beyond 1e100, which nothing measures and sums of which overflow, they are 1e100."""
    return np.clip(np.asarray(numbers, dtype=np.float64), -1e100, 1e100)


MAX_VALUES: Final = 20_000
"""Measurements of a parameter at one centre, or in one submission, that a picture is made of."""

_PRIME: Final = 4_294_967_291
_FACTOR: Final = 1_597_334_677
"""Products of the two stay below 2**63, the largest whole number of databases."""

_OWNERS: Final = {
    EntityKind.EXPERIMENT: EXPERIMENT,
    EntityKind.LINE: LINE,
    EntityKind.HOUSING: HOUSING,
}


class Value(NamedTuple):
    """A measurement, and whom it was made on; `gender`, `zygosity` and `specimen_id` are None where not of one animal.

    `increment` is None but in a series, in which `item` is its place. `is_new`: the drawn submission brought it.
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
    centre: str = ""
    is_new: bool = False


_Sample = tuple[list[Value], int, bool]
"""Measurements in the order of their ids, of about how many that may be drawn, and whether these are all."""


class Parameter(NamedTuple):
    """A parameter as IMPReSS calls it; `name` is its key where IMPReSS has no name. `type`: `MeasurementType`."""

    parameter_id: str
    name: str
    type: str

    @property
    def is_series(self) -> bool:
        """Whether its values are those of a series."""
        return self.type == MeasurementType.SERIES


def pseudo_random(number: int) -> int:
    """A number below 2**32 that depends on an id and looks like chance."""
    return number % _PRIME * _FACTOR % _PRIME


def documents_of(connection: Connection, key: SubmissionKey) -> list[int]:
    """The ids of the documents of a submission in the QC database."""
    wanted = (DOCUMENT.c.zip_file == key.file_name) & (DOCUMENT.c.zip_action == key.action.value)
    rows = connection.scalars(select(DOCUMENT.c.id).where(wanted).order_by(DOCUMENT.c.id))
    return [int(row) for row in rows]


def require_documents(connection: Connection, key: SubmissionKey) -> None:
    """Raise NotFoundError unless documents of a submission came to the QC database."""
    if not documents_of(connection, key):
        raise NotFoundError(
            f"Nothing of {key} has come to the QC database. See `dcc report {key}` for what became of it, or correct "
            "the name."
        )


def parameter_named(connection: Connection, parameter_id: str) -> Parameter | None:
    """A parameter that there are measurements of; None where there are none."""
    kind = connection.scalar(select(MEASUREMENT.c.type).where(MEASUREMENT.c.parameter_id == parameter_id).limit(1))
    if kind is None:
        return None
    named = select(func.min(PARAMETER.c.name)).where(
        PARAMETER.c.snapshot_id == active_snapshot(Impress.NAME), PARAMETER.c.parameter_id == parameter_id
    )
    return Parameter(parameter_id, connection.scalar(named) or parameter_id, kind)


def _of_centre(connection: Connection, parameter_id: str, centre: str, before: Collection[int], limit: int) -> _Sample:
    """Measurements of a parameter at a centre; of documents applied before the last of those given, and not of these.

    About `limit` of them; all that there are, whoever brought them, where no documents are given.
    """
    own = MEASUREMENT.c
    of_centre = (own.parameter_id == parameter_id) & (own.centre == centre)
    total = connection.scalar(select(func.count()).select_from(MEASUREMENT).where(of_centre)) or 0
    left_out = set(before)

    def drawable(share: ColumnElement[bool]) -> Iterator[Value]:
        wanted = _values(of_centre & share).add_columns(RUN.c.document_id)
        rows = connection.execute(wanted.where(RUN.c.document_id < max(before)) if before else wanted)
        return (Value._make((*row[:-1], centre, False)) for row in rows if row[-1] not in left_out)

    return _sampled(drawable, total, limit)


def _of_documents(
    connection: Connection, parameter_id: str, documents: Collection[int], centre: str, limit: int
) -> _Sample:
    """Measurements of a parameter at a centre that these documents brought; about `limit`."""
    # The runs of the documents are looked up, not all measurements of the parameter.
    condition = and_(
        RUN.c.document_id.in_(numbers_in("documents")),
        only_compared(MEASUREMENT.c.parameter_id) == parameter_id,
        only_compared(MEASUREMENT.c.centre) == centre,
    )
    given = {"documents": as_json(documents)}
    joined = MEASUREMENT.join(RUN, RUN.c.id == MEASUREMENT.c.procedure_run_id)
    number = connection.scalar(select(func.count()).select_from(joined).where(condition), given) or 0

    def drawable(share: ColumnElement[bool]) -> Iterator[Value]:
        rows = connection.execute(_values(condition & share), given)
        return (Value._make((*row, centre, True)) for row in rows)

    return _sampled(drawable, number, limit)


_MOST_READ: Final = 16
"""At most so many times as many measurements are read as are drawn, where most of them may not be drawn."""


def _sampled(drawable: Callable[[ColumnElement[bool]], Iterable[Value]], total: int, limit: int) -> _Sample:
    """About `limit` of `total` measurements; `drawable` reads those of a share that may be drawn.

    Where many may not, as those of later documents, a larger share is read.
    """
    part = limit / total if total > limit else 1.0
    last = min(_MOST_READ * part, 1.0)
    while True:
        values = sorted(islice(drawable(_share(part)), 2 * limit))
        if part >= last or len(values) >= 0.75 * limit:
            # To count exactly what may be drawn, the database would have to read all other rows.
            return values, round(len(values) / part), part >= 1
        part = min(part * limit / max(len(values), 1), last)


def _share(part: float) -> ColumnElement[bool]:
    """The condition that this part of measurements fulfils, by their ids alone."""
    if part >= 1:
        return true()
    return MEASUREMENT.c.id % _PRIME * _FACTOR % _PRIME < int(_PRIME * part)


def _values(wanted: ColumnElement[bool]) -> Select[Any]:
    """The query for the columns of `Value`, of current, valid measurements with a number."""
    own = MEASUREMENT.c
    statement = (
        select(
            own.id,
            own.number,
            func.coalesce(own.unit, ""),
            SPECIMEN.c.gender,
            SPECIMEN.c.zygosity,
            own.specimen_id,
            own.procedure_run_id,
            own.increment,
            own.item,
        )
        .select_from(MEASUREMENT)
        .join(RUN, RUN.c.id == own.procedure_run_id)
    )
    for kind, table in _OWNERS.items():
        statement = statement.outerjoin(table, and_(RUN.c.owner_kind == kind.value, table.c.id == RUN.c.owner_id))
    statement = statement.outerjoin(SPECIMEN, same_animal(MEASUREMENT, MEASUREMENT) & SPECIMEN.c.is_current)
    owners = _OWNERS.values()
    return statement.where(
        wanted,
        own.number.is_not(None),
        func.coalesce(*(owner.c.is_current for owner in owners)) == 1,
        func.coalesce(*(owner.c.validity for owner in owners)) == Validity.VALID,
    )


LEAST_OF_OTHERS: Final = 500
"""Values that are taken of each other centre, however many there are."""


@dataclass(frozen=True, slots=True)
class ParameterValues:
    """Values in one `unit`: those of a centre, of which some are new, then those of others by their names.

    `other_units` tells how many values are left out, by their unit. `of` is about how many may be drawn where these are
    a sample of them, else None. `key` is the submission that new values are of, if any.
    """

    parameter: Parameter
    centre: str
    key: SubmissionKey | None
    unit: str
    values: Sequence[Value]
    other_units: Mapping[str, int]
    of: int | None

    @property
    def own(self) -> list[Value]:
        """Those of the centre, the new ones last."""
        return [value for value in self.values if value.centre == self.centre]

    @property
    def has_new(self) -> bool:
        """Whether the submission brought any."""
        return any(value.is_new for value in self.values)


def load_values(
    qc: Connection,
    parameter: Parameter,
    centre: str,
    key: SubmissionKey | None,
    *,
    with_others: bool,
    limit: int = MAX_VALUES,
) -> ParameterValues | None:
    """Values of a parameter at a centre, new ones those of the submission; None where the centre has no number.

    Earlier ones are those of documents that were applied before the last one of the submission.

    The unit is that of most new values, or of most others where none is new. Taken are about `limit` values of the
    centre, as many new ones, and as many of other centres together, but 500 of each if it has these.
    """
    documents = documents_of(qc, key) if key is not None else []
    parameter_id = parameter.parameter_id
    samples = [_of_centre(qc, parameter_id, centre, documents, limit)]
    if documents:
        samples.append(_of_documents(qc, parameter_id, documents, centre, limit))
    numbers = Counter(value.unit for value in samples[-1][0] or samples[0][0])
    if not numbers:
        return None
    unit = min(numbers, key=lambda unit: (-numbers[unit], unit))
    names: list[str] = []
    if with_others:
        of_parameter = select(MEASUREMENT.c.centre).where(MEASUREMENT.c.parameter_id == parameter_id).distinct()
        names = sorted({name.rstrip(" ") for name in qc.scalars(of_parameter)} - {centre})
    share = max(limit // max(len(names), 1), LEAST_OF_OTHERS)
    samples += [_of_centre(qc, parameter_id, name, documents, share) for name in names]
    taken = [value for values, _, _ in samples for value in values]
    others = Counter(value.unit for value in taken if value.unit != unit)
    return ParameterValues(
        parameter,
        centre,
        key,
        unit,
        [value for value in taken if value.unit == unit],
        dict(sorted(others.items(), key=lambda item: (-item[1], item[0]))),
        None if all(is_whole for _, _, is_whole in samples) else sum(of for _, of, _ in samples),
    )
