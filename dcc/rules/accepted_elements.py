"""Accepted elements: one that is like an element to which no rule objected needs no second check.

Documents repeat themselves, above all in metadata; and if IMPReSS wants any number, all numbers are alike. `SHAPES` are
the parts of an element that a rule which `depends_on_shape_only` may use, besides the definitions of IMPReSS, and of an
entity, besides the reference data, its centre and the day. Elements of one shape are alike to these rules.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, Final

from dcc.documents.contents import (
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
from dcc.reference.loading import ReferenceData
from dcc.rules.elements import has_media
from dcc.rules.registry import RulesByKind
from dcc.rules.values import is_blank

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
_gene_and_allele = attrgetter("mgi_gene_id", "mgi_allele_id")
_background_and_age = attrgetter(
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
    Specimen: _of_specimen,
    Experiment: _of_experiment,
}
"""The shape of an element by its kind: elements with the same shape are alike; None if it is like no other.

Everything but the line; of a series the increments of its values and not these; of a procedure without media the
identifiers and sequenceIDs of its parameters; of an experiment nothing of its procedure.
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

    They are accepted `within` something: an entity under its centre and the day of the check, any other element under
    the `id` of a definition of IMPReSS, which lives as long as the reference data.
    """

    def __init__(self) -> None:
        self._shapes: dict[tuple[type, Hashable], set[Shape]] = defaultdict(set)
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

    def knows(self, element: Any, within: Hashable) -> bool:
        """Whether an element is like one that was accepted there."""
        kind = type(element)
        shape_of = SHAPES.get(kind)
        if shape_of is None:
            return False
        known = self._shapes[kind, within]
        return shape_of(element) in known or with_any_number(element) in known

    def remember(self, element: Any, within: Hashable, *others: type, definition: Parameter | None = None) -> None:
        """Remember that no rule objected to an element, if all rules depend only on its shape, and none is left out.

        `others` are the kinds of things whose rules were asked too; `definition` is that of the element's parameter. If
        there are too many shapes, all are forgotten; long ones are not remembered.
        """
        kind = type(element)
        rules = [self._rules.of(each) for each in (kind, *others)] if self._rules is not None else []
        if kind not in SHAPES or not all(one.depend_on_shape_only and not one.missing for one in rules):
            return
        shape = None
        if definition is not None and takes_any_number(definition) and all(one.any_number_passes for one in rules):
            shape = with_any_number(element)
        shape = shape or SHAPES[kind](element)
        length = len(str(shape))
        if shape is None or length >= LONGEST:
            return
        self._held += length + _EACH
        if self._held > MOST:
            self._forget()
        self._shapes[kind, within].add(shape)

    def _forget(self) -> None:
        self._shapes.clear()
        self._held = 0
