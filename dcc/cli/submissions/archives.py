"""`dcc archive`: the bytes that centres submitted, and decisions on archives on another centre's source."""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import (
    json_option,
    open_tracker,
    options,
    parse_submission_key,
    reading_tracker,
    settings_from_environment,
    user_name,
    writing_file,
    writing_tracker,
)
from dcc.cli.shell.group import CommandGroup
from dcc.cli.shell.output import echo_json, echo_list, echo_result, echo_table, printable, wants_json, warn
from dcc.cli.shell.parameter_types import COUNT, ID
from dcc.errors import ArchiveError, ConfigurationError, NotFoundError, StoredObjectLostError
from dcc.messages import byte_size, count_of
from dcc.runtime.json_values import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from dcc.operations.archive_audits import AuditResult
    from dcc.operations.platform_status import LostArchive
    from dcc.outcomes import SubmissionKey
    from dcc.settings import Settings
    from dcc.tracker.archive_access import Attempt
    from dcc.tracker.hostings.foreign_archives import Decline

_CHUNK = 256 * 1024
_CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")

_EXITS = {
    1: "its bytes are not kept, or it is broken or over a limit",
    4: "the tracker or the archive store cannot be reached",
}
_attempt_option = click.option(
    "--attempt", type=ID, metavar="ID", help="Of this attempt, as `dcc archive list` shows them; by default the last."
)
_archive_or_document = options(click.argument("archive"), click.argument("document", required=False), _attempt_option)


@click.group(cls=CommandGroup)
def archive() -> None:
    """Show stored archives; look after them; decline some.

    The archive store keeps every archive that arrived, in replicas (DCC_ARCHIVE_REPLICAS) that are read back.

    An archive that is named for one centre and is on the source of another one is held: `dcc status` lists it. It is
    fetched if its own centre lists it too, or delegates: see `dcc centre delegate`.
    """


@archive.command(
    "list",
    examples=["dcc archive list add/H.2013-10-31.1.impc.zip", "dcc archive list H.2013-10-31.1.impc.zip --attempt 12"],
    exits=_EXITS,
)
@click.argument("archive")
@_attempt_option
@json_option
def list_files(archive: str, attempt: int | None) -> None:
    """List the attempts of ARCHIVE, and the files in it.

    ARCHIVE is a submission (add/H.2013-10-31.1.impc.zip), a file name or a SHA-256. Each attempt has its own bytes: a
    centre may put another archive in the place of one. The files are also those of archives inside it.

    \b
    JSON: {"attempts": a list of {"id", "key": {"action", "file_name"}, "source", "requested",
      "size_bytes", "md5", "sha256", "outcome"}, oldest first; what is not known is null,
      "attempt" (whose files follow), "files": a list of {"path", "size_bytes"}, or null,
      "problem" (why the files are not known, or null)}
    """
    from dcc.archives.extraction import archive_members
    from dcc.archives.limits import Allowance, ArchiveLimits
    from dcc.runtime.private_files import scratch_directory

    settings = settings_from_environment()
    attempts, chosen = _attempts(settings, archive, attempt)
    files, problem = None, None
    try:
        with _member(settings, chosen, None) as path, scratch_directory(settings.home) as folder:
            allowance = Allowance(ArchiveLimits.from_settings(settings), path)
            members = archive_members(path, chosen.key.file_name, allowance, folder)
            files = [{"path": member.place, "size_bytes": member.size_bytes} for member in members]
    except (ArchiveError, StoredObjectLostError) as error:
        problem = str(error)
    if wants_json():
        echo_json({"attempts": attempts, "attempt": chosen.id, "files": files, "problem": problem})
    else:
        echo_list(
            attempts,
            "attempt=id, archive=key, source, requested, size, sha256",
            flexible=["sha256", "source", "requested"],
            size=lambda one: byte_size(one.size_bytes),
        )
        if files is not None:
            click.echo(f"\n{count_of(len(files), 'file')} of attempt {chosen.id}:")
            echo_list(files, "size, path", indent="  ", size=lambda one: byte_size(one["size_bytes"]))
        if problem is not None:
            warn(problem)
    if problem is not None:
        raise click.exceptions.Exit(ArchiveError.exit_code)


