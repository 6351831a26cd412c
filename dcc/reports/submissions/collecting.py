"""Collects the facts of reports: on a submission, a centre, a session; their pictures and languages.

Reads only, on open connections; the number of statements does not grow with the size of the archive.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Select, case, func, select

from dcc.messages import Message, mark, message
from dcc.outcomes import CONFIRMED, DECLINED, FAILED_ENDS, HELD, LEFT_OUT, NO_ROOM, NOTES, WAITS, Problem, SubmissionKey
from dcc.phases import Phase, Status
from dcc.qc.models import COUNTED, DOCUMENT
from dcc.reports.causes.collecting import FoundCauses, Subject, find_causes
from dcc.reports.causes.skipped_archives import SkipReason, skipped_entries, why_not_crawled
from dcc.reports.submissions.accepted import accepted_of_centre, accepted_of_submission, is_taken
from dcc.reports.submissions.model import (
    CentreReport,
    DocumentReport,
    Note,
    Noted,
    Outcome,
    PhaseStep,
    Report,
    Section,
    SessionReport,
    SourceReport,
    Standing,
    SubmissionLine,
    SubmissionReport,
    Tone,
)
from dcc.reports.submissions.submission_lines import line_of, submissions_of_centre, submissions_of_session
from dcc.reports.submissions.waits import waits_of
from dcc.rules.findings import MORE_RULE
from dcc.rules.upload import DUPLICATE, LATE
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.sources.crawl_policy import DueReason
from dcc.tracker.crawls import (
    CrawlEntry,
    SessionEntry,
    is_newest_session,
    latest_crawls,
    require_session,
    session_findings,
)
from dcc.tracker.decisions import Decision, DecisionKind
from dcc.tracker.hostings.foreign_archives import UnfetchedArchive, unfetched_archives
from dcc.tracker.hostings.missing_archives import count_open
from dcc.tracker.hostings.older_archives import submissions_that_wait
from dcc.tracker.models import AnException, Centre, DocumentPlace, XmlFile, XmlLog, ZipAction, ZipFile
from dcc.tracker.problems import KIND, NOT_FAILING, entries_that_hold
from dcc.tracker.queries.session_submissions import (
    SessionSubmission,
    session_entries,
    session_submission_ids,
    session_submissions,
    submissions_without_room,
)
from dcc.tracker.queries.state_counts import StateCount, count_documents
from dcc.tracker.queries.submission_stories import DownloadStory, SubmissionStory, submission_story
from dcc.tracker.register.centres import list_centres, require_centre
from dcc.tracker.register.file_sources import SourceEntry, list_sources
from dcc.tracker.register.source_schedules import load_crawl_dues
from dcc.tracker.session_statistics import SourceStatistics, seconds_by_phase, statistics_of
from dcc.tracker.states import JUDGED_FAULTY
from dcc.tracker.submission_rows import is_named, of_host
from dcc.vocabulary import DocumentAction

if TYPE_CHECKING:
    from dcc.reports.languages import Catalogue
    from dcc.reports.plots.picture import Picture


MAX_DOCUMENTS: Final = 200
"""Documents that a report lists; the others are counted."""
MAX_ATTEMPTS: Final = 20
MAX_CAUSES: Final = 30
MAX_PROCEDURES: Final = 60
MAX_PICTURES: Final = 6
MAX_ZIPS: Final = 300
MAX_SOURCES: Final = 100
MAX_NOT_TAKEN: Final = 100
"""What was not taken, of all sources together: those in trouble come first."""
MAX_NOTES: Final = 20
"""Reopenings, findings of crawls and removals that a report lists: the latest."""

QC_NOT_ASKED: Final = "not asked"
"""Why there is nothing of the QC database in a report: the caller has no connection to it."""


def collect_report(
    tracker: Connection,
    qc: Connection | None,
    subject: Subject,
    settings: Settings,
    *,
    catalogue: Catalogue,
    max_pictures: int = MAX_PICTURES,
    qc_missing: str | None = None,
) -> Report:
    """The facts of the report on a submission, a centre or a session, with pictures of the first two.

    `catalogue` is for the texts in pictures, the other arguments are those of `collect_submission`.
    """
    if isinstance(subject, int):
        return collect_session(tracker, qc, subject, settings, qc_missing=qc_missing)
    report = (
        collect_centre(tracker, qc, subject, settings, qc_missing=qc_missing)
        if isinstance(subject, str)
        else collect_submission(tracker, qc, subject, settings, qc_missing=qc_missing)
    )
    return replace(report, pictures=draw_pictures(qc, subject, settings, catalogue, max_pictures))


def collect_submission(
    tracker: Connection, qc: Connection | None, key: SubmissionKey, settings: Settings, *, qc_missing: str | None = None
) -> SubmissionReport:
    """The facts of the report of one submission, without pictures.

    `qc` is None where the QC database cannot be asked, and `qc_missing` says why. Raises NotFoundError.
    """
    story = submission_story(tracker, key, with_documents=False)
    line, states = line_of(tracker, key, qc)
    latest = story.latest
    documents = () if latest is None else _list_documents(tracker, qc, key, latest)
    foreign = next(iter(unfetched_archives(tracker, key=key)), None)
    waits = waits_of(tracker, [line], settings)[line.za_id]
    return SubmissionReport(
        key=key,
        centre=story.centre,
        centre_name=next((each.full_name for each in list_centres(tracker) if each.short_name == story.centre), None),
        phase=story.phase,
        status=story.status,
        outcome=line.outcome,
        made=utc_now(),
        size_bytes=story.size_bytes,
        md5=story.md5,
        created=story.created,
        inc=story.inc,
        hosts=story.hosts,
        attempts=story.downloads[-MAX_ATTEMPTS:],
        attempts_total=len(story.downloads),
        documents=documents,
        documents_total=line.documents,
        to_be_corrected=line.to_be_corrected,
        states=states,
        reasons=_reasons(story, foreign),
        reopenings=story.reopenings[-MAX_NOTES:],
        findings=tuple(replace(one, said=one.public) for one in story.findings[-MAX_NOTES:]),
        removals=story.removals[-MAX_NOTES:],
        accepted=None if qc is None else accepted_of_submission(qc, key, limit=MAX_PROCEDURES),
        qc_missing=_missing(qc, qc_missing),
        changed=line.changed,
        waits=(
            *(_older(story) if line.outcome in (Outcome.IN_ORDER, Outcome.BEHIND_DECISION) else ()),
            *(wait.message for wait in waits),
        ),
        awaited=tuple(wait.acts for wait in waits),
        decisions=tuple(decision for decision in story.decisions if _holds(decision, story.status)),
        **_first_causes(find_causes(tracker, qc, key, settings)),
    )


def collect_centre(
    tracker: Connection, qc: Connection | None, centre: str, settings: Settings, *, qc_missing: str | None = None
) -> CentreReport:
    """The facts of a centre's summary, without pictures. Raises NotFoundError."""
    require_centre(tracker, centre)
    (name,) = (entry.full_name for entry in list_centres(tracker) if entry.short_name == centre)
    sources = [source for source in list_sources(tracker) if source.centre == centre and source.state != "removed"]
    return CentreReport(
        centre=centre,
        centre_name=name,
        accepted=None if qc is None else accepted_of_centre(qc, centre, limit=MAX_PROCEDURES),
        qc_missing=_missing(qc, qc_missing),
        **_summary(submissions_of_centre(tracker, centre, qc), find_causes(tracker, qc, centre, settings)),
        **_sources(tracker, sources, latest_crawls(tracker)),
    )


