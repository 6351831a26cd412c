"""The output of `dcc crawl` and `dcc retry`: lines and progress bars for people, an object for programs."""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from dcc.cli.shell.output import COLOURS, printable, progress_bars, wants_json
from dcc.data_outcomes import ContextsBuilt, DataOutcome, DocumentData, SubmissionData
from dcc.errors import BadFileNameError, UnreachableError
from dcc.messages import byte_size, count_of
from dcc.outcomes import HELD, AttemptOutcome, CrawlOutcome, EndReason, Problem, SourceCrawl, SubmissionOutcome
from dcc.phases import Phase, State, Status
from dcc.runtime.json_values import fields_of
from dcc.session.session_request import BegunSession, Listeners

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_Entry = dict[str, Any]
"""An object of the JSON output."""

DATA_PROBLEMS = 1
UNRESOLVED = "unmended"


@dataclass
class SessionOutput:
    """Collects the results of `session`, from its beginning on; None is none yet.

    `problems` has an entry for each source that could not be listed completely, finding, refused name and failed
    submission. Documents with errors and those that wait for confirmation have one too, all in the order in which they
    turned up. `conclude`, at the session's end, adds the rest. `notes` are for a wrangler's information. `without_room`
    has one for each submission that waits because a disk of the platform is full, possibly hundreds. `in_order` counts
    the documents that wait for an older archive, by their centre and that archive. `data` counts uploads, `contexts`
    changes of data contexts. `began`: when the session did, by the monotonic clock.
    """

    session: BegunSession | None = None
    crawls: list[_Entry] = field(default_factory=list)
    zips: dict[str, State] = field(default_factory=dict)
    documents: dict[str, dict[str, State]] = field(default_factory=lambda: defaultdict(dict))
    data: Counter[str] = field(default_factory=Counter)
    contexts: Counter[str] = field(default_factory=Counter)
    notes: list[_Entry] = field(default_factory=list)
    problems: list[_Entry] = field(default_factory=list)
    without_room: list[_Entry] = field(default_factory=list)
    in_order: Counter[tuple[str, str]] = field(default_factory=Counter)
    received: int = 0
    began: float = field(default_factory=time.monotonic)

    def add_crawl(self, crawl: SourceCrawl) -> None:
        """Add the result of one source's crawl."""
        error = crawl.error and fields_of(crawl.error, "kind", "message")
        facts = fields_of(crawl, "label", "centre", "outcome") | crawl.counts
        self.crawls.append({"id": crawl.source_id, **facts, "error": error, "seconds": round(crawl.seconds, 3)})
        if crawl.error is not None:
            self.problems.append(_problem(crawl.error, source=crawl.source_id))
        for key, reason in crawl.refused_zips:
            refusal = Problem(BadFileNameError.short_name(), reason)
            self.problems.append(_problem(refusal, str(key), Phase.ZIP_NAME, source=crawl.source_id))
        self.problems += [_problem(Problem("finding", message), source=crawl.source_id) for message in crawl.findings]
        self.notes += [_note("listing", message) for message in crawl.notes]

    def add_submission(self, outcome: SubmissionOutcome) -> None:
        """Add the result of one submission."""
        key, phase = str(outcome.key), outcome.phase
        self.zips[key] = outcome.state
        self.documents[key].update((one.file_name, one.state) for one in outcome.documents)
        self.problems += [_problem(reason, key) for reason in outcome.reasons if reason.kind == HELD]
        if outcome.downloaded and outcome.fetched is AttemptOutcome.FINISHED:
            self.received += outcome.size_bytes or 0
        main = outcome.main_reason or Problem("unknown", f"It failed at {phase.short_name}. See `dcc show {key}`.")
        if outcome.kept:
            stays = f"{phase.short_name} {outcome.status.short_name}."
            fault = Problem(main.kind, f"{main.message} What its last attempt came to stays: {stays}")
            self.problems.append(_problem(fault, key, Phase.DOWNLOAD))
            return
        if outcome.lacks_room:
            self.without_room.append(_problem(outcome.reasons[-1], key, phase))
        if outcome.failed:
            failed = [document for document in outcome.documents if document.status is Status.FAILED]
            if not failed or outcome.main_reason is not None:
                self.problems.append(_problem(main, key, phase))
            for document in failed:
                first = document.errors[0] if document.errors else _unknown(document.phase)
                errors = max(len(document.errors), 1)
                self.problems.append(_problem(first, key, document.phase, document.file_name, errors=errors))

    def add_data(self, outcome: DataOutcome) -> None:
        """Add the results of a submission's documents in a phase after validation, or of the contexts."""
        if isinstance(outcome, ContextsBuilt):
            for centre in outcome.centres:
                self.contexts.update(added=centre.added, changed=centre.changed, removed=centre.removed)
            return
        if not isinstance(outcome, SubmissionData):
            return
        key = str(outcome.key)
        self.zips[key] = outcome.state
        documents = self.documents[key]
        for document in outcome.documents:
            documents[document.file_name] = document.state
            brought_in = document.opened and not document.repeated and not document.held
            if outcome.reached is Phase.UPLOAD and brought_in:
                self.data.update(document.said)
            if document.waits_for is not None:
                self.in_order[outcome.centre or document.centre, str(document.waits_for)] += 1
            if document.phase is outcome.reached and document.status is Status.FAILED:
                first, errors = _first_fault(document)
                self.problems.append(_problem(first, key, document.phase, document.file_name, errors=errors))
            elif outcome.reached is Phase.UPLOAD and document.held:
                held = Problem(HELD, document.reason or "")
                self.problems.append(_problem(held, key, document.phase, document.file_name))
            if outcome.reached is Phase.UPLOAD and document.late and document.status is Status.DONE:
                self.notes.append(_note("late", _LATE, key, document.file_name))
            if outcome.reached is Phase.DATA and document.cleared:
                message = f"{count_of(document.cleared, 'finding')} of earlier sessions cleared."
                self.notes.append(_note("healed", message, key, document.file_name))

    @property
    def ended(self) -> EndReason | None:
        """Why the session ended; None if it has not."""
        return None if self.session is None else self.session.ended

    def conclude(self) -> list[_Entry]:
        """Add problems beyond any archive or source, such as reference data that could not be read.

        Add, and return, a problem for each failed submission without a reported one. Its documents were judged again
        and are well now, or no worse, while others keep it where it was.
        """
        if self.session is not None:
            self.problems += [_problem(Problem.of(error)) for error in self.session.task_errors]
        reported = {problem["zip"] for problem in self.problems}
        kept = [
            _problem(Problem(UNRESOLVED, _UNRESOLVED.format(key=key)), key, phase)
            for key, (phase, status) in self.zips.items()
            if status is Status.FAILED and key not in reported
        ]
        self.problems.extend(kept)
        return kept

    def exit_code(self) -> int:
        """4 unless the session finished its work, else 1 if there were problems, else 0."""
        if self.ended is not EndReason.FINISHED:
            return UnreachableError.exit_code
        return DATA_PROBLEMS if self.problems else 0

    def as_json(self, *notices: str) -> _Entry:
        """The report for `dcc crawl --json`; `notices` follow those of the session."""
        return {
            "session": None if self.session is None else self.session.id,
            "outcome": self.ended,
            "notices": [*(() if self.session is None else self.session.notices), *notices],
            "seconds": round(time.monotonic() - self.began, 3),
            "sources": sorted(self.crawls, key=lambda crawl: str(crawl["id"]).rjust(20)),
            "zip_actions": _counts(Counter(self.zips.values())),
            "xml_files": _counts(Counter(state for some in self.documents.values() for state in some.values())),
            "data": dict(self.data),
            "contexts": dict(self.contexts),
            "notes": [*self.notes, *self._order_notes()],
            "problems": [*self.problems, *self.without_room],
        }

    def line(self, session: BegunSession) -> str:
        """One line on the session: its number, its outcome, and what it did.

        Such as `3 submissions in 1.2 s: 2 valid, 1 failed (xsd); 5 documents; 1.4 MB received.`
        """
        took = f"in {time.monotonic() - self.began:.1f} s"
        changes = ", ".join(f"{count:,} {what}" for what, count in self.contexts.items() if count)
        also = f"; contexts: {changes}" if changes else ""
        if session.settings.last_phase < Phase.XSD:
            did = f"Crawled only, up to zip_name: no submission was to be processed; done {took}."
        elif not self.zips:
            nothing = "waiting" if session.ended is EndReason.FINISHED else "processed"
            did = f"No submission was {nothing}; done {took}{also}."
        else:
            states = ", ".join(
                click.style(f"{count:,} {phase.short_name} {status.short_name}", fg=COLOURS.get(status.short_name))
                for (phase, status), count in sorted(Counter(self.zips.values()).items())
            )
            documents = count_of(sum(map(len, self.documents.values())), "document")
            number = self.data["measurements"]
            uploaded = f"; {count_of(number, 'measurement')} uploaded" if number else ""
            received = f"{byte_size(self.received)} received"
            did = f"{count_of(len(self.zips), 'submission')} {took}: {states}; {documents}; {received}{uploaded}{also}."
        return f"Session {session.id} ({session.ended or 'unknown'}): {did}"

    def waiting_lines(self) -> Iterator[str]:
        """The lines for submissions that wait for room on a disk, with the reason of the first, and for documents that
        wait for older archives.
        """
        mark = click.style("waits ", fg="yellow")
        if number := len(self.without_room):
            wait = "1 submission waits" if number == 1 else f"{number:,} submissions wait"
            yield f"{mark}  {wait} for room on the disk: {printable(self.without_room[0]['message'])}"
        for note in self._order_notes():
            yield f"{mark}  {printable(note['message'])}"

    def _order_notes(self) -> Iterator[_Entry]:
        for (centre, older), count in sorted(self.in_order.items()):
            text = (
                f"{count_of(count, 'document')} of centre {centre} {'waits' if count == 1 else 'wait'} for {older}, an "
                f"older archive. What that one waits for: dcc show {shlex.quote(older)}"
            )
            yield _note("waits", text)


