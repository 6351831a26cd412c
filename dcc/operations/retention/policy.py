"""The retention policy: what stays in staging and what can go, by its age and by the state of its submission.

It never removes what a session may still need: an archive whose documents are not all validated, or a document that
waits for upload or confirmation. `dcc retry` downloads everything else again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from dcc.naming import Action
from dcc.operations.retention.staged_files import StagedArchive, StagedKind
from dcc.phases import Phase, Status
from dcc.settings import Settings
from dcc.tracker.states import NOT_ARRIVED, VALID, WAITING, State

_DAY_SECONDS: Final = 86_400


class RetentionVerdict(StrEnum):
    """A decision on an entry of staging."""

    KEEP = "keep"
    REMOVE = "remove"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Policy:
    """Days to keep submissions that have passed `phase`, that failed or were given up, and parts without a source."""

    keep_days: int
    keep_failed_days: int
    keep_part_days: int
    phase: Phase

    @classmethod
    def from_settings(cls, settings: Settings) -> Policy:
        """The policy of the settings."""
        return cls(
            keep_days=settings.staging_keep_days,
            keep_failed_days=settings.staging_keep_failed_days,
            keep_part_days=settings.staging_keep_part_days,
            phase=Phase[settings.staging_keep_phase.upper()],
        )


@dataclass(frozen=True, slots=True)
class KnownArchive:
    """What the tracker knows of a submission: `changed` is the time of its latest change of state (UTC, naive).

    `hosted`: a source hosts it now. `validated`: all documents of its latest download are validated. `to_upload`: one
    of them waits for its upload. `held`: one waits for confirmation, or its upload was interrupted. `stored`: the
    archive store has its bytes.
    """

    za_id: int
    centre: str | None
    state: State
    changed: datetime
    hosted: bool
    validated: bool = True
    to_upload: bool = False
    held: bool = False
    stored: bool = True


@dataclass(frozen=True, slots=True)
class RetentionDecision:
    """A decision with its reason; `known` is what the tracker knows of the submission, None for nothing."""

    staged: StagedArchive
    verdict: RetentionVerdict
    reason: str
    age_days: int
    known: KnownArchive | None = None


def retention_decisions(
    staged: StagedArchive, known: KnownArchive | None, policy: Policy, now: datetime
) -> list[RetentionDecision]:
    """Decide on an archive with its contents, and on a part of it, if there are both; `now` is in UTC, naive."""
    if known is None:
        return [_decide_on_unknown(staged, now)]
    decisions = []
    whole, part = staged.of(StagedKind.ARCHIVE, StagedKind.CONTENTS), staged.of(StagedKind.PART, StagedKind.ORIGIN)
    if whole is not None:
        decisions.append(_decide_on_whole(whole, known, policy, now))
    if part is not None:
        decisions.append(_decide_on_part(part, known, policy, now))
    return decisions


def _decide_on_unknown(staged: StagedArchive, now: datetime) -> RetentionDecision:
    age = _age(now, staged.modified)
    if staged.of(StagedKind.LEFT_OVER) is not None:
        return RetentionDecision(staged, RetentionVerdict.REMOVE, "a left-over of a process that was killed", age)
    if staged.key is None and staged.place in set(Action):
        return RetentionDecision(staged, RetentionVerdict.KEEP, "a link, which is not followed", age)
    reason = "not known to the tracker" if staged.key is not None else "nothing that the platform puts there"
    return RetentionDecision(staged, RetentionVerdict.UNKNOWN, reason, age)


def _decide_on_whole(staged: StagedArchive, known: KnownArchive, policy: Policy, now: datetime) -> RetentionDecision:
    age = _age(now, staged.modified, known.changed)

    def decision(kept_days: int | None, reason: str) -> RetentionDecision:
        goes = kept_days is not None and age >= kept_days
        return RetentionDecision(staged, RetentionVerdict.REMOVE if goes else RetentionVerdict.KEEP, reason, age, known)

    state = known.state
    if not known.stored and staged.of(StagedKind.ARCHIVE) is not None:
        return decision(None, "it is not in the archive store yet: dcc archive repair")
    if state == WAITING:
        return decision(policy.keep_failed_days, "it is to be downloaded again")
    if not known.validated or (not state.failed and state < VALID):
        return decision(None, "it is not validated whole")
    if known.held or (known.to_upload and policy.phase > Phase.XSD):
        return decision(None, "a document of it waits to be uploaded or confirmed")
    if state.status in (Status.FAILED, Status.CANCELLED):
        return decision(policy.keep_failed_days, f"it is at {state}")
    if state >= State(policy.phase, Status.DONE):
        return decision(policy.keep_days, f"it is through, at {state}")
    return decision(None, f"it is not through {policy.phase.short_name} yet, at {state}")


def _decide_on_part(staged: StagedArchive, known: KnownArchive, policy: Policy, now: datetime) -> RetentionDecision:
    age = _age(now, staged.modified)
    if known.state == WAITING or known.state in NOT_ARRIVED:
        if known.hosted:
            return RetentionDecision(staged, RetentionVerdict.KEEP, "its download goes on from there", age, known)
        verdict = RetentionVerdict.REMOVE if age >= policy.keep_part_days else RetentionVerdict.KEEP
        return RetentionDecision(staged, verdict, "a part of an archive that no file source hosts any more", age, known)
    return RetentionDecision(staged, RetentionVerdict.REMOVE, "a part of an archive that has arrived since", age, known)


def _age(now: datetime, modified: float, changed: datetime | None = None) -> int:
    """Complete days since the later of both times; 0 for a future time."""
    since = now.replace(tzinfo=UTC).timestamp() - modified
    if changed is not None:
        since = min(since, (now - changed).total_seconds())
    return max(int(since // _DAY_SECONDS), 0)