def collect_session(
    tracker: Connection, qc: Connection | None, session_id: int, settings: Settings, *, qc_missing: str | None = None
) -> SessionReport:
    """The facts of a crawling session's summary. Raises NotFoundError."""
    session = require_session(tracker, session_id)
    crawls = {crawl.source: crawl for crawl in session.crawls}
    done = {figures.source: figures for figures in statistics_of(tracker, session_id)}
    troubled = session.outcome in FAILED_ENDS or any(crawl.error for crawl in session.crawls)
    touched = session_submission_ids(tracker, session)
    zips, causes = submissions_of_session(tracker, session, touched, qc), find_causes(tracker, qc, session_id, settings)
    is_newest = is_newest_session(tracker, session)
    return SessionReport(
        session=session.id,
        started=session.started,
        finished=session.finished,
        outcome=session.outcome,
        failed_step=session.failed_step,
        task_errors=tuple(task.comment for task in session.tasks if task.outcome == "failed" and task.comment),
        seconds=seconds_by_phase(session),
        document_states=tuple(count_documents(tracker, touched)),
        sources_in_trouble=sum(crawl.error is not None for crawl in session.crawls),
        sections=sections_of(tracker, session, touched, settings.source_failure_limit, is_newest=is_newest),
        proposals=sum(count_open(tracker).values()) if is_newest else 0,
        qc_missing=_missing(qc, qc_missing),
        **_summary(zips, causes, troubled=troubled),
        **_sources(tracker, list_sources(tracker, sorted(crawls)) if crawls else [], crawls, done),
    )