_LATE = (
    "Newer documents of the centre were uploaded before it. It was applied anyway. Check that this is what you want."
)
_UNRESOLVED = "It had failed before and has not been mended: other documents of it keep it there. See `dcc show {key}`."


def _counts(states: Mapping[State, int]) -> list[_Entry]:
    return [{"phase": phase, "status": status, "count": count} for (phase, status), count in sorted(states.items())]


def _problem(
    problem: Problem,
    key: str | None = None,
    phase: Phase | None = None,
    document: str | None = None,
    *,
    source: int | None = None,
    errors: int = 1,
) -> _Entry:
    place = {"source": source, "zip": key, "document": document, "phase": phase, "errors": errors}
    return place | fields_of(problem, "kind", "message", "line", "column")


def _note(kind: str, message: str, key: str | None = None, document: str | None = None) -> _Entry:
    return {"zip": key, "document": document, "kind": kind, "message": message}


def _unknown(phase: Phase, kind: str = "unknown") -> Problem:
    return Problem(kind, f"It failed at {phase.short_name}.")


def _first_fault(document: DocumentData) -> tuple[Problem, int]:
    """Why a document failed after its validation, and how many faults it has."""
    faults = [found for found in document.findings if found.severity.fails]
    count = sum(number for (_, severity), number in document.finding_counts.items() if severity.fails)
    if faults:
        first = Problem(faults[0].rule, faults[0].message, faults[0].line)
    else:
        first = Problem("upload", document.reason) if document.reason else _unknown(document.phase, "upload")
    return first, max(count, len(faults), 1)


