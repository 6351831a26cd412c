"""The report of a crawling session for data wranglers, in plain text, made from the tracker.

It has the result of each source's crawl, how far submissions and documents came, and why each failed one did. It also
has the documents that wait for confirmation, late archives, and the findings of the crawls.
"""

from __future__ import annotations

import logging
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from dcc.databases.transactions import run_reading
from dcc.errors import DccError
from dcc.messages import count_of
from dcc.notify.channels.reports import Report, ways_to_send
from dcc.outcomes import HELD, TROUBLES, EndReason, Problem, ZipKey
from dcc.phases import Phase, Status
from dcc.rules.upload import LATE
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.sources.due import Due, Why
from dcc.tracker.crawls import CrawlEntry, Finding, SessionEntry, require_session, session_findings
from dcc.tracker.hostings.missing_archives import count_open
from dcc.tracker.hostings.older_archives import zips_that_wait
from dcc.tracker.queries.session_zips import (
    SessionZip,
    session_documents,
    session_entries,
    session_zip_ids,
    session_zips,
    zips_without_room,
)
from dcc.tracker.queries.zip_action_lists import StateCount
from dcc.tracker.queries.zip_stories import DocumentStory, ZipStory, zip_story
from dcc.tracker.register.centres import list_centres
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.register.source_pace import load_dues
from dcc.tracker.session_statistics import SourceStatistics, seconds_by_phase, seconds_text, statistics_of

_WIDTH = 100
_MOST_ZIPS = 200
_MOST_DOCUMENTS = 20
_MOST_ERRORS = 3
_MOST_FINDINGS = 200
_LONGEST_MESSAGE = 1_000

log = logging.getLogger(__name__)


def send_session_report(tracker: Engine, settings: Settings, session_id: int) -> list[str]:
    """Send the report of a finished session in every way that the settings ask for; by default there is none.

    Returns a sentence for each: where the report was sent, or why not and what to do, which is also logged as a
    warning. Never raises DccError or SQLAlchemyError: the session's work stands without a report.
    """
    sentences: list[str] = []
    try:
        ways = ways_to_send(settings)
        if not ways:
            return sentences
        facts = run_reading(
            tracker, lambda connection: load_facts(connection, session_id, settings.source_failure_limit)
        )
        if facts.quiet and not settings.report_quiet_sessions:
            return sentences
        report = render_report(facts)
        report = replace(report, subject=settings.labelled(report.subject))
    except (DccError, SQLAlchemyError) as error:
        return [_not_sent(session_id, error)]
    for send in ways:
        try:
            sentences.append(send(report))
        except DccError as error:
            sentences.append(_not_sent(session_id, error))
        else:
            log.info("%s", sentences[-1])
    return sentences


def _not_sent(session_id: int, error: Exception) -> str:
    what = str(error) if isinstance(error, DccError) else f"The tracker could not be read ({type(error).__name__})."
    log.warning("Report of session %s: %s", session_id, what)
    return what


@dataclass(frozen=True)
class SessionFacts:
    """What the tracker knows of a session."""

    session: SessionEntry
    centres: dict[str, str]
    sources: dict[int, SourceAddress]
    crawls: Sequence[CrawlEntry]
    zips: Sequence[SessionZip]
    documents: Sequence[StateCount]
    failed: Sequence[tuple[SessionZip, ZipStory]]
    findings: Sequence[Finding]
    held: Mapping[ZipKey, Sequence[tuple[str, Problem]]]
    late: Mapping[ZipKey, Sequence[tuple[str, Problem]]]
    without_room: Sequence[tuple[ZipKey, str]]
    in_order: Sequence[tuple[ZipKey, str]]
    proposals: int
    dues: Mapping[int, Due]
    statistics: Mapping[int, SourceStatistics]

    @property
    def failed_zips(self) -> int:
        """The number of failed submissions."""
        return sum(zipped.status is Status.FAILED for zipped in self.zips)

    @property
    def troubled_sources(self) -> int:
        """The number of sources that could not be listed completely."""
        return sum(crawl.error is not None for crawl in self.crawls)

    @property
    def quiet(self) -> bool:
        """Whether nothing happened and nothing failed."""
        return not (self.zips or self.findings or self.troubled_sources or self.session.outcome in TROUBLES)

    def label(self, source_id: int) -> str:
        """The source's name in the report."""
        source = self.sources.get(source_id)
        return source.label if source is not None else f"file source {source_id}"