def _summary(zips: Sequence[SubmissionLine], causes: FoundCauses, *, troubled: bool = False) -> dict[str, Any]:
    """The fields of a summary on archives and causes."""
    counts = Counter(line.outcome for line in zips)
    states = Counter((line.phase, line.status) for line in zips)
    return {
        "made": utc_now(),
        "tone": _tone((line.tone for line in zips if not line.needs_nobody), troubled=troubled),
        "zips": tuple(zips[:MAX_ZIPS]),
        "zips_total": len(zips),
        "outcomes": {outcome: counts[outcome] for outcome in Outcome if counts[outcome]},
        "states": tuple(StateCount(*state, count) for state, count in sorted(states.items())),
        **_first_causes(causes),
    }


def _first_causes(found: FoundCauses) -> dict[str, Any]:
    """The fields of a report on causes."""
    return {"causes": tuple(found.causes[:MAX_CAUSES]), "causes_total": found.total, "found": found.findings}


def _reasons(story: SubmissionStory, foreign: UnfetchedArchive | None) -> tuple[Problem, ...]:
    """The recorded reasons for its state, and that it is not fetched; without the commands that only wranglers have."""
    recorded = [reason for reason in story.reasons if reason.kind not in (HELD, DECLINED, WAITS)][-MAX_NOTES:]
    unfetched = [] if foreign is None else [Problem(foreign.kind, foreign.public_message, recorded=utc_now())]
    return (*recorded, *unfetched)


def _older(story: SubmissionStory) -> Iterator[Message]:
    """The older archive that is taken over first."""
    return (reason.fact for reason in story.reasons if reason.kind == WAITS)


def _holds(decision: Decision, status: Status) -> bool:
    return decision.revoked is None and (decision.kind is not DecisionKind.ACKNOWLEDGE or status is Status.FAILED)


def _missing(qc: Connection | None, reason: str | None) -> str | None:
    return None if qc is not None else reason or QC_NOT_ASKED


def _tone(tones: Iterable[Tone], *, troubled: bool) -> Tone:
    found = set(tones)
    worst = next((tone for tone in (Tone.BAD, Tone.WARN, Tone.WAIT) if tone in found), Tone.GOOD)
    return Tone.WARN if troubled and worst in (Tone.GOOD, Tone.WAIT) else worst


