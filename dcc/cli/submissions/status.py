"""`dcc status` and `zips`: the state of everything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from dcc.cli.shell.context import json_option, reading_tracker, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import (
    byte_size,
    echo_json,
    echo_table,
    echo_wrapped,
    expected_text,
    json_object,
    picked,
    printable,
)
from dcc.cli.sources.source import due_json
from dcc.cli.submissions.selection import filter_of, filter_options
from dcc.cli.submissions.sessions import crawl_json, session_json, session_line
from dcc.messages import count_of
from dcc.phases import Phase, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dcc.operations.archive_overview import StoreOverview
    from dcc.outcomes import ZipKey
    from dcc.sources.due import Due
    from dcc.tracker.crawls import CrawlEntry
    from dcc.tracker.queries.zip_action_lists import StateCount, ZipEntry
    from dcc.tracker.register.file_sources import SourceEntry

_DECIDED = (
    ("hold", "on-hold", "on hold"),
    ("quarantine", "quarantine", "in quarantine"),
    ("acknowledge", "acknowledged", "acknowledged"),
)
_FINDINGS_SHOWN = 20
_CELLS: Mapping[str, Callable[[ZipEntry], object]] = {
    "submission": lambda entry: f"{entry.action}/{entry.file_name}",
    "centre": lambda entry: entry.centre,
    "phase": lambda entry: entry.phase,
    "status": lambda entry: entry.status,
    "size": lambda entry: byte_size(entry.size_bytes),
    "sources": lambda entry: " ".join(map(str, entry.sources)) or "none",
    "since": lambda entry: entry.since,
    "tried again": lambda entry: "by the next session" if entry.is_tried_again else "by you: dcc retry",
    "write to": lambda entry: entry.contact or "-",
    "why": lambda entry: entry.reason.text if entry.reason else "-",
}
"""What stands in the columns of lists of submissions, by their headers."""


@command()
@json_option
def status(as_json: bool) -> None:
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
      proposals   how many proposed withdrawals are open: see `dcc data proposals`
      expected    archives to be fetched: {"archives", "bytes", "seconds" (null if unknown)}
      silent      unusually silent centres: a list of {"centre", "since", "within_days"}
      findings    a list of {"session", "source", "file_name", "kind", "message", "created"}
    """
    from dcc.operations.archive_overview import store_overview
    from dcc.reports.overdue import activity_of_centres
    from dcc.tracker import crawls
    from dcc.tracker.decisions import DecisionKind, count_decided
    from dcc.tracker.expected_work import all_of, expected_work
    from dcc.tracker.hostings import foreign_archives, missing_archives
    from dcc.tracker.models import utc_now
    from dcc.tracker.queries import zip_action_lists
    from dcc.tracker.register import file_sources
    from dcc.tracker.register.source_pace import load_dues
    from dcc.tracker.session_statistics import problems_of

    settings = settings_from_environment()
    with reading_tracker(settings) as connection:
        zip_actions = zip_action_lists.count_zip_actions(connection)
        xml_files = zip_action_lists.count_documents(connection)
        entries = file_sources.list_sources(connection)
        dues = load_dues(connection, settings.source_failure_limit)
        latest_crawls = crawls.latest_crawls(connection)
        expected_of = expected_work(connection)
        silent = [centre for centre in activity_of_centres(connection, settings, utc_now()) if centre.silent]
        findings = crawls.latest_findings(connection)
        held = zip_action_lists.held_documents(connection)
        held_archives = [archive for archive in foreign_archives.held_archives(connection) if archive.declined is None]
        decided = count_decided(connection)
        proposals = sum(missing_archives.count_open(connection).values())
        stored = store_overview(connection, settings)
        active = [entry for entry in crawls.list_held_sessions(connection) if entry.outcome == "active"]
        latest = crawls.list_sessions(connection, limit=len(active) + 1)
        problems = problems_of(connection, [entry.id for entry in (*active, *latest)])
    note_facts(
        held=next((key for key, _, _ in held), None),
        failed=any(state.status is Status.FAILED for state in zip_actions),
        down=next((entry.id for entry in entries if _is_down(entry, latest_crawls.get(entry.id))), None),
        without_sources=not entries,
        waits_for_qc=any((state.phase, state.status) == (Phase.QC, Status.PENDING) for state in zip_actions),
    )
    expected = all_of(expected_of.values())
    last = next((entry for entry in latest if entry.outcome != "active"), None)
    if as_json:
        echo_json(
            {
                "environment": settings.environment,
                "zip_actions": zip_actions,
                "xml_files": xml_files,
                "sources": [
                    _source_json(entry, latest_crawls.get(entry.id))
                    | {"due": due_json(dues.get(entry.id)), "expected": expected_of.get(entry.id, all_of(()))}
                    for entry in entries
                ],
                "session": {
                    "active": session_json(active[0], problems) if active else None,
                    "also_active": [session_json(entry, problems) for entry in active[1:]],
                    "last": session_json(last, problems) if last else None,
                },
                "held": [{"zip": str(key), "document": name, "message": message} for key, name, message in held],
                "held_archives": [
                    {"zip": str(archive.key), **picked(archive, "owner", "hosts", "message")}
                    for archive in held_archives
                ],
                "archive_store": {
                    **picked(stored.archives, "archives", bytes="size_bytes"),
                    "week": picked(stored.week, "archives", bytes="size_bytes"),
                    **picked(stored, "pending", "bad", "missing"),
                    "lost": len(stored.lost),
                },
                "on_hold": decided[DecisionKind.HOLD],
                "quarantined": decided[DecisionKind.QUARANTINE],
                "acknowledged": decided[DecisionKind.ACKNOWLEDGE],
                "proposals": proposals,
                "findings": findings,
                "expected": expected,
                "silent": [picked(centre, "centre", "since", "within_days") for centre in silent],
            }
        )
        return
    if settings.environment is not None:
        click.echo(f"{click.style('Environment', bold=True)}: {settings.environment}\n")
    _print_states("Submissions", zip_actions)
    _print_states("Documents", xml_files)
    if expected.archives:
        echo_wrapped(f"{count_of(expected.archives, 'archive')} to fetch: {expected_text(expected)}")
        click.echo()
    _print_sources(entries, latest_crawls, dues)
    _print_list("Waiting to be confirmed", _held_lines(held))
    _print_list("Held archives", [archive.message for archive in held_archives])
    for kind, option, what in _DECIDED:
        if decided[DecisionKind(kind)]:
            click.echo()
            echo_wrapped(f"{count_of(decided[DecisionKind(kind)], 'submission')} {what}: dcc zips --{option}")
    if proposals:
        click.echo()
        echo_wrapped(f"{count_of(proposals, 'proposed withdrawal')} to decide on: dcc data proposals")
    _print_archive_store(stored)
    _print_list("Silent centres", [f"{centre.centre} since {centre.since:%Y-%m-%d}" for centre in silent])
    _print_list("Findings", [finding.message for finding in findings])
    for entry in (*active, last):
        if entry is not None:
            click.echo()
            echo_wrapped(session_line(entry, problems))


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


