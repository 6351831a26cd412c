"""All rules in one list, including those of the upload and of the check itself, as people read about them."""

from __future__ import annotations

import re
from typing import Final

from dcc.rules.checking import all_rules
from dcc.rules.findings import MORE_RULE, REFERENCE_RULE
from dcc.rules.upload import PLATFORM_RULES, UPLOAD_RULES, RuleEntry

UNWAIVABLE: Final = frozenset({REFERENCE_RULE, MORE_RULE})
"""Rules about a check, not about data, which no waiver can name."""


_REGISTERED: Final = [
    RuleEntry(one.id, one.severity, one.demand, one.known_as, one.reference_names, one.id in UPLOAD_RULES)
    for one in all_rules().values()
]


def _place(entry: RuleEntry) -> tuple[int, int, str]:
    letters, digits = re.fullmatch(r"([A-Za-z]+)([0-9]*)", entry.id).groups()  # type: ignore[union-attr]
    order = ["S", "E", "P", "X", "Q"]
    return (order.index(letters) if letters in order else len(order), int(digits or 0), letters)


CATALOGUE: Final = {entry.id: entry for entry in sorted((*_REGISTERED, *PLATFORM_RULES), key=_place)}
"""Every rule by its id: of specimens, experiments and procedures, added ones, those of the upload and of the check."""
