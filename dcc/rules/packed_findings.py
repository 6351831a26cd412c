"""Findings in JSON's types, for files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final

from dcc.declarations import WORDS
from dcc.messages import from_json, shown, to_json
from dcc.rules.findings import Finding
from dcc.vocabulary import EntityKind, Severity

_FIELDS: Final = [field.name for field in fields(Finding)]


def packed(finding: Finding) -> list[Any]:
    """A finding in JSON's types: its fields in their order."""
    held = {name: getattr(finding, name) for name in _FIELDS}
    held["details"] = to_json(finding.details) or to_json({WORDS: shown(finding.message)})
    held["value"] = None if finding.value is None else str(finding.value)
    return list(held.values())


def unpacked(held: Sequence[Any]) -> Finding:
    """The finding of a packed one."""
    found = Finding(*held)
    return replace(
        found,
        severity=Severity(found.severity),
        details=from_json(held[_FIELDS.index("details")]) or {},
        references=tuple(found.references),
        entity_kind=None if found.entity_kind is None else EntityKind(found.entity_kind),
    )
