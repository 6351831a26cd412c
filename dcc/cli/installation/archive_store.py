"""`dcc archive audit`, `repair` and `status`: the copies of the archive store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, open_tracker, reading_tracker, settings_from_environment, user_name
from dcc.cli.shell.group import command
from dcc.cli.shell.output import byte_size, echo_json, echo_list, echo_table, fields_of, printable, warn
from dcc.cli.shell.parameter_types import COUNT
from dcc.messages import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dcc.operations.archive_audits import AuditResult
    from dcc.operations.overview import LostArchive
    from dcc.settings import Settings


@command(
    examples=["dcc archive audit", "dcc archive audit --all --replica s3://archives/dcc"],
    exits={1: "a copy is bad or missing, or an archive is lost", 4: "a replica or the tracker cannot be reached"},
)
@click.option("--replica", metavar="URL", help="Only this one, as in DCC_ARCHIVE_REPLICAS.")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="All copies, not only those whose turn it is. Where all are lost, begin again.",
)
@json_option
def audit(replica: str | None, everything: bool, as_json: bool) -> None:
    """Read copies of the archive store, and repair bad ones.

    Those whose turn it is: each night's share lets every copy have its turn within DCC_ARCHIVE_AUDIT_DAYS. Copies that
    a replica lacks are made first. A bad or missing copy is replaced from a good one, from staging or from its source;
    the old bytes are put aside, below `bad` in the replica.

    \b
    JSON: {"audits": a list of {"replica", "started", "finished", "requested_by", "copies" (read),
      "bad", "missing", "repaired", "message" (why it ended early)}, "kept" (archives from
      staging), "copied" (pending copies made), "removed" (archives older than
      DCC_ARCHIVE_KEEP_DAYS), "lacking": by replica, why it lacks copies,
      "lost": a list of {"sha256", "size_bytes", "archives"}}
    """
    from dcc.operations.archive_audits import audit_archives

    settings = settings_from_environment()
    with open_tracker(settings) as tracker:
        done = audit_archives(tracker, settings, user_name(), replica=replica, everything=everything)
    _show(done, as_json=as_json)


@command(exits={1: "a copy is bad or missing, or an archive is lost", 4: "a replica or the tracker cannot be reached"})
@json_option
def repair(as_json: bool) -> None:
    """Make pending copies, and repair bad and missing ones.

    Archives that are only in staging are kept, too. It repairs what audits found: `dcc archive audit` finds more.

    JSON: as `dcc archive audit`
    """
    from dcc.operations.archive_audits import repair_archives

    settings = settings_from_environment()
    with open_tracker(settings) as tracker:
        done = repair_archives(tracker, settings, user_name())
    _show(done, as_json=as_json)


@command(
    examples=["dcc archive status", "dcc archive status --audits --limit 5"],
    exits={1: "an archive has no good copy (not with --audits)"},
)
@click.option("--audits", "history", is_flag=True, help="List the audits so far instead, newest first.")
@click.option("--limit", type=COUNT, default=20, show_default=True, help="With --audits: how many.")
@json_option
def status(history: bool, limit: int, as_json: bool) -> None:
    """Show what the archive store holds, and which copies are bad.

    \b
    JSON: {"archives", "bytes", "week": {"archives", "bytes"} (of the last seven days), "replicas":
      a list of {"replica", "required", "copies": by state (good, pending, bad, missing)
      {"archives", "size_bytes"}, "oldest_check", "last_audit": null or as of
      `dcc archive audit`}, "lost": as of `dcc archive audit`}; with --audits: a list, as
      "audits" of `dcc archive audit`
    """
    from dcc.operations.overview import store_overview

    settings = settings_from_environment()
    if history:
        _show_audits(settings, limit, as_json=as_json)
        return
    with reading_tracker(settings) as connection:
        found = store_overview(connection, settings)
    if as_json:
        week = fields_of(found.week, "archives", bytes="size_bytes")
        of_all = fields_of(found.archives, "archives", bytes="size_bytes")
        echo_json({**of_all, "week": week, "replicas": found.replicas, "lost": _lost(found.lost)})
    else:
        click.echo(
            f"{count_of(found.archives.archives, 'archive')}, {byte_size(found.archives.size_bytes)}; "
            f"{found.week.archives:,} of {byte_size(found.week.size_bytes)} in the last 7 days."
        )
        states = list(found.replicas[0].copies)
        echo_table(
            ("replica", "required", *states, "size", "oldest check", "last audit"),
            [
                (
                    replica.replica,
                    "yes" if replica.required else "no",
                    *(replica.copies[state].archives for state in states),
                    byte_size(replica.copies["good"].size_bytes),
                    replica.oldest_check,
                    replica.last_audit and replica.last_audit.started,
                )
                for replica in found.replicas
            ],
        )
        _warn_of_lost(found.lost)
    if found.lost:
        raise click.exceptions.Exit(1)


def _show_audits(settings: Settings, limit: int, *, as_json: bool) -> None:
    from dcc.tracker.stored_archives import audits

    with reading_tracker(settings) as connection:
        found = audits(connection, limit)
    names = ("replica", "started", "finished", "requested_by", "copies", "bad", "missing", "repaired", "message")
    echo_list(
        found,
        ("replica", "started", "finished", "requested by", "read", "bad", "missing", "repaired", "ended early"),
        [tuple(fields_of(one, *names).values()) for one in found],
        as_json=as_json,
        flexible=["ended early", "requested by", "finished"],
        none="No copy was audited so far. Read those whose turn it is: dcc archive audit",
    )


def _show(done: AuditResult, *, as_json: bool) -> None:
    if as_json:
        caught_up = fields_of(done.caught_up, "lacking", kept="archives", copied="copies")
        echo_json({"audits": done.audits, **caught_up, "removed": done.removed, "lost": _lost(done.lost)})
    else:
        if done.caught_up.archives or done.caught_up.copies:
            click.echo(
                f"Kept {count_of(done.caught_up.archives, 'archive')} from staging, and made "
                f"{count_of(done.caught_up.copies, 'pending copy')}."
            )
        if done.removed:
            click.echo(f"Removed {count_of(done.removed, 'archive')} older than DCC_ARCHIVE_KEEP_DAYS.")
        for one in done.audits:
            click.echo(
                f"{printable(one.replica)}: read {one.copies:,}; {one.bad:,} bad, {one.missing:,} missing, "
                f"{one.repaired:,} repaired."
            )
            if one.message is not None:
                warn(f"The audit of {one.replica} ended early: {one.message}")
        if not done.audits:
            click.echo("No copy is known to be bad or missing.")
        for notice in done.caught_up.notices:
            warn(notice)
        _warn_of_lost(done.lost)
    if not done.is_intact:
        raise click.exceptions.Exit(1)
    if done.unreachable:
        raise click.exceptions.Exit(4)


def _lost(lost: Iterable[LostArchive]) -> list[dict[str, object]]:
    return [{**fields_of(one, "sha256", "size_bytes"), "archives": [str(key) for key in one.keys]} for one in lost]


def _warn_of_lost(lost: Iterable[LostArchive]) -> None:
    for one in lost:
        warn(f"No copy is good of {one}. Ask the centre for it, or restore it: then dcc archive repair.")
