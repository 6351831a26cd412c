"""What a check of a document's content says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from dcc.vocabulary import EntityKind, Severity

__all__ = ["MORE_RULE", "REFERENCE_RULE", "Fault", "Finding", "Severity", "fails"]


class Fault(NamedTuple):
    """What a rule has to say: the message names the thing, what is wrong and what to do.

    `severity` is that of the rule unless given; `path` that of the element looked at with `below` after it.
    """

    message: str
    line: int
    value: str | None = None
    severity: Severity | None = None
    below: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a document, at a line and path.

    A warning does not fail the document; an error does; after a fatal one nothing below its element was checked;
    `unchecked` is nobody's fault. `value` is the offending text. `centre` and `procedure` are those that it lies in,
    where there are any; waivers go by them. `references` are the names of the reference data that judged it. `block`,
    `entity_kind` and `entity` say in which block, by its position, and in which entity of that, by its own.
    """

    rule: str
    severity: Severity
    message: str
    line: int
    path: str
    value: str | None = None
    centre: str | None = None
    procedure: str | None = None
    references: tuple[str, ...] = ()
    block: int | None = None
    entity_kind: EntityKind | None = None
    entity: int | None = None


REFERENCE_RULE = "reference"
"""Rule id of the finding that reference data are missing."""

MORE_RULE = "more"
"""Rule id of the finding that says how many more there are than are recorded."""


def fails(findings: Iterable[Finding]) -> bool:
    """Whether findings fail their document: one of them is an error or fatal."""
    return any(finding.severity in (Severity.ERROR, Severity.FATAL) for finding in findings)
