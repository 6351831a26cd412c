"""What a person asks of a crawl: which sources it lists, and which submissions come first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from sqlalchemy import Connection, Engine

from dcc.databases.transactions import run_reading, run_writing
from dcc.errors import ConfigurationError, NotFoundError
from dcc.nearest_names import nearest_sentence
from dcc.outcomes import SubmissionKey
from dcc.session.leases import named_group
from dcc.settings import Settings
from dcc.tracker.hostings.urgent_requests import not_waiting, request_urgently
from dcc.tracker.listings.recording import archives_by_source
from dcc.tracker.register.centres import centre_ids
from dcc.tracker.register.file_sources import SourceEntry, list_sources
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.register.source_schedules import load_crawl_dues


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
    centres = None if group is None else named_group(settings, group).centres
    even_if_not_due = even_if_not_due or bool(source_ids)

    def look(connection: Connection) -> list[int]:
        dues = {} if even_if_not_due else load_crawl_dues(connection, settings.source_failure_limit)
        crawlable = [
            address.id
            for address in load_addresses(connection, ids=source_ids or None)
            if (centres is None or address.centre in centres) and (even_if_not_due or dues[address.id].is_due)
        ]
        for entry in list_sources(connection, source_ids) if source_ids else ():
            if entry.id not in crawlable:
                _refuse(entry)
        registered = centre_ids(connection) if centres else {}
        for centre in sorted((centres or set()) - registered.keys()):
            nearest = nearest_sentence(centre, registered)
            raise NotFoundError(
                f"Centre {centre} of the group {group} is not registered.{nearest} Correct DCC_GROUPS, or register it "
                "with `dcc centre add`."
            )
        return crawlable

    return run_reading(tracker, look)


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


class UrgentRequest(NamedTuple):
    """Submissions that a person wants first: those that wait or are not known yet, and those that do not wait.

    `source_ids` are the sources that list the former. If one is not known, they are those of the centres in the names.
    """

    wanted: list[SubmissionKey]
    source_ids: list[int]
    not_waiting: list[SubmissionKey]


def request_urgent(
    tracker: Engine, settings: Settings, keys: Sequence[SubmissionKey], requested_by: str
) -> UrgentRequest:
    """Record that a person wants submissions first; those that do not wait for their download are left out."""

    def request(connection: Connection) -> UrgentRequest:
        done = not_waiting(connection, keys)
        wanted = [key for key in keys if key not in done]
        request_urgently(connection, wanted, requested_by)
        listed = archives_by_source(connection, wanted)
        is_known = set(wanted) <= {key for found in listed.values() for key in found}
        available = load_addresses(connection, ids=sorted(listed) if is_known else None)
        centres = {settings.naming.centre_of_archive(key.file_name) for key in wanted}
        source_ids = [address.id for address in available if is_known or address.centre in centres]
        return UrgentRequest(wanted, source_ids, done)

    return run_writing(tracker, request)
