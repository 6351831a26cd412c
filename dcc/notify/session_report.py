"""The report of a crawling session for data wranglers, in plain text, made from the tracker.

It has the result of each source's crawl, how far submissions and documents came, and why each failed one did. It also
has the documents that wait for confirmation, late archives, and the findings of the crawls.
"""

from __future__ import annotations

import logging
import textwrap
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from dcc.databases.transactions import run_reading
from dcc.errors import DccError
from dcc.messages import count_of
from dcc.notify.channels.reports import Report, ways_to_send
from dcc.outcomes import FAILED_ENDS, HELD, EndReason, Problem, ZipKey
from dcc.phases import Phase, Status
from dcc.rules.upload import LATE
from dcc.settings import Settings
from dcc.sources.crawl_policy import DueReason
from dcc.tracker.crawls import CrawlEntry, SessionEntry, require_session, session_findings
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
from dcc.tracker.queries.zip_stories import ZipStory, zip_story
from dcc.tracker.register.centres import list_centres
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.register.source_schedules import load_crawl_dues
from dcc.tracker.session_statistics import SourceStatistics, seconds_by_phase, seconds_text, statistics_of

_WIDTH = 100
_MAX_ZIPS = 200
_MAX_DOCUMENTS = 20
_MAX_ERRORS = 3
_MAX_FINDINGS = 200
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
        limit = settings.source_failure_limit
        report = run_reading(tracker, lambda connection: session_report(connection, session_id, limit))
        if report.is_quiet and not settings.report_quiet_sessions:
            return sentences
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


