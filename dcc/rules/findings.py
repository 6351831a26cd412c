"""What a check of a document's content says: facts, which are put into words when somebody reads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from dcc.declarations import (
    NO_DETAILS,
    VALUE,
    WORDS,
    Declaration,
    cause_id,
    message_of,
    rule_of,
    share_case,
)
from dcc.messages import Details, mark, to_json
from dcc.vocabulary import Actor, EntityKind, Severity

__all__ = ["BROKEN_CASE", "MORE_RULE", "REFERENCE_RULE", "Fault", "Finding", "Severity", "fails", "fault"]


class Fault(NamedTuple):
    """What a rule objects to: the details that its declaration names; of several declarations, that of the `case`.

    `value` is the offending text, itself a detail. `severity` is that of the rule unless given; `path` that of the
    element looked at with `below` after it.
    """

    line: int
    value: str | None = None
    details: Details = NO_DETAILS
    case: str = ""
    severity: Severity | None = None
    below: str = ""


def fault(line: int, value: str | None = None, case: str = "", **details: Any) -> Fault:
    """A fault with its details by name."""
    return Fault(line, value, details, case)


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a document, at a line and path.

    `code` is the id of the rule, with the case after a point; what is declared of it says all that is in words.
    A warning does not fail the document; an error does; after a fatal one nothing below its element was checked;
    `unchecked` is nobody's fault. `value` is the offending text. `centre` and `procedure` are those that it lies in,
    where there are any; waivers go by them. `references` are the names of the reference data that judged it. `block`,
    `entity_kind` and `entity` say in which block, by its position, and in which entity of that, by its own.
    """

    code: str
    severity: Severity
    details: Details
    line: int
    path: str
    value: str | None = None
    centre: str | None = None
    procedure: str | None = None
    references: tuple[str, ...] = ()
    block: int | None = None
    entity_kind: EntityKind | None = None
    entity: int | None = None

    @property
    def rule(self) -> str:
        """The id of the rule."""
        return rule_of(self.code)

    @property
    def message(self) -> str:
        """What is wrong and what to do, in English."""
        return str(message_of(self.code, with_value(self.details, self.value)))


def with_value(details: Details, value: str | None) -> Details:
    """The details of a finding, of which its value is one."""
    return {VALUE: value, **details}


class FindingFacts(NamedTuple):
    """What is kept of a finding beside its place: its code, details as JSON, the number of its cause, and the words."""

    rule: str
    code: str
    details: str | None
    cause: int
    message: str


def facts_of(code: str, details: Details, value: str | None) -> FindingFacts:
    """A finding as it is kept, in English words too."""
    known = with_value(details, value)
    words = str(message_of(code, known))
    kept = None if WORDS in details else to_json(details)
    return FindingFacts(rule_of(code), code, kept, cause_id(code, known), words)


REFERENCE_RULE = "reference"
"""Rule id of the finding that reference data are missing."""

MORE_RULE = "more"
"""Rule id of the finding that says how many more there are than are recorded."""

BROKEN_CASE = "broken"
"""The case, shared by all rules, of a rule that broke down."""

share_case(
    BROKEN_CASE,
    Declaration(
        message=mark(
            "The rule {rule} broke down with a {error}, so that not everything was checked. This is a fault of the "
            "platform and not of the centre: report it, and have the document checked again."
        ),
        cause=mark("The rule {rule} broke down, so that not everything was checked"),
        remedy=mark("This is a fault of the platform: report it, and have the documents checked again."),
        acts=Actor.DCC,
        cause_by=("rule",),
        for_centre=mark("The Data Coordination Centre sees to it."),
    ),
)


def fails(findings: Iterable[Finding]) -> bool:
    """Whether findings fail their document: one of them is an error or fatal."""
    return any(finding.severity in (Severity.ERROR, Severity.FATAL) for finding in findings)
