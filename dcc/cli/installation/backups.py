"""`dcc backup`, `dcc restore` and `dcc migrate-storage`: back up both databases, restore them, and move them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dcc.cli.installation.dagster_processes import without_daemon
from dcc.cli.shell.context import (
    any_databases,
    confirmed,
    json_option,
    open_qc,
    open_tracker,
    settings_from_environment,
)
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_result, printable, progress_shown, wants_json, warn
from dcc.cli.shell.parameter_types import COUNT
from dcc.errors import ConfigurationError
from dcc.messages import byte_size, count_of
from dcc.runtime.json_values import fields_of

if TYPE_CHECKING:
    from dcc.operations.backups.backup import BackupManifest, BackupReport


class _Directory(click.Path):
    """A directory; an empty text, such as an unset variable gives, is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if value == "":
            self.fail("it is empty. Name a directory; the current one is `.`", param, ctx)
        return super().convert(value, param, ctx)


_DIRECTORY = _Directory(file_okay=False, path_type=Path)


@command(
    examples=[
        "dcc backup /var/backups/dcc --keep 14",
        "dcc backup /mnt/elsewhere --with-staging",
        "dcc backup --verify /var/backups/dcc",
    ],
    exits={
        1: "a row or an archive cannot be backed up or is missing, or an older backup could not be removed",
        2: "the directory cannot be written, or a backup is damaged (--verify)",
        3: "another backup is written there",
    },
)
@click.argument("directory", type=_DIRECTORY)
@click.option("--with-staging", is_flag=True, help="Copy the archives and documents in staging too.")
@click.option("--with-archives", is_flag=True, help="Copy the archive store too, to DIRECTORY/archives.")
@click.option("--without-secrets", is_flag=True, help="Leave out the access keys that the tracker holds.")
@click.option("--keep", type=COUNT, metavar="N", help="Then remove all but the newest N backups there.")
@click.option(
    "--verify", is_flag=True, help="Make none: read DIRECTORY, or the newest backup there, whole, and its archives."
)
@json_option
def backup(
    directory: Path, with_staging: bool, with_archives: bool, without_secrets: bool, keep: int | None, verify: bool
) -> None:
    """Back up both databases to a new directory in DIRECTORY.

    Sessions may go on meanwhile: the backup shows one moment. It contains the tracker and the QC database, whatever
    their servers, the list of files in staging, and the settings without secrets. It appears once it is complete. IT
    CONTAINS THE ACCESS KEYS OF SOURCES, unless they are references or you give --without-secrets: only this user may
    read it; keep it so where you copy it to.

    THE ARCHIVE STORE IS NOT IN IT. --with-archives copies each archive once to DIRECTORY/archives, beside all backups;
    to use these copies, name that directory in DCC_ARCHIVE_REPLICAS, then `dcc archive repair`.

    \b
    JSON: {"directory", "created", "platform_version", "seconds", "with_secrets", "sessions" (the
      ids of those that were active), "tracker", "qc", "staging": {"files", "bytes", "copied"},
      "archives", "removed", "not_removed"}; "archives" is null, or with --with-archives {"copied",
      "present", "missing", "reasons"}; tracker and qc are {"schema", "rows", "bytes"}; "removed" lists
      the older backups removed, "not_removed" those of which something is still there, as
      {"directory", "reason"}; with --verify both are missing, and "archives" is {"good", "missing"}
    """
    from dcc.operations.backups.backup import BackupRequest, find_set, make_backup
    from dcc.operations.backups.restoration import verify_archives, verify_backup

    place = directory.expanduser().absolute()
    if verify:
        if with_staging or with_archives or without_secrets or keep is not None:
            raise click.UsageError("--verify goes with none of the other options.")
        found = find_set(place)
        with progress_shown() as on_progress:
            manifest = verify_backup(found, on_progress=on_progress)
            archives = verify_archives(found, manifest, on_progress=on_progress)
        beside = "" if archives is None else f"; {count_of(archives.good, 'archive')} beside it"
        facts = _manifest_json(found, manifest) | {"archives": archives}
        echo_result(facts, f"{printable(found)} is whole: {_size_text(manifest)}{beside}.")
        if archives is not None and archives.missing:
            warn(f"{count_of(archives.missing, 'archive')} not beside it. To copy them: dcc backup --with-archives")
            raise click.exceptions.Exit(1)
        return
    wanted = BackupRequest(with_staging, with_archives, not without_secrets, keep)
    settings = settings_from_environment()
    with any_databases(settings) as (tracker, qc), progress_shown() as on_progress:
        report = make_backup(tracker, qc, settings, place, wanted, on_progress=on_progress)
    note_facts(backed_up=True)
    _show_backup(report)
    if report.not_removed or (report.archives is not None and report.archives.missing):
        raise click.exceptions.Exit(1)


