"""`dcc status` and `dcc session`: the state of everything, and the crawling sessions so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, reading_tracker, settings_from_environment
from dcc.cli.shell.group import CommandGroup, command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import (
    byte_size,
    echo_json,
    echo_list,
    echo_rows,
    echo_wrapped,
    expected_text,
    fields_of,
    json_ready,
    printable,
    wants_json,
    warn,
)
from dcc.cli.shell.parameter_types import COUNT, ID
from dcc.cli.sources.source import due_json, state_text
from dcc.messages import count_of
from dcc.outcomes import FAILED_ENDS
from dcc.phases import Phase, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dcc.operations.overview import Overview, SourceOverview, StoreOverview
    from dcc.outcomes import ZipKey
    from dcc.tracker.crawls import CrawlEntry, SessionEntry
    from dcc.tracker.queries.zip_action_lists import StateCount
    from dcc.tracker.register.file_sources import SourceEntry
    from dcc.tracker.session_statistics import Problems

_FINDINGS_SHOWN = 20
_COUNTS = "on_hold", "quarantined", "acknowledged", "refused_gone", "proposals"


@command()
@json_option
def status() -> None:
    """Show the state of everything.

    Submissions and documents by phase and status, sources, documents to be confirmed, the last session. Documents are
    those of each submission's latest download. Findings are those of the latest crawl of each source, and archives that
    changed and were not fetched again since; `dcc data findings` has those of the data.

    \b
    JSON: an object with
      environment  production, test or null (DCC_ENVIRONMENT)
      zip_actions, xml_files  lists of {"phase", "status", "count"}
      sources     a list of {"id", "centre", "protocol", "hostname", "username", "base_path",
                  "state", "centre_active", "hosted", "due" (as of `dcc source list`),
                  "expected" (as below), "last_crawl"}; last_crawl is null or
                  {"source", "session", "outcome" (ok, partial, failed), "error": null or
                  {"kind", "message"}, "started", "finished", "listed", "new", "known",
                  "changed", "refused", "ignored", "gone"}
      session     {"active": a session or null, "also_active": sessions of other groups of
                  centres, "last": a session or null}
      held        documents to be confirmed: a list of {"zip", "document", "message"}
      held_archives  archives on another centre's source that are not taken, but for those that
                  `dcc archive declined` lists: a list of {"zip", "owner", "hosts", "message"}
      archive_store  {"archives", "bytes", "week": as of `dcc archive status`, "pending", "bad",
                  "missing" (copies), "lost" (archives)}
      on_hold, quarantined, acknowledged  how many submissions are: see `dcc hold`, `dcc zips
                  --quarantine` and `dcc acknowledge`
      refused_gone  how many have a refused name that no source has any more; `dcc zips --status
                  failed` leaves out these, and acknowledged ones
      proposals   how many proposed withdrawals are open: see `dcc data proposals`
      expected    archives to be fetched: {"archives", "bytes", "seconds" (null if unknown)}
      silent      unusually silent centres: a list of {"centre", "since", "within_days"}
      findings    a list of {"session", "source", "file_name", "kind", "message", "created"}
    """
    from dcc.operations.overview import load_overview

    settings = settings_from_environment()
    with reading_tracker(settings) as connection:
        overview = load_overview(connection, settings)
    states = overview.zip_actions
    last = overview.sessions.last
    note_facts(
        in_trouble=last.id if last is not None and last.outcome in FAILED_ENDS else None,
        held=next((key for key, _, _ in overview.held_documents), None),
        failed=any(state.status is Status.FAILED for state in states),
        down=next((source.entry.id for source in overview.sources if source.is_down), None),
        without_sources=not overview.sources,
        waits_for_qc=any((state.phase, state.status) == (Phase.QC, Status.PENDING) for state in states),
    )
    if wants_json():
        echo_json({"environment": settings.environment, **_json_of(overview)})
        return
    if settings.environment is not None:
        click.echo(f"{click.style('Environment', bold=True)}: {settings.environment}\n")
    _print_overview(overview)


def _json_of(overview: Overview) -> dict[str, object]:
    sessions, stored = overview.sessions, overview.stored
    return {
        "zip_actions": overview.zip_actions,
        "xml_files": overview.documents,
        "sources": [_source_json(source) for source in overview.sources],
        "session": {
            "active": session_json(sessions.active[0], sessions.problems) if sessions.active else None,
            "also_active": [session_json(entry, sessions.problems) for entry in sessions.active[1:]],
            "last": session_json(sessions.last, sessions.problems) if sessions.last else None,
        },
        "held": [
            {"zip": str(key), "document": name, "message": message} for key, name, message in overview.held_documents
        ],
        "held_archives": [
            {"zip": str(archive.key), **fields_of(archive, "owner", "hosts", "message")}
            for archive in overview.held_archives
        ],
        "archive_store": {
            **fields_of(stored.archives, "archives", bytes="size_bytes"),
            "week": fields_of(stored.week, "archives", bytes="size_bytes"),
            **fields_of(stored, "pending", "bad", "missing"),
            "lost": len(stored.lost),
        },
        **fields_of(overview, *_COUNTS, "findings", "expected"),
        "silent": [fields_of(centre, "centre", "since", "within_days") for centre in overview.silent],
    }


def _print_overview(overview: Overview) -> None:
    _print_states("Submissions", overview.zip_actions)
    _print_states("Documents", overview.documents)
    expected = overview.expected
    if expected.archives:
        echo_wrapped(f"{count_of(expected.archives, 'archive')} to fetch: {expected_text(expected)}")
        click.echo()
    _print_sources(overview.sources)
    _print_list("Waiting to be confirmed", _held_lines(overview.held_documents))
    _print_list("Held archives", [archive.message for archive in overview.held_archives])
    for count, noun, told in (
        (overview.on_hold, "submission", "on hold: dcc zips --on-hold"),
        (overview.quarantined, "submission", "in quarantine: dcc zips --quarantine"),
        (overview.acknowledged, "submission", "acknowledged: dcc zips --acknowledged"),
        (overview.refused_gone, "refused name", "on no source any more: dcc zips --status failed leaves them out"),
        (overview.proposals, "proposed withdrawal", "to decide on: dcc data proposals"),
    ):
        if count:
            click.echo()
            echo_wrapped(f"{count_of(count, noun)} {told}")
    _print_archive_store(overview.stored)
    _print_list("Silent centres", [f"{centre.centre} since {centre.since:%Y-%m-%d}" for centre in overview.silent])
    _print_list("Findings", [finding.message for finding in overview.findings])
    sessions = overview.sessions
    for entry in (*sessions.active, sessions.last):
        if entry is not None:
            click.echo()
            echo_wrapped(session_line(entry, sessions.problems))


def _print_archive_store(stored: StoreOverview) -> None:
    if not stored.archives.archives:
        return
    faults = [
        f"{count_of(count, noun)} {what}"
        for count, noun, what in (
            (stored.pending, "copy", "pending"),
            (stored.bad + stored.missing, "copy", "bad or missing"),
            (len(stored.lost), "archive", "without a good copy"),
        )
        if count
    ]
    click.echo()
    echo_wrapped(
        f"{click.style('Archive store', bold=True)}: {count_of(stored.archives.archives, 'archive')} of "
        f"{byte_size(stored.archives.size_bytes)}, {byte_size(stored.week.size_bytes)} of the last 7 days"
        f"{''.join(f'; {fault}' for fault in faults)}{': dcc archive status' if faults else '.'}"
    )


def _held_lines(held: Sequence[tuple[ZipKey, str, str]]) -> list[str]:
    """The held documents of each archive, with one command for those that share it."""
    documents: dict[tuple[ZipKey, str], list[str]] = {}
    for key, name, message in held:
        documents.setdefault((key, message), []).append(name)
    return [
        f"{key}: {names[0] if len(names) == 1 else count_of(len(names), 'document')}: {message}"
        for (key, message), names in documents.items()
    ]


def _source_json(source: SourceOverview) -> dict[str, object]:
    names = ("id", "centre", "protocol", "hostname", "username", "base_path", "state", "centre_active", "hosted")
    crawl = None if source.crawl is None else crawl_json(source.crawl)
    of_now = {"last_crawl": crawl, "due": due_json(source.due), "expected": source.expected}
    return fields_of(source.entry, *names) | of_now


def _print_states(title: str, counts: Sequence[StateCount]) -> None:
    total = sum(state.count for state in counts)
    click.echo(f"{click.style(title, bold=True)}: {total:,}")
    echo_list(counts, "phase, status, count", indent="  ")
    click.echo()


def _print_sources(sources: Sequence[SourceOverview]) -> None:
    if not sources:
        click.echo("No file source is registered. Add one: dcc source add")
        return
    click.echo(click.style("File sources", bold=True))
    echo_list(
        [source for source in sources if source.entry.state != "removed"],
        "id, centre, server, state, due, hosts, last crawl, when, error",
        id=lambda source: source.entry.id,
        centre=lambda source: source.entry.centre,
        server=lambda source: f"{source.entry.protocol}://{_place(source.entry)}",
        state=lambda source: state_text(source.entry),
        due=lambda source: "yes" if source.due is not None and source.due.is_due else str(source.due),
        hosts=lambda source: source.entry.hosted,
        last_crawl=lambda source: source.crawl.outcome if source.crawl else "never crawled",
        when=lambda source: source.crawl and source.crawl.started,
        error=lambda source: source.crawl and source.crawl.error and str(source.crawl.error.fact.problem),
        indent="  ",
        flexible=["error", "due", "hosts", "when", "last crawl", "state"],
    )


def _place(entry: SourceEntry) -> str:
    return entry.base_path if entry.protocol == "file" else entry.hostname


def _print_list(title: str, messages: Sequence[str]) -> None:
    if not messages:
        return
    click.echo(f"\n{click.style(title, bold=True)}")
    for message in messages[:_FINDINGS_SHOWN]:
        echo_wrapped(f"  {printable(message)}")
    if len(messages) > _FINDINGS_SHOWN:
        click.echo(f"  ... and {len(messages) - _FINDINGS_SHOWN:,} more: dcc status --json")


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
    from dcc.tracker.session_statistics import problems_of

    with reading_tracker() as connection:
        entries = list_sessions(connection, limit=limit)
        problems = problems_of(connection, [entry.id for entry in entries])
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
                  documents of these archives, their errors with the crawl's findings, archives
                  that failed, and how long fetching took
    """
    from dcc.tracker.crawls import require_session
    from dcc.tracker.session_statistics import MEASURES, problems_of, seconds_by_phase, seconds_text, statistics_of

    with reading_tracker() as connection:
        entry = require_session(connection, session_id)
        statistics = statistics_of(connection, session_id)
        problems = problems_of(connection, [session_id])
    seconds = seconds_by_phase(entry)
    note_facts(
        in_error=any(crawl.error is not None or crawl.refused for crawl in entry.crawls)
        or any(work.findings or work.failed for work in statistics)
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


def session_json(entry: SessionEntry, problems: Mapping[int, Problems]) -> dict[str, object]:
    """A session in JSON."""
    crawls = [crawl_json(crawl) for crawl in entry.crawls]
    return {**json_ready(entry), "problems": problems[entry.id], "crawls": crawls}


def session_line(entry: SessionEntry, problems: Mapping[int, Problems]) -> str:
    """A session on one line."""
    step = "" if entry.failed_step is None else f" ({entry.failed_step})"
    wrong = f", {problems[entry.id]}" if any(problems[entry.id]) else ""
    ended = f", finished {printable(entry.finished)}" if entry.finished else ""
    return f"{entry.label}: {entry.outcome}{step}{wrong}, started {printable(entry.started)}{ended}."