def _sources(
    tracker: Connection,
    sources: Sequence[SourceEntry],
    crawls: Mapping[int, CrawlEntry],
    done: Mapping[int, SourceStatistics] | None = None,
) -> dict[str, Any]:
    """The fields of a summary on sources: the first, those in trouble before others.

    With `done`, it is of a session: what was not taken is of now, and not told.
    """
    well = {number for number, crawl in crawls.items() if crawl.error is None}
    reports: list[SourceReport] = []
    left = MAX_NOT_TAKEN
    for source in sorted(sources, key=lambda one: one.id in well)[:MAX_SOURCES]:
        rows = skipped_entries(tracker, source.id) if left > 0 and done is None else []
        reports.append(
            SourceReport(
                source=source.id,
                label=source.address,
                title=source.label,
                centre=source.centre,
                state=source.state,
                hosted=source.hosted,
                crawl=crawls.get(source.id),
                not_taken=tuple(rows[:left]),
                not_taken_total=len(rows),
                done=None if done is None else done.get(source.id),
            )
        )
        left -= len(rows)
    return {"sources": tuple(reports), "sources_total": len(sources)}


def draw_pictures(
    qc: Connection | None,
    subject: SubmissionKey | str,
    settings: Settings,
    catalogue: Catalogue,
    limit: int,
    *,
    with_others: bool = False,
) -> tuple[Picture, ...]:
    """Pictures of what a submission brought, or of a centre's data by its code, the most telling first.

    Reports for the centre have them without the data of others.
    """
    if qc is None or limit < 1:
        return ()
    # They bring matplotlib and numpy with them.
    from dcc.reports.plots.picture import use_font_cache
    from dcc.reports.plots.selection import pictures_of

    use_font_cache(settings)
    return tuple(pictures_of(qc, subject, catalogue, limit=limit, with_others=with_others))


def language_of(tracker: Connection, subject: Subject) -> str | None:
    """The language of a subject's centre; None where it has none of its own, or is not registered.

    A submission is of the centre in the archive's name or, if that names none, of its file source's.
    """
    if isinstance(subject, int):
        return None
    if isinstance(subject, str):
        return tracker.scalar(select(Centre.language).where(Centre.short_name == subject))
    language = case((ZipFile.centre_id.is_(None), of_host(Centre.language)), else_=Centre.language)
    query = select(language).select_from(ZipAction).join(ZipFile).outerjoin(Centre).where(is_named(subject))
    return tracker.scalar(query) or None


_MAX_NOTES: Final = 20
_MAX_DOCUMENTS: Final = 5
"""Documents of one archive that a section lists."""
_MAX_ERRORS: Final = 3


def sections_of(
    connection: Connection, session: SessionEntry, touched: Select[Any], failure_limit: int, *, is_newest: bool
) -> tuple[Section, ...]:
    """The sections of a session's report that have anything, those that need somebody first.

    `touched` are the ids of its submissions, `failure_limit` is that of DCC_SOURCE_FAILURE_LIMIT. Unless the session
    `is_newest`, those that tell what is now are left out.
    """
    failed = session_submissions(connection, touched, ZipAction.status_id == Status.FAILED)
    names = {entry.short_name: entry.full_name for entry in list_centres(connection)}
    waiting = submissions_that_wait(connection, touched).values()
    no_room = submissions_without_room(connection) if is_newest else []
    without_room = [(key, Problem(NO_ROOM, reason)) for key, reason in no_room]
    findings = [Note((Problem(one.kind, one.public),), 1) for one in session_findings(connection, session.id)]
    alone = _left_alone(connection, session, failure_limit) if is_newest else []
    held, late = (session_entries(connection, touched, [kind]) for kind in (HELD, LATE))
    found: dict[Noted, tuple[Iterable[Note], int]] = {
        Noted.FAILED: ((_failure(connection, zipped, names) for zipped in failed[:_MAX_NOTES]), len(failed)),
        Noted.WITHOUT_ROOM: ((_about(*each) for each in without_room[:_MAX_NOTES]), len(without_room)),
        Noted.HELD: (_of_documents(held), len(held)),
        Noted.FINDINGS: (findings[:_MAX_NOTES], len(findings)),
        Noted.LATE: (_of_documents(late), len(late)),
        Noted.IN_ORDER: (
            [_about(key, Problem(WAITS, older.translatable)) for key, older in list(waiting)[:_MAX_NOTES]],
            len(waiting),
        ),
        Noted.LEFT_ALONE: (alone[-_MAX_NOTES:], len(alone)),
    }
    return tuple(Section(kind, tuple(notes), total) for kind, (notes, total) in found.items() if total)