def _show_backup(report: BackupReport) -> None:
    if wants_json():
        facts = _manifest_json(report.directory, report.manifest)
        echo_json(facts | {"archives": report.archives, "removed": report.removed, "not_removed": report.not_removed})
        return
    click.echo(f"Backed up to {printable(report.directory)}: {_size_text(report.manifest)}.")
    if report.removed:
        click.echo(f"Removed {count_of(len(report.removed), 'older backup')}.")
    for old in report.not_removed:
        warn(f"The older backup {old.directory} could not be removed: {old.reason}. Remove what is left of it.")
    if report.archives is None:
        click.echo("The archive store is not in it: --with-archives copies it beside.", err=True)
    else:
        place = printable(report.directory.parent / "archives")
        click.echo(
            f"Copied {count_of(report.archives.copied, 'archive')} to {place}; it has {report.archives.present:,}."
        )
        if report.archives.missing:
            warn(f"{count_of(report.archives.missing, 'archive')} not copied: {'; '.join(report.archives.reasons)}")
    if report.manifest.with_secrets:
        click.echo("The access keys of file sources are in it: keep it where only you can read it.", err=True)


def _size_text(manifest: BackupManifest) -> str:
    staging = manifest.staging
    files = f"{count_of(staging.files, 'file')} in staging {'copied' if staging.copied else 'listed'}"
    size = manifest.tracker.file.size_bytes + manifest.qc.file.size_bytes
    return f"{count_of(manifest.rows, 'row')} ({byte_size(size)}), {files} ({byte_size(staging.size_bytes)})"


def _manifest_json(directory: Path, manifest: BackupManifest) -> dict[str, object]:
    databases = {
        name: {
            "schema": one.revision,
            "rows": sum(each.rows for each in one.tables.values()),
            "bytes": one.file.size_bytes,
        }
        for name, one in (("tracker", manifest.tracker), ("qc", manifest.qc))
    }
    staging = fields_of(manifest.staging, "files", "copied", bytes="size_bytes")
    names = ("created", "platform_version", "seconds", "with_secrets", "sessions")
    return {"directory": directory, **fields_of(manifest, *names), **databases, "staging": staging}


@command(
    examples=["dcc restore /var/backups/dcc", "dcc restore /var/backups/dcc/dcc-20261121T143000Z --replace --yes"],
    exits={
        2: "the backup is damaged or of a later version, or the databases have data",
        3: "a session, a daemon or another process uses the databases",
    },
)
@click.argument("directory", type=_DIRECTORY)
@click.option("--replace", is_flag=True, help="Replace what the databases hold.")
@click.option("--yes", is_flag=True, help="With --replace: do not ask.")
@json_option
def restore(directory: Path, replace: bool, yes: bool) -> None:
    """Restore both databases from the backup in DIRECTORY.

    DIRECTORY is a backup, or contains backups: then the newest is used. The databases of the settings, of either
    kind, must be empty unless --replace. The backup is verified first; one of an older schema is upgraded. Stop `dcc
    ui`, `dcc daemon` and cron before: beside a daemon, it refuses. If the restoration is interrupted, give the same
    command again: until it is done, no other command works with the databases. A session that was active during the
    backup counts as killed; the next one continues its work. Copies of staged files in the backup are put back; the
    next two sessions download missing ones again if they need them.

    \b
    JSON: {"directory", "created", "rows", "ended_sessions", "sources_without_key",
      "staging": {"same", "put_back", "different", "missing", "archives_missing"}}; all but the
      last are numbers of archives and documents
    """
    from dcc.operations.backups.restoration import restore_backup

    if yes and not replace:
        raise click.UsageError("--yes goes with --replace.")
    settings = settings_from_environment()
    if replace and not yes:
        question = "All that the databases of this installation hold will be lost. Replace it?"
        if not confirmed(question, option="--yes"):
            raise ConfigurationError("Nothing was replaced.")
    with without_daemon(settings), any_databases(settings) as (tracker, qc), progress_shown() as on_progress:
        report = restore_backup(
            directory.expanduser().absolute(), tracker, qc, settings, replace=replace, on_progress=on_progress
        )
    staging = report.staging
    if wants_json():
        names = ("directory", "ended_sessions", "sources_without_key", "staging")
        echo_json(fields_of(report, *names) | fields_of(report.manifest, "created", "rows"))
        return
    click.echo(f"Restored {count_of(report.manifest.rows, 'row')} from {printable(report.directory)}.")
    for number in report.ended_sessions:
        click.echo(f"Session {number} was active then: it counts as killed.")
    click.echo(
        f"In staging: {staging.same:,} as they were, {staging.put_back:,} put back, {staging.different:,} different, "
        f"{staging.missing:,} missing."
    )
    if staging.archives_missing:
        click.echo(
            f"{count_of(staging.archives_missing, 'archive')} not there as at the time of the backup: the next "
            "two sessions find out and download again what is still needed of them."
        )
    for source in report.sources_without_key:
        change = f"dcc source change {source} --accesskey file:PATH"
        warn(f"The access key of file source {source} is not in the backup. Name a file with it: {change}")


