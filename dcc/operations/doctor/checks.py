"""Checks of `dcc doctor` and their results: a verdict on one subject, with what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from dcc.errors import DccError
from dcc.operations.doctor.environment import Environment


class Verdict(StrEnum):
    """Verdicts from good to bad; NOT_CHECKED says nothing about the subject."""

    OK = "ok"
    NOT_CHECKED = "not checked"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding on `subject`: `message` says how it is, `advice` what to do; without a problem `advice` is empty."""

    verdict: Verdict
    subject: str
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, and the function that runs it.

    If `run` raises, or takes too long, that is a finding of its own.
    """

    name: str
    run: Callable[[Environment], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Examined:
    """A finding with the name of its check, and the seconds since the examination began."""

    check: str
    finding: Finding
    seconds: float


def ok(subject: str, message: str) -> Finding:
    """All is well."""
    return Finding(Verdict.OK, subject, message)


def warning(subject: str, message: str, advice: str) -> Finding:
    """It works, but somebody should look at it."""
    return Finding(Verdict.WARNING, subject, message, advice)


def failed(subject: str, message: str, advice: str) -> Finding:
    """It does not work."""
    return Finding(Verdict.FAILED, subject, message, advice)


def not_checked(subject: str, message: str, advice: str = "") -> Finding:
    """It could not be checked, or was left out."""
    return Finding(Verdict.NOT_CHECKED, subject, message, advice)


def explained(error: DccError) -> tuple[str, str]:
    """The message of an error, which says what to do, and the command that explains errors of its kind."""
    return str(error), f"dcc explain {error.error_id()}"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of some verdicts; ok for none."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.OK)
