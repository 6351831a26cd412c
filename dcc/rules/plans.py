"""Which rules check an element: computed once for all documents that are checked under the same reference data.

A rule without its reference data is left out, and its kind of element knows which are missing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from dcc.reference.impress import Parameter
from dcc.reference.loading import ReferenceData
from dcc.reference.snapshots import Snapshot
from dcc.rules.registry import Rule, rules_for


class Planned(NamedTuple):
    """A rule for a kind of element; `given` is the index of a field without which the rule has no objection."""

    rule: Rule
    given: int | None


class Plan(NamedTuple):
    """The rules for a kind of element, whether all are `local` and `numeric`, and the missing reference data.

    `elsewhere` are the rules that are not `local`: they depend on more than the element.
    """

    rules: list[Planned]
    elsewhere: list[Planned]
    local: bool
    numeric: bool
    missing: list[type[Snapshot]]


class Plans:
    """The rules by kinds of elements, without those left out by their ids, under some reference data."""

    def __init__(self, reference: ReferenceData, without: Collection[str]) -> None:
        self.reference = reference
        self.without = frozenset(without)
        self._plans: dict[type, Plan] = {}
        self._of_parameters: dict[tuple[type, int], list[Planned]] = {}

    def of(self, kind: type) -> Plan:
        """The rules for elements of a kind."""
        plan = self._plans.get(kind)
        if plan is None:
            plan = self._plans[kind] = self._planned(kind)
        return plan

    def of_parameter(self, kind: type, definition: Parameter | None) -> list[Planned]:
        """The rules that may object to elements of a kind, in a parameter with that definition, if any."""
        if definition is None:
            return self.of(kind).rules
        # Definitions live as long as the reference data.
        key = (kind, id(definition))
        rules = self._of_parameters.get(key)
        if rules is None:
            wanted = [one for one in self.of(kind).rules if one.rule.only_for is None or one.rule.only_for(definition)]
            rules = self._of_parameters[key] = wanted
        return rules

    def _planned(self, kind: type) -> Plan:
        fields: tuple[str, ...] = getattr(kind, "_fields", ())
        rules, missing = [], []
        for rule in rules_for(kind):
            if rule.id in self.without:
                continue
            lacking = [needed for needed in rule.needs if self.reference.find(needed) is None]
            missing += lacking
            if not lacking:
                given = next((fields.index(name) for name in rule.given if name in fields), None)
                rules.append(Planned(rule, given))
        needing_others = [one for one in rules if not one.rule.local]
        return Plan(rules, needing_others, not needing_others, all(one.rule.numeric for one in rules), missing)