@archive.command(
    examples=[
        "dcc archive get add/H.2013-10-31.1.impc.zip",
        "dcc archive get add/H.2013-10-31.1.impc.zip H.2013-10-31.1.specimen.impc.xml --output mice.xml",
    ],
    exits=_EXITS,
)
@_archive_or_document
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write; by default one of its name in the working directory.",
)
def get(archive: str, document: str | None, attempt: int | None, output: Path | None) -> None:
    """Write ARCHIVE, or one DOCUMENT of it, to a file.

    DOCUMENT is a file's path in the archive, or its name. A file that is there already is left as it is.
    """
    settings = settings_from_environment()
    _, chosen = _attempts(settings, archive, attempt)
    place = output or Path(chosen.key.file_name if document is None else document.rpartition("/")[2])
    if os.path.lexists(place):
        raise ConfigurationError(f"{place} exists. Give another name with --output, or move it away.")
    with _member(settings, chosen, document) as path, writing_file(place) as part:
        shutil.copyfile(path, part)
    click.echo(f"{place} written.")


@archive.command(
    examples=[
        "dcc archive cat add/H.2013-10-31.1.impc.zip H.2013-10-31.1.specimen.impc.xml",
        "dcc archive cat add/H.2013-10-31.1.impc.zip > archive.zip",
    ],
    exits=_EXITS,
)
@_archive_or_document
def cat(archive: str, document: str | None, attempt: int | None) -> None:
    """Print ARCHIVE, or one DOCUMENT of it, on standard output."""
    if document is None and sys.stdout.isatty():
        raise click.UsageError("An archive is nothing for a terminal: write it to a file, or name one DOCUMENT of it.")
    settings = settings_from_environment()
    _, chosen = _attempts(settings, archive, attempt)
    with _member(settings, chosen, document) as path:
        echo_file(path)


def echo_file(path: Path) -> None:
    """Copy a file to standard output, piece by piece; to a terminal without characters that control it."""
    output = sys.stdout.buffer
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            output.write(_CONTROLS.sub(b"?", piece) if output.isatty() else piece)
    output.flush()


def _attempts(settings: Settings, archive: str, wanted: int | None) -> tuple[list[Attempt], Attempt]:
    from dcc.tracker.archive_access import archive_attempts

    with reading_tracker(settings) as connection:
        attempts = archive_attempts(connection, archive)
    chosen = [attempt for attempt in attempts if wanted in (None, attempt.id)]
    if not chosen:
        known = ", ".join(str(attempt.id) for attempt in attempts)
        raise NotFoundError(f"The archive {archive} has no attempt {wanted}. Its attempts: {known}.")
    return attempts, chosen[-1]


def _member(settings: Settings, attempt: Attempt, document: str | None) -> AbstractContextManager[Path]:
    from dcc.tracker.archive_access import fetched_file

    return fetched_file(settings, attempt, document)


@archive.command(
    examples=[
        'dcc archive decline add/J.2013-11-01.1.impc.zip --reason "made by mistake, says Harwell"',
        "dcc archive decline add/J.2013-11-01.1.impc.zip --revoke",
    ],
    exits={2: "it is not held, is declined already, or is not declined"},
)
@click.argument("zip_action", metavar="ACTION/ZIP")
@click.option("--reason", help="Why; the messages to both centres say it. Needed without --revoke.")
@click.option("--revoke", is_flag=True, help="Take that back: the archive is held again.")
@json_option
def decline(zip_action: str, reason: str | None, revoke: bool) -> None:
    """Decline ACTION/ZIP, which is held, so that it stops waiting.

    It stays declined, even if its centre delegates, until you revoke that. If a source of its own centre lists it, that
    copy is fetched anyway. Turn held documents down with `dcc data undo`.

    \b
    JSON: as one of `dcc archive declined --json`
    """
    from dcc.tracker.hostings import foreign_archives

    if revoke == (reason is not None):
        raise click.UsageError("Give --reason to turn it down, or --revoke to take that back.")
    key = parse_submission_key(zip_action)
    settings = settings_from_environment()
    with writing_tracker(settings) as connection:
        if reason is None:
            made = foreign_archives.accept_archive(connection, key, revoked_by=user_name())
        else:
            made = foreign_archives.decline_archive(connection, key, declined_by=user_name(), reason=reason)
        text = f"turned down. {_who_is_told(connection, settings, key)}"
    if revoke:
        text = f"held again. Ask centre {made.owner}, whose name it bears."
    echo_result(_as_json(made), f"{key} is {text}")


