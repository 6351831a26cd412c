"""Waivers: a wrangler's decisions to set rules aside, or lower them to warnings, for a time and a reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date

from dcc.rules.findings import Finding
from dcc.vocabulary import Severity, WaiverEffect


@dataclass(frozen=True, slots=True)
class Waiver:
    """A decision about a rule: for a centre or all, a procedure or all, from a day to another, both included.

    `valid_until` is None without an end; `id` is that of its row in the QC database, if it has one.
    """

    rule: str
    effect: WaiverEffect
    reason: str
    author: str
    valid_from: date
    valid_until: date | None = None
    centre: str | None = None
    procedure: str | None = None
    id: int | None = None

    def covers(self, finding: Finding, on: date) -> bool:
        """Whether the waiver covers a finding on a day. An unchecked rule is never waived."""
        return (
            finding.severity is not Severity.UNCHECKED
            and finding.rule == self.rule
            and self.valid_from <= on
            and (self.valid_until is None or on <= self.valid_until)
            and self.centre in (None, finding.centre)
            and self.procedure in (None, finding.procedure)
        )


@dataclass(frozen=True, slots=True)
class JudgedFinding:
    """A finding with its severity after waivers, and the waiver that decided it.

    `is_waived`: the finding no longer counts, though it is shown with the waiver.
    """

    finding: Finding
    waiver: Waiver | None
    is_waived: bool


def apply_waivers(findings: Iterable[Finding], waivers: Sequence[Waiver], on: date) -> list[JudgedFinding]:
    """Findings after the waivers of a day; if several cover one, a waiving one precedes a lowering one."""
    by_rule: dict[str, list[Waiver]] = {}
    for waiver in waivers:
        by_rule.setdefault(waiver.rule, []).append(waiver)
    return [_judge(finding, by_rule.get(finding.rule, ()), on) for finding in findings]


def _judge(finding: Finding, waivers: Sequence[Waiver], on: date) -> JudgedFinding:
    covering = [waiver for waiver in waivers if waiver.covers(finding, on)]
    deciding = min(covering, key=lambda waiver: waiver.effect is not WaiverEffect.WAIVE, default=None)
    if deciding is None:
        return JudgedFinding(finding, None, is_waived=False)
    if deciding.effect is WaiverEffect.WAIVE:
        return JudgedFinding(finding, deciding, is_waived=True)
    return JudgedFinding(replace(finding, severity=Severity.WARNING), deciding, is_waived=False)
