"""Collects the facts of reports: on a submission, a centre, a session; their pictures and languages.

Reads only, on open connections; the number of statements does not grow with the size of the archive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, case, select

from dcc.outcomes import DECLINED, FAILED_ENDS, HELD, WAITS, Problem, ZipKey
from dcc.reports.causes.collecting import Subject, causes_of
from dcc.reports.causes.skipped_archives import skipped_entries
from dcc.reports.submissions.accepted import accepted_of_centre, accepted_of_zip
from dcc.reports.submissions.documents import list_documents
from dcc.reports.submissions.model import (
    CentreReport,
    Outcome,
    Report,
    SessionReport,
    SourceReport,
    SubmissionReport,
    Tone,
    ZipLine,
)
from dcc.reports.submissions.session_sections import sections_of
from dcc.reports.submissions.zip_lines import line_of, zips_of_centre, zips_of_session
from dcc.settings import Settings
from dcc.tracker.crawls import CrawlEntry, is_newest_session, latest_crawls, require_session
from dcc.tracker.hostings.changed_archives import count_open
from dcc.tracker.hostings.foreign_archives import HeldArchive, held_archives
from dcc.tracker.models import Centre, ZipAction, ZipFile, utc_now
from dcc.tracker.queries.zip_action_lists import StateCount, require_centre
from dcc.tracker.queries.zip_stories import ZipStory, zip_story
from dcc.tracker.register.centres import list_centres
from dcc.tracker.register.file_sources import SourceEntry, list_sources
from dcc.tracker.session_statistics import SourceStatistics, seconds_by_phase, session_document_states, statistics_of
from dcc.tracker.submission_rows import is_named, of_host

if TYPE_CHECKING:
    from dcc.reports.causes.cause import Cause
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
    """The facts of the report on a submission, a centre or a session; arguments as of `collect_submission`."""
    if isinstance(subject, int):
        return collect_session(tracker, qc, subject, settings, qc_missing=qc_missing)
    options: Any = {"catalogue": catalogue, "max_pictures": max_pictures, "qc_missing": qc_missing}
    if isinstance(subject, str):
        return collect_centre(tracker, qc, subject, settings, **options)
    return collect_submission(tracker, qc, subject, settings, **options)


def collect_submission(
    tracker: Connection,
    qc: Connection | None,
    key: ZipKey,
    settings: Settings,
    *,
    catalogue: Catalogue | None = None,
    max_pictures: int = MAX_PICTURES,
    qc_missing: str | None = None,
) -> SubmissionReport:
    """The facts of the report of one submission.

    `qc` is None where the QC database cannot be asked, and `qc_missing` says why. Pictures have their texts in the
    language of `catalogue`, by default that of the settings; `max_pictures` 0: none. Raises NotFoundError.
    """
    story = zip_story(tracker, key, with_documents=False)
    line, states = line_of(tracker, key, qc)
    latest = story.latest
    documents = () if latest is None else list_documents(tracker, qc, key, latest, limit=MAX_DOCUMENTS)
    foreign = next(iter(held_archives(tracker, key=key)), None)
    return SubmissionReport(
        key=key,
        centre=story.centre,
        centre_name=next((each.full_name for each in list_centres(tracker) if each.short_name == story.centre), None),
        phase=story.phase,
        status=story.status,
        outcome=line.outcome,
        tone=line.tone,
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
        states=states,
        reasons=_reasons(story, foreign),
        reopenings=story.reopenings[-MAX_NOTES:],
        findings=story.findings[-MAX_NOTES:],
        removals=story.removals[-MAX_NOTES:],
        accepted=None if qc is None else accepted_of_zip(qc, key, limit=MAX_PROCEDURES),
        qc_missing=_missing(qc, qc_missing),
        pictures=draw_pictures(qc, key, settings, catalogue, max_pictures),
        changed=line.changed,
        waits_for=story.waits_for if line.outcome is Outcome.IN_ORDER else None,
        decisions=tuple(decision for decision in story.decisions if decision.revoked is None),
        **_first_causes(causes_of(tracker, qc, key, settings)),
    )


def collect_centre(
    tracker: Connection,
    qc: Connection | None,
    centre: str,
    settings: Settings,
    *,
    catalogue: Catalogue | None = None,
    max_pictures: int = MAX_PICTURES,
    qc_missing: str | None = None,
) -> CentreReport:
    """The facts of a centre's summary; arguments as of `collect_submission`. Raises NotFoundError."""
    require_centre(tracker, centre)
    (name,) = (entry.full_name for entry in list_centres(tracker) if entry.short_name == centre)
    sources = [source for source in list_sources(tracker) if source.centre == centre and source.state != "removed"]
    return CentreReport(
        centre=centre,
        centre_name=name,
        accepted=None if qc is None else accepted_of_centre(qc, centre, limit=MAX_PROCEDURES),
        pictures=draw_pictures(qc, centre, settings, catalogue, max_pictures),
        qc_missing=_missing(qc, qc_missing),
        **_summary(zips_of_centre(tracker, centre, qc), causes_of(tracker, qc, centre, settings)),
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
    zips, causes = zips_of_session(tracker, session, qc), causes_of(tracker, qc, session_id, settings)
    is_newest = is_newest_session(tracker, session)
    return SessionReport(
        session=session.id,
        started=session.started,
        finished=session.finished,
        outcome=session.outcome,
        failed_step=session.failed_step,
        task_errors=tuple(task.comment for task in session.tasks if task.outcome == "failed" and task.comment),
        seconds=seconds_by_phase(session),
        document_states=tuple(session_document_states(tracker, session)),
        sources_in_trouble=sum(crawl.error is not None for crawl in session.crawls),
        sections=sections_of(tracker, session, settings.source_failure_limit, is_newest=is_newest),
        proposals=sum(count_open(tracker).values()) if is_newest else 0,
        qc_missing=_missing(qc, qc_missing),
        **_summary(zips, causes, troubled=troubled),
        **_sources(tracker, list_sources(tracker, sorted(crawls)) if crawls else [], crawls, done),
    )


def _summary(zips: Sequence[ZipLine], causes: Sequence[Cause], *, troubled: bool = False) -> dict[str, Any]:
    """The fields of a summary on archives and causes."""
    counts = Counter(zip_line.outcome for zip_line in zips)
    states = Counter((zip_line.phase, zip_line.status) for zip_line in zips)
    return {
        "made": utc_now(),
        "tone": _tone((zip_line.tone for zip_line in zips if not zip_line.needs_nobody), troubled=troubled),
        "zips": tuple(zips[:MAX_ZIPS]),
        "zips_total": len(zips),
        "outcomes": {outcome: counts[outcome] for outcome in Outcome if counts[outcome]},
        "states": tuple(StateCount(*state, count) for state, count in sorted(states.items())),
        **_first_causes(causes),
    }


def _first_causes(causes: Sequence[Cause]) -> dict[str, Any]:
    """The fields of a report on causes."""
    found = sum(cause.findings for cause in causes)
    return {"causes": tuple(causes[:MAX_CAUSES]), "causes_total": len(causes), "found": found}


def _reasons(story: ZipStory, foreign: HeldArchive | None) -> tuple[Problem, ...]:
    """The recorded reasons for its state, and that it is held; without the commands that only wranglers have."""
    recorded = [reason for reason in story.reasons if reason.kind not in (HELD, DECLINED, WAITS)][-MAX_NOTES:]
    held = [] if foreign is None else [Problem(foreign.kind, foreign.public_message, recorded=utc_now())]
    return (*recorded, *held)


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

    def is_well(source: SourceEntry) -> bool:
        crawl = crawls.get(source.id)
        return crawl is not None and crawl.error is None

    reports: list[SourceReport] = []
    left = MAX_NOT_TAKEN
    for source in sorted(sources, key=is_well)[:MAX_SOURCES]:
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
    subject: ZipKey | str,
    settings: Settings,
    catalogue: Catalogue | None,
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
    from dcc.reports.languages import load_catalogue
    from dcc.reports.plots.picture import use_font_cache
    from dcc.reports.plots.selection import pictures_of_centre, pictures_of_zip

    texts = catalogue or load_catalogue(None, settings)
    use_font_cache(settings)
    if isinstance(subject, ZipKey):
        return tuple(pictures_of_zip(qc, subject, texts, limit=limit, with_others=with_others))
    return tuple(pictures_of_centre(qc, subject, texts, limit=limit, with_others=with_others))


def language_of(tracker: Connection, subject: Subject) -> str | None:
    """The language of a subject's centre; None where it has none of its own, or is not registered."""
    if isinstance(subject, str):
        return tracker.scalar(select(Centre.language).where(Centre.short_name == subject))
    return language_of_zip(tracker, subject) if isinstance(subject, ZipKey) else None


def language_of_zip(tracker: Connection, key: ZipKey) -> str | None:
    """The language of a submission's centre: by the archive's name or, if that names none, by its file source."""
    language = case((ZipFile.centre_id.is_(None), of_host(Centre.language)), else_=Centre.language)
    query = select(language).select_from(ZipAction).join(ZipFile).outerjoin(Centre).where(is_named(key))
    return tracker.scalar(query) or None