def crawl_lines(crawl: SourceCrawl) -> Iterator[str]:
    """The lines for a source's crawl: one for it, and one for each refused name and finding."""
    if crawl.outcome is CrawlOutcome.FAILED and crawl.error is not None:
        yield f"{click.style('failed', fg='red')}  {printable(crawl.error.message)}"
        if crawl.then:
            yield f"        {printable(crawl.then)}"
        return
    parts = [f"{count_of(crawl.listed, 'archive')} listed", f"{crawl.new:,} new"]
    parts += [
        f"{count:,} {word}"
        for count, word in (
            (crawl.elsewhere, "known from other sources"),
            (crawl.changed, "changed"),
            (crawl.refused, "refused"),
            (crawl.gone, "gone"),
            (crawl.ignored, "other entry ignored" if crawl.ignored == 1 else "other entries ignored"),
        )
        if count
    ]
    mark = click.style("ok     ", fg="green") if crawl.error is None else click.style("partial", fg="yellow")
    yield f"{mark} {printable(crawl.label)}: {', '.join(parts)}"
    if crawl.error is not None:
        yield f"        {printable(crawl.error.message)}"
    for key, reason in crawl.refused_zips:
        yield f"        {printable(key)}: zip_name failed: {printable(reason)}"
    for finding in (*crawl.findings, *crawl.notes):
        yield f"        {printable(finding)}"


