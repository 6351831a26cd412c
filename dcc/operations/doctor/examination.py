"""Runs all checks within a time limit: a check that crashes or hangs hides no other.

`DOCTOR_CHECKS` lists those without Dagster, in the order in which they are shown. Add a new check there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from dcc.operations.doctor import databases, machine, notifications, packages, sources, stores, work
from dcc.operations.doctor.checks import CheckResult, DoctorCheck, Environment, run_all
from dcc.redaction import redacted
from dcc.settings import Settings

DOCTOR_CHECKS: Final = (
    DoctorCheck("databases", databases.check_databases),
    DoctorCheck("schemas", databases.check_schemas),
    DoctorCheck("sessions", work.check_sessions),
    DoctorCheck("sources", sources.check_registered),
    DoctorCheck("access", sources.check_access),
    DoctorCheck("passwords", sources.check_passwords),
    DoctorCheck("disks", machine.check_disks),
    DoctorCheck("staging", stores.check_staging),
    DoctorCheck("store", stores.check_store),
    DoctorCheck("archives", stores.check_archive_store),
    DoctorCheck("clock", machine.check_clock),
    DoctorCheck("versions", packages.check_versions),
    DoctorCheck("packages", packages.check_added),
    DoctorCheck("files", machine.check_file_limit),
    DoctorCheck("text", machine.check_text),
    DoctorCheck("xsd", work.check_schema_files),
    DoctorCheck("rules", work.check_rules),
    DoctorCheck("reference", work.check_reference),
    DoctorCheck("held", work.check_held),
    DoctorCheck("shared data", work.check_shared_data),
    DoctorCheck("reports", notifications.check_reports),
    DoctorCheck("settings", work.check_settings),
    DoctorCheck("templates", work.check_own_directories),
    DoctorCheck("notifications", notifications.check_notifications),
)
"""Checks that need no source."""

ANSWERS: Final = DoctorCheck("answers", sources.check_answers)
"""Logs into every active source."""


def examine(settings: Settings, checks: Sequence[DoctorCheck], *, seconds: float) -> Iterator[CheckResult]:
    """Run `checks` and yield their findings in order, within `seconds`.

    A check that raises, or is not done in time, yields a failure. No message contains a secret that this process knows.
    """
    began = time.monotonic()
    environment = Environment(settings, began + seconds)
    for check, finding in run_all(checks, environment):
        shown = replace(finding, message=redacted(finding.message), advice=redacted(finding.advice))
        yield CheckResult(check.name, shown, time.monotonic() - began)