def _who_is_told(connection: Connection, settings: Settings, key: SubmissionKey) -> str:
    """Which centres get an e-mail about a declined archive."""
    from dcc.tracker.hostings.foreign_archives import unfetched_archives
    from dcc.tracker.register.centres import list_centres

    if not settings.notify_centres:
        return "No centre gets an e-mail: DCC_NOTIFY_CENTRES is off."
    concerned = {code for one in unfetched_archives(connection, key=key) for code in (one.owner, *one.hosts)}
    told = {one.short_name: bool(one.addresses) for one in list_centres(connection) if one.short_name in concerned}
    return " ".join(
        f"Centre {code} gets an e-mail with the next notifications."
        if has_address
        else f"Centre {code} gets no e-mail: dcc centre change {code} --email ADDRESS"
        for code, has_address in sorted(told.items(), key=lambda one: not one[1])
    )


@archive.command()
@click.option("--all", "everything", is_flag=True, help="Those of which it was taken back too.")
@json_option
def declined(everything: bool) -> None:
    """List the declined archives.

    \b
    JSON: a list of {"zip", "owner" (the centre of its name), "declined_by", "reason", "created",
      "revoked", "revoked_by"}
    """
    from dcc.tracker.hostings.foreign_archives import list_declines

    with reading_tracker() as connection:
        entries = list_declines(connection, everything=everything)
    echo_list(
        [_as_json(entry) for entry in entries],
        "submission=zip, by=declined_by, when=created, reason, taken back=revoked, revoked by",
        flexible=["reason", "revoked by", "taken back", "by", "when"],
        none="No archive is turned down. Held ones are listed by: dcc status",
    )


@archive.command(
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
def audit(replica: str | None, everything: bool) -> None:
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
    _show(done)


@archive.command(
    exits={1: "a copy is bad or missing, or an archive is lost", 4: "a replica or the tracker cannot be reached"}
)
@json_option
def repair() -> None:
    """Make pending copies, and repair bad and missing ones.

    Archives that are only in staging are kept, too. It repairs what audits found: `dcc archive audit` finds more.

    JSON: as `dcc archive audit`
    """
    from dcc.operations.archive_audits import repair_archives

    settings = settings_from_environment()
    with open_tracker(settings) as tracker:
        done = repair_archives(tracker, settings, user_name())
    _show(done)


@archive.command(
    examples=["dcc archive status", "dcc archive status --audits --limit 5"],
    exits={1: "an archive has no good copy (not with --audits)"},
)
@click.option("--audits", "history", is_flag=True, help="List the audits so far instead, newest first.")
@click.option("--limit", type=COUNT, default=20, show_default=True, help="With --audits: how many.")
@json_option
def status(history: bool, limit: int) -> None:
    """Show what the archive store holds, and which copies are bad.

    \b
    JSON: {"archives", "bytes", "week": {"archives", "bytes"} (of the last seven days), "replicas":
      a list of {"replica", "required", "copies": by state (good, pending, bad, missing)
      {"archives", "size_bytes"}, "oldest_check", "last_audit": null or as of
      `dcc archive audit`}, "lost": as of `dcc archive audit`}; with --audits: a list, as
      "audits" of `dcc archive audit`
    """
    from dcc.operations.platform_status import store_status
    from dcc.tracker.stored_archives import audits

    settings = settings_from_environment()
    with reading_tracker(settings) as connection:
        if history:
            columns = (
                "replica, started, finished, requested by, read=copies, bad, missing, repaired, ended early=message"
            )
            flexible = ["ended early", "requested by", "finished"]
            none = "No copy was audited so far. Read those whose turn it is: dcc archive audit"
            echo_list(audits(connection, limit), columns, flexible=flexible, none=none)
            return
        found = store_status(connection, settings)
    if wants_json():
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


def _show(done: AuditResult) -> None:
    if wants_json():
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


def _as_json(entry: Decline) -> dict[str, object]:
    return {
        "zip": str(entry.key),
        **fields_of(entry, "owner", "declined_by", "reason", "created", "revoked", "revoked_by"),
    }