def problem_lines(problems: list[_Entry]) -> Iterator[str]:
    """The lines for a submission's problems."""
    for problem in problems:
        parts = (("zip", ""), ("document", ": "), ("line", ", line "), ("column", ", column "))
        where = "".join(f"{before}{printable(problem[name])}" for name, before in parts if problem[name] is not None)
        stage = f" at {problem['phase'].short_name}" if problem["phase"] else ""
        text = printable(Problem(problem["kind"], problem["message"]).text)
        more = f" (and {problem['errors'] - 1:,} more)" if problem["errors"] > 1 else ""
        mark = click.style("held  ", fg="yellow") if problem["kind"] == HELD else click.style("failed", fg="red")
        yield f"{mark}  {where}{stage}: {text}{more}"


def note_lines(notes: list[_Entry]) -> Iterator[str]:
    """The lines for a wrangler's information."""
    for note in notes:
        mark = click.style(f"{note['kind']:<6}", fg="yellow")
        yield f"{mark}  {printable(note['zip'])}: {printable(note['document'])}: {printable(note['message'])}"


_Lines = Callable[[list[_Entry]], Iterable[str]]
_MAX_DOCUMENTS = 20
_CRAWLING = "Crawling file sources"
_PROCESSING = "Processing submissions"
_PHASE_NAMES = {
    Phase.UPLOAD: "Uploading documents",
    Phase.DATA: "Checking what they say",
    Phase.CONTEXT: "Building data contexts",
    Phase.OVERVIEW: "Building overviews",
    Phase.QC: "Handing over to quality control",
}


