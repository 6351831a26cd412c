"""Runs all checks within a time limit: a check that crashes or hangs hides no other.

`CHECKS` lists those without Dagster, in the order in which they are shown. Add a new check there.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Final

from dcc.operations.doctor import databases, machine, sources, work
from dcc.operations.doctor.environment import Environment, NotReadyError
from dcc.operations.doctor.verdicts import Check, Examined, Finding, failed, not_checked
from dcc.redaction import redacted
from dcc.settings import Settings

CHECKS: Final = (
    Check("databases", databases.check_databases),
    Check("schemas", databases.check_schemas),
    Check("sessions", work.check_sessions),
    Check("sources", sources.check_registered),
    Check("access", sources.check_access),
    Check("passwords", sources.check_passwords),
    Check("disks", machine.check_disks),
    Check("staging", work.check_staging),
    Check("store", work.check_store),
    Check("archives", work.check_archive_store),
    Check("clock", machine.check_clock),
    Check("versions", machine.check_versions),
    Check("files", machine.check_file_limit),
    Check("text", machine.check_text),
    Check("xsd", work.check_schema_files),
    Check("reference", work.check_reference),
    Check("held", work.check_held),
    Check("reports", work.check_reports),
    Check("notifications", work.check_notifications),
)
"""Checks that need no source."""

ANSWERS: Final = Check("answers", sources.check_answers)
"""Logs into every active source."""

log = logging.getLogger(__name__)


def examine(settings: Settings, checks: Sequence[Check], *, seconds: float) -> Iterator[Examined]:
    """Run `checks` and yield their findings in order, within `seconds`.

    A check that raises, or is not done in time, yields a failure. No message contains a secret that this process knows.
    """
    began = time.monotonic()
    surroundings = Environment(settings, began + seconds)
    answers: queue.SimpleQueue[tuple[int, Finding | None]] = queue.SimpleQueue()
    for number, check in enumerate(checks):
        arguments = (number, check, surroundings, answers)
        threading.Thread(target=_ask, args=arguments, name=f"doctor {check.name}", daemon=True).start()
    found: list[list[Finding]] = [[] for _ in checks]
    waiting = set(range(len(checks)))
    turn = 0
    while turn < len(checks):
        while turn in waiting:
            _take(answers, found, waiting, surroundings.left)
            if surroundings.left <= 0 and turn in waiting:
                found[turn].append(_late(checks[turn], seconds))
                break
        for finding in found[turn]:
            yield _examined(checks[turn], finding, began)
        turn += 1
    surroundings.close()


def _ask(
    number: int,
    check: Check,
    surroundings: Environment,
    answers: queue.SimpleQueue[tuple[int, Finding | None]],
) -> None:
    try:
        for finding in check.run(surroundings):
            answers.put((number, finding))
    except NotReadyError as error:
        answers.put((number, not_checked(check.name, str(error))))
    except Exception as error:
        log.info("The check %s met a fault", check.name, exc_info=error)
        answers.put(
            (
                number,
                failed(
                    check.name,
                    f"The check failed: {type(error).__name__}: {error}.",
                    "If nothing else here explains it, report it with what `dcc --debug doctor` prints.",
                ),
            )
        )
    finally:
        answers.put((number, None))


def _take(
    answers: queue.SimpleQueue[tuple[int, Finding | None]],
    found: list[list[Finding]],
    waiting: set[int],
    timeout: float,
) -> None:
    """Take all answers that are ready; wait for one, but not longer than `timeout`."""
    while True:
        try:
            number, finding = answers.get(timeout=timeout)
        except queue.Empty:
            return
        timeout = 0.0
        if finding is None:
            waiting.discard(number)
        else:
            found[number].append(finding)


def _late(check: Check, seconds: float) -> Finding:
    return failed(
        check.name,
        f"It was not done within {seconds:g} seconds.",
        "Something does not answer: see the other findings, or give it more time: dcc doctor --seconds 120",
    )


def _examined(check: Check, finding: Finding, began: float) -> Examined:
    clean = Finding(finding.verdict, finding.subject, redacted(finding.message), redacted(finding.advice))
    return Examined(check.name, clean, time.monotonic() - began)
