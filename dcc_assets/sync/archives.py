"""Results of submissions up to their validation, shown in Dagster for sessions that were killed.

A session reports submissions as they finish, a second after they are in the tracker. The unreported ones of a dead
session are found by a mark (`marks`): the submission, download, refusal and re-opening up to which everything was
shown. It uses ids, which no clock can put out of order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from dagster import DagsterInstance
from sqlalchemy import ColumnElement, Connection, Engine, and_, func, or_, select, true

from dcc.databases.transactions import run_reading
from dcc.outcomes import ZipKey, ZipOutcome
from dcc.phases import Phase, Status
from dcc.settings import Settings
from dcc.settings.centre_groups import CentreGroup
from dcc.store.staging import Staging
from dcc.tracker.models import FileSourceHasZip, Reopening, ZipAction, ZipActionLog, ZipDecision, ZipDownload
from dcc.tracker.queries.session_zips import of_centres
from dcc_assets.metadata.archives import complete_zip_report
from dcc_assets.sync.archive_records import recorded_zips
from dcc_assets.sync.horizon import archive_older, page_of_zips, read_archive
from dcc_assets.sync.marks import Marks, Part
from dcc_dagster.event_recorder import EventRecorder
from dcc_dagster.partition_events import Report
from dcc_resources.session import Work

_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class ZipMark:
    """The newest ids of `zip_action`, `zip_download`, `zip_action_log`, `reopening` and `zip_decision` that were shown;
    `revoked` is the newest time at which a decision was revoked.
    """

    zip_actions: int = 0
    downloads: int = 0
    refusals: int = 0
    reopenings: int = 0
    decisions: int = 0
    revoked: str = ""

    def or_later(self, other: ZipMark) -> ZipMark:
        """The larger of two marks."""
        return ZipMark(*map(max, astuple(self), astuple(other)))


ZIPS_SHOWN: Final = Marks("dcc/zip actions shown", ZipMark)


def show_missing(instance: DagsterInstance, recorder: EventRecorder, work: Work) -> None:
    """Show unreported submissions of this session's centres; the marks stay until the recorder has stored them.

    Raises TrackerUnreachableError, as `note_shown` and `recorded_reports` do.
    """
    tracker, settings = work.tracker, work.settings
    if ZIPS_SHOWN.read(instance) == ZipMark():
        archive_older(instance, tracker, settings, session=work.session)
    parts = ZIPS_SHOWN.parts(instance, settings, work.session.group)
    newest = run_reading(tracker, newest_zip_mark)
    shown = read_archive(instance).horizon.shows()
    for part in parts:
        if part.mark == newest:
            continue
        last = 0
        while page := run_reading(tracker, partial(_unshown, part=part, shown=shown, after=last)):
            last = max(page)
            recorder.record_many(recorded_reports(tracker, settings, list(page.values())))


def recorded_reports(tracker: Engine, settings: Settings, keys: Sequence[ZipKey]) -> Iterator[Report]:
    """Reports of submissions as recorded in the tracker."""
    staging = Staging(settings.staging_directory)
    for start in range(0, len(keys), _AT_ONCE):
        load = partial(_recorded, keys=keys[start : start + _AT_ONCE])
        for outcome in run_reading(tracker, load):
            yield complete_zip_report(outcome, staging)


def note_shown(instance: DagsterInstance, work: Work) -> None:
    """Record that everything of the session's centres is shown; call after leaving the recorder.

    A later session, which may be killed, reports unfinished submissions: while there are any, downloads count as not
    shown.
    """
    group = work.session.group
    newest, unfinished = run_reading(work.tracker, partial(_newest_and_unfinished, group=group))
    if unfinished:
        parts = ZIPS_SHOWN.parts(instance, work.settings, group)
        newest = replace(newest, downloads=min(part.mark.downloads for part in parts))
    ZIPS_SHOWN.write(instance, newest, group)


def _newest_and_unfinished(connection: Connection, group: CentreGroup | None) -> tuple[ZipMark, bool]:
    unfinished = (
        select(ZipAction.id)
        .where(ZipAction.phase_id.between(int(Phase.ZIP_MD5), int(Phase.XSD)))
        .where(ZipAction.status_id.in_([int(Status.PENDING), int(Status.RUNNING)]))
        .where(true() if group is None else of_centres(group.centres))
    )
    return newest_zip_mark(connection), connection.scalar(unfinished.limit(1)) is not None


def newest_zip_mark(connection: Connection) -> ZipMark:
    """The newest ids, and when a decision was last revoked."""

    def newest(model: Any) -> int:
        return connection.scalar(select(func.max(model.id))) or 0

    revoked = connection.scalar(select(func.max(ZipDecision.revoked)))
    return ZipMark(
        newest(ZipAction),
        newest(ZipDownload),
        newest(ZipActionLog),
        newest(Reopening),
        newest(ZipDecision),
        "" if revoked is None else revoked.isoformat(),
    )


def _recorded(connection: Connection, keys: Sequence[ZipKey]) -> list[ZipOutcome]:
    return list(recorded_zips(connection, keys))


def _unshown(connection: Connection, part: Part[ZipMark], shown: ColumnElement[bool], after: int) -> dict[int, ZipKey]:
    """Some hundreds of the `shown` submissions with ids above `after` that have something newer than their mark."""
    mark = part.mark
    downloaded = (
        select(FileSourceHasZip.za_id)
        .join(ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id)
        .where(ZipDownload.id > mark.downloads)
    )
    refused = select(ZipActionLog.za_id).where(ZipActionLog.id > mark.refusals)
    reopened = select(Reopening.za_id).where(Reopening.id > mark.reopenings)
    decided = select(ZipDecision.za_id).where(or_(ZipDecision.id > mark.decisions, _revoked_after(mark.revoked)))
    newer = or_(
        ZipAction.id > mark.zip_actions,
        ZipAction.id.in_(downloaded),
        ZipAction.id.in_(refused),
        ZipAction.id.in_(reopened),
        ZipAction.id.in_(decided),
    )
    return page_of_zips(connection, and_(newer, shown, part.of_zip_actions()), after)


def _revoked_after(moment: str) -> ColumnElement[bool]:
    return ZipDecision.revoked > datetime.fromisoformat(moment) if moment else ZipDecision.revoked.is_not(None)
