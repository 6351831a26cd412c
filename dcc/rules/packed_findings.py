"""Findings as lists that JSON can hold, for files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from dcc.declarations import WORDS
from dcc.messages import from_json, printable_detail, to_json
from dcc.rules.findings import Finding
from dcc.vocabulary import EntityKind, Severity

_FIELDS: Final = [field.name for field in fields(Finding)]


def packed(finding: Finding) -> list[Any]:
    """A finding as a list of its fields in their order."""
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