def load_facts(connection: Connection, session_id: int, failure_limit: int) -> SessionFacts:
    """What the tracker knows of a session. Raises NotFoundError if it does not exist."""
    session = require_session(connection, session_id)
    centres = {entry.short_name: entry.full_name for entry in list_centres(connection)}
    sources = {source.id: source for source in load_addresses(connection, only_crawlable=False)}
    zips = session_zips(connection, session)
    documents = session_documents(connection, session)
    counts: Counter[tuple[Phase, Status]] = Counter()
    for zipped in zips:
        for state in documents.get(zipped.key, ()):
            counts[state.phase, state.status] += state.count
    failed = [zipped for zipped in zips if zipped.status is Status.FAILED]
    held, late = (session_entries(connection, session, [kind]) for kind in (HELD, LATE))
    return SessionFacts(
        session=session,
        centres=centres,
        sources=sources,
        crawls=session.crawls,
        zips=zips,
        documents=_states(counts),
        failed=[(zipped, zip_story(connection, zipped.key)) for zipped in failed[:_MOST_ZIPS]],
        findings=session_findings(connection, session_id),
        held=held,
        late=late,
        without_room=zips_without_room(connection),
        in_order=_in_order(connection, session),
        proposals=sum(count_open(connection).values()),
        dues=load_dues(connection, failure_limit),
        statistics={work.source: work for work in statistics_of(connection, session_id)},
    )


def _states(counts: Counter[tuple[Phase, Status]]) -> list[StateCount]:
    return [StateCount(phase, status, count) for (phase, status), count in sorted(counts.items())]


def render_report(facts: SessionFacts) -> Report:
    """The report of a session, in plain text."""
    lines = [*_heading(facts), *_source_lines(facts), *_count_lines(facts), *_failure_lines(facts)]
    lines += [
        *_waiting_lines("Archives that wait for room on a disk of the platform", facts.without_room),
        *_waiting_lines("Archives that wait for an older one of their centre", facts.in_order),
    ]
    lines += [
        *_entry_lines("Documents to be confirmed", facts.held),
        *_entry_lines("Documents that came late", facts.late),
    ]
    if facts.proposals:
        lines += ["", f"{count_of(facts.proposals, 'proposed withdrawal')} to decide on: dcc data proposals"]
    lines += [*_finding_lines(facts), "", "See also: dcc status; dcc show <action>/<zip>; dcc ui", ""]
    return Report(facts.session.id, _subject(facts), "\n".join(lines))


def _subject(facts: SessionFacts) -> str:
    troubles = (
        (facts.failed_zips, "failed submission", None),
        (len(facts.without_room), "submission without room", "submissions without room"),
        (facts.troubled_sources, "file source in trouble", "file sources in trouble"),
        (len(facts.held), "submission to be confirmed", "submissions to be confirmed"),
        (len(facts.findings), "finding", None),
    )
    summary = ", ".join(count_of(*trouble) for trouble in troubles if trouble[0])
    if not summary:
        summary = "all well" if facts.session.outcome == EndReason.FINISHED else facts.session.outcome
    return f"DCC session {facts.session.id}: {summary}"


def _heading(facts: SessionFacts) -> Iterator[str]:
    session = facts.session
    yield f"Crawling session {session.id}"
    yield f"  began    {_time(session.started)}"
    if session.finished is not None:
        yield f"  ended    {_time(session.finished)}, after {session.finished - session.started}"
    step = f" ({session.failed_step})" if session.failed_step is not None else ""
    yield f"  outcome  {session.outcome}{step}"
    for task in session.tasks:
        if task.outcome == "failed" and task.comment:
            yield from _wrapped(f"failed   {task.comment}", 2)
    seconds = seconds_by_phase(session)
    if seconds:
        yield from _wrapped(f"took     {seconds_text(seconds)}", 2)


