"""The checks that need no Dagster, in the order in which they are told. To add one, write it and put it here."""

from __future__ import annotations

from typing import Final

from dcc.operations.doctor import databases, machine, sources, work
from dcc.operations.doctor.verdicts import Check

CHECKS: Final = (
    Check("databases", databases.check_databases),
    Check("schemas", databases.check_schemas),
    Check("sessions", work.check_sessions),
    Check("sources", sources.check_registered),
    Check("access", sources.check_access),
    Check("passwords", sources.check_passwords),
    Check("disks", machine.check_disks),
    Check("staging", work.check_staging),
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
"""What can be told without asking file sources."""

ANSWERS: Final = Check("answers", sources.check_answers)
"""Asks every file source that is crawled."""
