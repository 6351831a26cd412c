"""Runs all consistency rules on an installation, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from sqlalchemy import Connection, Engine, func, select

from dcc.operations.consistency import qc_rules, tracker_rules
from dcc.operations.consistency.inconsistency import Inconsistency, bounded
from dcc.session.leases import active_sessions, read_leases
from dcc.settings import Settings
from dcc.store.staging import Staging
from dcc.tracker.models import CrawlingSession


def check_consistency(tracker: Engine, qc: Engine | None, settings: Settings) -> list[Inconsistency]:
    """The inconsistencies of an installation; none if all is well. The databases are only read.

    `qc` is None if there is no QC database yet. The first of each rule are returned, and the number of the others.
    Staging is read completely if it exists; an archive that was removed from it is no fault. While a session is active,
    only rules that hold at all times are checked. Memory does not grow with the number of archives. Raises the
    `unreachable` error of either database, and SQLAlchemy's errors.
    """
    with tracker.connect() as connection:
        always = list(bounded(_always(connection, qc, settings)))
    return always + check_at_rest(tracker, settings, partial(_at_rest, qc=qc, settings=settings))


def check_at_rest(
    tracker: Engine, settings: Settings, look: Callable[[Connection], Iterable[Inconsistency]]
) -> list[Inconsistency]:
    """What `look` finds with a connection to the tracker, unless a session is active or begins meanwhile.

    The first of each rule are returned, and the number of the others.
    """
    with tracker.connect() as connection:
        is_active, newest = _moment(connection, settings)
        found = [] if is_active else list(bounded(look(connection)))
    with tracker.connect() as connection:
        # Work of a session that began meanwhile may look wrong.
        return found if _moment(connection, settings) == (is_active, newest) else []


def _moment(connection: Connection, settings: Settings) -> tuple[bool, int]:
    """Whether a session is active, and the number of the newest one."""
    is_active = bool(active_sessions(connection, settings))
    return is_active, connection.scalar(select(func.max(CrawlingSession.id))) or 0


def _always(tracker: Connection, qc: Engine | None, settings: Settings) -> Iterator[Inconsistency]:
    """Rules that every transaction keeps."""
    yield from tracker_rules.zip_action_hostings(tracker)
    yield from tracker_rules.listings(tracker)
    yield from tracker_rules.nothing_twice(tracker)
    yield from tracker_rules.failure_reasons(tracker)
    yield from tracker_rules.ended_sessions(tracker, read_leases(tracker, settings))
    if settings.archive_keep_days is None:
        yield from tracker_rules.stored_archives(tracker)
    if qc is not None:
        with qc.connect() as connection:
            yield from qc_rules.finding_states(connection)
            yield from qc_rules.one_current_version(connection)
            yield from qc_rules.lifetimes(connection)
            yield from qc_rules.document_counts(connection)
            yield from qc_rules.context_sums(connection)
            yield from qc_rules.context_members(connection)


def _at_rest(tracker: Connection, qc: Engine | None, settings: Settings) -> Iterator[Inconsistency]:
    """Rules that hold after sessions."""
    staging = Staging(settings.staging_directory)
    yield from tracker_rules.zip_states(tracker)
    yield from tracker_rules.download_states(tracker)
    yield from tracker_rules.nothing_under_way(tracker)
    yield from tracker_rules.staged_archives(tracker, staging)
    yield from tracker_rules.staged_documents(tracker, staging)
    yield from tracker_rules.unfinished_files(tracker, staging)
    if qc is not None:
        with qc.connect() as connection:
            yield from qc_rules.document_states(tracker, connection)
            yield from qc_rules.finding_logs(tracker, connection, settings.max_document_errors)
