"""All rules in one list, including those of the upload and of the check itself, and in groups, as people read of them.

Each group is one asset check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dcc.documents.contents import Block, Specimen
from dcc.rules.checking import all_rules
from dcc.rules.elements import BlockEnd
from dcc.rules.findings import MORE_RULE, REFERENCE_RULE
from dcc.rules.registry import catalogue_place, kinds_of
from dcc.rules.upload import DUPLICATE, HAS_EXPERIMENTS, LATE, OWNERSHIP, PLATFORM_RULES, SPECIMEN_EXISTS, RuleEntry
from dcc.runtime.installed_packages import package_of

OF_THE_CHECK: Final = frozenset({REFERENCE_RULE, MORE_RULE})
"""Rules about a check, not about data."""

UNWAIVABLE: Final = OF_THE_CHECK | {OWNERSHIP}
"""Rules that no waiver can name: a document that breaks OWNERSHIP is refused as a whole until the centre delegates."""

WITHOUT_PROCEDURE: Final = frozenset(
    {rule for rule in all_rules() if kinds_of(rule) <= {Block, BlockEnd, Specimen}}
    | {SPECIMEN_EXISTS, HAS_EXPERIMENTS, LATE, DUPLICATE}
)
"""Rules whose findings are of no procedure: those of animals, of whole documents and of centre elements in them."""

_REGISTERED: Final = [
    RuleEntry(
        rule.id,
        rule.severity,
        rule.demand,
        rule.known_as,
        rule.reference_names,
        package=package_of(rule.check),
    )
    for rule in all_rules().values()
]
CATALOGUE: Final = {
    entry.id: entry for entry in sorted((*_REGISTERED, *PLATFORM_RULES), key=lambda entry: catalogue_place(entry.id))
}
"""Every rule by its id: of specimens, experiments and procedures, added ones, those of the upload and of the check."""


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are shown together; `name` is that of an asset check, `description` is what they demand."""

    name: str
    description: str
    rules: tuple[str, ...]


_OWN: Final = (
    RuleGroup(
        "specimen_background",
        "Animals have a known strain or a registered colony that may be phenotyped, and its genotype. The percentages "
        "of their parental strains add up to 100.",
        ("S1", "S2", "S3", "S4", "S5", "S6", "X6", "X7", "X9", "X15"),
    ),
    RuleGroup(
        "specimen_details",
        "Ids, dates of birth, stages, status codes, projects, pipelines and relatives of animals make sense.",
        ("S7", "S8", "S9", "S10", "S11", "S12", "S14", "X3", "X4", "X8", "X13", "X14"),
    ),
    RuleGroup(
        "add_edit_delete",
        "Added data are new. Edited and deleted data exist, and the centre may change them. The database can store it.",
        ("S13", "E9", "Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7"),
    ),
    RuleGroup(
        "experiments",
        "Centres, lines and experiments have a known pipeline and project, animals that were submitted, and sound "
        "dates and status codes.",
        ("E1", "E2", "E3", "E4", "E5", "E6", "E7", "E8", "X1", "X5", "X17"),
    ),
    RuleGroup(
        "procedures",
        "Procedures belong to their pipeline and have the parameters that IMPReSS asks for, each once and of its type.",
        ("P1", "P2", "P3", "P4", "P5", "P6", "X11", "X16"),
    ),
    RuleGroup(
        "values",
        "Values, units, terms and statuses are what IMPReSS permits for their parameter.",
        ("P7", "P8", "P9", "P10", "P11", "P12", "X2", "X10"),
    ),
    RuleGroup(
        "series_and_media",
        "Series have the values and increments that IMPReSS asks for. Media have a URL of the "
        "right form and a known type, and are associated only with results of their procedure.",
        ("P13", "P14", "P15", "P16", "P17", "P18", "P19", "P20", "X12"),
    ),
    RuleGroup(
        "completeness",
        "Every rule could be checked, and every finding is recorded.",
        (REFERENCE_RULE, MORE_RULE),
    ),
)
_ADDED: Final = tuple(rule for rule in CATALOGUE if not any(rule in group.rules for group in _OWN))

GROUPS: Final = (
    *_OWN,
    *([RuleGroup("added_rules", "Data satisfy the rules of installed packages.", _ADDED)] if _ADDED else []),
)
"""All groups; every rule is in exactly one."""