def _is_down(entry: SourceEntry, crawl: CrawlEntry | None) -> bool:
    return crawl is not None and crawl.error is not None and entry.state == "available" and entry.centre_active


def _source_json(entry: SourceEntry, crawl: CrawlEntry | None) -> dict[str, object]:
    names = ("id", "centre", "protocol", "hostname", "username", "base_path", "state", "centre_active", "hosted")
    return {**picked(entry, *names), "last_crawl": None if crawl is None else crawl_json(crawl)}


def _print_states(title: str, counts: Sequence[StateCount]) -> None:
    total = sum(state.count for state in counts)
    click.echo(f"{click.style(title, bold=True)}: {total:,}")
    echo_table(
        ("phase", "status", "count"),
        [(state.phase, state.status, state.count) for state in counts],
        indent="  ",
    )
    click.echo()


def _print_sources(entries: Sequence[SourceEntry], crawls: dict[int, CrawlEntry], dues: Mapping[int, Due]) -> None:
    if not entries:
        click.echo("No file source is registered. Add one: dcc source add")
        return
    click.echo(click.style("File sources", bold=True))
    rows = []
    for entry in entries:
        if entry.state == "removed":
            continue
        crawl = crawls.get(entry.id)
        server = f"{entry.protocol}://{entry.hostname}"
        rows.append(
            (
                entry.id,
                entry.centre,
                f"file://{entry.base_path}" if entry.protocol == "file" else server,
                entry.state if entry.centre_active else f"{entry.state}, centre inactive",
                "yes" if dues[entry.id].is_due else str(dues[entry.id]),
                entry.hosted,
                crawl.outcome if crawl else "never crawled",
                crawl.started if crawl else None,
                str(crawl.error.fact.problem) if crawl and crawl.error else "",
            )
        )
    headers = ("id", "centre", "server", "state", "due", "hosts", "last crawl", "when", "error")
    echo_table(headers, rows, indent="  ", flexible=["error", "due", "hosts", "when", "last crawl", "state"])


