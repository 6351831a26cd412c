"""Accepted elements: one that is like an element to which no rule objected needs no second check.

Documents repeat themselves, above all in metadata; and if IMPReSS wants any number, all numbers are alike. `SHAPES` are
the parts of an element that a rule which `depends_on_shape_only` may use, besides the definitions of IMPReSS. Elements
of one shape are alike to these rules.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, Final

from dcc.documents.contents import Metadata, OntologyParameter, Procedure, SeriesParameter, SeriesValue, SimpleParameter
from dcc.reference.impress import Parameter, ValueType
from dcc.reference.loading import ReferenceData
from dcc.rules.elements import has_media
from dcc.rules.registry import RulesByKind

Shape = tuple[Any, ...]

MOST: Final = 4_000_000
"""The most characters of all remembered shapes, each of which counts for 100 more."""
LONGEST: Final = 4_000
"""The most characters of one remembered shape."""

_EACH: Final = 100

_all_but_line = itemgetter(slice(1, None))
_increment = attrgetter("increment")
_name_and_sequence = attrgetter("parameter_id", "sequence_id")
_name_sequence_and_unit = attrgetter("parameter_id", "sequence_id", "unit")


def _of_series(series: SeriesParameter) -> Shape:
    return (*_name_sequence_and_unit(series), tuple(map(_increment, series.values)), series.status)


def _of_procedure(procedure: Procedure) -> Shape | None:
    if has_media(procedure):
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
"""The shape of an element by its kind: elements with the same shape are alike; None if it is like no other.

Everything but the line; of a series the increments of its values and not these; of a procedure without media the
identifiers and sequenceIDs of its parameters.
"""

_ALL_BUT_VALUES: Final[dict[type, Callable[[Any], Shape]]] = {
    SimpleParameter: attrgetter("parameter_id", "sequence_id", "unit", "status"),
    Metadata: attrgetter("parameter_id", "sequence_id", "status"),
    SeriesValue: attrgetter("increment", "increment_status"),
}
"""The shape without the value, for the kinds with one value."""
_is_plain_number = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?").fullmatch


def with_any_number(element: Any) -> Shape | None:
    """A shape for all elements that differ only in their value, a number; None if this one has none.

    It is shorter than other shapes by the value, so that it equals none of them.
    """
    all_but_value = _ALL_BUT_VALUES.get(type(element))
    if all_but_value is None or element.value is None or _is_plain_number(element.value) is None:
        return None
    return all_but_value(element)


def takes_any_number(definition: Parameter) -> bool:
    """Whether a value must be a number and may be any."""
    has_range = definition.qc_minimum is not None or definition.qc_maximum is not None
    return definition.value_type == ValueType.FLOAT and not definition.options and not has_range


class AcceptedElements:
    """The shapes of elements that one set of rules accepted, under one set of reference data.

    They are accepted under the `id` of a definition of IMPReSS, which lives as long as the reference data.
    """

    def __init__(self) -> None:
        self._shapes: dict[tuple[type, int], set[Shape]] = defaultdict(set)
        self._held = 0
        self._rules: RulesByKind | None = None

    def rules(self, reference: ReferenceData, without: Collection[str]) -> RulesByKind:
        """The rules without those in `without`, under these reference data.

        Shapes that were accepted under others are forgotten.
        """
        rules = self._rules
        if rules is None or rules.reference is not reference or rules.without != without:
            rules = self._rules = RulesByKind(reference, without)
            self._forget()
        return rules

    def knows(self, element: Any, definition_id: int) -> bool:
        """Whether an element is like one that was accepted under a definition."""
        kind = type(element)
        shape_of = SHAPES.get(kind)
        if shape_of is None:
            return False
        known = self._shapes[kind, definition_id]
        return shape_of(element) in known or with_any_number(element) in known

    def remember(self, element: Any, definition_id: int, *others: type, parameter: Parameter | None = None) -> None:
        """Remember that no rule objected to an element, if all rules depend only on its shape, and none is left out.

        `others` are the kinds of things whose rules were asked too; `parameter` is the definition of the element's. If
        there are too many shapes, all are forgotten; long ones are not remembered.
        """
        kind = type(element)
        rules = [self._rules.of(each) for each in (kind, *others)] if self._rules is not None else []
        if kind not in SHAPES or not all(one.depend_on_shape_only and not one.missing for one in rules):
            return
        shape = None
        if parameter is not None and takes_any_number(parameter) and all(one.any_number_passes for one in rules):
            shape = with_any_number(element)
        shape = shape or SHAPES[kind](element)
        if shape is None or (length := _length(shape)) >= LONGEST:
            return
        self._held += length + _EACH
        if self._held > MOST:
            self._forget()
        self._shapes[kind, definition_id].add(shape)

    def _forget(self) -> None:
        self._shapes.clear()
        self._held = 0

    def __reduce__(self) -> tuple[type[AcceptedElements], tuple[()]]:
        # Definitions have other ids in another process.
        return AcceptedElements, ()


def _length(shape: Shape) -> int:
    """The characters of a shape and of the lists in it."""
    return sum(_length(part) if isinstance(part, tuple) else len(part or "") for part in shape)
