"""A session's work as `dcc` asks for it: through Dagster's assets and instance, or without, as the settings say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcc_cli.context import user_name
from dcc_resources.errors import ConfigurationError, DagsterStorageError, DagsterUnreachableError

if TYPE_CHECKING:
    from dagster import DagsterInstance
    from sqlalchemy import Connection, Engine

    from dcc_resources.data_outcomes import DataOutcome
    from dcc_resources.outcomes import SourceCrawl, ZipKey, ZipOutcome
    from dcc_resources.sessions import Session
    from dcc_resources.settings import Settings
    from dcc_resources.tracker.registry import SourceEntry

Notices = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who hears of each outcome, in the session's thread; `on_begin` of the session itself."""

    on_crawl: Callable[[SourceCrawl], None]
    on_zip: Callable[[ZipOutcome], None]
    on_data: Callable[[DataOutcome], None]
    on_begin: Callable[[Session], None] = lambda _: None


def sources_to_crawl(tracker: Engine, settings: Settings, source_ids: Sequence[int]) -> list[int]:
    """Ids of the file sources that a crawl of `source_ids` (all, if there are none) will list.

    Raises NotFoundError for one that does not exist, ConfigurationError for one that may not be crawled.
    """
    from dcc_resources.tracker import registry
    from dcc_resources.tracker.database import run_reading
    from dcc_resources.tracker.sources import load_addresses

    def look(connection: Connection) -> tuple[list[int], list[SourceEntry]]:
        crawlable = [address.id for address in load_addresses(connection, ids=source_ids or None)]
        return crawlable, registry.list_sources(connection, source_ids) if source_ids else []

    crawlable, wanted = run_reading(tracker, look, patience_seconds=settings.database_retry)
    for entry in wanted:
        if entry.id not in crawlable:
            state = f"in the state {entry.state}" if entry.centre_active else f"of centre {entry.centre}, not active,"
            raise ConfigurationError(
                f"File source {entry.id} is {state} and is not crawled. Change that with "
                f"`dcc source set-state {entry.id} available` or `dcc centre activate {entry.centre}`."
            )
    return crawlable


def crawl_and_process(
    tracker: Engine, settings: Settings, source_ids: Sequence[int] | None, heard: Listeners
) -> tuple[int | None, Notices]:
    """Run one whole session in this process; returns its id and what it has to say beside its work.

    Raises SessionActiveError, SessionLostError, DatabaseUnreachableError, DatabaseOutdatedError, InternalFaultError,
    and, when everything is done, DagsterStorageError.
    """
    instance, away = _open_dagster(settings)
    if instance is not None:
        from dcc_assets.session_runs import run_session

        with instance:
            report = run_session(
                settings,
                tracker,
                instance,
                source_ids=source_ids,
                until=settings.last_phase,
                on_crawl=heard.on_crawl,
                on_zip=heard.on_zip,
                on_data=heard.on_data,
                on_begin=heard.on_begin,
            )
        return report.session_id, report.notices
    from dcc_resources.crawling import crawl_file_sources
    from dcc_resources.sessions import open_session

    with open_session(tracker, settings) as session:
        heard.on_begin(session)
        for crawl in crawl_file_sources(tracker, settings, session, source_ids):
            heard.on_crawl(crawl)
        _process(tracker, settings, session, None, heard)
    _raise_away(session, away)
    return session.id, session.notices


def _open_dagster(settings: Settings) -> tuple[DagsterInstance | None, DagsterUnreachableError | None]:
    """The Dagster instance, unless it is not wanted; or why there is none: its database is away.

    The work does not wait for that, since the tracker has it in any case.
    """
    if not settings.dagster_events:
        return None, None
    from dcc_assets.instance import open_instance

    try:
        return open_instance(settings), None
    except DagsterUnreachableError as error:
        return None, error


def _raise_away(session: Session, away: DagsterUnreachableError | None) -> None:
    if away is not None:
        raise DagsterStorageError(
            f"Session {session.id} is done and in the tracker, but Dagster was not shown it: {away} The next session "
            "shows it, or all at once: dcc instance rebuild."
        ) from away


def process_again(
    tracker: Engine, settings: Settings, keys: Sequence[ZipKey], heard: Listeners
) -> tuple[int | None, Notices]:
    """Re-open zip actions in the user's name and process them, as a session; returns as `crawl_and_process`.

    Raises what it raises, NotFoundError for a zip action that is not known or hosted, ConfigurationError for one whose
    name is refused; of these no session remains, unless things changed at the very moment.
    """
    from dcc_resources.tracker.database import run_reading
    from dcc_resources.tracker.retries import require_retriable

    # A session that broke off counts as an outage, of which people are told; a wrong name is none.
    run_reading(
        tracker, lambda connection: require_retriable(connection, keys), patience_seconds=settings.database_retry
    )
    instance, away = _open_dagster(settings)
    if instance is not None:
        from dcc_assets.session_runs import run_zip_actions

        with instance:
            report = run_zip_actions(
                settings,
                tracker,
                instance,
                keys,
                requested_by=user_name(),
                until=settings.last_phase,
                on_zip=heard.on_zip,
                on_data=heard.on_data,
                on_begin=heard.on_begin,
            )
        return report.session_id, report.notices
    from dcc_resources.sessions import open_session

    with open_session(tracker, settings) as session:
        heard.on_begin(session)
        _process(tracker, settings, session, keys, heard)
    _raise_away(session, away)
    return session.id, session.notices


def _process(
    tracker: Engine, settings: Settings, session: Session, keys: Sequence[ZipKey] | None, heard: Listeners
) -> None:
    from dcc_resources.tracker.reference import Phase
    from dcc_resources.zip_processing import process_zip_actions

    if settings.last_phase < Phase.XSD:
        return
    for outcome in process_zip_actions(tracker, settings, session, keys, requested_by=user_name()):
        heard.on_zip(outcome)
    if settings.last_phase < Phase.UPLOAD:
        return
    from dcc_cli.context import open_qc
    from dcc_resources.data_phases.session_data import take_up_data

    with open_qc(settings, patience_seconds=settings.database_retry) as qc:
        for data in take_up_data(tracker, qc, settings, session, until=settings.last_phase, keys=keys):
            heard.on_data(data)
