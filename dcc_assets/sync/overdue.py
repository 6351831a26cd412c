"""Checks of overdue work: correct in the UI after each session, with a daemon and without.

Dagster's own freshness policies are about complete assets and evaluated by its daemon alone. So they say nothing of one
source or centre, and nothing at all if a timer starts sessions. These checks have a partition for each source or
centre. Sessions, the sensor `overdue` and the web server of `dcc ui` evaluate them. An event is stored when a verdict
changes, so that their number does not grow with the evaluations.
"""

import hashlib
import json
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import Final

from dagster import AssetCheckKey, AssetCheckSeverity, DagsterInstance, OpExecutionContext, op
from sqlalchemy import Connection, Engine

from dcc.databases.transactions import run_reading
from dcc.declarations import ACTOR_NAMES, acts_in
from dcc.errors import DagsterStorageError, DccError
from dcc.messages import Message, count_of, mark, message
from dcc.reports.overdue import (
    CentreActivity,
    CrawledSource,
    LateCentre,
    LateSubmission,
    activity_of_centres,
    crawled_sources,
    late_centres,
)
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.sources.crawl_policy import DueReason
from dcc.vocabulary import Actor
from dcc_assets import graph
from dcc_assets.metadata.links import links, page_of_partition, report_of_centre
from dcc_assets.runs import STARTED_BY_TAG, ready_made, run_here, step_of
from dcc_dagster.event_recorder import EventRecorder
from dcc_dagster.instance import storage_place
from dcc_dagster.job_assets import job_of
from dcc_dagster.metadata import Metadata, table, utc_timestamp
from dcc_dagster.partition_events import CheckVerdict, PartitionReport
from dcc_resources.databases import TrackerResource

_CURSOR_KEY: Final = "dcc/overdue told"
_CHECKS: Final = {
    check: str(partitions.name)
    for check, partitions in (
        (graph.CRAWL_OVERDUE, graph.FILE_SOURCE_PARTITIONS),
        (graph.CENTRE_SILENT, graph.CENTRE_PARTITIONS),
        (graph.SUBMISSIONS_OVERDUE, graph.CENTRE_PARTITIONS),
    )
}
"""The checks, and the set of partitions of each."""
_NOT_IN_USE: Final = "It is not in use any more: nothing is expected of it."
OVERDUE_JOB: Final = "show_overdue"


def read_overdue(tracker: Engine, settings: Settings) -> list[PartitionReport]:
    """The present reports, with one verdict in each. Raises TrackerUnreachableError."""
    return run_reading(tracker, lambda connection: list(overdue_reports(connection, settings, utc_now())))


def overdue_changes(
    recorder: EventRecorder, tracker: Engine, settings: Settings, materialised: Collection[str] | None = ()
) -> list[PartitionReport]:
    """Reports of changes in overdue work; once the recorder has stored everything, they count as shown.

    The partitions that the run materialised (None: all) are reported even without a change, because the page takes a
    check for not evaluated if its partition is newer. Three statements for any number of submissions. Raises
    TrackerUnreachableError.
    """
    instance = recorder.instance
    reports, digests = _look(instance, tracker, settings, materialised)
    cursor = json.dumps(digests)
    recorder.when_stored(lambda: instance.daemon_cursor_storage.set_cursor_values({_CURSOR_KEY: cursor}))
    return reports


@op(name="overdue", description="Shows what changed of what is overdue.")
def _show(context: OpExecutionContext, tracker: TrackerResource) -> None:
    with EventRecorder(context.instance, step_of(context)) as recorder:
        reports = overdue_changes(recorder, tracker.ready(), tracker.settings_with())
        recorder.record(reports)


show_overdue_job: Final = job_of(
    _show,
    OVERDUE_JOB,
    (graph.FILE_SOURCE_LISTINGS, graph.CONTEXTS),
    "Updates the checks crawl_overdue, centre_silent and submissions_overdue.",
)


def show_overdue(instance: DagsterInstance, tracker: Engine, settings: Settings) -> bool:
    """Show changes in overdue work, in a run of its own; returns whether there were any.

    A run is needed: Dagster keeps one evaluation of a check's partition for each run, and without a run one in all.
    Raises TrackerUnreachableError, and DagsterStorageError if Dagster could not store it.
    """
    if not _look(instance, tracker, settings)[0]:
        return False
    try:
        resources = {TrackerResource.key: ready_made(TrackerResource.holding(settings, tracker))}
        run_here(show_overdue_job, instance, {STARTED_BY_TAG: "the watch of what is overdue"}, resources)
    except DccError:
        raise
    except Exception as error:
        raise DagsterStorageError(
            f"Dagster could not store what is overdue ({error}). See to {storage_place(settings)}; it is looked at "
            "again."
        ) from error
    return True


