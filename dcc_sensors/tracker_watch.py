"""What the sensors see: the tracker, and nothing beyond it. No file source is ever spoken to from here."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from dcc_resources.sessions import read_lease
from dcc_resources.settings import Settings
from dcc_resources.tracker.database import open_tracker, require_current
from dcc_resources.tracker.download_plan import count_not_arrived
from dcc_resources.tracker.models import SessionTask, SourceCrawlRow
from dcc_resources.tracker.queries import waiting_zip_actions
from dcc_resources.tracker.reference import Phase


@dataclass(frozen=True, slots=True)
class TrackerView:
    """What there is to do, and who is at it.

    `waiting` and `failed_downloads` count zip actions. `open_session` is the session that a later run may resume;
    `active_session` is held by a process at this moment. `last_crawl` and `last_crawled_session` are the newest crawl
    of any file source and its session, `last_download_session` the newest session that downloaded; 0 for none.
    """

    waiting: int
    failed_downloads: int
    open_session: int | None
    active_session: int | None
    last_crawl: int
    last_crawled_session: int
    last_download_session: int


def look_at_tracker(settings: Settings) -> TrackerView:
    """Look at the tracker, in a few short statements. Raises TrackerOutdatedError and TrackerUnreachableError."""
    tracker = open_tracker(settings)
    try:
        require_current(tracker)
        with tracker.connect() as connection:
            return _view(connection, settings)
    finally:
        tracker.dispose()


def _view(connection: Connection, settings: Settings) -> TrackerView:
    lease = read_lease(connection, settings)
    last_crawl, last_crawled_session = connection.execute(
        select(func.coalesce(func.max(SourceCrawlRow.id), 0), func.coalesce(func.max(SourceCrawlRow.session_id), 0))
    ).one()
    last_download = connection.scalar(
        select(func.coalesce(func.max(SessionTask.session_id), 0)).where(SessionTask.phase_id == int(Phase.DOWNLOAD))
    )
    return TrackerView(
        waiting=len(waiting_zip_actions(connection)),
        failed_downloads=count_not_arrived(connection),
        open_session=lease.handed_over,
        active_session=lease.active,
        last_crawl=last_crawl,
        last_crawled_session=last_crawled_session,
        last_download_session=last_download or 0,
    )
