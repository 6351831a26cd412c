"""Which submissions Dagster shows: all unfinished ones, and of the finished ones those that changed last.

Dagster is made for up to 100,000 partitions of an asset, and its pages read all of them at once. So the oldest finished
submissions are archived: their partitions and events are removed from the instance, while the tracker keeps everything.
DCC_DAGSTER_ZIPS successful and DCC_DAGSTER_FAILED_ZIPS failed ones stay.

The instance stores up to where submissions are archived: the horizon. It depends on the tracker's state of a submission
and the time of its last change. One that is re-opened, judged again, or whose quality control changes is shown again
completely.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Final

from dagster import DagsterInstance
from pydantic import BeforeValidator, PlainSerializer, TypeAdapter
from sqlalchemy import ColumnElement, Connection, Engine, and_, func, not_, or_, select, true, type_coerce

from dcc.databases.columns import UtcDateTime
from dcc.databases.transactions import run_reading
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, Status
from dcc.session.leases import active_sessions
from dcc.session.sessions import Session
from dcc.settings import Settings
from dcc.tracker.models import ZipAction, ZipFile
from dcc.tracker.submission_rows import submission_key_of
from dcc_assets import graph
from dcc_dagster.event_batches import remove_partitions

_CURSOR_KEY: Final = "dcc/zip actions archived"
_AT_ONCE: Final = 500
_SLACK: Final = 10
"""A tenth more than asked for may stay, so that not every session archives a few."""
_ASSETS: Final = [
    graph.ZIP_ACTIONS,
    graph.ZIP_DOWNLOADS,
    graph.XML_DOCUMENTS,
    graph.VALIDATED_DOCUMENTS,
    graph.UPLOADED_DATA,
    graph.DATA_INTEGRITY,
    graph.QC,
    graph.SUBMISSION_REPORTS,
]
_FAILED: Final = ZipAction.status_id == Status.FAILED


@dataclass(frozen=True, slots=True)
class Moment:
    """A position in the order of last changes: the time, and the id among those of the same second."""

    changed: str = ""
    zip_action: int = 0

    def before(self) -> ColumnElement[bool]:
        """Selects submissions that changed before it."""
        if not self.changed:
            return not_(true())
        when = datetime.fromisoformat(self.changed)
        changed = type_coerce(ZipAction.last_update, UtcDateTime())
        return or_(changed < when, and_(changed == when, ZipAction.id < self.zip_action))


def _phase_of(stored: object) -> object:
    """A phase by its name. Earlier versions stored its number."""
    return Phase[stored.upper()] if isinstance(stored, str) else stored


@dataclass(frozen=True, slots=True)
class Horizon:
    """Finished submissions that changed before it are archived: successful ones, and failed ones.

    `until` is the last phase of sessions.
    """

    finished: Moment = Moment()
    failed: Moment = Moment()
    until: Annotated[Phase, BeforeValidator(_phase_of), PlainSerializer(lambda phase: phase.short_name)] = Phase.QC

    def shows(self) -> ColumnElement[bool]:
        """Selects the shown submissions."""
        finished = and_(_is_finished(self.until), self.finished.before())
        return not_(or_(finished, and_(_FAILED, self.failed.before())))


@dataclass(frozen=True, slots=True)
class EventArchive:
    """Up to where an instance's submissions are archived, and up to where they are removed from it already."""

    horizon: Horizon = Horizon()
    removed: Horizon = Horizon()


_AS_JSON: Final = TypeAdapter(EventArchive)


def read_archive(instance: DagsterInstance) -> EventArchive:
    """An instance's archive; a new instance has archived nothing."""
    kept = instance.daemon_cursor_storage.get_cursor_values({_CURSOR_KEY}).get(_CURSOR_KEY)
    return _AS_JSON.validate_json(kept) if kept else EventArchive()


def archive_older(
    instance: DagsterInstance,
    tracker: Engine,
    settings: Settings,
    *,
    session: Session | None = None,
    start_over: bool = False,
) -> int:
    """Archive the oldest finished submissions beyond the limits; returns the number removed from the instance.

    `session` is the caller's; while others are active too, the last one to end does the work. An instance that is
    rebuilt has it done as if nothing were archived. Call after all reports are stored. The next call removes what a
    killed one left. Raises TrackerUnreachableError.
    """
    if session is not None and session.group is not None:
        leases = run_reading(tracker, lambda connection: active_sessions(connection, settings))
        if any(lease.session != session.id for lease in leases):
            return 0
    archive = EventArchive() if start_over else read_archive(instance)
    horizon = run_reading(tracker, partial(_next_horizon, settings=settings, now=archive.horizon))
    if horizon == archive.removed == archive.horizon and not start_over:
        return 0
    _write(instance, EventArchive(horizon, archive.removed))
    removed, last = 0, 0
    gone = and_(archive.removed.shows(), not_(horizon.shows()))
    while page := run_reading(tracker, partial(_page, condition=gone, after=last)):
        last = max(page)
        removed += remove_partitions(
            instance.event_log_storage,
            str(graph.ZIP_ACTION_PARTITIONS.name),
            _ASSETS,
            [key.partition for key in page.values()],
        )
    _write(instance, EventArchive(horizon, horizon))
    return removed


def _write(instance: DagsterInstance, archive: EventArchive) -> None:
    instance.daemon_cursor_storage.set_cursor_values({_CURSOR_KEY: _AS_JSON.dump_json(archive).decode()})


def _is_finished(until: Phase) -> ColumnElement[bool]:
    """Whether no session has more to do with a submission, and it did not fail."""
    done = and_(ZipAction.phase_id >= until, ZipAction.status_id == Status.DONE)
    withdrawn = ZipAction.status_id == Status.CANCELLED
    return and_(or_(ZipAction.phase_id == Phase.QC, done, withdrawn), not_(_FAILED))


def _next_horizon(connection: Connection, settings: Settings, now: Horizon) -> Horizon:
    until = max(settings.last_phase, Phase.XSD)
    return Horizon(
        _next_moment(connection, _is_finished(until), now.finished, settings.dagster_zips),
        _next_moment(connection, _FAILED, now.failed, settings.dagster_failed_zips),
        until,
    )


def _next_moment(connection: Connection, kind: ColumnElement[bool], now: Moment, kept: int) -> Moment:
    """The same moment while at most `kept` of a kind changed since it (plus some), else that of the oldest to stay."""
    shown = and_(kind, not_(now.before()))
    if (connection.scalar(select(func.count()).where(shown)) or 0) <= kept + kept // _SLACK:
        return now
    changed = ZipAction.last_update
    newest = select(changed, ZipAction.id).where(shown).order_by(changed.desc(), ZipAction.id.desc())
    when, zip_action = connection.execute(newest.offset(kept - 1).limit(1)).one()
    return Moment(when.isoformat(), zip_action)


def _page(connection: Connection, condition: ColumnElement[bool], after: int) -> dict[int, SubmissionKey]:
    """Some hundreds of submissions of a condition with ids above `after`, by their ids."""
    query = (
        select(ZipAction.id, ZipAction.todo_id, ZipFile.file_name)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .where(condition, ZipAction.id > after)
        .order_by(ZipAction.id)
        .limit(_AT_ONCE)
    )
    return {row.id: submission_key_of(row) for row in connection.execute(query)}
