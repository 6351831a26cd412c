"""The result of a check: a verdict on one thing, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dcc.operations.doctor.environment import Environment


class Verdict(StrEnum):
    """How something is. From good to bad, but that what was not checked says nothing."""

    OK = "ok"
    NOT_CHECKED = "not checked"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of `subject`: `message` says how it is, `advice` what to do; that is empty where all is well."""

    verdict: Verdict
    subject: str
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, and what does it.

    `run` may raise anything: that is a finding of its own, and so is that it takes too long.
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
    """It works, and somebody should see to it."""
    return Finding(Verdict.WARNING, subject, message, advice)


def failed(subject: str, message: str, advice: str) -> Finding:
    """It does not work."""
    return Finding(Verdict.FAILED, subject, message, advice)


def not_checked(subject: str, message: str, advice: str = "") -> Finding:
    """It could not be told, or was not to be."""
    return Finding(Verdict.NOT_CHECKED, subject, message, advice)


def split_advice(text: str) -> tuple[str, str]:
    """A message of the platform's errors as what is wrong (its first sentence) and what to do (the others)."""
    said, found, advice = text.partition(". ")
    return (f"{said}.", advice) if found else (text, "")


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of some verdicts; ok for none."""
    order = [Verdict.OK, Verdict.NOT_CHECKED, Verdict.WARNING, Verdict.FAILED]
    return max(verdicts, key=order.index, default=Verdict.OK)
