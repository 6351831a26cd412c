"""All rules in one list, including those of the upload and of the check itself, as people read about them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from dcc.rules.checking import all_rules
from dcc.rules.findings import MORE_RULE, REFERENCE_RULE, Severity
from dcc.rules.upload import PLATFORM_RULES, UPLOAD_RULES

__all__ = ["CATALOGUE", "UNWAIVABLE", "RuleEntry", "rule_entry"]


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """A rule: what it demands, its usual severity, and the reference data that it needs.

    `known_as` are its ids in the field's existing validator, `needs` names of reference data. `at_upload`: it is
    checked when the document is applied, and an entity that breaks it has no effect.
    """

    id: str
    severity: Severity
    demand: str
    known_as: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    at_upload: bool = False


_OWN: Final = tuple(
    RuleEntry(each.id, each.severity, each.demand, at_upload=each.id in UPLOAD_RULES) for each in PLATFORM_RULES
)

UNWAIVABLE: Final = frozenset({REFERENCE_RULE, MORE_RULE})
"""Rules about a check, not about data, which no waiver can name."""


def _registered() -> list[RuleEntry]:
    return [
        RuleEntry(
            each.id,
            each.severity,
            each.demand,
            each.known_as,
            each.reference_names,
            each.id in UPLOAD_RULES,
        )
        for each in all_rules().values()
    ]


def _place(entry: RuleEntry) -> tuple[int, int, str]:
    letters, digits = re.fullmatch(r"([A-Za-z]+)([0-9]*)", entry.id).groups()  # type: ignore[union-attr]
    order = ["S", "E", "P", "X", "Q"]
    return (order.index(letters) if letters in order else len(order), int(digits or 0), letters)


CATALOGUE: Final = {entry.id: entry for entry in sorted((*_registered(), *_OWN), key=_place)}
"""Every rule by its id: of specimens, experiments and procedures, added ones, those of the upload and of the check."""


def rule_entry(rule_id: str) -> RuleEntry | None:
    """The rule with an id; None if there is none."""
    return CATALOGUE.get(rule_id)