def _source_lines(facts: SessionFacts) -> Iterator[str]:
    yield from _title("File sources")
    if not facts.crawls:
        yield "  None was crawled."
    for crawl in facts.crawls:
        label = facts.label(crawl.source)
        done = facts.statistics.get(crawl.source)
        yield from _wrapped(f"{label}: {_crawl_text(crawl)}{_statistics_text(done) if done else ''}", 2)
        if crawl.error is not None:
            yield from _wrapped(str(crawl.error.fact.problem), 6)
        due = facts.dues.get(crawl.source)
        if crawl.outcome == "failed" and due is not None and not due.is_due:
            yield from _wrapped(f"{due}.", 6)
    crawled = {crawl.source for crawl in facts.crawls}
    recent = 0
    for number, due in facts.dues.items():
        centre = facts.sources[number].centre if number in facts.sources else ""
        is_covered = facts.session.centres is None or centre in facts.session.centres
        if number in crawled or due.is_due or not is_covered:
            continue
        if due.why is Why.RECENT:
            recent += 1
        else:
            yield from _wrapped(f"{facts.label(number)}: {due}", 2)
    if recent:
        yield f"  {count_of(recent, 'file source')} listed not long ago."


def _statistics_text(done: SourceStatistics) -> str:
    numbers = [(done.fetched, "archive fetched", "archives fetched"), (done.documents, "document", None)]
    numbers += [(done.findings, "error or finding", "errors and findings"), (done.failed, "failed submission", None)]
    return "".join(f"; {count_of(*number)}" for number in numbers if number[0])


def _crawl_text(crawl: CrawlEntry) -> str:
    if crawl.outcome == "failed":
        return "FAILED"
    numbers = [f"{count_of(crawl.listed, 'archive')} listed"] + [
        f"{number:,} {what}"
        for number, what in (
            (crawl.new, "new"),
            (crawl.known, "known"),
            (crawl.elsewhere, "known from other sources"),
            (crawl.changed, "changed"),
            (crawl.refused, "refused by name"),
            (crawl.gone, "gone"),
            (crawl.ignored, "other entries ignored"),
        )
        if number
    ]
    return f"{'listed in part' if crawl.outcome == 'partial' else crawl.outcome}; {', '.join(numbers)}"


def _count_lines(facts: SessionFacts) -> Iterator[str]:
    yield from _title("Submissions of this session, by phase and status")
    yield from _table(_states(Counter((zipped.phase, zipped.status) for zipped in facts.zips)))
    yield from _title("Their documents, by phase and status")
    yield from _table(facts.documents)


def _table(states: Iterable[StateCount]) -> Iterator[str]:
    rows = [f"  {state.phase.short_name:<10}{state.status.short_name:<10}{state.count:>9,}" for state in states]
    yield from rows or ["  None."]


def _failure_lines(facts: SessionFacts) -> Iterator[str]:
    yield from _title("What failed")
    if not facts.failed:
        yield "  Nothing."
    groups: dict[str, list[ZipStory]] = defaultdict(list)
    for zipped, story in facts.failed:
        groups[zipped.centre or next(iter(zipped.hosts), "")].append(story)
    for centre in sorted(groups):
        yield f"  {centre}, {facts.centres.get(centre, 'not registered')}" if centre else "  Centre not known"
        for story in groups[centre]:
            yield from _story_lines(story)
    if facts.failed_zips > len(facts.failed):
        others = count_of(facts.failed_zips - len(facts.failed), "more submission")
        yield f"  ... and {others}: dcc zips --status failed"


