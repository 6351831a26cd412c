"""What was found sound: an element like one that no rule objected to need not be looked at again.

Documents say the same things over and over, above all metadata; and where IMPReSS wants a number and any will do, all
numbers are alike. `SHAPES` say what of an element the rules that are registered as `local` may look at, beside the
definitions of IMPReSS: elements of one shape are alike to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, Final

from dcc_resources.qc_database.contents import (
    Metadata,
    OntologyParameter,
    Procedure,
    SeriesParameter,
    SeriesValue,
    SimpleParameter,
)
from dcc_resources.reference_data.impress import Parameter, ValueType

Shape = tuple[Any, ...]

MOST: Final = 4_000_000
"""Characters of all shapes that are remembered, each of which counts for 100 more."""
LONGEST: Final = 4_000
"""Characters of a shape that is remembered."""

_EACH: Final = 100

_all_but_line = itemgetter(slice(1, None))
_increment = attrgetter("increment")
_name_and_sequence = itemgetter(1, 2)


def _of_series(series: SeriesParameter) -> Shape:
    return (*series[1:4], tuple(map(_increment, series.values)), series.status)


def _of_procedure(procedure: Procedure) -> Shape | None:
    if procedure.media or procedure.media_samples or procedure.series_media:
        return None
    parameters = chain(procedure.simple, procedure.ontology, procedure.series, procedure.metadata)
    return tuple(map(_name_and_sequence, parameters))


SHAPES: Final[dict[type, Callable[[Any], Shape | None]]] = {
    SimpleParameter: _all_but_line,
    OntologyParameter: _all_but_line,
    Metadata: _all_but_line,
    SeriesValue: _all_but_line,
    SeriesParameter: _of_series,
    Procedure: _of_procedure,
}
"""By kinds of elements, what tells those apart that are not alike; None of one that is like no other.

All but the line; of a series the increments of its values and not these; of a procedure without media the identifiers
and sequenceIDs of its parameters.
"""


_PLACES: Final[dict[type, int]] = {SimpleParameter: 3, Metadata: 3, SeriesValue: 2}
"""Where a shape has the value."""
_NUMBER: Final = "\0"
"""Stands for any number; no document has such a text."""
_is_plain_number = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?").fullmatch


def with_any_number(kind: type, shape: Shape) -> Shape | None:
    """The shape of elements of a kind that differ from one in no more than its value, a number; None if it has none."""
    place = _PLACES.get(kind)
    if place is None:
        return None
    value = shape[place]
    if value is None or _is_plain_number(value) is None:
        return None
    return (*shape[:place], _NUMBER, *shape[place + 1 :])


def takes_any_number(definition: Parameter) -> bool:
    """Whether a value has to be a number and may be any."""
    has_range = definition.qc_minimum is not None or definition.qc_maximum is not None
    return definition.value_type == ValueType.FLOAT and not definition.options and not has_range


class Sound:
    """The shapes of elements that were found sound by one set of rules, going by one set of reference data."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[type, int], set[Shape]] = {}
        self._held = 0

    def of(self, kind: type, definition: object) -> set[Shape]:
        """The shapes of a kind of element, within what IMPReSS defines so; the set follows what is added later."""
        # Definitions are there for as long as the reference data are.
        key = (kind, id(definition))
        shapes = self._shapes.get(key)
        if shapes is None:
            shapes = self._shapes[key] = set()
        return shapes

    def add(self, shapes: set[Shape], shape: Shape | None) -> None:
        """Remember a shape among those of a kind, unless it is long; when there are too many, all are forgotten."""
        length = LONGEST if shape is None else _length(shape)
        if shape is None or length >= LONGEST:
            return
        self._held += length + _EACH
        if self._held > MOST:
            for known in self._shapes.values():
                known.clear()
            self._held = length + _EACH
        shapes.add(shape)


def _length(shape: Shape) -> int:
    """The characters of a shape and of the lists in it."""
    length = 0
    for part in shape:
        if part is not None:
            length += _length(part) if type(part) is tuple else len(part)
    return length