class SessionDisplay:
    """Shows a session's events and collects them in `report`.

    `say` prints a line (None: print nothing); `bars` are drawn if given. `sources` is the number of sources to crawl,
    `waiting` the number of submissions to process, or a function that returns how many still wait. `expected` returns
    how long these should take, as a text, empty if nobody knows.
    """

    def __init__(
        self,
        say: Callable[[str], None] | None,
        bars: Progress | None,
        sources: int,
        waiting: int | Callable[[], int],
        expected: Callable[[], str] = str,
    ) -> None:
        self.report = SessionOutput()
        self._say = say or (lambda _line: None)
        self._bars = bars
        self._waiting = waiting
        self._expected = expected
        self._crawled = 0
        self._sources = sources
        self._processed = 0
        self._total = 0
        self._tasks: dict[str, TaskID] = {}
        if sources:
            self._show_bar(_CRAWLING, total=sources)
        if isinstance(waiting, int):
            self._count_waiting()

    def listeners(self) -> Listeners:
        """The functions that show a session."""
        return Listeners(self.on_crawl, self.on_submission, self.on_data, self.on_begin, self.on_listing)

    def on_begin(self, session: BegunSession) -> None:
        """The session has begun; the start of the command, which may load Dagster, is no part of it."""
        self.report.session, self.report.began = session, time.monotonic()

    def on_listing(self, text: str) -> None:
        """The progress of a long listing is `text`; called by the threads that list."""
        if self._sources:
            self._show_bar(_CRAWLING, description=f"{_CRAWLING} ({printable(text)})")

    def on_crawl(self, crawl: SourceCrawl) -> None:
        """A source was crawled."""
        self.report.add_crawl(crawl)
        self._crawled += 1
        for line in crawl_lines(crawl):
            self._say(line)
        if self._sources:
            self._show_bar(_CRAWLING, completed=self._crawled, description=_CRAWLING)
        if self._crawled == self._sources:
            self._count_waiting()

    def on_submission(self, outcome: SubmissionOutcome) -> None:
        """A submission was processed."""
        before = len(self.report.problems)
        self.report.add_submission(outcome)
        self._processed += 1
        self._print_of_archive(problem_lines, self.report.problems[before:])
        if _PROCESSING not in self._tasks or self._processed == 1:
            self._count_waiting()
        self._total = max(self._total, self._processed)
        self._show_bar(_PROCESSING, completed=self._processed, total=self._total)

    def on_data(self, outcome: DataOutcome) -> None:
        """The documents of a submission passed a phase after validation, or the contexts were built."""
        problems, notes = len(self.report.problems), len(self.report.notes)
        self.report.add_data(outcome)
        self._print_of_archive(problem_lines, self.report.problems[problems:])
        self._print_of_archive(note_lines, self.report.notes[notes:])
        if isinstance(outcome, SubmissionData):
            self._show_bar(_PHASE_NAMES[outcome.reached], advance=1)

    def _print_of_archive(self, lines_of: _Lines, entries: list[_Entry]) -> None:
        """Print the lines for the first entries of one archive, and how many more there are."""
        for line in lines_of(entries[:_MAX_DOCUMENTS]):
            self._say(line)
        left = len(entries) - _MAX_DOCUMENTS
        if left > 0:
            self._say(f"        ... and {count_of(left, 'more document')}: dcc show {printable(entries[0]['zip'])}")

    def _count_waiting(self) -> None:
        """Show how many submissions wait to be processed, if there are bars."""
        if self._bars is None:
            return
        waiting = self._waiting if isinstance(self._waiting, int) else self._waiting() + self._processed
        # A processed submission may no longer wait, yet not be reported: the total never falls.
        self._total = max(self._total, waiting)
        if _PROCESSING not in self._tasks and (expected := self._expected()):
            # On a line of its own: beside the bar, it would leave little of the bar on a narrow terminal.
            self._bars.console.print(f"To fetch: {expected}", highlight=False)
        self._show_bar(_PROCESSING, total=self._total)

    def _show_bar(self, name: str, **changes: Any) -> None:
        """Change a bar as `Progress.update` does, if there are bars; a new one is made."""
        if self._bars is not None:
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(name, total=None)
            self._bars.update(self._tasks[name], **changes)


@contextmanager
def session_display(
    sources: int, waiting: int | Callable[[], int], expected: Callable[[], str] = str
) -> Iterator[SessionDisplay]:
    """The display for standard output and error; with --json nothing goes to standard output."""
    if not sys.stderr.isatty() or not (wants_json() or sys.stdout.isatty()):
        yield SessionDisplay(None if wants_json() else click.echo, None, sources, waiting)
        return
    from rich.text import Text

    def say(line: str) -> None:
        bars.console.print(Text.from_ansi(line), soft_wrap=True)

    with progress_bars(redirect=False) as bars:
        yield SessionDisplay(None if wants_json() else say, bars, sources, waiting, expected)
