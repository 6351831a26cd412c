"""Crawls and submissions up to their validation as the tracker has them, in the form in which a session yields them.

With these Dagster can show what happened long ago, and what a killed session did not. The tracker is read a few hundred
submissions at a time, with a fixed number of statements each time.

A session reports submissions as they finish, a second after they are in the tracker. The unreported ones of a dead
session are found by a watermark (`watermarks`): the submission, download, refusal and re-opening up to which everything
was shown. It uses ids, which no clock can put out of order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from dagster import DagsterInstance
from sqlalchemy import ColumnElement, Connection, Engine, Row, and_, func, or_, select, true

from dcc.databases.list_parameters import rows_with, sorted_chunks
from dcc.databases.transactions import run_reading
from dcc.errors import ArchiveRemovedError
from dcc.operations.session_work import SessionWork
from dcc.outcomes import (
    AttemptOutcome,
    DocumentOutcome,
    Problem,
    SourceCrawl,
    SubmissionKey,
    SubmissionOutcome,
    source_partition,
)
from dcc.phases import UNFINISHED, Phase, State, Status
from dcc.settings import Settings
from dcc.settings.centre_groups import CentreGroup
from dcc.store.staging import Staging
from dcc.tracker.crawls import latest_crawls
from dcc.tracker.decisions import decisions_in_force
from dcc.tracker.models import (
    AnException,
    FileSourceHasZip,
    Reopening,
    XmlFile,
    XmlLog,
    ZipAction,
    ZipActionLog,
    ZipDecision,
    ZipDownload,
    ZipLog,
)
from dcc.tracker.problems import OF_ACTION, OF_DOCUMENT, OF_DOWNLOAD, entries_that_hold, problem_of
from dcc.tracker.queries.session_submissions import of_centres
from dcc.tracker.queries.submission_filters import submission_query
from dcc.tracker.queries.submission_stories import first_listings
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.register.source_schedules import load_crawl_dues
from dcc.tracker.states import VALID
from dcc.tracker.submission_rows import LATEST, state_of, submission_key_of
from dcc_assets.metadata.archives import ERRORS_SHOWN, complete_archive_report
from dcc_assets.metadata.file_sources import source_report
from dcc_assets.sync.document_records import PAGE, submission_ids
from dcc_assets.sync.horizon import archive_older, read_archive
from dcc_assets.sync.watermarks import StoredWatermarks
from dcc_dagster.event_recorder import EventRecorder
from dcc_dagster.partition_events import PartitionReport


@dataclass(frozen=True, slots=True)
class SubmissionWatermark:
    """The newest ids of `zip_action`, `zip_download`, `zip_action_log`, `reopening` and `zip_decision` that were shown;
    `revoked` is the newest time at which a decision was revoked.
    """

    zip_actions: int = 0
    downloads: int = 0
    refusals: int = 0
    reopenings: int = 0
    decisions: int = 0
    revoked: str = ""

    def or_later(self, other: SubmissionWatermark) -> SubmissionWatermark:
        """The larger of two watermarks."""
        return SubmissionWatermark(*map(max, astuple(self), astuple(other)))


ZIPS_SHOWN: Final = StoredWatermarks("dcc/zip actions shown", SubmissionWatermark)


def show_missing(recorder: EventRecorder, work: SessionWork) -> None:
    """Show unreported submissions of this session's centres; the watermarks stay until the recorder has stored them.

    Raises TrackerUnreachableError, as `note_shown` and `recorded_reports` do.
    """
    instance, tracker, settings = recorder.instance, work.tracker, work.settings
    if ZIPS_SHOWN.read(instance) == SubmissionWatermark():
        archive_older(instance, tracker, settings, session=work.session)
    all_centres = ZIPS_SHOWN.centres_shown(instance, settings, work.session.group)
    newest = run_reading(tracker, newest_submission_watermark)
    shown = read_archive(instance).horizon.shows()
    for centres in all_centres:
        if centres.watermark != newest:
            unshown = and_(_has_newer(centres.watermark), shown, centres.of_zip_actions())
            recorder.record(recorded_reports(tracker, settings, condition=unshown))


def recorded_reports(
    tracker: Engine,
    settings: Settings,
    keys: Collection[SubmissionKey] | None = None,
    condition: ColumnElement[bool] | None = None,
) -> Iterator[PartitionReport]:
    """Reports of submissions as recorded in the tracker: of all, of `keys`, or of those that `condition` selects.

    Some hundreds are read at once, and reported once all of them are read, so that no retry reports anything twice.
    """
    staging = Staging(settings.staging_directory)
    for ids in sorted_chunks(run_reading(tracker, partial(submission_ids, keys=keys, condition=condition)), PAGE):
        for outcome in run_reading(tracker, partial(recorded_submissions, ids=ids)):
            yield complete_archive_report(outcome, staging)


def note_shown(instance: DagsterInstance, work: SessionWork) -> None:
    """Record that everything of the session's centres is shown; call after leaving the recorder.

    A later session, which may be killed, reports unfinished submissions: while there are any, downloads count as not
    shown.
    """
    group = work.session.group
    newest, unfinished = run_reading(work.tracker, partial(_newest_and_unfinished, group=group))
    if unfinished:
        shown = ZIPS_SHOWN.centres_shown(instance, work.settings, group)
        newest = replace(newest, downloads=min(centres.watermark.downloads for centres in shown))
    ZIPS_SHOWN.write(instance, newest, group)


def _newest_and_unfinished(connection: Connection, group: CentreGroup | None) -> tuple[SubmissionWatermark, bool]:
    unfinished = (
        select(ZipAction.id)
        .where(ZipAction.phase_id.between(Phase.ZIP_MD5, Phase.XSD))
        .where(ZipAction.status_id.in_(UNFINISHED))
        .where(true() if group is None else of_centres(group.centres))
    )
    return newest_submission_watermark(connection), connection.scalar(unfinished.limit(1)) is not None


def newest_submission_watermark(connection: Connection) -> SubmissionWatermark:
    """The newest ids, and when a decision was last revoked."""

    def newest(model: Any) -> int:
        return connection.scalar(select(func.max(model.id))) or 0

    revoked = connection.scalar(select(func.max(ZipDecision.revoked)))
    return SubmissionWatermark(
        newest(ZipAction),
        newest(ZipDownload),
        newest(ZipActionLog),
        newest(Reopening),
        newest(ZipDecision),
        "" if revoked is None else revoked.isoformat(),
    )


def _has_newer(watermark: SubmissionWatermark) -> ColumnElement[bool]:
    """Selects the submissions that have something newer than a watermark."""
    downloaded = (
        select(FileSourceHasZip.za_id)
        .join(ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id)
        .where(ZipDownload.id > watermark.downloads)
    )
    revoked: ColumnElement[bool] = ZipDecision.revoked.is_not(None)
    if watermark.revoked:
        revoked = ZipDecision.revoked > datetime.fromisoformat(watermark.revoked)
    newer = (
        downloaded,
        select(ZipActionLog.za_id).where(ZipActionLog.id > watermark.refusals),
        select(Reopening.za_id).where(Reopening.id > watermark.reopenings),
        select(ZipDecision.za_id).where(or_(ZipDecision.id > watermark.decisions, revoked)),
    )
    return or_(ZipAction.id > watermark.zip_actions, *(ZipAction.id.in_(ids) for ids in newer))


def recorded_source_reports(connection: Connection, settings: Settings) -> list[PartitionReport]:
    """Reports of the latest crawl of each source, without the submissions that it found.

    There is no verdict on sources that are not in use.
    """
    crawls = latest_crawls(connection)
    dues = load_crawl_dues(connection, settings.source_failure_limit)
    in_use = {address.id for address in load_addresses(connection)}
    reports = []
    for address in load_addresses(connection, only_crawlable=False):
        crawl, due = crawls.get(address.id), dues.get(address.id)
        if crawl is None:
            continue
        finished = crawl.finished or crawl.started
        recorded = SourceCrawl(
            source_id=address.id,
            partition=source_partition(address.centre, address.id),
            label=str(address.label),
            centre=address.centre,
            outcome=crawl.outcome,
            error=crawl.error,
            **crawl.counts,
            seconds=(finished - crawl.started).total_seconds(),
            finished=finished,
            pace=str(due.policy) if due else "",
            then=str(due) if due and not due.is_due else "",
        )
        report = source_report(recorded)
        reports.append(report if address.id in in_use else replace(report, verdicts=()))
    return reports


def recorded_submissions(connection: Connection, ids: Sequence[int]) -> list[SubmissionOutcome]:
    """Submissions by their ids, in the order in which they were first seen."""
    sources = {address.id: address for address in load_addresses(connection, only_crawlable=False)}
    attempts = _latest_attempts(connection, ids)
    downloads = [attempt.id for attempt in attempts.values()]
    documents = _documents(connection, downloads)
    reasons = _reasons(connection, ids, downloads)
    decisions = decisions_in_force(connection, ids)
    first = first_listings(connection, ids)
    found = []
    for row in connection.execute(submission_query().where(ZipAction.id.in_(ids)).order_by(ZipAction.id)):
        attempt = attempts.get(row.id)
        state = _up_to_validation(state_of(row))
        seconds = 0.0 if attempt is None else max((attempt.received - attempt.request).total_seconds(), 0.0)
        downloaded = state.is_past(Phase.ZIP_MD5)
        fetched = None if attempt is None or attempt.outcome is None else AttemptOutcome(attempt.outcome)
        source = sources.get(attempt.file_source_id) if attempt is not None else None
        listed = first[row.id]
        outcome = SubmissionOutcome(
            key=submission_key_of(row),
            centre=row.centre,
            phase=state.phase,
            status=state.status,
            downloaded=downloaded,
            extracted=state.is_past(Phase.UNZIP),
            size_bytes=row.size_bytes,
            md5=row.content_md5,
            source=None if source is None else str(source.label),
            attempts=0 if attempt is None else attempt.attempts,
            seconds=seconds,
            finished=row.last_update if attempt is None else attempt.received,
            reasons=tuple(reasons[row.id]),
            transfer_seconds=seconds if downloaded and fetched is not AttemptOutcome.NOT_MODIFIED else None,
            fetched=fetched,
            source_partition=None if source is None else source_partition(source.centre, source.id),
            decisions=tuple(map(str, decisions.get(row.id, ()))),
            first_listed=None if listed is None else (listed.moment, str(listed.label)),
        )
        found.append(
            replace(outcome, documents=tuple(documents[attempt.id])) if attempt and outcome.extracted else outcome
        )
    return found


def _up_to_validation(state: State) -> State:
    """The state up to validation; other reports show the later phases."""
    return state if state.phase <= Phase.XSD else VALID


def _latest_attempts(connection: Connection, ids: Sequence[int]) -> dict[int, Row[Any]]:
    latest = (
        select(
            FileSourceHasZip.za_id,
            LATEST.label("download_id"),
            func.count(ZipDownload.id).label("attempts"),
        )
        .join(ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id)
        .where(FileSourceHasZip.za_id.in_(ids))
        .group_by(FileSourceHasZip.za_id)
        .subquery()
    )
    query = (
        select(
            latest.c.za_id,
            latest.c.attempts,
            ZipDownload.id,
            ZipDownload.request,
            ZipDownload.received,
            ZipDownload.outcome,
            FileSourceHasZip.file_source_id,
        )
        .join(latest, latest.c.download_id == ZipDownload.id)
        .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
    )
    return {row.za_id: row for row in connection.execute(query)}


def _documents(connection: Connection, downloads: Sequence[int]) -> dict[int, list[DocumentOutcome]]:
    rows = connection.execute(
        select(
            XmlFile.id,
            XmlFile.download_id.label("download_id"),
            XmlFile.fname,
            XmlFile.phase_id,
            XmlFile.status_id,
            XmlFile.size_bytes,
        )
        .where(XmlFile.download_id.in_(downloads))
        .order_by(XmlFile.id)
    ).all()
    invalid = [row.id for row in rows if row.status_id == Status.FAILED and row.phase_id <= Phase.XSD]
    errors = _errors(connection, invalid)
    documents: dict[int, list[DocumentOutcome]] = defaultdict(list)
    for row in rows:
        state = _up_to_validation(state_of(row))
        documents[row.download_id].append(
            DocumentOutcome(row.fname, *state, size_bytes=row.size_bytes or 0, errors=tuple(errors[row.id]))
        )
    return documents


def _errors(connection: Connection, documents: Sequence[int]) -> dict[int, list[Problem]]:
    """The errors of documents; of one with more than are shown, the first ones."""
    errors: dict[int, list[Problem]] = defaultdict(list)
    query = entries_that_hold(*OF_DOCUMENT).order_by(XmlLog.id)
    for row in rows_with(connection, query, XmlLog.xml_id, documents):
        if len(errors[row.xml_id]) <= ERRORS_SHOWN:
            errors[row.xml_id].append(problem_of(row))
    return errors


def _reasons(connection: Connection, ids: Sequence[int], downloads: Sequence[int]) -> dict[int, list[Problem]]:
    """Why submissions failed: the entries about them and about their latest download, in that order."""
    about_actions = (
        select(ZipActionLog.za_id, *OF_ACTION)
        .join(AnException, AnException.id == ZipActionLog.exception_id)
        .where(ZipActionLog.za_id.in_(ids), AnException.short_name != ArchiveRemovedError.short_name())
        .order_by(ZipActionLog.id)
    )
    about_downloads = (
        select(FileSourceHasZip.za_id, *OF_DOWNLOAD)
        .join(ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id)
        .join(ZipLog, ZipLog.download_id == ZipDownload.id)
        .join(AnException, AnException.id == ZipLog.exception_id)
        .where(ZipLog.download_id.in_(downloads))
        .order_by(ZipLog.id)
    )
    reasons: dict[int, list[Problem]] = defaultdict(list)
    for query in (about_actions, about_downloads):
        for row in connection.execute(query):
            reasons[row.za_id].append(problem_of(row))
    return reasons
