"""Findings in a document's content: facts, which become words when somebody reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

from dcc.declarations import NO_DETAILS, VALUE, WORDS, Declaration, cause_id, message_of, rule_of, share_case
from dcc.messages import Details, from_json, mark, printable_detail, to_json
from dcc.vocabulary import Actor, EntityKind, Severity


class Fault(NamedTuple):
    """An objection of a rule: the details in its declaration; of several declarations, that of the `case`.

    `value` is the offending text, itself a detail. `severity` is that of the rule unless given; `path` is that of the
    checked element followed by `below`.
    """

    line: int
    value: str | None = None
    details: Details = NO_DETAILS
    case: str = ""
    severity: Severity | None = None
    below: str = ""


def fault(
    line: int,
    value: str | None = None,
    case: str = "",
    *,
    below: str = "",
    severity: Severity | None = None,
    **details: Any,
) -> Fault:
    """A fault with its details by name; for the others see Fault."""
    return Fault(line, value, details, case, severity, below)


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a document, at a line and path.

    `code` is the id of the rule, with the case after a point; its declaration has all the words. A warning does not
    fail the document; an error does; nothing below the element of a fatal one was checked; `unchecked` is nobody's
    fault. `value` is the offending text. `centre` and `procedure` are those around it, if any; waivers use them.
    `references` are the names of the reference data that judged it. `block`, `entity_kind` and `entity` are the
    position of its block, and the kind and position of its entity.

    Prepared files hold the fields in this order: with it changes their version (`dcc.qc.rows.prepared_file.VERSION`).
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
    """The details of a finding, including its value."""
    return {VALUE: value, **details}


class FindingFacts(NamedTuple):
    """A finding's stored facts other than its place: code, details as JSON, number of its cause, and the words."""

    rule: str
    code: str
    details: str | None
    cause: int
    message: str


def facts_of(code: str, details: Details, value: str | None) -> FindingFacts:
    """A finding's stored facts, with the words in English."""
    known = with_value(details, value)
    words = str(message_of(code, known))
    kept = None if WORDS in details else to_json(details)
    return FindingFacts(rule_of(code), code, kept, cause_id(code, known), words)


_FIELDS: Final = [field.name for field in fields(Finding)]


def packed(finding: Finding) -> list[Any]:
    """A finding as a list of its fields in their order, which JSON can hold."""
    held = {name: getattr(finding, name) for name in _FIELDS}
    held["details"] = to_json(finding.details) or to_json({WORDS: printable_detail(finding.message)})
    held["value"] = None if finding.value is None else str(finding.value)
    return list(held.values())


def unpacked(held: Sequence[Any]) -> Finding:
    """The finding of a packed one."""
    given = dict(zip(_FIELDS, held, strict=True))
    given["severity"] = Severity(given["severity"])
    given["details"] = from_json(given["details"]) or {}
    given["references"] = tuple(given["references"])
    if given["entity_kind"] is not None:
        given["entity_kind"] = EntityKind(given["entity_kind"])
    return Finding(**given)


REFERENCE_RULE = "reference"
"""The rule id of the finding that reference data are missing."""

MORE_RULE = "more"
"""The rule id of the finding with the number of findings beyond the recorded ones."""


def further_findings(excess: Counter[tuple[str, Severity]], recorded: int) -> tuple[Severity, Details]:
    """The severity and details of the finding `MORE_RULE`; `excess`: those not recorded, by rule and severity."""
    more = [
        f"{rule} {number:,} ({severity.value})"
        for (rule, severity), number in sorted(excess.items(), key=lambda item: (-item[1], item[0]))
    ]
    worst = min((severity for _, severity in excess), key=lambda severity: severity.rank)
    details = {"number": excess.total(), "recorded": recorded, "rules": more}
    return Severity.ERROR if worst is Severity.FATAL else worst, details


BROKEN_CASE = "broken"
"""The case, for all rules, of a rule that broke down."""
BROKEN_IN_PACKAGE = "broken_in_package"
"""The case of a package's rule that broke down."""

_BROKEN = Declaration(
    message=mark(
        "The rule {rule} broke down ({error}), so that not everything was checked. This is a fault of the "
        "platform and not of the centre: report it, and have the document checked again."
    ),
    cause=mark("The rule {rule} broke down, so that not everything was checked"),
    remedy=mark("This is a fault of the platform: report it, and have the documents checked again."),
    acts=Actor.DCC,
    for_centre=mark("The Data Coordination Centre sees to it."),
)
share_case(BROKEN_CASE, _BROKEN)
share_case(
    BROKEN_IN_PACKAGE,
    replace(
        _BROKEN,
        message=mark(
            "The rule {rule} of the package {package} broke down ({error}), so that not everything was checked. "
            "Correct the package or tell those who maintain it, and have the document checked again."
        ),
        cause=mark("The rule {rule} of the package {package} broke down, so that not everything was checked"),
        remedy=mark("Correct the package or tell those who maintain it, and have the documents checked again."),
        cause_by=("rule", "package"),
    ),
)
