"""When sources may be crawled, who paused them, and which are due, in the register; see `dcc.sources.crawl_policy`."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, ScalarSelect, func, select, type_coerce, update
from sqlalchemy.orm import aliased

from dcc.databases.columns import UtcDateTime, require_text
from dcc.errors import ConfigurationError
from dcc.outcomes import CrawlOutcome
from dcc.runtime.clock import utc_now
from dcc.sources.crawl_policy import CrawlDue, CrawlPolicy, PastCrawls, Pause, Schedule, Windows, crawl_due, parse_age
from dcc.tracker.models import Centre, FileSource, FileSourceHasZip, SourceCrawlRow, ZipAction
from dcc.tracker.register.source_addresses import is_paused, require_source
from dcc.tracker.states import WAITING
from dcc.tracker.submission_rows import is_at
from dcc.vocabulary import SourceState

_MINUTE: Final = timedelta(minutes=1)
_CHANGED: Final = type_coerce(FileSource.last_update, UtcDateTime())


_Good = aliased(SourceCrawlRow)


def policy_of(row: Any) -> CrawlPolicy:
    """The policy of a source, from its row."""
    every = None if row.crawl_every is None else row.crawl_every * _MINUTE
    pause = (
        None if row.paused is None else Pause(row.pause_reason or "", row.paused_by or "", row.paused, row.paused_until)
    )
    windows = Windows.parse(row.crawl_windows) if row.crawl_windows else None
    return CrawlPolicy(every, windows, pause, Schedule.parse(row.crawl_schedule) if row.crawl_schedule else None)


def policy_columns(every: str | None, windows: str | None, schedule: str | None) -> dict[str, object]:
    """The columns of an age, of windows and of a schedule; None leaves them, empty text removes them.

    Raises ConfigurationError.
    """
    columns: dict[str, object] = {}
    try:
        if every is not None:
            columns["crawl_every"] = parse_age(every) // _MINUTE if every else None
        if windows is not None:
            columns["crawl_windows"] = Windows.parse(windows).text if windows else None
        if schedule is not None:
            columns["crawl_schedule"] = Schedule.parse(schedule).text if schedule else None
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    return columns


def set_pause(connection: Connection, source_id: int, pause: Pause | None) -> None:
    """Pause a source, or resume it: None. Its failures so far do not count any more.

    Raises NotFoundError, and ConfigurationError for a reason that is blank or too long.
    """
    reason = pause and require_text("reason", pause.reason.strip(), FileSource.pause_reason)
    require_source(connection, source_id)
    values = {
        "paused": pause and pause.since,
        "paused_until": pause and pause.until,
        "paused_by": pause and pause.by,
        "pause_reason": reason,
        # Also if nothing else changes, because failures before it do not count.
        "last_update": func.current_timestamp(),
    }
    connection.execute(update(FileSource).where(FileSource.id == source_id).values(values))


def paused_sources(connection: Connection) -> set[int]:
    """The ids of the sources that are paused now."""
    return set(connection.scalars(select(FileSource.id).where(is_paused())))


def usable_sources(connection: Connection, failure_limit: int, *, named: Collection[int] = ()) -> set[int]:
    """The ids of the sources from which archives may be fetched now; `named` as for `load_crawl_dues`."""
    dues = load_crawl_dues(connection, failure_limit, named=named)
    return {source_id for source_id, due in dues.items() if due.may_be_used}


def load_crawl_dues(
    connection: Connection, failure_limit: int, now: datetime | None = None, *, named: Collection[int] = ()
) -> dict[int, CrawlDue]:
    """Whether each source that is not removed is due, by id; those that a person has `named` override their schedule.

    Failures before the source was last changed do not count.
    """
    now = now or utc_now()
    return {
        row.id: crawl_due(
            policy_of(row),
            PastCrawls(row.listed, row.failures, row.failed, row.changed, bool(row.has_uploads)),
            now,
            failure_limit,
            is_named=row.id in named,
            is_active=row.centre_active,
            is_available=row.state == SourceState.AVAILABLE,
        )
        for row in connection.execute(_DUES)
    }


def _of_last_listing(column: Any) -> ScalarSelect[Any]:
    return (
        select(column)
        .where(_Good.file_source_id == FileSource.id, _Good.outcome != CrawlOutcome.FAILED)
        .order_by(_Good.id.desc())
        .limit(1)
        .correlate(FileSource)
        .scalar_subquery()
    )


def _of_failures(column: Any) -> ScalarSelect[Any]:
    return (
        select(column)
        .where(
            SourceCrawlRow.file_source_id == FileSource.id,
            SourceCrawlRow.id > func.coalesce(_of_last_listing(_Good.id), 0),
            SourceCrawlRow.finish_time >= _CHANGED,
        )
        .correlate(FileSource)
        .scalar_subquery()
    )


# The waiting archives are few, and found by an index.
_WITH_UPLOADS: Final = (
    select(FileSourceHasZip.file_source_id)
    .join(ZipAction)
    .where(is_at(ZipAction, WAITING), FileSourceHasZip.uploading_since.is_not(None))
)
_DUES: Final = (
    select(
        FileSource,
        _CHANGED.label("changed"),
        _of_last_listing(_Good.start_time).label("listed"),
        _of_failures(func.count()).label("failures"),
        _of_failures(func.max(SourceCrawlRow.finish_time)).label("failed"),
        FileSource.id.in_(_WITH_UPLOADS).label("has_uploads"),
        Centre.is_active.label("centre_active"),
        FileSource.state_id.label("state"),
    )
    .join(Centre, Centre.id == FileSource.centre_id)
    .where(FileSource.state_id != SourceState.REMOVED)
    .order_by(FileSource.id)
)
