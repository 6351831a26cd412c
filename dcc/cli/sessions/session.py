"""`dcc session`: the crawling sessions so far, and why each ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, reading_tracker
from dcc.cli.shell.group import CommandGroup, command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_list, echo_rows, echo_wrapped, printable, wants_json, warn
from dcc.cli.shell.parameter_types import COUNT, ID
from dcc.messages import byte_size
from dcc.outcomes import FAILED_ENDS
from dcc.phases import Phase
from dcc.runtime.json_values import fields_of, json_ready

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dcc.tracker.crawls import CrawlEntry, SessionEntry
    from dcc.tracker.session_statistics import ProblemCounts


@click.group(cls=CommandGroup)
def session() -> None:
    """List crawling sessions, or show one of them."""


_LIMIT = click.option("--limit", type=COUNT, default=20, show_default=True, help="How many, newest first.")


@session.command("list", examples=["dcc session list --limit 5"])
@_LIMIT
@json_option
def list_command(limit: int) -> None:
    """List crawling sessions, newest first, with why each ended.

    \b
    Outcomes:
      active      a process works on it
      open        it waits for a run to continue it
      finished    all its work was done, whatever was wrong with the data; "3 failed": so many
                  submissions failed, and dcc crawl ended with 1
      stopped     a person ended it
      time_limit  it had the time of DCC_SESSION_TIME_LIMIT
      disk        a disk of the platform was full, and archives wait for room
      faults      a source, a server or the platform kept it from a part of its work
      died        its process was killed

    \b
    JSON: a list of {"id", "group", "centres" (null: all), "started", "finished", "outcome",
      "failed_phase" (zip_name: the crawl), "problems": {"failed" (submissions), "findings" (of
      crawls)}, "tasks": [{"phase", "comment", "started", "finished", "outcome"}],
      "crawls": [as last_crawl of `dcc status --json`]}
    """
    _list_sessions(limit)


@command()
@_LIMIT
@json_option
def sessions(limit: int) -> None:
    """List crawling sessions: the former name of `dcc session list`.

    JSON: as of `dcc session list`.
    """
    warn("`dcc sessions` is `dcc session list` now. The next release no longer has the former name.")
    _list_sessions(limit)


def _list_sessions(limit: int) -> None:
    from dcc.tracker.crawls import list_sessions
    from dcc.tracker.session_statistics import problem_counts

    with reading_tracker() as connection:
        entries = list_sessions(connection, limit=limit)
        problems = problem_counts(connection, [entry.id for entry in entries])
    note_facts(last_session=entries[0].id if entries else None)
    echo_list(
        entries,
        "id, group, started, finished, outcome, failed in=failed_step, sources, new, refused",
        as_object=lambda entry: session_json(entry, problems),
        group=lambda entry: entry.group or "all",
        outcome=lambda entry: ", ".join(filter(None, (entry.outcome, str(problems[entry.id])))),
        sources=lambda entry: len(entry.crawls),
        new=lambda entry: sum(crawl.new for crawl in entry.crawls),
        refused=lambda entry: sum(crawl.refused for crawl in entry.crawls),
        flexible=["failed in", "refused", "new", "sources", "group", "finished"],
        none="There has been no session. Run one: dcc crawl",
    )


@session.command(examples=["dcc session show 12"])
@click.argument("session_id", metavar="ID", type=ID)
@json_option
def show(session_id: int) -> None:
    """Show why a session ended, and what it did with each file source.

    \b
    JSON: an object as of `dcc session list`, with
      seconds     the time of its tasks, by phase
      statistics  once it has ended, a list of {"source", "centre", "listed", "fetched", "bytes",
                  "documents", "findings", "failed", "seconds"}: archives, bytes fetched,
                  documents of all archives processed, their errors with the crawl's findings,
                  archives that failed, and how long fetching took
    """
    from dcc.tracker.crawls import require_session
    from dcc.tracker.session_statistics import MEASURES, problem_counts, seconds_by_phase, seconds_text, statistics_of

    with reading_tracker() as connection:
        entry = require_session(connection, session_id)
        statistics = statistics_of(connection, session_id)
        problems = problem_counts(connection, [session_id])
    seconds = seconds_by_phase(entry)
    note_facts(
        in_error=any(crawl.error is not None or crawl.refused for crawl in entry.crawls)
        or any(work.findings or work.failed for work in statistics),
        in_trouble=entry.outcome in FAILED_ENDS,
    )
    if wants_json():
        echo_json({**session_json(entry, problems), "seconds": seconds, "statistics": statistics})
        return
    echo_wrapped(session_line(entry, problems))
    # Of a crawl why, which its task does not say.
    failures = [f"file source {crawl.source}: {crawl.error.fact.problem}" for crawl in entry.crawls if crawl.error]
    crawl_told = Phase.ZIP_NAME if failures else None
    tasks = [task for task in entry.tasks if task.outcome == "failed" and task.phase is not crawl_told]
    for failure in (*failures, *(task.comment or task.phase.short_name for task in tasks)):
        echo_wrapped(f"  failed: {printable(failure)}")
    if seconds:
        echo_wrapped(f"  {seconds_text(seconds)}")
    if statistics:
        click.echo()
        names = ("source", "centre", *MEASURES)
        rows = [fields_of(work, *names) | {"bytes": byte_size(work.bytes)} for work in statistics]
        echo_rows(rows, ["bytes", "seconds", "listed", "fetched"])


def crawl_json(crawl: CrawlEntry) -> dict[str, object]:
    """A source's crawl in JSON: its error without line and column."""
    return {**json_ready(crawl), "error": crawl.error and fields_of(crawl.error, "kind", "message")}


def session_json(entry: SessionEntry, problems: Mapping[int, ProblemCounts]) -> dict[str, object]:
    """A session in JSON."""
    crawls = [crawl_json(crawl) for crawl in entry.crawls]
    return {**json_ready(entry), "problems": problems[entry.id], "crawls": crawls}


def session_line(entry: SessionEntry, problems: Mapping[int, ProblemCounts]) -> str:
    """A session on one line."""
    step = "" if entry.failed_step is None else f" ({entry.failed_step})"
    wrong = f", {problems[entry.id]}" if any(problems[entry.id]) else ""
    ended = f", finished {printable(entry.finished)}" if entry.finished else ""
    return f"{entry.label}: {entry.outcome}{step}{wrong}, started {printable(entry.started)}{ended}."