class _Text:
    """The lines of a report, as wide as a mail."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def title(self, text: str) -> None:
        """Begin a section."""
        self.lines += ["", text, "-" * len(text)]

    def add(self, indent: int, text: object) -> None:
        """Add a text, wrapped, with control characters as `\\xNN`."""
        plain = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in " ".join(str(text).split()))
        if len(plain) > _LONGEST_MESSAGE:
            plain = plain[:_LONGEST_MESSAGE] + "…"
        blank = " " * indent
        wrapper = textwrap.TextWrapper(_WIDTH, blank, f"{blank}  ", break_long_words=False, break_on_hyphens=False)
        self.lines += wrapper.wrap(plain)

    def add_left(self, indent: int, total: int, limit: int, noun: str = "", hint: str = "") -> None:
        """Say how many more there are than the `limit` that it has."""
        left = total - limit
        if left > 0:
            many = count_of(left, f"more {noun}") if noun else f"{left:,} more"
            self.lines.append(f"{' ' * indent}... and {many}{hint}")


def session_report(connection: Connection, session_id: int, failure_limit: int) -> Report:
    """The report of a session, in plain text; `failure_limit` is that of DCC_SOURCE_FAILURE_LIMIT.

    Raises NotFoundError if the session does not exist.
    """
    session = require_session(connection, session_id)
    zips = session_zips(connection, session)
    documents = session_documents(connection, session)
    states: Counter[tuple[Phase, Status]] = Counter()
    for zipped in zips:
        for state in documents.get(zipped.key, ()):
            states[state.phase, state.status] += state.count
    failed = [zipped for zipped in zips if zipped.status is Status.FAILED]
    held, late = (session_entries(connection, session, [kind]) for kind in (HELD, LATE))
    waiting = zips_that_wait(connection, session_zip_ids(connection, session)).values()
    without_room, findings = zips_without_room(connection), session_findings(connection, session_id)
    proposals = sum(count_open(connection).values())
    text = _Text()
    _add_heading(text, session)
    _add_sources(text, connection, session, failure_limit)
    zip_states = Counter((zipped.phase, zipped.status) for zipped in zips)
    _add_states(text, "Submissions of this session, by phase and status", zip_states)
    _add_states(text, "Their documents, by phase and status", states)
    _add_failures(text, connection, failed)
    _add_waiting(text, "Archives that wait for room on a disk of the platform", without_room)
    in_order = [(key, older.message) for key, older in waiting]
    _add_waiting(text, "Archives that wait for an older one of their centre", in_order)
    _add_entries(text, "Documents to be confirmed", held)
    _add_entries(text, "Documents that came late", late)
    if proposals:
        text.lines += ["", f"{count_of(proposals, 'proposed withdrawal')} to decide on: dcc data proposals"]
    if findings:
        text.title("What the crawls noticed")
        for finding in findings[:_MAX_FINDINGS]:
            text.add(2, finding.message)
        text.add_left(2, len(findings), _MAX_FINDINGS)
    text.lines += ["", "See also: dcc status; dcc show <action>/<zip>; dcc ui", ""]
    away = sum(crawl.error is not None for crawl in session.crawls)
    troubles = (
        (len(failed), "failed submission", None),
        (len(without_room), "submission without room", "submissions without room"),
        (away, "file source in trouble", "file sources in trouble"),
        (len(held), "submission to be confirmed", "submissions to be confirmed"),
        (len(findings), "finding", None),
    )
    summary = ", ".join(count_of(*trouble) for trouble in troubles if trouble[0])
    if not summary:
        summary = "all well" if session.outcome == EndReason.FINISHED else session.outcome
    is_quiet = not (zips or findings or away or session.outcome in FAILED_ENDS)
    return Report(session.id, f"DCC session {session.id}: {summary}", "\n".join(text.lines), is_quiet)


def _add_heading(text: _Text, session: SessionEntry) -> None:
    text.lines += [f"Crawling session {session.id}", f"  began    {_time(session.started)}"]
    if session.finished is not None:
        text.lines.append(f"  ended    {_time(session.finished)}, after {session.finished - session.started}")
    step = f" ({session.failed_step})" if session.failed_step is not None else ""
    text.lines.append(f"  outcome  {session.outcome}{step}")
    for task in session.tasks:
        if task.outcome == "failed" and task.comment:
            text.add(2, f"failed   {task.comment}")
    seconds = seconds_by_phase(session)
    if seconds:
        text.add(2, f"took     {seconds_text(seconds)}")


def _add_sources(text: _Text, connection: Connection, session: SessionEntry, failure_limit: int) -> None:
    """Tell of the crawls, and of sources that were not crawled because they are not due."""
    sources = {source.id: source for source in load_addresses(connection, only_crawlable=False)}
    dues = dict(load_crawl_dues(connection, failure_limit))
    statistics = {work.source: work for work in statistics_of(connection, session.id)}

    def label(source: int) -> str:
        return str(sources[source].label) if source in sources else f"file source {source}"

    text.title("File sources")
    if not session.crawls:
        text.lines.append("  None was crawled.")
    for crawl in session.crawls:
        done, due = statistics.get(crawl.source), dues.pop(crawl.source, None)
        text.add(2, f"{label(crawl.source)}: {_crawl_text(crawl)}{_statistics_text(done) if done else ''}")
        if crawl.error is not None:
            text.add(6, crawl.error.fact.problem)
        if crawl.outcome == "failed" and due is not None and not due.is_due:
            text.add(6, f"{due}.")
    recent = 0
    for number, due in dues.items():
        centre = sources[number].centre if number in sources else ""
        if due.is_due or (session.centres is not None and centre not in session.centres):
            continue
        if due.why is DueReason.RECENT:
            recent += 1
        else:
            text.add(2, f"{label(number)}: {due}")
    if recent:
        text.lines.append(f"  {count_of(recent, 'file source')} listed not long ago.")


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


def _add_states(text: _Text, title: str, counts: Counter[tuple[Phase, Status]]) -> None:
    text.title(title)
    rows = [f"  {phase.short_name:<10}{status.short_name:<10}{n:>9,}" for (phase, status), n in sorted(counts.items())]
    text.lines += rows or ["  None."]


def _add_failures(text: _Text, connection: Connection, failed: Sequence[SessionZip]) -> None:
    text.title("What failed")
    if not failed:
        text.lines.append("  Nothing.")
    names = {entry.short_name: entry.full_name for entry in list_centres(connection)}
    of_centres: dict[str, list[ZipStory]] = defaultdict(list)
    for zipped in failed[:_MAX_ZIPS]:
        of_centres[zipped.centre or next(iter(zipped.hosts), "")].append(zip_story(connection, zipped.key))
    for centre, stories in sorted(of_centres.items()):
        named = f"{centre}, {names.get(centre, 'not registered')}" if centre else "Centre not known"
        text.lines.append(f"  {named}")
        for story in stories:
            _add_story(text, story)
    text.add_left(2, len(failed), _MAX_ZIPS, "submission", ": dcc zips --status failed")


def _add_story(text: _Text, story: ZipStory) -> None:
    key = f"{story.action}/{story.file_name}"
    text.add(4, f"{key}: failed at {story.phase.short_name}")
    failed = [document for document in story.documents if document.status is Status.FAILED]
    # Errors of the latest attempt; the submission's own may be of an earlier one.
    reasons = (story.latest.reasons if story.latest else ()) or (() if failed else story.reasons[-1:])
    for reason in reasons[-_MAX_ERRORS:]:
        text.add(6, reason.message)
    if not reasons and not failed:
        text.lines.append(f"        See dcc show {key}")
    for document in failed[:_MAX_DOCUMENTS]:
        errors = sum(problem.is_error for problem in document.errors)
        found = count_of(errors, "error") if errors else "no error recorded"
        text.add(6, f"{document.file_name}: failed at {document.phase.short_name}, {found}")
        for problem in document.errors[:_MAX_ERRORS]:
            text.add(8, f"{problem.place}: {problem.text}" if problem.place else problem.text)
        text.add_left(8, len(document.errors), _MAX_ERRORS)
    text.add_left(6, len(failed), _MAX_DOCUMENTS, "document", f": dcc show {key}")


def _add_waiting(text: _Text, title: str, waiting: Sequence[tuple[ZipKey, str]]) -> None:
    if not waiting:
        return
    text.title(title)
    for key, reason in waiting[:_MAX_DOCUMENTS]:
        text.add(2, f"{key}:")
        text.add(6, reason)
    text.add_left(2, len(waiting), _MAX_DOCUMENTS, "submission")


def _add_entries(text: _Text, title: str, entries: Mapping[ZipKey, Sequence[tuple[str, Problem]]]) -> None:
    if not entries:
        return
    text.title(title)
    for key, found in list(entries.items())[:_MAX_ZIPS]:
        text.add(2, key)
        for file_name, problem in found[:_MAX_DOCUMENTS]:
            text.add(4, f"{file_name}: {problem.message}")
        text.add_left(4, len(found), _MAX_DOCUMENTS, "document", f": dcc show {key}")
    text.add_left(2, len(entries), _MAX_ZIPS, "submission")


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
