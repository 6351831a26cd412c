"""What a check of `dcc doctor` finds, and what it must find."""

import time
from collections.abc import Callable, Iterator

from dcc.operations.doctor.checks import CheckFinding, CheckStatus, Environment, worst
from dcc.settings import Settings

Examination = Callable[[Environment], Iterator[CheckFinding]]


def found_by(check: Examination, settings: Settings, seconds: float = 60) -> dict[str, CheckFinding]:
    """What a check finds, by subject; of several with one subject the worst. What is wrong has an advice."""
    found: dict[str, CheckFinding] = {}
    for one in check(Environment(settings, time.monotonic() + seconds)):
        before = found.get(one.subject)
        if before is None or worst([before.verdict, one.verdict]) is one.verdict:
            found[one.subject] = one
    for one in found.values():
        assert one.message.endswith((".", "?", "!", "…")) or one.advice, one
        assert bool(one.advice) or one.verdict in (CheckStatus.OK, CheckStatus.NOT_CHECKED), one
    return found


def verdicts(check: Examination, settings: Settings, seconds: float = 60) -> dict[str, str]:
    """The verdict on each subject."""
    return {subject: one.verdict.value for subject, one in found_by(check, settings, seconds).items()}


def expect(check: Examination, settings: Settings, subject: str, verdict: str, *said: str) -> None:
    """The check has this verdict on a subject, and its message with `-> ` and its advice holds each of the texts."""
    found = found_by(check, settings)[subject]
    assert found.verdict == verdict, found
    for text in said:
        assert text in f"{found.message} -> {found.advice}", found
