"""Metrics of sessions, submissions and documents, from the tracker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Connection, Select, func, select

from dcc.operations.metrics.families import Labels, Metric, counter, gauge, one_of, timestamp
from dcc.phases import Phase, Status
from dcc.session.data.documents import count_waiting
from dcc.session.leases import read_leases
from dcc.settings import Settings
from dcc.tracker import crawls
from dcc.tracker.models import (
    AnException,
    Centre,
    CrawlingSession,
    XmlFile,
    XmlLog,
    ZipAction,
    ZipFile,
)
from dcc.tracker.queries import zip_action_lists
from dcc.tracker.queries.session_zips import count_session_zips

_OUTCOMES: Final = ("active", "open", "succeeded", "failed", "cancelled", "unfinished")
_STATE: Final = ("centre", "phase", "status")


def session_families(connection: Connection, settings: Settings) -> Iterator[Metric]:
    """All families about crawling sessions."""
    yield counter(
        "sessions",
        "Crawling sessions that are over, by how they ended and the phase of the first task that failed.",
        ("outcome", "failed_phase"),
        _ended(connection),
    )
    leases = read_leases(connection, settings)
    yield gauge(
        "session_active",
        "How many crawling sessions processes hold: one of all centres, or one for each group of centres.",
        values=float(sum(lease.is_active for lease in leases)),
    )
    yield gauge(
        "session_lease_age_seconds",
        "Time since the holder of a session last gave a sign of life, by the group of its centres; none while nobody "
        "holds one.",
        ("group",),
        {
            ("" if lease.group is None else lease.group.name,): lease.age_seconds
            for lease in leases
            if not lease.is_open
        },
    )
    yield gauge(
        "last_successful_session_end_timestamp_seconds",
        "When the last crawling session ended that succeeded.",
        values=_last_success(connection),
    )
    last = next(iter(crawls.list_sessions(connection, limit=1)), None)
    if last is None:
        return
    yield gauge("last_session_id", "The id of the last crawling session.", values=last.id)
    yield one_of(
        "last_session_outcome",
        "How the last crawling session is or ended.",
        (),
        "outcome",
        _OUTCOMES,
        {(): last.outcome},
    )
    yield gauge(
        "last_session_start_timestamp_seconds",
        "When the last crawling session began.",
        values=timestamp(last.started),
    )
    if last.finished is not None:
        yield gauge(
            "last_session_end_timestamp_seconds",
            "When the last crawling session ended; none while it goes on.",
            values=timestamp(last.finished),
        )
    yield gauge(
        "last_session_duration_seconds",
        "How long the last crawling session took, or has taken by now.",
        values=timestamp(last.finished or _now()) - timestamp(last.started),
    )
    counts = count_session_zips(connection, last)
    yield gauge(
        "last_session_zip_actions",
        "Zip actions that the last crawling session had to do with, by their status: those that failed do not make it "
        "a failed session.",
        ("status",),
        {(status.short_name,): counts.get(status, 0) for status in Status},
    )


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _ended(connection: Connection) -> dict[Labels, float]:
    query = (
        select(CrawlingSession.status, func.count())
        .where(CrawlingSession.finish_time.is_not(None))
        .group_by(CrawlingSession.status)
    )
    ended: dict[Labels, float] = {("succeeded", ""): 0}
    for status, count in connection.execute(query):
        outcome = crawls.outcome_of(status)
        ended[outcome, Phase(status).short_name if outcome == "failed" else ""] = count
    return ended


def _last_success(connection: Connection) -> float | None:
    query = select(func.max(CrawlingSession.finish_time)).where(CrawlingSession.status == crawls.SUCCESS)
    ended = connection.scalar(query)
    return None if ended is None else timestamp(ended)


def work_families(connection: Connection) -> Iterator[Metric]:
    """All families about submissions and documents."""
    yield gauge("zip_actions", "Zip actions, by centre and state.", _STATE, _states(connection, _zip_actions()))
    yield gauge(
        "documents",
        "Documents of each zip action's latest download, by centre and state.",
        _STATE,
        _states(connection, _documents()),
    )
    yield gauge(
        "waiting_zip_actions",
        "Zip actions that the next session would download, or take up where they were left.",
        values=len(zip_action_lists.waiting_zip_actions(connection)),
    )
    yield gauge(
        "waiting_documents",
        "Valid documents that a session has to take further, with those that are held.",
        values=count_waiting(connection),
    )
    yield gauge(
        "held_documents",
        "Documents that wait to be confirmed: they would change much, or have data of another centre.",
        values=len(zip_action_lists.held_documents(connection)),
    )
    query = (
        select(AnException.short_name, func.count())
        .join(XmlLog, XmlLog.exception_id == AnException.id)
        .where(XmlLog.cleared.is_(None))
        .group_by(AnException.short_name)
    )
    yield gauge(
        "document_errors",
        "What is wrong with documents and holds at present, by its kind: a rule, or the error that stopped them.",
        ("kind",),
        {(kind,): count for kind, count in connection.execute(query)},
    )


def _zip_actions() -> Select[*tuple[Any, ...]]:
    return (
        select(Centre.short_name, ZipAction.phase_id, ZipAction.status_id, func.count())
        .select_from(ZipAction)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .outerjoin(Centre, Centre.id == ZipFile.centre_id)
        .group_by(Centre.short_name, ZipAction.phase_id, ZipAction.status_id)
    )


def _documents() -> Select[*tuple[Any, ...]]:
    latest = zip_action_lists.latest_downloads()
    return (
        select(Centre.short_name, XmlFile.phase_id, XmlFile.status_id, func.count())
        .select_from(XmlFile)
        .join(latest, latest.c.download_id == XmlFile.zip_id)
        .outerjoin(Centre, Centre.id == XmlFile.centre_id)
        .group_by(Centre.short_name, XmlFile.phase_id, XmlFile.status_id)
    )


def _states(connection: Connection, query: Select[*tuple[Any, ...]]) -> dict[Labels, float]:
    return {
        (centre or "", Phase(phase).short_name, Status(status).short_name): count
        for centre, phase, status, count in connection.execute(query)
    }