def _about(name: object, problem: Problem) -> Note:
    return Note((problem,), 1, str(name))


def _of_documents(entries: Mapping[SubmissionKey, Sequence[tuple[str, Problem]]]) -> Iterable[Note]:
    for key, found in list(entries.items())[:_MAX_NOTES]:
        documents = tuple(_about(*each) for each in found[:_MAX_DOCUMENTS])
        yield Note(name=str(key), documents=documents, documents_total=len(found))


def _failure(connection: Connection, zipped: SessionSubmission, names: Mapping[str, str]) -> Note:
    story = submission_story(connection, zipped.key)
    failed = [document for document in story.documents if document.status is Status.FAILED]
    # Errors of the latest attempt; the submission's own may be of an earlier one.
    reasons = (story.latest.reasons if story.latest else ()) or (() if failed else story.reasons[-1:])
    problems = reasons[-_MAX_ERRORS:]
    errors = [(one, tuple(each for each in one.errors if each.is_error)) for one in failed[:_MAX_DOCUMENTS]]
    documents = tuple(
        Note(found[:_MAX_ERRORS], len(found), one.file_name, failed_at=one.phase) for one, found in errors
    )
    centre = zipped.centre or next(iter(zipped.hosts), "")
    return Note(
        problems,
        len(problems),
        str(zipped.key),
        centre=", ".join(filter(None, (centre, names.get(centre)))),
        failed_at=story.phase,
        documents=documents,
        documents_total=len(failed),
    )


def _left_alone(connection: Connection, session: SessionEntry, failure_limit: int) -> list[Note]:
    """The sources that were not due, or failed too often, with the reason; those listed not long ago are counted."""
    crawled = {crawl.source for crawl in session.crawls}
    dues = load_crawl_dues(connection, failure_limit)
    notes, recent = [], 0
    for source in list_sources(connection):
        due = dues.get(source.id)
        was_due = source.id in crawled and (due is None or due.why is not DueReason.FAILING)
        if due is None or was_due or source.centre not in (session.centres or (source.centre,)):
            continue
        recent += due.why is DueReason.RECENT
        reasons = why_not_crawled(source, None if due.why is DueReason.RECENT else due)
        problems = tuple(Problem(entry.why, entry.for_wranglers or entry.message) for entry in reasons)
        if problems:
            notes.append(Note(problems, len(problems), source.label))
    if recent:
        notes.append(_about("", Problem(SkipReason.NOT_DUE, message(_RECENT, number=recent))))
    return notes


_RECENT: Final = mark("Sources that were listed not long ago: {number}.")


def _list_documents(
    connection: Connection, qc: Connection | None, key: SubmissionKey, download: DownloadStory
) -> tuple[DocumentReport, ...]:
    """The first documents of a download: those that failed, those held, then the others."""
    of_download = (
        entries_that_hold().join(XmlFile, XmlFile.id == XmlLog.xml_id).where(XmlFile.download_id == download.id)
    )
    held = XmlFile.id.in_(of_download.where(AnException.short_name == HELD))
    rank = case((XmlFile.status_id == Status.FAILED, 0), (held, 1), else_=2)
    query = (
        select(
            XmlFile.id,
            XmlFile.fname,
            XmlFile.size_bytes,
            XmlFile.content_md5,
            XmlFile.phase_id,
            XmlFile.status_id,
            DocumentPlace.place,
        )
        .outerjoin(DocumentPlace, DocumentPlace.xml_id == XmlFile.id)
        .where(XmlFile.download_id == download.id)
        .order_by(rank, XmlFile.phase_id, XmlFile.id)
        .limit(MAX_DOCUMENTS)
    )
    rows = connection.execute(query).all()
    entries = _log_entries(connection, [row.id for row in rows])
    in_qc = {} if qc is None else _in_qc(qc, key, {row.id: row.fname for row in rows})
    return tuple(_document(row, entries[row.id], in_qc.get(row.id)) for row in rows)


