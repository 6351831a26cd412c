"""The values of one parameter that a picture is made of: of a centre, of a submission, and of other centres."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from dcc.errors import NotFoundError
from dcc.outcomes import ZipKey
from dcc.reports.plots.outliers import Numbers, numbers_of
from dcc.reports.plots.samples import (
    MOST_VALUES,
    Parameter,
    Sample,
    Value,
    centres_with,
    documents_of,
    parameter_named,
    sample_of_centre,
    sample_of_documents,
)

LEAST_OF_OTHERS: Final = 500
"""Values that are taken of each other centre, however many there are."""

_NONE: Final = Sample((), 0, True)


@dataclass(frozen=True, slots=True)
class Values:
    """Values of a centre, or of a part of them: those that were there, and those that a submission brought."""

    earlier: list[Value]
    new: list[Value]

    @property
    def numbers(self) -> Numbers:
        """All of them."""
        return numbers_of([value.number for value in (*self.earlier, *self.new)])


@dataclass(frozen=True, slots=True)
class Taken:
    """Values in one `unit`, of a centre and, by their names, of others.

    `other_units` tells how many values are left out, by their unit. `of` is how many measurements there are where these
    are a sample of them, else None. `key` is the submission that new values are of, if any.
    """

    parameter: Parameter
    centre: str
    key: ZipKey | None
    unit: str
    own: Values
    others: Mapping[str, Values]
    other_units: Mapping[str, int]
    of: int | None

    @property
    def drawn(self) -> int:
        """How many values there are."""
        return sum(len(values.earlier) + len(values.new) for values in (self.own, *self.others.values()))


def take(
    qc: Connection,
    parameter: Parameter,
    centre: str,
    key: ZipKey | None,
    *,
    with_others: bool,
    most: int = MOST_VALUES,
) -> Taken | None:
    """Values of a parameter at a centre, new ones those of the zip action; None where the centre has no number.

    Earlier ones are those of documents that were applied before the last one of the zip action.

    The unit is that of most new values, or of most others where none is new. Taken are about `most` values of the
    centre, as many new ones, and as many of other centres together, but 500 of each if it has these.
    """
    documents = documents_of(qc, key) if key is not None else []
    new = sample_of_documents(qc, parameter.parameter_id, documents, most=most) if documents else _NONE
    names = [name for name in centres_with(qc, parameter.parameter_id) if name != centre] if with_others else []
    share = max(most // max(len(names), 1), LEAST_OF_OTHERS)
    own, *others = (
        sample_of_centre(qc, parameter.parameter_id, name, before=documents, most=most if name == centre else share)
        for name in (centre, *names)
    )
    unit = _usual_unit(new.values or own.values)
    if unit is None:
        return None
    everything = [own, new, *others]
    return Taken(
        parameter,
        centre,
        key,
        unit,
        Values(_of_unit(own, unit), _of_unit(new, unit)),
        {name: Values(_of_unit(sample, unit), []) for name, sample in zip(names, others, strict=True)},
        _other_units(everything, unit),
        None if all(each.is_whole for each in everything) else sum(each.of for each in (own, *others)),
    )


def require(
    qc: Connection, parameter_id: str, centre: str, key: ZipKey | None, *, with_others: bool, most: int
) -> Taken:
    """As `take`, of a parameter by its key. Raises NotFoundError where there is no number to draw."""
    parameter = parameter_named(qc, parameter_id)
    taken = None if parameter is None else take(qc, parameter, centre, key, with_others=with_others, most=most)
    if taken is None:
        raise NotFoundError(
            f"Centre {centre} has no current, valid number of parameter {parameter_id}. "
            f"See `dcc qc contexts --centre {centre}` for what there is."
        )
    return taken


def _usual_unit(values: Sequence[Value]) -> str | None:
    """The unit that most values have; of several, the first by the alphabet; None where there are no values."""
    numbers = Counter(value.unit for value in values)
    return min(numbers, key=lambda unit: (-numbers[unit], unit)) if numbers else None


def _other_units(samples: Iterable[Sample], unit: str) -> dict[str, int]:
    numbers = Counter(value.unit for sample in samples for value in sample.values if value.unit != unit)
    return dict(sorted(numbers.items(), key=lambda item: (-item[1], item[0])))


def _of_unit(sample: Sample, unit: str) -> list[Value]:
    return [value for value in sample.values if value.unit == unit]
