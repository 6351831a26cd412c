"""Accepted elements: one that is like an element to which no rule objected needs no second check.

Documents repeat themselves, above all in metadata; and if IMPReSS wants any number, all numbers are alike. `SHAPES` are
the parts of an element that a rule which `depends_on_shape_only` may use, besides the definitions of IMPReSS.
`ENTITY_SHAPES` are the parts of an entity, besides the reference data, its centre and the day. Elements of one shape
are alike to these rules.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from dcc.documents.contents import (
    Entity,
    Experiment,
    Metadata,
    OntologyParameter,
    Procedure,
    SeriesParameter,
    SeriesValue,
    SimpleParameter,
    Specimen,
)
from dcc.reference.impress import Parameter, ValueType
from dcc.reference.impress import Procedure as ProcedureDefinition
from dcc.reference.loading import ReferenceData
from dcc.rules.elements import ParameterElement, ParameterUse, ProcedureUse, groups_of, has_media, key_of
from dcc.rules.registry import RulesByKind
from dcc.rules.values import is_blank

Shape = tuple[Any, ...]
Shapes = defaultdict[type, set[Shape]]
"""Shapes by the kind of element."""

MOST: Final = 4_000_000
"""The most characters of all remembered shapes, each of which counts for 100 more."""
LONGEST: Final = 4_000
"""The most characters of one remembered shape."""

_EACH: Final = 100


def _fields(kind: type[Any], *names: str) -> itemgetter[Any]:
    """Gets the fields of a named tuple by their places, which is faster than by their names."""
    return itemgetter(*map(kind._fields.index, names))


_all_but_line = itemgetter(slice(1, None))
_increment = attrgetter("increment")
_name_and_sequence = _fields(SimpleParameter, "parameter_id", "sequence_id")
_name_sequence_and_unit = _fields(SeriesParameter, "parameter_id", "sequence_id", "unit")
_gene_and_allele = attrgetter("mgi_gene_id", "mgi_allele_id")
_background_and_age = _fields(
    Specimen,
    "is_baseline",
    "zygosity",
    "pipeline",
    "phenotyping_centre",
    "project",
    "dob",
    "stage",
    "stage_unit",
    "colony_id",
    "strain_id",
    "production_centre",
)


def _of_series(series: SeriesParameter) -> Shape:
    return (*_name_sequence_and_unit(series), tuple(map(_increment, series.values)), series.status)


def _of_procedure(procedure: Procedure) -> Shape | None:
    if has_media(procedure):
        return None
    parameters = chain(procedure.simple, procedure.ontology, procedure.series, procedure.metadata)
    return tuple(map(_name_and_sequence, parameters))


def _of_specimen(specimen: Specimen) -> Shape | None:
    is_special = specimen.status_code or specimen.parental_strains or is_blank(specimen.specimen_id)
    if is_special:
        return None
    return (*_background_and_age(specimen), *map(_gene_and_allele, specimen.genotypes))


def _of_experiment(experiment: Experiment) -> Shape | None:
    return None if experiment.status_codes or experiment.procedure is None else ()


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
ENTITY_SHAPES: Final[dict[type, Callable[[Any], Shape | None]]] = {Specimen: _of_specimen, Experiment: _of_experiment}
"""The same for entities, without the content of an experiment's procedure."""

_VALUES: Final[dict[type, Callable[[Any], str | None]]] = {
    kind: _fields(kind, "value") for kind in (SimpleParameter, Metadata, SeriesValue)
}
"""The value of an element, for the kinds with one value."""
_ALL_BUT_VALUES: Final[dict[type, Callable[[Any], Shape]]] = {
    SimpleParameter: _fields(SimpleParameter, "parameter_id", "sequence_id", "unit", "status"),
    Metadata: _fields(Metadata, "parameter_id", "sequence_id", "status"),
    SeriesValue: _fields(SeriesValue, "increment", "increment_status"),
}
"""The shape without the value, for the same kinds."""
_BETWEEN: Final = "\0"
"""Separates values; no document contains it."""
_are_plain_numbers = re.compile(
    r"-?[0-9]{1,15}+(?:\.[0-9]{1,15}+)?+(?:\0-?[0-9]{1,15}+(?:\.[0-9]{1,15}+)?+)*+"
).fullmatch


