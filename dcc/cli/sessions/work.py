"""Runs a session for `dcc`: through Dagster's assets and instance, or without, as the settings say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, Unpack

from dcc.cli.shell.context import user_name
from dcc.cli.shell.dagster_side import dagster_side
from dcc.errors import ConfigurationError, DagsterStorageError, DagsterUnreachableError, NotFoundError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from dcc.operations.sessions import SessionRequest
    from dcc.outcomes import ZipKey
    from dcc.settings import Settings
    from dcc.tracker.register.file_sources import SourceEntry

Notices = tuple[str, ...]


def sources_to_crawl(
    tracker: Engine,
    settings: Settings,
    source_ids: Sequence[int],
    *,
    group: str | None = None,
    even_if_not_due: bool = False,
) -> list[int]:
    """Ids of the sources that a crawl of `source_ids` lists; without any, of those that are due, or of all.

    With a group of centres, of these alone. Raises NotFoundError for a source that does not exist, a group that
    DCC_GROUPS does not name, and a centre in it that is not registered. Raises ConfigurationError for a source that may
    not be crawled.
    """
    from dcc.databases.transactions import run_reading
    from dcc.nearest_names import nearest_sentence
    from dcc.session.leases import named_group
    from dcc.tracker.register import file_sources
    from dcc.tracker.register.centres import list_centres
    from dcc.tracker.register.source_addresses import load_addresses, load_crawl_dues

    centres = None if group is None else named_group(settings, group).centres
    even_if_not_due = even_if_not_due or bool(source_ids)

    def look(connection: Connection) -> tuple[list[int], list[SourceEntry], list[str]]:
        dues = {} if even_if_not_due else load_crawl_dues(connection, settings.source_failure_limit)
        crawlable = [
            address.id
            for address in load_addresses(connection, ids=source_ids or None)
            if (centres is None or address.centre in centres) and (even_if_not_due or dues[address.id].is_due)
        ]
        wanted = file_sources.list_sources(connection, source_ids) if source_ids else []
        return crawlable, wanted, [entry.short_name for entry in list_centres(connection)] if centres else []

    crawlable, wanted, registered = run_reading(tracker, look)
    for entry in wanted:
        if entry.id not in crawlable:
            _refuse(entry)
    for centre in sorted((centres or set()) - set(registered)):
        raise NotFoundError(
            f"Centre {centre} of the group {group} is not registered.{nearest_sentence(centre, registered)} Correct "
            "DCC_GROUPS, or register it with `dcc centre add`."
        )
    return crawlable


def _refuse(entry: SourceEntry) -> NoReturn:
    """Raise ConfigurationError for a source that may not be crawled."""
    if entry.pause is not None:
        raise ConfigurationError(
            f"File source {entry.id} is paused by {entry.pause.by}: {entry.pause.reason}. It is not crawled before "
            f"`dcc source resume {entry.id}`."
        )
    state = f"in the state {entry.state}" if entry.centre_active else f"of centre {entry.centre}, not active,"
    raise ConfigurationError(
        f"File source {entry.id} is {state} and is not crawled. Change that with "
        f"`dcc source set-state {entry.id} available` or `dcc centre activate {entry.centre}`."
    )


def request_urgent(
    tracker: Engine, settings: Settings, keys: Sequence[ZipKey]
) -> tuple[list[ZipKey], list[int], list[ZipKey]]:
    """Record that the user wants submissions first.

    Returns those that wait or are not known yet, the sources that list them (if one is not known, those of the centres
    in the names). Third come those that do not wait for their download.
    """
    from dcc.databases.transactions import run_writing
    from dcc.tracker.hostings.retries import not_waiting, request_urgently
    from dcc.tracker.listings.recording import archives_by_source
    from dcc.tracker.register.source_addresses import load_addresses

    def request(connection: Connection) -> tuple[list[ZipKey], list[int], list[ZipKey]]:
        done = not_waiting(connection, keys)
        wanted = [key for key in keys if key not in done]
        request_urgently(connection, wanted, user_name())
        listed = archives_by_source(connection, wanted)
        is_known = set(wanted) <= {key for found in listed.values() for key in found}
        available = load_addresses(connection, ids=sorted(listed) if is_known else None)
        centres = {settings.naming.centre_of_zip(key.file_name) for key in wanted}
        return wanted, [address.id for address in available if is_known or address.centre in centres], done

    return run_writing(tracker, request)


def still_urgent(tracker: Engine, keys: Sequence[ZipKey]) -> list[ZipKey]:
    """Those of some submissions that are wanted first and could not be fetched yet."""
    from dcc.databases.transactions import run_reading
    from dcc.tracker.hostings.retries import urgent_keys

    waiting = set(run_reading(tracker, urgent_keys))
    return [key for key in keys if key in waiting]


def run_session(tracker: Engine, settings: Settings, **request: Unpack[SessionRequest]) -> tuple[int | None, Notices]:
    """Run one complete session in this process; returns its id and notices.

    It does the `request` (see `open_work`) in the user's name. It runs in Dagster, and without it if that is not
    wanted or its database is away: the tracker has the work.

    Raises SessionActiveError, SessionLostError, DatabaseUnreachableError, DatabaseOutdatedError, InternalFaultError,
    and, after everything is done, DagsterStorageError. Of `keys`, raises NotFoundError for one that is unknown or not
    hosted, BadFileNameError for a refused name, and ConfigurationError for one that changed after its data were
    uploaded. These leave no session behind, except for changes at the same moment.
    """
    from dcc.databases.transactions import run_reading
    from dcc.operations.sessions import open_work
    from dcc.tracker.hostings.retries import require_retriable

    if (keys := request.get("keys")) is not None:
        # A session that broke off counts as an outage, of which people are notified; a wrong name does not.
        run_reading(tracker, lambda connection: require_retriable(connection, keys))
    request["requested_by"] = user_name()
    away: DagsterUnreachableError | None = None
    if settings.dagster_events:
        try:
            opened = dagster_side().open_instance(settings)
        except DagsterUnreachableError as error:
            away = error
        else:
            with opened as instance:
                report = dagster_side().run_session(settings, tracker, instance, **request)
            return report.session_id, report.notices
    with open_work(tracker, settings, **request) as work:
        work.finish()
    session = work.session
    if away is not None:
        raise DagsterStorageError(
            f"Session {session.id} is done and in the tracker, but Dagster was not shown it: {away} The next session "
            "shows it, or all at once: dcc instance rebuild."
        ) from away
    return session.id, session.notices