def _look(
    instance: DagsterInstance, tracker: Engine, settings: Settings, materialised: Collection[str] | None = ()
) -> tuple[list[PartitionReport], dict[str, dict[str, str]]]:
    """The reports of changes, and the digests of all reports by check and partition."""
    kept = instance.daemon_cursor_storage.get_cursor_values({_CURSOR_KEY}).get(_CURSOR_KEY)
    shown: dict[str, dict[str, str]] = json.loads(kept) if kept else {}
    changes: list[PartitionReport] = []
    digests: dict[str, dict[str, str]] = {check.to_user_string(): {} for check in _CHECKS}
    for report in read_overdue(tracker, settings):
        name, digest = report.verdicts[0].check.to_user_string(), _digest(report)
        digests[name][report.partition] = digest
        if (
            materialised is None
            or report.partition in materialised
            or shown.get(name, {}).get(report.partition) != digest
        ):
            changes.append(report)
    for check, partition_set in _CHECKS.items():
        name = check.to_user_string()
        for partition in sorted(shown.get(name, {}).keys() - digests[name].keys()):
            # Nor does it matter whether a source can be reached.
            for over in (check, graph.REACHABLE) if check == graph.CRAWL_OVERDUE else (check,):
                verdict = CheckVerdict(over, _NOT_IN_USE, passed=True, always=False)
                changes.append(PartitionReport(partition, (), (verdict,), None, partition_set, is_complete=True))
    return changes, digests


def overdue_reports(connection: Connection, settings: Settings, now: datetime) -> Iterator[PartitionReport]:
    """The reports at a time, for each source and centre in use."""

    def report(partition: str, verdict: CheckVerdict) -> PartitionReport:
        return PartitionReport(partition, (), (verdict,), utc_timestamp(now), _CHECKS[verdict.check], is_complete=True)

    for source in crawled_sources(connection, settings, now):
        yield report(source.partition, _crawled(source, settings, now))
    late = late_centres(connection, settings, now)
    for centre in activity_of_centres(connection, settings, now):
        yield report(centre.centre, _heard(centre, settings, now))
        yield report(centre.centre, _through(centre.centre, late.get(centre.centre), settings, now))


def _overdue(
    check: AssetCheckKey, reason: Message, since: datetime, facts: Metadata, who: str, what: str, *, is_warning: bool
) -> CheckVerdict:
    """The verdict on something overdue, with who acts (names between commas) and what to do, texts of catalogues."""
    advice = {"Who acts": who, "What to do": what}
    metadata: Metadata = {"reason": str(reason), "since": f"{since:%Y-%m-%d %H:%M} UTC", **advice, **facts}
    severity = AssetCheckSeverity.WARN if is_warning else AssetCheckSeverity.ERROR
    return CheckVerdict(check, reason, metadata, passed=False, severity=severity, is_reminder=True)


def _of_centre(centre: str) -> Metadata:
    return {"Links": links([("Report on the centre", report_of_centre(centre))])}


