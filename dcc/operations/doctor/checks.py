"""Checks of `dcc doctor`: what they work with, and their results, verdicts on one subject with what to do about it."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

from sqlalchemy import Connection, Engine

from dcc.databases.database import Database
from dcc.databases.engines import disposed, open_url, parse_url
from dcc.databases.schema import require_current
from dcc.errors import DccError, fault_of
from dcc.messages import count_of
from dcc.qc.database import QC_DATABASE
from dcc.settings import Settings

log = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 8
"""How long a database may take for one answer; checks ask nothing that takes long."""
_LONGEST_CONNECT: Final = 5.0
_LONGEST_LOGIN: Final = 8.0
_LONGEST_LISTING: Final = 15.0


@dataclass
class Environment:
    """An installation as checks see it; `deadline`, on the monotonic clock, is when all of them must be done."""

    settings: Settings
    deadline: float

    @property
    def seconds_left(self) -> float:
        """The seconds left, at least 0."""
        return max(0.0, self.deadline - time.monotonic())

    @property
    def short_timeout_settings(self) -> Settings:
        """The settings with short time limits, never longer than the configured ones."""
        settings = self.settings
        longest = max(self.seconds_left - 1, 1.0)
        return settings.model_copy(
            update={
                "connect_timeout": min(settings.connect_timeout, _LONGEST_CONNECT, longest),
                "login_timeout": min(settings.login_timeout, _LONGEST_LOGIN, longest),
                "list_timeout": min(settings.list_timeout, _LONGEST_LISTING, longest),
                "idle_timeout": min(settings.idle_timeout, _LONGEST_LOGIN, longest),
                "database_retry": 0.0,
                "store_retry": 0.0,
            }
        )

    def engine(self, database: Database) -> Engine:
        """An engine of one of the databases. Raises ConfigurationError for an empty URL."""
        url = self.settings.qc_database_url if database is QC_DATABASE else self.settings.tracker_database_url
        return open_url(parse_url(url, database), database, answer_seconds=_ANSWER_SECONDS)

    @contextmanager
    def reading(self, database: Database) -> Iterator[Connection]:
        """A connection for reading; raises NotReadyError if the database is away or has another schema."""
        with disposed(self.engine(database)) as engine:
            try:
                require_current(engine)
            except DccError as error:
                raise NotReadyError(f"The {database.name} is not ready; see above.") from error
            with engine.connect() as connection:
                yield connection


class NotReadyError(Exception):
    """Something that a check needs is missing; another check says why."""


class CheckStatus(StrEnum):
    """Verdicts from good to bad; NOT_CHECKED says nothing about the subject."""

    OK = "ok"
    NOT_CHECKED = "not checked"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """A finding on `subject`: `message` says how it is, `advice` what to do; without a problem `advice` is empty."""

    verdict: CheckStatus
    subject: str
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """A check: its name, and the function that runs it.

    If `run` raises, or takes too long, that is a finding of its own; `advice` is what to do if it takes too long.
    """

    name: str
    run: Callable[[Environment], Iterable[CheckFinding]]
    advice: str = "Something does not answer: see the other findings, or give it more time: dcc doctor --seconds 120"


_Answers = queue.SimpleQueue[CheckFinding | None]
"""The findings of a check, then None."""


def run_all(checks: Sequence[DoctorCheck], environment: Environment) -> Iterator[tuple[DoctorCheck, CheckFinding]]:
    """Run checks at the same time, and yield their findings in order, until the deadline.

    A check that raises, or is not done in time, yields a failure.
    """
    seconds = environment.seconds_left
    answers: list[_Answers] = [queue.SimpleQueue() for _ in checks]
    for check, found in zip(checks, answers, strict=True):
        arguments = (check, environment, found)
        threading.Thread(target=_ask, args=arguments, name=f"doctor {check.name}", daemon=True).start()
    for check, found in zip(checks, answers, strict=True):
        try:
            while (finding := found.get(timeout=environment.seconds_left)) is not None:
                yield check, finding
        except queue.Empty:
            late = f"It was not done within {count_of(round(seconds, 1), 'second')}."
            yield check, failed(check.name, late, check.advice)


def _ask(check: DoctorCheck, environment: Environment, found: _Answers) -> None:
    try:
        for finding in check.run(environment):
            found.put(finding)
    except NotReadyError as error:
        found.put(not_checked(check.name, str(error)))
    except DccError as error:
        found.put(failed(check.name, *explained(error)))
    except Exception as error:
        log.info("The check %s met a fault", check.name, exc_info=error)
        message = f"The check failed: {fault_of(error)}."
        advice = "If nothing else here explains it, report it with what `dcc --debug doctor` prints."
        found.put(failed(check.name, message, advice))
    finally:
        found.put(None)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A finding with the name of its check, and the seconds since the examination began."""

    check: str
    finding: CheckFinding
    seconds: float


ok = partial(CheckFinding, CheckStatus.OK)
"""All is well."""
warning = partial(CheckFinding, CheckStatus.WARNING)
"""It works, but somebody should look at it."""
failed = partial(CheckFinding, CheckStatus.FAILED)
"""It does not work."""
not_checked = partial(CheckFinding, CheckStatus.NOT_CHECKED)
"""It could not be checked, or was left out."""


def explained(error: DccError) -> tuple[str, str]:
    """The message of an error, which says what to do, and the command that explains errors of its kind."""
    return str(error), f"dcc explain {error.error_id()}"


def tried(subject: str, use: Callable[[], object], message: str) -> CheckFinding:
    """All is well, as the message says, if `use` raises no DccError; else it failed, as the error says."""
    try:
        use()
    except DccError as error:
        return failed(subject, *explained(error))
    return ok(subject, message)


def worst(verdicts: Iterable[CheckStatus]) -> CheckStatus:
    """The worst of some verdicts; ok for none."""
    return max(verdicts, key=list(CheckStatus).index, default=CheckStatus.OK)
