"""Runs all checks within a time limit: a check that crashes or hangs hides no other.

`CHECKS` lists those without Dagster, in the order in which they are shown. Add a new check there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from dcc.operations.doctor import databases, machine, packages, sources, work
from dcc.operations.doctor.checks import Check, CheckResult, Environment, run_all
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
    Check("packages", packages.check_added),
    Check("files", machine.check_file_limit),
    Check("text", machine.check_text),
    Check("xsd", work.check_schema_files),
    Check("reference", work.check_reference),
    Check("held", work.check_held),
    Check("reports", work.check_reports),
    Check("templates", work.check_own_directories),
    Check("notifications", work.check_notifications),
)
"""Checks that need no source."""

ANSWERS: Final = Check("answers", sources.check_answers)
"""Logs into every active source."""


def examine(settings: Settings, checks: Sequence[Check], *, seconds: float) -> Iterator[CheckResult]:
    """Run `checks` and yield their findings in order, within `seconds`.

    A check that raises, or is not done in time, yields a failure. No message contains a secret that this process knows.
    """
    began = time.monotonic()
    environment = Environment(settings, began + seconds)
    for check, finding in run_all(checks, environment):
        shown = replace(finding, message=redacted(finding.message), advice=redacted(finding.advice))
        yield CheckResult(check.name, shown, time.monotonic() - began)
