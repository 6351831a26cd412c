"""Collects the facts of reports: on a submission, a centre, a session; their pictures and languages.

Reads only, on open connections; the number of statements does not grow with the size of the archive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, select

from dcc.outcomes import DECLINED, HELD, LEFT_OUT, TROUBLES, WAITS, ZipKey
from dcc.phases import ACTION_IDS
from dcc.reports.causes.collecting import causes_of_centre, causes_of_session, causes_of_zip
from dcc.reports.causes.skipped_archives import skipped_entries
from dcc.reports.submissions.accepted import accepted_of_centre, accepted_of_zip
from dcc.reports.submissions.documents import count_states, has_entries, list_documents
from dcc.reports.submissions.model import (
    CentreReport,
    Outcome,
    SessionReport,
    SourceReport,
    SubmissionReport,
    Tone,
    ZipLine,
)
from dcc.reports.submissions.outcomes import only_waits, outcome_of, tone_of
from dcc.reports.submissions.zip_lines import changed_of, zips_of_centre, zips_of_session
from dcc.settings import Settings
from dcc.tracker.crawls import CrawlEntry, latest_crawls, require_session
from dcc.tracker.hostings.foreign_archives import HeldArchive, held_archives
from dcc.tracker.models import Centre, FileSource, FileSourceHasZip, ZipAction, ZipFile, utc_now
from dcc.tracker.queries.zip_action_lists import StateCount, require_centre
from dcc.tracker.queries.zip_stories import Reason, ZipStory, zip_story
from dcc.tracker.register.centres import CentreEntry, list_centres
from dcc.tracker.register.file_sources import SourceEntry, list_sources
from dcc.tracker.session_statistics import SourceStatistics, statistics_of

if TYPE_CHECKING:
    from dcc.reports.causes.cause import Cause
    from dcc.reports.languages import Catalogue
    from dcc.reports.plots.picture import Picture

MOST_DOCUMENTS: Final = 200
"""Documents that a report lists; the others are counted."""
MOST_ATTEMPTS: Final = 20
MOST_CAUSES: Final = 30
MOST_PROCEDURES: Final = 60
MOST_PICTURES: Final = 6
MOST_ZIPS: Final = 300
MOST_SOURCES: Final = 100
MOST_NOT_TAKEN: Final = 100
"""What was not taken, of all sources together: those in trouble come first."""
MOST_NOTES: Final = 20
"""Reopenings, findings of crawls and removals that a report lists: the latest."""

QC_NOT_ASKED: Final = "not asked"
"""Why there is nothing of the QC database in a report: the caller has no connection to it."""


def collect_submission(
    tracker: Connection,
    qc: Connection | None,
    key: ZipKey,
    settings: Settings,
    *,
    catalogue: Catalogue | None = None,
    most_pictures: int = MOST_PICTURES,
    qc_missing: str | None = None,
) -> SubmissionReport:
    """The facts of the report of one submission.

    `qc` is None where the QC database cannot be asked, and `qc_missing` says why. Pictures have their texts in the
    language of `catalogue`, by default that of the settings; `most_pictures` 0: none. Raises NotFoundError.
    """
    story = zip_story(tracker, key, with_documents=False)
    latest = story.latest
    states = () if latest is None else count_states(tracker, latest.id)
    held = latest is not None and has_entries(tracker, latest.id, HELD)
    accepted = None if qc is None else accepted_of_zip(qc, key, most=MOST_PROCEDURES)
    causes = causes_of_zip(tracker, qc, key, settings)
    changed = changed_of(tracker, key)
    foreign = next(iter(held_archives(tracker, key=key)), None)
    outcome = outcome_of(
        story.phase,
        story.status,
        states,
        held=held,
        taken=None if accepted is None else accepted.anything,
        left_out=latest is not None and has_entries(tracker, latest.id, *LEFT_OUT.values()),
        foreign=foreign,
        waits_for_data=accepted is not None and only_waits(causes),
        waits_for_older=story.waits_for is not None,
        changed=changed is not None,
    )
    return SubmissionReport(
        key=key,
        centre=story.centre,
        centre_name=_names(tracker).get(story.centre or ""),
        phase=story.phase,
        status=story.status,
        outcome=outcome,
        tone=tone_of(outcome),
        made=utc_now(),
        size_bytes=story.size_bytes,
        md5=story.md5,
        created=story.created,
        inc=story.inc,
        hosts=story.hosts,
        attempts=story.downloads[-MOST_ATTEMPTS:],
        attempts_total=len(story.downloads),
        documents=()
        if latest is None
        else list_documents(tracker, qc, key, latest.id, latest.requested, most=MOST_DOCUMENTS),
        documents_total=sum(state.count for state in states),
        states=states,
        reasons=_reasons(story, foreign),
        reopenings=story.reopenings[-MOST_NOTES:],
        findings=story.findings[-MOST_NOTES:],
        removals=story.removals[-MOST_NOTES:],
        accepted=accepted,
        qc_missing=_missing(qc, qc_missing),
        pictures=draw_pictures(qc, key, settings, catalogue, most_pictures),
        changed=changed,
        waits_for=story.waits_for if outcome is Outcome.IN_ORDER else None,
        decisions=tuple(decision for decision in story.decisions if decision.revoked is None),
        **_first_causes(causes),
    )


def collect_centre(
    tracker: Connection,
    qc: Connection | None,
    centre: str,
    settings: Settings,
    *,
    catalogue: Catalogue | None = None,
    most_pictures: int = MOST_PICTURES,
    qc_missing: str | None = None,
) -> CentreReport:
    """The facts of a centre's summary; arguments as of `collect_submission`. Raises NotFoundError."""
    entry = _centre(tracker, centre)
    sources = [source for source in list_sources(tracker) if source.centre == centre and source.state != "removed"]
    return CentreReport(
        centre=centre,
        centre_name=entry.full_name,
        accepted=None if qc is None else accepted_of_centre(qc, centre, most=MOST_PROCEDURES),
        pictures=draw_pictures(qc, centre, settings, catalogue, most_pictures),
        qc_missing=_missing(qc, qc_missing),
        **_summary(zips_of_centre(tracker, centre, qc), causes_of_centre(tracker, qc, centre, settings)),
        **_sources(tracker, sources, latest_crawls(tracker)),
    )


