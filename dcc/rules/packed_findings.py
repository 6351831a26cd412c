"""Findings in JSON's types, for files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dcc.declarations import WORDS
from dcc.messages import from_json, shown, to_json
from dcc.rules.findings import Finding
from dcc.vocabulary import EntityKind, Severity


def packed(finding: Finding) -> list[Any]:
    """A finding in JSON's types."""
    return [
        finding.code,
        finding.severity.value,
        to_json(finding.details) or to_json({WORDS: shown(finding.message)}),
        finding.line,
        finding.path,
        None if finding.value is None else str(finding.value),
        finding.centre,
        finding.procedure,
        finding.references,
        finding.block,
        finding.entity_kind,
        finding.entity,
    ]


def unpacked(held: Sequence[Any]) -> Finding:
    """The finding of a packed one."""
    code, severity, details, line, path, value, centre, procedure, references, block, kind, entity = held
    return Finding(
        code,
        Severity(severity),
        from_json(details) or {},
        line,
        path,
        value,
        centre,
        procedure,
        tuple(references),
        block,
        None if kind is None else EntityKind(kind),
        entity,
    )
