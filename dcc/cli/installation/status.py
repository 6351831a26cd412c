"""`dcc status`: the state of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dcc.cli.sessions.session import crawl_json, session_json, session_line
from dcc.cli.shell.context import json_option, reading_tracker, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_list, echo_wrapped, expected_text, printable, wants_json
from dcc.cli.sources.source import due_json, state_text
from dcc.messages import byte_size, count_of
from dcc.outcomes import FAILED_ENDS
from dcc.phases import Phase, Status
from dcc.runtime.json_values import fields_of
from dcc.sources.protocols import traits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dcc.operations.platform_status import PlatformStatus, SourceStatus, StoreStatus
    from dcc.outcomes import SubmissionKey
    from dcc.tracker.queries.state_counts import HeldDocument, StateCount
    from dcc.tracker.register.file_sources import SourceEntry

_LINES_SHOWN = 20
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
      session     {"active": a session as of `dcc session list` or null, "also_active": sessions of
                  other groups of centres, "last": a session or null}
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
    from dcc.operations.platform_status import load_platform_status

    settings = settings_from_environment()
    with reading_tracker(settings) as connection:
        found = load_platform_status(connection, settings)
    states = found.zip_actions
    last = found.sessions.last
    note_facts(
        in_trouble=last.id if last is not None and last.outcome in FAILED_ENDS else None,
        held=next((document.key for document in found.held_documents), None),
        failed=any(state.status is Status.FAILED for state in states),
        down=next((source.entry.id for source in found.sources if source.is_down), None),
        without_sources=not found.sources,
        waits_for_qc=any((state.phase, state.status) == (Phase.QC, Status.PENDING) for state in states),
    )
    if wants_json():
        echo_json({"environment": settings.environment, **_json_of(found)})
        return
    if settings.environment is not None:
        click.echo(f"{click.style('Environment', bold=True)}: {settings.environment}\n")
    _print_status(found)


def _json_of(found: PlatformStatus) -> dict[str, object]:
    sessions, stored = found.sessions, found.stored
    return {
        "zip_actions": found.zip_actions,
        "xml_files": found.documents,
        "sources": [_source_json(source) for source in found.sources],
        "session": {
            "active": session_json(sessions.active[0], sessions.problems) if sessions.active else None,
            "also_active": [session_json(entry, sessions.problems) for entry in sessions.active[1:]],
            "last": session_json(sessions.last, sessions.problems) if sessions.last else None,
        },
        "held": [
            {"zip": str(held.key), "document": held.file_name, "message": held.message} for held in found.held_documents
        ],
        "held_archives": [
            {"zip": str(archive.key), **fields_of(archive, "owner", "hosts", message="translatable")}
            for archive in found.unfetched_archives
        ],
        "archive_store": {
            **fields_of(stored.archives, "archives", bytes="size_bytes"),
            "week": fields_of(stored.week, "archives", bytes="size_bytes"),
            **fields_of(stored, "pending", "bad", "missing"),
            "lost": len(stored.lost),
        },
        **fields_of(found, *_COUNTS, "findings", "expected"),
        "silent": [fields_of(centre, "centre", "since", "within_days") for centre in found.silent],
    }


def _print_status(found: PlatformStatus) -> None:
    _print_states("Submissions", found.zip_actions)
    _print_states("Documents", found.documents)
    expected = found.expected
    if expected.archives:
        echo_wrapped(f"{count_of(expected.archives, 'archive')} to fetch: {expected_text(expected)}")
        click.echo()
    _print_sources(found.sources)
    _print_list("Waiting to be confirmed", _held_lines(found.held_documents))
    _print_list("Held archives", [str(archive.translatable) for archive in found.unfetched_archives])
    for count, noun, told in (
        (found.on_hold, "submission", "on hold: dcc zips --on-hold"),
        (found.quarantined, "submission", "in quarantine: dcc zips --quarantine"),
        (found.acknowledged, "submission", "acknowledged: dcc zips --acknowledged"),
        (found.refused_gone, "refused name", "on no source any more: dcc zips --status failed leaves them out"),
        (found.proposals, "proposed withdrawal", "to decide on: dcc data proposals"),
    ):
        if count:
            click.echo()
            echo_wrapped(f"{count_of(count, noun)} {told}")
    _print_archive_store(found.stored)
    _print_list("Silent centres", [f"{centre.centre} since {centre.since:%Y-%m-%d}" for centre in found.silent])
    _print_list("Findings", [str(finding.said) for finding in found.findings])
    sessions = found.sessions
    for entry in (*sessions.active, sessions.last):
        if entry is not None:
            click.echo()
            echo_wrapped(session_line(entry, sessions.problems))


def _print_list(title: str, messages: Sequence[str]) -> None:
    if not messages:
        return
    click.echo(f"\n{click.style(title, bold=True)}")
    for message in messages[:_LINES_SHOWN]:
        echo_wrapped(f"  {printable(message)}")
    if len(messages) > _LINES_SHOWN:
        click.echo(f"  ... and {len(messages) - _LINES_SHOWN:,} more: dcc status --json")


def _print_archive_store(stored: StoreStatus) -> None:
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


def _held_lines(held: Sequence[HeldDocument]) -> list[str]:
    """The held documents of each archive, with one command for those that share it."""
    documents: dict[tuple[SubmissionKey, str], list[str]] = {}
    for document in held:
        documents.setdefault((document.key, document.message), []).append(document.file_name)
    return [
        f"{key}: {names[0] if len(names) == 1 else count_of(len(names), 'document')}: {message}"
        for (key, message), names in documents.items()
    ]


def _source_json(source: SourceStatus) -> dict[str, object]:
    names = ("id", "centre", "protocol", "hostname", "username", "base_path", "state", "centre_active", "hosted")
    crawl = None if source.crawl is None else crawl_json(source.crawl)
    of_now = {"last_crawl": crawl, "due": due_json(source.due), "expected": source.expected}
    return fields_of(source.entry, *names) | of_now


def _print_states(title: str, counts: Sequence[StateCount]) -> None:
    total = sum(state.count for state in counts)
    click.echo(f"{click.style(title, bold=True)}: {total:,}")
    echo_list(counts, "phase, status, count", indent="  ")
    click.echo()


def _print_sources(sources: Sequence[SourceStatus]) -> None:
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
        due=_due,
        hosts=lambda source: source.entry.hosted,
        last_crawl=lambda source: source.crawl.outcome if source.crawl else "never crawled",
        when=lambda source: source.crawl and source.crawl.started,
        error=lambda source: source.crawl and source.crawl.error and str(source.crawl.error.fact.problem),
        indent="  ",
        flexible=["error", "due", "hosts", "when", "last crawl", "state"],
    )


def _due(source: SourceStatus) -> str:
    if not source.entry.centre_active or source.entry.state != "available":
        return "no"
    return "yes" if source.due is None or source.due.is_due else str(source.due)


def _place(entry: SourceEntry) -> str:
    return entry.hostname if traits_of(entry.protocol).has_server else entry.base_path