def _print_list(title: str, messages: Sequence[str]) -> None:
    if not messages:
        return
    click.echo(f"\n{click.style(title, bold=True)}")
    for message in messages[:_FINDINGS_SHOWN]:
        echo_wrapped(f"  {printable(message)}")
    if len(messages) > _FINDINGS_SHOWN:
        click.echo(f"  ... and {len(messages) - _FINDINGS_SHOWN:,} more: dcc status --json")


@command(
    examples=[
        "dcc zips --status failed",
        "dcc zips --centre H --phase xsd --status done",
        "dcc zips --code corrupt-archive --since 2026-11-01",
    ]
)
@filter_options
@click.option("--acknowledged", is_flag=True, help="Only failed ones that nobody has to act on (`dcc acknowledge`).")
@click.option("--on-hold", is_flag=True, help="Only those on hold (`dcc hold`).")
@json_option
def zips(acknowledged: bool, on_hold: bool, as_json: bool, **given: Any) -> None:
    """List submissions, oldest first.

    With the sources that host them now. Failed ones also have since when, why, and whom to write to. --status failed
    leaves out those that somebody acknowledged, and refused names that no source has any more. --quarantine lists those
    that met a fault of the platform: after DCC_MAX_FAULTS sessions these wait for `dcc retry` or `dcc release`.

    \b
    JSON: a list of {"file_name", "action", "centre" (null where the name tells none), "phase",
      "status", "sources" (ids of those that host it now), "size_bytes", "since", "contact" (e-mail
      addresses of its centre or, if its name has none, of the one whose source it is on),
      "reason" (why it failed), "on_hold"; contact and reason may be null
    """
    from dcc.tracker.queries import zip_action_lists

    wanted = filter_of(**given, on_hold=on_hold or None)
    failing = acknowledged or wanted.status is Status.FAILED
    wanted = replace(wanted, acknowledged=acknowledged if failing or wanted.faulty else None)
    with reading_tracker() as connection:
        entries = zip_action_lists.find_zips(connection, wanted, with_reasons=as_json or failing or given["quarantine"])
    if as_json:
        echo_json([{**json_object(entry), "reason": entry.reason and entry.reason.text} for entry in entries])
        return
    note_facts(first=next((f"{entry.action}/{entry.file_name}" for entry in entries), None))
    columns, flexible = ["submission", "centre", "phase", "status", "size", "sources"], []
    if given["quarantine"]:
        columns = ["submission", "phase", "status", "since", "tried again", "why"]
        flexible = ["why", "tried again", "since"]
    elif failing:
        columns, flexible = ["submission", "phase", "since", "write to", "why"], ["why", "write to", "since"]
    echo_table(columns, [[_CELLS[column](entry) for column in columns] for entry in entries], flexible=flexible)
    click.echo(f"{count_of(len(entries), 'submission')}.", err=True)
