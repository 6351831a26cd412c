"""Shows the progress of a session: progress bars on a terminal, else a line for each source and problem."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from dcc.cli.sessions.session_output import SessionOutput, crawl_lines, note_lines, problem_lines
from dcc.cli.shell.output import printable
from dcc.data_outcomes import ZipData
from dcc.messages import count_of
from dcc.phases import Phase
from dcc.session.sessions import Listeners

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from dcc.data_outcomes import DataOutcome
    from dcc.outcomes import SourceCrawl, ZipOutcome
    from dcc.session.sessions import Session

_Entries = list[dict[str, object]]
_Lines = Callable[[_Entries], Iterable[str]]
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
    """Shows a session's events and collects them in `report`. `session`: the session, once it has begun.

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
        self.session: Session | None = None
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
        return Listeners(self.on_crawl, self.on_zip, self.on_data, self.on_begin)

    def on_begin(self, session: Session) -> None:
        """The session has begun."""
        self.session = session
        session.on_progress = self.on_listing

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

    def on_zip(self, outcome: ZipOutcome) -> None:
        """A submission was processed."""
        before = len(self.report.problems)
        self.report.add_zip(outcome)
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
        if isinstance(outcome, ZipData):
            self._show_bar(_PHASE_NAMES[outcome.reached], advance=1)

    def _print_of_archive(self, lines_of: _Lines, entries: _Entries) -> None:
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
    sources: int, waiting: int | Callable[[], int], expected: Callable[[], str] = str, *, as_json: bool
) -> Iterator[SessionDisplay]:
    """The display for standard output and error; with `as_json` nothing goes to standard output."""
    if not sys.stderr.isatty() or not (as_json or sys.stdout.isatty()):
        yield SessionDisplay(None if as_json else click.echo, None, sources, waiting)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)

    def say(line: str) -> None:
        console.print(Text.from_ansi(line), soft_wrap=True)

    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bars:
        yield SessionDisplay(None if as_json else say, bars, sources, waiting, expected)