@command(
    "migrate-storage",
    examples=[
        "export DCC_TARGET_TRACKER_URL=mysql://dcc:secret@db.example.org/phenodcc_tracker",
        "export DCC_TARGET_QC_URL=mysql://dcc:secret@db.example.org/phenodcc_raw",
        "dcc migrate-storage",
    ],
    exits={
        1: "the copy differs from its source",
        2: "a target has data or is not named",
        3: "a session, a daemon or another process uses the databases",
    },
)
@json_option
def migrate_storage() -> None:
    """Copy both databases to others, on SQLite or MariaDB.

    From SQLite to MariaDB or MySQL, or back. DCC_TARGET_TRACKER_URL and DCC_TARGET_QC_URL name the targets, so that no
    password is in the list of processes. They must have no rows; missing ones are made. The databases in use are only
    read, and compared table by table with the copies. Stop `dcc ui`, `dcc daemon` and cron before: beside a daemon, it
    refuses. If the copy is interrupted, give the command again: it starts from the beginning.

    \b
    JSON: {"tracker", "qc", "rows", "seconds"}; the first two are objects of table to rows
    """
    from dcc.databases.engines import disposed, open_database
    from dcc.operations.backups.targets import migrate_storage as migrate
    from dcc.qc.database import QC_DATABASE
    from dcc.tracker.database import TRACKER

    settings = settings_from_environment()
    if settings.target_tracker_url is None or settings.target_qc_url is None:
        raise ConfigurationError(
            "The target of the copy is not set. Set DCC_TARGET_TRACKER_URL and DCC_TARGET_QC_URL: "
            "mysql://user:password@host/database or sqlite:////path/of/file.db."
        )
    to_tracker_url = settings.target_tracker_url.get_secret_value()
    to_qc_url = settings.target_qc_url.get_secret_value()
    with (
        without_daemon(settings),
        open_tracker(settings) as tracker,
        open_qc(settings) as qc,
        disposed(open_database(to_tracker_url, replace(TRACKER, setting="DCC_TARGET_TRACKER_URL"))) as to_tracker,
        disposed(open_database(to_qc_url, replace(QC_DATABASE, setting="DCC_TARGET_QC_URL"))) as to_qc,
        progress_shown() as on_progress,
    ):
        old = [str(engine.url.database) for engine in (tracker, qc) if engine.dialect.name == "sqlite"]
        report = migrate(tracker, qc, to_tracker, to_qc, settings, on_progress=on_progress)
    tables = {
        name: {table: one.rows for table, one in sums.items()}
        for name, sums in (("tracker", report.tracker), ("qc", report.qc))
    }
    echo_result(
        {**tables, "rows": report.rows, "seconds": round(report.seconds, 3)},
        f"Copied {count_of(report.rows, 'row')} in {report.seconds:.1f} s; every table is the same.",
        "Next, wherever dcc is run:",
        f"  set DCC_TRACKER_URL to {_everyday_url(to_tracker_url)}",
        f"  set DCC_QC_URL to {_everyday_url(to_qc_url)}",
        "  dcc instance rebuild",
        *(f"  move {printable(path)} away: a command without these settings would go on with it" for path in old),
    )


def _everyday_url(target: str) -> str:
    """A target's URL for all other commands, without its password: the account dcc_init only makes tables."""
    from sqlalchemy.engine import make_url

    from dcc.cli.installation.setup import shown_url
    from dcc.databases.engines import INIT_ACCOUNT, SESSIONS_ACCOUNT

    url = make_url(target)
    return printable(shown_url(url.set(username=SESSIONS_ACCOUNT) if url.username == INIT_ACCOUNT else url))