def with_any_number(element: Any) -> Shape | None:
    """A shape for all elements that differ only in their value, a number; None if this one has none.

    It is shorter than other shapes by the value, so that it equals none of them.
    """
    value_of = _VALUES.get(type(element))
    value = None if value_of is None else value_of(element)
    if value is None or _BETWEEN in value or _are_plain_numbers(value) is None:
        return None
    return _ALL_BUT_VALUES[type(element)](element)


def are_known(kind: type, elements: Sequence[Any], known: set[Shape]) -> bool:
    """Whether all elements, of one kind, are like accepted ones."""
    shape_of = SHAPES[kind]
    if _are_known_numbers(kind, elements, known) or known.issuperset(map(shape_of, elements)):
        return True
    others = [element for element in elements if shape_of(element) not in known]
    return len(others) < len(elements) and _are_known_numbers(kind, others, known)


def _are_known_numbers(kind: type, elements: Sequence[Any], known: set[Shape]) -> bool:
    if kind not in _VALUES or not known.issuperset(map(_ALL_BUT_VALUES[kind], elements)):
        return False
    values = list(map(_VALUES[kind], elements))
    return None not in values and _are_plain_numbers(_BETWEEN.join(values)) is not None  # type: ignore[arg-type]


def takes_any_number(definition: Parameter) -> bool:
    """Whether a value must be a number and may be any."""
    has_range = definition.qc_minimum is not None or definition.qc_maximum is not None
    return definition.value_type == ValueType.FLOAT and not definition.options and not has_range


class AcceptedElements:
    """The shapes of elements that one set of rules accepted, under one set of reference data."""

    def __init__(self) -> None:
        self._shapes: dict[Hashable, Shapes] = defaultdict(_shapes)
        self._held = 0
        self._rules: RulesByKind | None = None

    def rules(self, reference: ReferenceData, without: Collection[str]) -> RulesByKind:
        """The rules without those in `without`, under these reference data.

        Shapes that were accepted under others are forgotten.
        """
        rules = self._rules
        if rules is None or rules.reference is not reference or rules.without != without:
            rules = self._rules = RulesByKind(reference, without)
            self._shapes.clear()
            self._held = 0
        return rules

    def within(self, definition: object) -> Shapes:
        """The accepted shapes under this definition of IMPReSS; the sets follow later additions."""
        # Definitions live as long as the reference data.
        return self._shapes[id(definition)]

    def of(self, kind: type, definition: object) -> set[Shape]:
        """The accepted shapes of a kind of element under this definition of IMPReSS."""
        return self.within(definition)[kind]

    def of_entities(self, kind: type, centre: str, today: date) -> set[Shape]:
        """The accepted shapes of a kind of entity of a centre, on the day of the check."""
        return self._shapes[centre, today][kind]

    def add(self, shapes: set[Shape], shape: Shape | None) -> None:
        """Remember a shape of a kind, unless it is long; if there are too many, all are forgotten."""
        length = LONGEST if shape is None else _length(shape)
        if shape is None or length >= LONGEST:
            return
        self._held += length + _EACH
        if self._held > MOST:
            for shapes_of in self._shapes.values():
                for known in shapes_of.values():
                    known.clear()
            self._held = length + _EACH
        shapes.add(shape)


def _shapes() -> Shapes:
    return defaultdict(set)


def _length(shape: Shape) -> int:
    """The characters of a shape and of the lists in it."""
    length = 0
    for part in shape:
        if part is not None:
            length += _length(part) if type(part) is tuple else len(part)
    return length


