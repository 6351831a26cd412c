"""Elements of a document that its check skips, because they are like accepted ones.

If a kind of element lacks reference data, that is reported when the kind is first met: until then none of the kind is
skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from dcc.documents.contents import Entity, Procedure, SeriesParameter, SeriesValue
from dcc.reference.impress import Parameter
from dcc.reference.impress import Procedure as ProcedureDefinition
from dcc.rules.accepted_elements import (
    ENTITY_SHAPES,
    SHAPES,
    AcceptedElements,
    Shapes,
    are_known,
    takes_any_number,
    with_any_number,
)
from dcc.rules.elements import ParameterElement, ParameterUse, ProcedureUse, groups_of, key_of
from dcc.rules.plans import Plans


@dataclass
class SkippedElements:
    """Accepted elements, as used in the check of one document.

    `met` are the kinds of elements whose missing reference data were reported.
    """

    plans: Plans
    accepted: AcceptedElements
    met: set[type] = field(default_factory=set)

    def may_pass(self, kind: type) -> bool:
        """Whether elements of a kind may be skipped."""
        if kind not in self.met and not self.plans.of(kind).missing:
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

    def unknown_in(self, procedure: Procedure, definition: ProcedureDefinition | None) -> list[Sequence[Any]]:
        """The parts of a procedure to check: itself, and its parameters by their kinds."""
        parts = [part for part in ((procedure,), *groups_of(procedure)) if part]
        if not self.may_pass(ProcedureUse) or not self.may_pass(ParameterUse):
            return parts
        shapes = self.accepted.within(definition)
        return [part for part in parts if not self._knows(part, shapes, definition)]

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
        plans = [self.plans.of(kind) for kind in kinds]
        if not all(plan.local for plan in plans):
            return
        shape = None
        if definition is not None and takes_any_number(definition) and all(plan.numeric for plan in plans):
            shape = with_any_number(element)
        kind = type(element)
        self.accepted.add(self.accepted.of(kind, within), SHAPES[kind](element) if shape is None else shape)


def definition_of(element: ParameterElement, definitions: ProcedureDefinition | None) -> Parameter | None:
    """The definition of a parameter in a procedure; None if there is none."""
    return definitions.parameters.get(key_of(element.parameter_id)) if definitions is not None else None