def _document(row: Any, entries: Mapping[str, int], in_qc: Any) -> DocumentReport:
    """A document by its rows in both databases (None in the QC database)."""
    phase, status, held = row.phase_id, row.status_id, bool(entries.get(HELD))
    return DocumentReport(
        file_name=row.fname,
        size_bytes=row.size_bytes,
        md5=row.content_md5,
        phase=phase,
        status=status,
        steps=steps_of(
            phase,
            status,
            [step for step, kind in LEFT_OUT.items() if entries.get(kind)],
            is_taken=in_qc is None or in_qc.is_taken,
        ),
        errors=entries.get("errors", 0),
        warnings=entries.get("warnings", 0),
        held=held,
        confirmed=bool(entries.get(CONFIRMED)),
        late=not held and bool(entries.get(LATE) or (in_qc is not None and in_qc.late)),
        repeated=bool(entries.get(DUPLICATE)),
        counts={} if in_qc is None else {name: getattr(in_qc, name) for name in COUNTED},
        place=row.place,
    )


def _log_entries(connection: Connection, xml_ids: Sequence[int]) -> dict[int, Counter[str]]:
    """What the logs of documents have that holds: `errors`, `warnings`, whether held, late or a duplicate."""
    marked = case((XmlLog.severity.in_(NOT_FAILING), 1), else_=0).label("marked")
    query = (
        entries_that_hold(KIND, marked, func.count())
        .where(XmlLog.xml_id.in_(xml_ids))
        .group_by(XmlLog.xml_id, AnException.short_name, marked)
    )
    entries: dict[int, Counter[str]] = defaultdict(Counter)
    for xml_id, kind, is_marked, count in connection.execute(query):
        if kind in (LATE, DUPLICATE) or kind in NOTES:
            entries[xml_id][kind] += count
        if kind != MORE_RULE and kind not in NOTES:
            entries[xml_id]["warnings" if is_marked else "errors"] += count
    return entries


def _in_qc(qc: Connection, key: SubmissionKey, names: Mapping[int, str]) -> dict[int, Any]:
    """The rows of the QC database of documents, by the ids of their `xml_file`."""
    query = select(DOCUMENT, is_taken().label("is_taken")).where(
        DOCUMENT.c.tracker_id.in_(list(names)),
        DOCUMENT.c.zip_file == key.file_name,
        DOCUMENT.c.zip_action == key.action.value,
        DOCUMENT.c.action != DocumentAction.UNDO.value,
    )
    # A tracker that was made anew gives the ids of a lost one to other documents.
    return {row.tracker_id: row for row in qc.execute(query) if names[row.tracker_id] == row.file_name}


DOCUMENT_PHASES: Final = tuple(phase for phase in Phase if phase >= Phase.XML_NAME)
"""The phases that documents go through, in order."""

_STANDINGS: Final = {
    Status.PENDING: Standing.WAITS,
    Status.RUNNING: Standing.RUNNING,
    Status.DONE: Standing.PASSED,
    Status.CANCELLED: Standing.CANCELLED,
    Status.FAILED: Standing.FAILED,
}


def steps_of(
    phase: Phase, status: Status, left_out: Collection[Phase] = (), *, is_taken: bool = True
) -> tuple[PhaseStep, ...]:
    """How far a document in that state is in each of its phases; the settings may leave some out.

    What failed in the check of its contents goes on in its other parts, if any: only the faulty ones are left out.
    """
    goes_on = is_taken and (phase, status) == JUDGED_FAULTY
    beyond = Standing.IN_PART if goes_on else Standing.NOT_REACHED
    standings = {each: Standing.PASSED if each < phase else beyond for each in DOCUMENT_PHASES}
    standings |= {phase: _STANDINGS[status]} | dict.fromkeys(left_out, Standing.LEFT_OUT)
    return tuple(PhaseStep(*each) for each in standings.items())
