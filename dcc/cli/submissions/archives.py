"""`dcc archive`: the bytes that centres submitted, and decisions on archives on another centre's source."""

from __future__ import annotations

import re
import shutil
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import (
    json_option,
    options,
    parse_zip_key,
    reading_tracker,
    settings_from_environment,
    user_name,
    writing_tracker,
)
from dcc.cli.shell.group import CommandGroup
from dcc.cli.shell.output import byte_size, echo_json, echo_list, echo_result, echo_table, fields_of, warn
from dcc.cli.shell.parameter_types import ID
from dcc.errors import ArchiveError, ConfigurationError, NotFoundError, StoredObjectLostError
from dcc.messages import count_of

if TYPE_CHECKING:
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
_PLACES = {
    "status": "dcc.cli.installation.archive_store:status",
    "audit": "dcc.cli.installation.archive_store:audit",
    "repair": "dcc.cli.installation.archive_store:repair",
}


@click.group(cls=CommandGroup, lazy_commands=_PLACES)
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
def list_files(archive: str, attempt: int | None, as_json: bool) -> None:
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
    from dcc.archives.limits import ArchiveLimits

    settings = settings_from_environment()
    attempts, chosen = _attempts(settings, archive, attempt)
    files: list[tuple[str, int]] | None = None
    problem: str | None = None
    try:
        with _member(settings, chosen, None) as path:
            members = archive_members(path, chosen.key.file_name, ArchiveLimits.from_settings(settings))
            files = [(member.path, member.size_bytes) for member in members]
    except (ArchiveError, StoredObjectLostError) as error:
        problem = str(error)
    if as_json:
        named = None if files is None else [{"path": path, "size_bytes": size} for path, size in files]
        echo_json({"attempts": attempts, "attempt": chosen.id, "files": named, "problem": problem})
    else:
        shown = [
            (one.id, str(one.key), one.source, one.requested, byte_size(one.size_bytes), one.sha256) for one in attempts
        ]
        headers = ("attempt", "archive", "source", "requested", "size", "sha256")
        echo_table(headers, shown, flexible=["sha256", "source", "requested"])
        if files is not None:
            click.echo(f"\n{count_of(len(files), 'file')} of attempt {chosen.id}:")
            echo_table(("size", "path"), [(byte_size(size), name) for name, size in files], indent="  ")
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
    help="File to write; by default that name, in this directory.",
)
def get(archive: str, document: str | None, attempt: int | None, output: Path | None) -> None:
    """Write ARCHIVE, or one DOCUMENT of it, to a file.

    DOCUMENT is a file's path in the archive, or its name. A file that is there already is left as it is.
    """
    settings = settings_from_environment()
    _, chosen = _attempts(settings, archive, attempt)
    place = output or Path(chosen.key.file_name if document is None else document.rpartition("/")[2])
    if place.exists():
        raise ConfigurationError(f"{place} exists. Give another name with --output, or move it away.")
    with _member(settings, chosen, document) as path:
        try:
            with place.open("xb") as file, path.open("rb") as content:
                shutil.copyfileobj(content, file, _CHUNK)
        except OSError as error:
            raise ConfigurationError(
                f"{place} cannot be written: {error.strerror or error}. Name another file."
            ) from error
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
    from dcc.tracker.archive_access import fetched_archive, fetched_member

    return fetched_archive(settings, attempt) if document is None else fetched_member(settings, attempt, document)


@archive.command(
    examples=[
        'dcc archive decline add/J.2013-11-01.1.impc.zip --reason "made by mistake, says Harwell"',
        "dcc archive decline add/J.2013-11-01.1.impc.zip --revoke",
    ],
    exits={2: "it is not held, is declined already, or is not declined"},
)
@click.argument("zip_action", metavar="ACTION/ZIP")
@click.option("--reason", help="Why; both centres get a message.")
@click.option("--revoke", is_flag=True, help="Take that back: the archive is held again.")
@json_option
def decline(zip_action: str, reason: str | None, revoke: bool, as_json: bool) -> None:
    """Decline ACTION/ZIP, which is held, so that it stops waiting.

    It stays declined, even if its centre delegates, until you revoke that. If a source of its own centre lists it, that
    copy is fetched anyway. Turn held documents down with `dcc data undo`.

    \b
    JSON: as one of `dcc archive declined --json`
    """
    from dcc.tracker.hostings import foreign_archives

    if revoke == (reason is not None):
        raise click.UsageError("Give --reason to turn it down, or --revoke to take that back.")
    key = parse_zip_key(zip_action)
    with writing_tracker() as connection:
        if reason is None:
            made = foreign_archives.accept_archive(connection, key, revoked_by=user_name())
        else:
            made = foreign_archives.decline_archive(connection, key, declined_by=user_name(), reason=reason)
    text = "turned down. Both centres get a message with the next notifications."
    if revoke:
        text = f"held again. Ask centre {made.owner}, whose name it bears."
    echo_result(_as_json(made), f"{key} is {text}", as_json=as_json)


@archive.command()
@click.option("--all", "everything", is_flag=True, help="Those of which it was taken back too.")
@json_option
def declined(everything: bool, as_json: bool) -> None:
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
        ("submission", "by", "when", "reason", "taken back", "revoked by"),
        [(str(e.key), e.declined_by, e.created, e.reason, e.revoked, e.revoked_by) for e in entries],
        as_json=as_json,
        flexible=["reason", "revoked by", "taken back", "by", "when"],
        none="No archive is turned down. Held ones are listed by: dcc status",
    )


def _as_json(entry: Decline) -> dict[str, object]:
    return {
        "zip": str(entry.key),
        **fields_of(entry, "owner", "declined_by", "reason", "created", "revoked", "revoked_by"),
    }