class UnknownParts(NamedTuple):
    """The parts of a procedure that are unlike accepted ones: perhaps itself, and its parameters by their kinds."""

    itself: bool
    parameters: list[Sequence[ParameterElement]]


@dataclass
class SkippedElements:
    """Accepted elements, as used in the check of one document.

    `met` are the kinds of elements whose missing reference data were reported, which happens when the kind is first
    met: until then none of the kind is skipped.
    """

    rules: RulesByKind
    accepted: AcceptedElements
    met: set[type] = field(default_factory=set)

    def may_pass(self, kind: type) -> bool:
        """Whether elements of a kind may be skipped."""
        if kind not in self.met and not self.rules.of(kind).missing:
            self.met.add(kind)
        return kind in self.met

    def knows_entity(self, entity: Entity, centre: str, today: date) -> bool:
        """Whether an entity of a centre, without its procedure, is like one accepted on that day."""
        kind = type(entity)
        if kind not in ENTITY_SHAPES or not self.may_pass(kind):
            return False
        return ENTITY_SHAPES[kind](entity) in self.accepted.of_entities(kind, centre, today)

    def remember_entity(self, entity: Entity, centre: str, today: date) -> None:
        """Remember that no rule objected to an entity."""
        kind = type(entity)
        if kind in ENTITY_SHAPES:
            self.accepted.add(self.accepted.of_entities(kind, centre, today), ENTITY_SHAPES[kind](entity))

    def unknown_in(self, procedure: Procedure, definition: ProcedureDefinition | None) -> UnknownParts:
        """The parts of a procedure to check."""
        groups = [group for group in groups_of(procedure) if group]
        if not self.may_pass(ProcedureUse) or not self.may_pass(ParameterUse):
            return UnknownParts(True, groups)
        shapes = self.accepted.within(definition)
        return UnknownParts(
            not self._knows((procedure,), shapes, definition),
            [group for group in groups if not self._knows(group, shapes, definition)],
        )

    def _knows(self, elements: Sequence[Any], shapes: Shapes, definition: ProcedureDefinition | None) -> bool:
        """Whether all of a procedure's elements of a kind, with their content, are like accepted ones."""
        kind = type(elements[0])
        if kind not in SHAPES or not self.may_pass(kind) or not are_known(kind, elements, shapes[kind]):
            return False
        if kind is SeriesParameter:
            for series in elements:
                if not self.knows_values(series, definition):
                    return False
        return True

    def knows_values(self, series: SeriesParameter, definition: ProcedureDefinition | None) -> bool:
        """Whether all values of a series are like accepted ones."""
        if not series.values:
            return True
        known = self.accepted.of(SeriesValue, definition_of(series, definition) or definition)
        return self.may_pass(SeriesValue) and are_known(SeriesValue, series.values, known)

    def knows_element(self, element: Any, definition: object) -> bool:
        """Whether an element is like one accepted under a definition."""
        kind = type(element)
        return (
            kind in SHAPES and self.may_pass(kind) and are_known(kind, (element,), self.accepted.of(kind, definition))
        )

    def remember(self, element: Any, within: object, definition: Parameter | None, *kinds: type) -> None:
        """Remember that no rule objected to an element, if the rules for these kinds depend only on its shape.

        `definition` is that of the element's parameter.
        """
        rules = [self.rules.of(kind) for kind in kinds]
        if any(one.always_asked for one in rules):
            return
        shape = None
        if definition is not None and takes_any_number(definition) and all(one.any_number_passes for one in rules):
            shape = with_any_number(element)
        kind = type(element)
        self.accepted.add(self.accepted.of(kind, within), SHAPES[kind](element) if shape is None else shape)


def definition_of(element: ParameterElement, definitions: ProcedureDefinition | None) -> Parameter | None:
    """The definition of a parameter in a procedure; None if there is none."""
    return definitions.parameters.get(key_of(element.parameter_id)) if definitions is not None else None