def collect_session(
    tracker: Connection, qc: Connection | None, session_id: int, settings: Settings, *, qc_missing: str | None = None
) -> SessionReport:
    """The facts of a crawling session's summary. Raises NotFoundError."""
    session = require_session(tracker, session_id)
    crawls = {crawl.source: crawl for crawl in session.crawls}
    done = {figures.source: figures for figures in statistics_of(tracker, session_id)}
    troubled = session.outcome in TROUBLES or any(crawl.error for crawl in session.crawls)
    zips, causes = zips_of_session(tracker, session, qc), causes_of_session(tracker, qc, session_id, settings)
    return SessionReport(
        session=session.id,
        started=session.started,
        finished=session.finished,
        outcome=session.outcome,
        qc_missing=_missing(qc, qc_missing),
        **_summary(zips, causes, troubled=troubled),
        **_sources(tracker, list_sources(tracker, sorted(crawls)) if crawls else [], crawls, done),
    )


def _summary(zips: Sequence[ZipLine], causes: Sequence[Cause], *, troubled: bool = False) -> dict[str, Any]:
    """The fields of a summary on archives and causes."""
    counts = Counter(zip_line.outcome for zip_line in zips)
    return {
        "made": utc_now(),
        "tone": _tone((zip_line.tone for zip_line in zips if not zip_line.needs_nobody), troubled=troubled),
        "zips": tuple(zips[:MOST_ZIPS]),
        "zips_total": len(zips),
        "outcomes": {outcome: counts[outcome] for outcome in Outcome if counts[outcome]},
        "states": _states(zips),
        **_first_causes(causes),
    }


def _first_causes(causes: Sequence[Cause]) -> dict[str, Any]:
    """The fields of a report on causes."""
    found = sum(cause.findings for cause in causes)
    return {"causes": tuple(causes[:MOST_CAUSES]), "causes_total": len(causes), "found": found}