def _crawled(source: CrawledSource, settings: Settings, now: datetime) -> CheckVerdict:
    within = count_of(settings.crawl_overdue_hours, "hour")
    metadata: Metadata = {"crawled": source.due.description, **_of_centre(source.centre)}
    if source.due.why is DueReason.PAUSED:
        return CheckVerdict(graph.CRAWL_OVERDUE, f"It is {source.due}", metadata, passed=True)
    if not source.overdue:
        passed = f"It is listed within {within}, or new. It is crawled: {source.due.policy}."
        return CheckVerdict(graph.CRAWL_OVERDUE, passed, metadata, passed=True)
    reason = message(
        mark("It was last listed as a whole: {when}; that must be within {hours} h (DCC_CRAWL_OVERDUE_HOURS)."),
        when=Message(mark("never")) if source.listed is None else f"{source.listed:%Y-%m-%d %H:%M} UTC",
        hours=settings.crawl_overdue_hours,
    )
    what = mark("See its check `reachable`, and `dcc source test`.")
    if not source.is_tried:
        what = mark("No session has crawled it: see `dcc doctor`, then `dcc crawl`.")
    facts: Metadata = {"hours": int((now - source.since).total_seconds() // 3600), **metadata}
    # A server that is down is its centre's problem, missing sessions are ours.
    is_warning = source.is_tried
    return _overdue(
        graph.CRAWL_OVERDUE, reason, source.since, facts, ACTOR_NAMES[Actor.DCC], what, is_warning=is_warning
    )


def _heard(centre: CentreActivity, settings: Settings, now: datetime) -> CheckVerdict:
    within = count_of(centre.within_days, "day")
    metadata = _of_centre(centre.centre)
    if not centre.silent:
        return CheckVerdict(
            graph.CENTRE_SILENT, f"It has submitted an archive within {within}, or is new.", metadata, passed=True
        )
    when = Message(mark("nothing yet"))
    if centre.heard is not None:
        when = message(mark("its last new archive on {date}"), date=f"{centre.heard:%Y-%m-%d}")
    why = Message("DCC_CENTRE_SILENT_DAYS")
    if centre.within_days < settings.centre_silent_days:
        why = Message(mark("it usually submits more often"))
    elif centre.within_days > settings.centre_silent_days:
        why = Message(mark("it usually submits less often"))
    reason = message(
        mark("{centre} has submitted {when}; days after which it counts as silent: {days} ({why})."),
        centre=centre.centre,
        when=when,
        days=centre.within_days,
        why=why,
    )
    what = mark("Ask the centre whether it is to submit anything; `dcc centre deactivate` if it is not.")
    facts: Metadata = {"days": (now - centre.since).days, **metadata}
    return _overdue(graph.CENTRE_SILENT, reason, centre.since, facts, ACTOR_NAMES[Actor.DCC], what, is_warning=True)


def _through(centre: str, late: LateCentre | None, settings: Settings, now: datetime) -> CheckVerdict:
    days = settings.overdue_days
    if late is None:
        passed = f"Nothing older than {count_of(days, 'day')} is left behind."
        return CheckVerdict(
            graph.SUBMISSIONS_OVERDUE, passed, {"waiting": 0, "failed": 0, **_of_centre(centre)}, passed=True
        )
    parts = []
    if late.waiting:
        parts.append(message(mark("{number} waiting"), number=late.waiting))
    if late.failed:
        parts.append(message(mark("{number} failed and neither corrected nor removed"), number=late.failed))
    late_ones = mark("Archives of {centre} that are older than DCC_OVERDUE_DAYS ({days}): {parts}.")
    reason = message(late_ones, centre=centre, days=days, parts=parts)
    who = ", ".join(dict.fromkeys(ACTOR_NAMES[_acts_on(submission)] for submission in late.zips))
    what = mark(
        "Waiting archives: see `dcc doctor`, then `dcc crawl`; held documents wait for `dcc data confirm`. Failed "
        "archives: send the centre its report. It corrects an archive, or removes it from its server when it has "
        "submitted the documents again. The next crawl clears this."
    )
    rows = [
        (str(one.key), one.phase.short_name, one.status.short_name, (now - one.since).days, ACTOR_NAMES[_acts_on(one)])
        for one in late.zips
    ]
    oldest = page_of_partition(graph.VALIDATED_DOCUMENTS, late.zips[0].key.partition)
    facts: Metadata = {
        "waiting": late.waiting,
        "failed": late.failed,
        "archives": table(("archive", "phase", "status", "days", "who acts"), rows),
        "Links": links([("Report on the centre", report_of_centre(centre)), ("The oldest of them", oldest)]),
    }
    is_warning = not late.waiting
    return _overdue(graph.SUBMISSIONS_OVERDUE, reason, late.zips[0].since, facts, who, what, is_warning=is_warning)


def _acts_on(late: LateSubmission) -> Actor:
    """Who acts on what is late: on what should have gone on by itself the DCC."""
    acts = acts_in(late.phase, late.status)
    return Actor.DCC if acts is Actor.NOBODY else acts


def _digest(report: PartitionReport) -> str:
    """A digest of a report without its age, which is repeated once a day at most."""
    (verdict,) = report.verdicts
    days = "" if verdict.passed else f"{datetime.fromtimestamp(report.timestamp or 0, UTC):%Y-%m-%d}"
    content = f"{verdict.passed} {verdict.description} {days}"
    return hashlib.sha256(content.encode()).hexdigest()[:16]