def _story_lines(story: ZipStory) -> Iterator[str]:
    key = f"{story.action}/{story.file_name}"
    yield from _wrapped(f"{key}: failed at {story.phase.short_name}", 4)
    failed = [document for document in story.documents if document.status is Status.FAILED]
    # Errors of the latest attempt; the submission's own may be of an earlier one.
    reasons = (story.latest.reasons if story.latest else ()) or (() if failed else story.reasons[-1:])
    for reason in reasons[-_MOST_ERRORS:]:
        yield from _wrapped(reason.message, 6)
    if not reasons and not failed:
        yield f"        See dcc show {key}"
    for document in failed[:_MOST_DOCUMENTS]:
        yield from _document_lines(document)
    if len(failed) > _MOST_DOCUMENTS:
        yield f"      ... and {count_of(len(failed) - _MOST_DOCUMENTS, 'more document')}: dcc show {key}"


def _document_lines(document: DocumentStory) -> Iterator[str]:
    errors = sum(problem.is_error for problem in document.errors)
    found = count_of(errors, "error") if errors else "no error recorded"
    yield from _wrapped(f"{document.file_name}: failed at {document.phase.short_name}, {found}", 6)
    for problem in document.errors[:_MOST_ERRORS]:
        place = f"{problem.place}: " if problem.place else ""
        yield from _wrapped(f"{place}{problem.text}", 8)
    if len(document.errors) > _MOST_ERRORS:
        yield f"        ... and {len(document.errors) - _MOST_ERRORS:,} more"


def _in_order(connection: Connection, session: SessionEntry) -> list[tuple[ZipKey, str]]:
    """The session's submissions that still wait for an older archive of their centre, with the reason."""
    found = zips_that_wait(connection, session_zip_ids(connection, session))
    return [(key, older.message) for key, older in found.values()]


def _waiting_lines(title: str, waiting: Sequence[tuple[ZipKey, str]]) -> Iterator[str]:
    if not waiting:
        return
    yield from _title(title)
    for key, reason in waiting[:_MOST_DOCUMENTS]:
        yield from _wrapped(f"{key}:", 2)
        yield from _wrapped(reason, 6)
    if len(waiting) > _MOST_DOCUMENTS:
        yield f"  ... and {count_of(len(waiting) - _MOST_DOCUMENTS, 'more submission')}"


def _entry_lines(title: str, entries: Mapping[ZipKey, Sequence[tuple[str, Problem]]]) -> Iterator[str]:
    if not entries:
        return
    yield from _title(title)
    for key, found in list(entries.items())[:_MOST_ZIPS]:
        yield from _wrapped(str(key), 2)
        for file_name, problem in found[:_MOST_DOCUMENTS]:
            yield from _wrapped(f"{file_name}: {problem.message}", 4)
        if len(found) > _MOST_DOCUMENTS:
            yield f"    ... and {count_of(len(found) - _MOST_DOCUMENTS, 'more document')}: dcc show {key}"
    if len(entries) > _MOST_ZIPS:
        yield f"  ... and {count_of(len(entries) - _MOST_ZIPS, 'more submission')}"


def _finding_lines(facts: SessionFacts) -> Iterator[str]:
    if not facts.findings:
        return
    yield from _title("What the crawls noticed")
    for finding in facts.findings[:_MOST_FINDINGS]:
        yield from _wrapped(finding.message, 2)
    if len(facts.findings) > _MOST_FINDINGS:
        yield f"  ... and {len(facts.findings) - _MOST_FINDINGS:,} more"


def _title(text: str) -> tuple[str, str, str]:
    return "", text, "-" * len(text)


def _wrapped(text: str, indent: int) -> list[str]:
    """Text wrapped to a mail's width, control characters as `\\xNN`."""
    plain = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in " ".join(text.split()))
    if len(plain) > _LONGEST_MESSAGE:
        plain = plain[:_LONGEST_MESSAGE] + "…"
    blank = " " * indent
    return textwrap.wrap(
        plain,
        _WIDTH,
        initial_indent=blank,
        subsequent_indent=blank + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
