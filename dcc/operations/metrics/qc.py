"""Metrics of the QC database: findings, data contexts, and the age of the reference data."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, func, select

from dcc.operations.metrics.families import Metric, gauge, timestamp
from dcc.qc.models import CONTEXT, FINDING, ISSUE, SNAPSHOT


def quality_families(connection: Connection) -> Iterator[Metric]:
    """All families about the content of the QC database."""
    findings = (
        select(FINDING.c.rule, FINDING.c.severity, func.count())
        .where(FINDING.c.is_active.is_(True))
        .group_by(FINDING.c.rule, FINDING.c.severity)
    )
    yield gauge(
        "findings_active",
        "Findings that count or warn at present, by rule.",
        ("rule", "severity"),
        {(rule, str(severity)): count for rule, severity, count in connection.execute(findings)},
    )
    contexts = select(CONTEXT.c.centre, CONTEXT.c.state, func.count()).group_by(CONTEXT.c.centre, CONTEXT.c.state)
    yield gauge(
        "contexts",
        "Data contexts, by centre and state.",
        ("centre", "state"),
        {(centre, str(state)): count for centre, state, count in connection.execute(contexts)},
    )
    yield gauge(
        "context_issues_open",
        "Issues of data contexts that nobody has resolved.",
        values=connection.scalar(select(func.count()).select_from(ISSUE).where(ISSUE.c.resolved.is_(None))),
    )
    snapshots = select(SNAPSHOT.c.name, SNAPSHOT.c.checked).where(SNAPSHOT.c.is_active.is_(True))
    yield gauge(
        "reference_checked_timestamp_seconds",
        "When a set of reference data was last found at its source.",
        ("name",),
        {(name,): timestamp(checked) for name, checked in connection.execute(snapshots)},
    )