def _reasons(story: ZipStory, foreign: HeldArchive | None) -> tuple[Reason, ...]:
    """The recorded reasons for its state, and that it is held; without the commands that only wranglers have."""
    recorded = [reason for reason in story.reasons if reason.kind not in (HELD, DECLINED, WAITS)][-MOST_NOTES:]
    held = [] if foreign is None else [Reason(foreign.kind, foreign.public_message, utc_now())]
    return (*recorded, *held)


def _names(tracker: Connection) -> dict[str, str]:
    return {entry.short_name: entry.full_name for entry in list_centres(tracker)}


def _centre(tracker: Connection, centre: str) -> CentreEntry:
    require_centre(tracker, centre)
    return next(entry for entry in list_centres(tracker) if entry.short_name == centre)


def _missing(qc: Connection | None, reason: str | None) -> str | None:
    return None if qc is not None else reason or QC_NOT_ASKED


def _tone(tones: Iterable[Tone], *, troubled: bool) -> Tone:
    found = set(tones)
    worst = next((tone for tone in (Tone.BAD, Tone.WARN, Tone.WAIT) if tone in found), Tone.GOOD)
    return Tone.WARN if troubled and worst in (Tone.GOOD, Tone.WAIT) else worst


def _states(zips: Iterable[ZipLine]) -> tuple[StateCount, ...]:
    counts = Counter((zip_line.phase, zip_line.status) for zip_line in zips)
    return tuple(StateCount(phase, status, count) for (phase, status), count in sorted(counts.items()))


def _sources(
    tracker: Connection,
    sources: Sequence[SourceEntry],
    crawls: Mapping[int, CrawlEntry],
    done: Mapping[int, SourceStatistics] | None = None,
) -> dict[str, Any]:
    """The fields of a summary on sources: the first, those in trouble before others."""

    def is_well(source: SourceEntry) -> bool:
        crawl = crawls.get(source.id)
        return crawl is not None and crawl.error is None

    reports: list[SourceReport] = []
    left = MOST_NOT_TAKEN
    for source in sorted(sources, key=is_well)[:MOST_SOURCES]:
        rows = skipped_entries(tracker, source.id) if left > 0 else []
        reports.append(
            SourceReport(
                source=source.id,
                label=f"{source.protocol}://{source.hostname}{source.base_path}",
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
    most: int,
    *,
    with_others: bool = False,
) -> tuple[Picture, ...]:
    """Pictures of what a submission brought, or of a centre's data by its code, the most telling first.

    Reports for the centre have them without the data of others.
    """
    if qc is None or most < 1:
        return ()
    # They bring matplotlib and numpy with them.
    from dcc.reports.languages import load_catalogue
    from dcc.reports.plots.picture import keep_fonts
    from dcc.reports.plots.selection import pictures_of_centre, pictures_of_zip

    texts = catalogue or load_catalogue(None, settings)
    keep_fonts(settings)
    if isinstance(subject, ZipKey):
        return tuple(pictures_of_zip(qc, subject, texts, most=most, with_others=with_others))
    return tuple(pictures_of_centre(qc, subject, texts, most=most, with_others=with_others))


def language_of_centre(tracker: Connection, centre: str) -> str | None:
    """The language of a centre; None where it has none of its own, or is not registered."""
    return tracker.scalar(select(Centre.language).where(Centre.short_name == centre))


def language_of_zip(tracker: Connection, key: ZipKey) -> str | None:
    """The language of a submission's centre: by the archive's name or, if that names none, by its file source."""
    named = (
        select(ZipAction.id, Centre.id.label("centre_id"), Centre.language)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .outerjoin(Centre, Centre.id == ZipFile.centre_id)
        .where(ZipFile.file_name == key.file_name, ZipAction.todo_id == ACTION_IDS[key.action])
    )
    row = tracker.execute(named).first()
    if row is None:
        return None
    if row.centre_id is not None:
        return str(row.language) if row.language else None
    hosting = (
        select(Centre.language)
        .join(FileSource, FileSource.centre_id == Centre.id)
        .join(FileSourceHasZip, FileSourceHasZip.file_source_id == FileSource.id)
        .where(FileSourceHasZip.za_id == row.id)
        .order_by(FileSourceHasZip.id)
        .limit(1)
    )
    return tracker.scalar(hosting)
