"""What became of zip actions up to their validation, shown in Dagster where the session that did it was killed.

A session tells of zip actions as they finish, a second after they are in the tracker. What one that died had not told
is found by a mark: up to which zip action, download, refusal and re-opening everything had been shown at last. It goes
by ids, which no clock can put out of order, and is kept in the Dagster instance, so that a new instance is shown
everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Final

from dagster import DagsterInstance
from sqlalchemy import ColumnElement, Connection, Engine, func, or_, select

from dcc.outcomes import ZipKey, ZipOutcome
from dcc.phases import ACTIONS_BY_ID, Phase, Status
from dcc.settings import Settings
from dcc.store.staging import Staging
from dcc.tracker.database import run_reading
from dcc.tracker.models import FileSourceHasZip, Reopening, ZipAction, ZipActionLog, ZipDownload, ZipFile
from dcc_assets.metadata.archives import whole_zip_report
from dcc_assets.sync.archive_records import recorded_zips
from dcc_assets.sync.horizon import archive_older, read_archive
from dcc_dagster.event_recorder import EventRecorder
from dcc_dagster.partition_events import Report

_MARK: Final = "dcc/zip actions shown"
_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class ZipMark:
    """The newest ids of `zip_action`, `zip_download`, `zip_action_log` and `reopening` that had been shown."""

    zip_actions: int = 0
    downloads: int = 0
    refusals: int = 0
    reopenings: int = 0


def show_unshown(instance: DagsterInstance, recorder: EventRecorder, tracker: Engine, settings: Settings) -> None:
    """Show what no session told of; the mark stays, since what is told is stored only when the recorder is left.

    Raises TrackerUnreachableError, as `note_shown` and `recorded_reports` do.
    """
    mark = read_zip_mark(instance)
    if mark == ZipMark():
        archive_older(instance, tracker, settings)
    if run_reading(tracker, newest_zip_mark, patience_seconds=settings.database_retry) == mark:
        return
    last, shown = 0, read_archive(instance).horizon.shows()
    while page := run_reading(
        tracker, partial(_unshown, mark=mark, shown=shown, after=last), patience_seconds=settings.database_retry
    ):
        last = max(page)
        recorder.tell_of_many(recorded_reports(tracker, settings, list(page.values())))


def recorded_reports(tracker: Engine, settings: Settings, keys: Sequence[ZipKey]) -> Iterator[Report]:
    """Reports of what the tracker has recorded of zip actions."""
    staging = Staging(settings.staging_directory)
    for start in range(0, len(keys), _AT_ONCE):
        load = partial(_recorded, keys=keys[start : start + _AT_ONCE])
        for outcome in run_reading(tracker, load, patience_seconds=settings.database_retry):
            yield whole_zip_report(outcome, staging)


def note_shown(instance: DagsterInstance, tracker: Engine, settings: Settings) -> None:
    """Note that everything is shown; called when the recorder is left.

    What is unfinished will be told of by a session to come, which may be killed: as long as anything is, downloads
    count as not shown.
    """
    newest, unfinished = run_reading(tracker, _newest_and_unfinished, patience_seconds=settings.database_retry)
    if unfinished:
        newest = replace(newest, downloads=read_zip_mark(instance).downloads)
    write_zip_mark(instance, newest)


def _newest_and_unfinished(connection: Connection) -> tuple[ZipMark, bool]:
    unfinished = (
        select(ZipAction.id)
        .where(ZipAction.phase_id.between(int(Phase.ZIP_MD5), int(Phase.XSD)))
        .where(ZipAction.status_id.in_([int(Status.PENDING), int(Status.RUNNING)]))
    )
    return newest_zip_mark(connection), connection.scalar(unfinished.limit(1)) is not None


def newest_zip_mark(connection: Connection) -> ZipMark:
    """How far there is anything to be shown."""
    newest = (
        connection.scalar(select(func.max(model.id))) or 0
        for model in (ZipAction, ZipDownload, ZipActionLog, Reopening)
    )
    return ZipMark(*newest)


def read_zip_mark(instance: DagsterInstance) -> ZipMark:
    """The mark that an instance keeps; in a new one that of the beginning."""
    kept = instance.daemon_cursor_storage.get_cursor_values({_MARK}).get(_MARK)
    return ZipMark(**json.loads(kept)) if kept else ZipMark()


def write_zip_mark(instance: DagsterInstance, mark: ZipMark) -> None:
    """Have an instance keep the mark."""
    instance.daemon_cursor_storage.set_cursor_values({_MARK: json.dumps(asdict(mark))})


def _recorded(connection: Connection, keys: Sequence[ZipKey]) -> list[ZipOutcome]:
    return list(recorded_zips(connection, keys))


def _unshown(connection: Connection, mark: ZipMark, shown: ColumnElement[bool], after: int) -> dict[int, ZipKey]:
    """Some hundreds of those `shown`, by ids greater than `after`, of which something is newer than the mark."""
    downloaded = (
        select(FileSourceHasZip.za_id)
        .join(ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id)
        .where(ZipDownload.id > mark.downloads)
    )
    refused = select(ZipActionLog.za_id).where(ZipActionLog.id > mark.refusals)
    reopened = select(Reopening.za_id).where(Reopening.id > mark.reopenings)
    newer = or_(
        ZipAction.id > mark.zip_actions,
        ZipAction.id.in_(downloaded),
        ZipAction.id.in_(refused),
        ZipAction.id.in_(reopened),
    )
    query = (
        select(ZipAction.id, ZipAction.todo_id, ZipFile.file_name)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .where(newer, shown, ZipAction.id > after)
        .order_by(ZipAction.id)
        .limit(_AT_ONCE)
    )
    return {row.id: ZipKey(ACTIONS_BY_ID[row.todo_id], row.file_name) for row in connection.execute(query)}
