"""Checks of the machine and its databases: files, disks, clock, text encoding, packages and what they add."""

from __future__ import annotations

import locale
import os
import platform
import resource
import shutil
import sqlite3
import ssl
import stat
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final
from uuid import uuid4

from sqlalchemy import Connection, Engine, inspect, text

from dcc.converters.conversion import made_converter
from dcc.databases.columns import MYSQL_FAMILY
from dcc.databases.database import MADE_FIRST, Database
from dcc.databases.engines import database_label, disposed, first_unwritable
from dcc.databases.schema import file_is_missing, require_current
from dcc.databases.server_requirements import require_fit_server
from dcc.errors import ConfigurationError, DatabaseUnreachableError, DccError
from dcc.notify.channels.open_channels import open_channels
from dcc.operations.doctor.checks import CheckFinding, Environment, explained, failed, not_checked, ok, warning
from dcc.qc.database import QC_DATABASE
from dcc.runtime.disk_space import advice_on_writing, is_full
from dcc.runtime.installed_packages import (
    CHANNELS,
    CONVERTERS,
    LONGEST_PROTOCOL,
    RULES,
    SOURCES,
    added_entries,
    load_entry,
)
from dcc.runtime.private_files import write_nothing
from dcc.sources.connect import OPENERS
from dcc.tracker.database import TRACKER

_SLOW_MILLISECONDS: Final = 50.0
_LARGE_WAL_BYTES: Final = 512 * 1024 * 1024
_PROBES: Final = 5
_RESTORE: Final = "Restore it from a backup: dcc restore --help"
_STEPS_BETWEEN_LOOKS: Final = 100_000


def check_databases(environment: Environment) -> Iterator[CheckFinding]:
    """Both databases answer; says what they are."""
    for database in (TRACKER, QC_DATABASE):
        yield from _check_database(environment, database)


def _check_database(environment: Environment, database: Database) -> Iterator[CheckFinding]:
    try:
        engine = environment.engine(database)
        if file_is_missing(engine):
            yield failed(
                database.name, f"None exists at {database_label(engine.url)}.", "Make it: dcc init, or set DCC_HOME."
            )
            return
        with disposed(engine), engine.connect() as connection:
            latency = _latency(connection)
            require_fit_server(connection, database)
            what = _described(connection, engine)
            _try_to_write(connection)
    except DccError as error:
        yield failed(database.name, *explained(error))
        return
    message = f"{what} answers within {latency:.1f} ms."
    if latency > _SLOW_MILLISECONDS:
        advice = "Sessions ask it several times a second: have it nearer, or see what else its server is doing."
        yield warning(database.name, message, advice)
    else:
        yield ok(database.name, message)
    if engine.dialect.name == "sqlite":
        yield from _check_file(environment, database, Path(str(engine.url.database)))


def _latency(connection: Connection) -> float:
    """Milliseconds for a short query."""
    times = []
    for _ in range(_PROBES):
        began = time.monotonic()
        connection.execute(text("SELECT 1")).scalar()
        times.append((time.monotonic() - began) * 1_000)
    return statistics.median(times)


def _try_to_write(connection: Connection) -> None:
    """See that a server takes writes of this account; nothing is left there. Of a SQLite file, its permissions tell."""
    if connection.dialect.name in MYSQL_FAMILY and inspect(connection).has_table(MADE_FIRST):
        receipt = {"writer": uuid4().hex}
        connection.execute(text(f"INSERT INTO {MADE_FIRST} VALUES (:writer, 0, UTC_TIMESTAMP())"), receipt)  # noqa: S608
        connection.rollback()


def _described(connection: Connection, engine: Engine) -> str:
    label = database_label(engine.url)
    if engine.dialect.name not in MYSQL_FAMILY:
        return f"SQLite {sqlite3.sqlite_version}, {label},"
    version = connection.execute(text("SELECT VERSION()")).scalar()
    charset = connection.execute(text("SELECT @@character_set_connection")).scalar()
    return f"{'MariaDB' if 'mariadb' in str(version).lower() else 'MySQL'} {version}, {label}, {charset},"


def _check_file(environment: Environment, database: Database, path: Path) -> Iterator[CheckFinding]:
    subject = f"{database.name} file"
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        yield warning(subject, f"Others may read {path} (mode {mode:o}).", f"chmod 600 {path}")
    if (file := first_unwritable(path)) is not None:
        yield failed(subject, f"{file} cannot be written to.", advice_on_writing(file))
        return
    wal = path.with_name(f"{path.name}-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size > _LARGE_WAL_BYTES:
        yield warning(
            subject,
            f"{wal} has grown to {size:,} bytes.",
            "Something reads from the database without end; stop what does (dcc ui, a notebook), and it shrinks.",
        )
    yield _check_integrity(environment, subject, path)


def _check_integrity(environment: Environment, subject: str, path: Path) -> CheckFinding:
    """SQLite's own quick check, within the time left."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5, check_same_thread=False)
    connection.set_progress_handler(lambda: int(environment.seconds_left < 1), _STEPS_BETWEEN_LOOKS)
    try:
        journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
        answers = [str(row[0]) for row in connection.execute("PRAGMA quick_check(5)")]
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            return not_checked(
                subject, "It is too large for a check in this time.", f"sqlite3 {path} 'PRAGMA quick_check'"
            )
        return failed(subject, f"{path} cannot be read: {error}.", _RESTORE)
    except sqlite3.DatabaseError as error:
        return failed(subject, f"{path} is damaged: {error}.", _RESTORE)
    finally:
        connection.close()
    if answers != ["ok"]:
        return failed(subject, f"{path} is damaged: {'; '.join(answers)[:500]}.", _RESTORE)
    if journal != "wal":
        return warning(
            subject,
            f"{path} has the journal mode {journal}, in which readers and writers wait for each other.",
            "It is set to wal by the next command that writes; a file system of the network cannot have it.",
        )
    return ok(subject, "It is sound (quick_check), in the journal mode wal.")


def check_schemas(environment: Environment) -> Iterator[CheckFinding]:
    """Both databases have this version's schema; nothing of one that is missing or away, as the other check says."""
    for database in (TRACKER, QC_DATABASE):
        subject = f"{database.name} schema"
        engine = environment.engine(database)
        if file_is_missing(engine):
            continue
        try:
            require_current(engine)
        except DatabaseUnreachableError:
            continue
        except DccError as error:
            yield failed(subject, *explained(error))
        else:
            yield ok(subject, f"It is {database.head}, as this version needs.")


CONSTRAINTS: Final = Path(__file__).parents[3] / "constraints.txt"
"""The versions that this version of the platform was tested with; only a checkout has this file."""

_FEWEST_FILES: Final = 256
_WANTED_FILES: Final = 1024
_FEWEST_INODES: Final = 10_000
_CLOCK_SECONDS: Final = 5.0
_EARLIEST: Final = datetime(2026, 1, 1, tzinfo=UTC)
_OLDEST_SQLITE: Final = (3, 38, 0)
_OLDEST_PYTHON: Final = (3, 11)


def check_disks(environment: Environment) -> Iterator[CheckFinding]:
    """Disks have room, and the platform may write to its directories."""
    settings = environment.settings
    places = {"staging": settings.staging_directory, "DCC_HOME": settings.home, "temporary files": _temporary()}
    for database in (TRACKER, QC_DATABASE):
        url = environment.engine(database).url
        if url.get_backend_name() == "sqlite":
            places[database.name] = Path(str(url.database)).parent
    if settings.report_directory is not None:
        places["reports"] = settings.report_directory
    if (metrics := settings.metrics_file) is not None:
        # Alone of these folders, the platform does not make it: another program reads it.
        if metrics.parent.exists():
            places["metrics"] = metrics.parent
        else:
            advice = "Make it for the user that runs dcc, or name another file in DCC_METRICS_FILE."
            yield failed("disk of metrics", f"{metrics.parent} is missing.", advice)
    for place in dict.fromkeys(places.values()):
        subject = f"disk of {', '.join(name for name, other in places.items() if other == place)}"
        staged = place == settings.staging_directory
        yield from _check_place(subject, place, settings.min_free_bytes if staged else 0, private=staged)


def _temporary() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        return Path("/tmp")  # noqa: S108 - named in what is said of it


def _check_place(subject: str, place: Path, to_stay_free: int, *, private: bool) -> Iterator[CheckFinding]:
    existing = next(path for path in (place, *place.parents) if os.path.lexists(path))
    if not existing.exists():
        target = existing.readlink()
        yield failed(
            subject, f"{existing} is a link to {target}, which is missing.", "Mount its disk, or correct the link."
        )
        return
    if not existing.is_dir():
        yield failed(subject, f"{existing} is no directory.", "Correct the setting, or make the directory.")
        return
    try:
        write_nothing(existing)
    except OSError as error:
        # What a parent may be, as /sys, is not given to another user.
        advice = advice_on_writing(place) if existing == place else f"Make {place} for the user that runs dcc."
        if is_full(error):
            advice = "Free some space: dcc staging clean; then run the session again."
        yield failed(subject, f"{existing} cannot be written to: {error.strerror}.", advice)
        return
    mode = stat.S_IMODE(existing.stat().st_mode)
    if private and existing == place and mode & 0o077:
        yield warning(subject, f"Others may look into {place} (mode {mode:o}).", f"chmod 700 {place}")
    yield _check_room(subject, existing, to_stay_free)


def _check_room(subject: str, folder: Path, to_stay_free: int) -> CheckFinding:
    usage, inodes = shutil.disk_usage(folder), os.statvfs(folder)
    free = f"{usage.free:,} of {usage.total:,} bytes are free on the disk of {folder}"
    if usage.free == 0 and not to_stay_free:
        return failed(subject, f"{free}: nothing can be written there.", "Free some space there: df, du")
    if usage.free <= to_stay_free:
        return failed(
            subject,
            f"{free}, and {to_stay_free:,} must stay so (DCC_MIN_FREE_BYTES): nothing is downloaded.",
            "Free some space: dcc staging clean, then with --yes; or have a larger disk, and name it in DCC_STAGING.",
        )
    if inodes.f_files and inodes.f_favail < _FEWEST_INODES:
        return warning(
            subject, f"{free}, but only {inodes.f_favail:,} more files fit there.", "Remove files: dcc staging clean"
        )
    if usage.free < max(2 * to_stay_free, usage.total // 50):
        return warning(subject, f"{free}: it is nearly full.", "Free some space: dcc staging list, dcc staging clean")
    return ok(subject, f"{free}.")


def check_file_limit(_: Environment) -> Iterator[CheckFinding]:
    """Sessions may open as many files as they need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    message = f"A process may have {soft:,} files open ({hard:,} at most)."
    advice = f"Raise it: ulimit -n {_WANTED_FILES}, or LimitNOFILE={_WANTED_FILES} in the systemd unit."
    if soft >= _WANTED_FILES:
        yield ok("open files", message)
    else:
        yield (failed if soft < _FEWEST_FILES else warning)("open files", message, advice)


def check_clock(environment: Environment) -> Iterator[CheckFinding]:
    """This machine's clock agrees with those of the database servers."""
    now = datetime.now(UTC)
    zone = time.strftime("%Z %z")
    if now < _EARLIEST:
        yield failed(
            "clock", f"It is {now:%Y-%m-%d %H:%M} UTC by this machine.", "Set the clock, and run an NTP client."
        )
        return
    yield ok("clock", f"It is {now:%Y-%m-%d %H:%M:%S} UTC; the time zone here is {zone}. The platform works in UTC.")
    for database in (TRACKER, QC_DATABASE):
        if environment.engine(database).dialect.name not in MYSQL_FAMILY:
            continue
        with environment.reading(database) as connection:
            # As text, because the driver would make it a naive datetime.
            server_time = str(connection.exec_driver_sql("SELECT CAST(UTC_TIMESTAMP(6) AS CHAR)").scalar())
        away = (datetime.now(UTC).replace(tzinfo=None) - datetime.fromisoformat(server_time)).total_seconds()
        yield clock_finding(f"clock of the {database.name}'s server", away)


def clock_finding(subject: str, away: float) -> CheckFinding:
    """The finding on a clock that is `away` seconds ahead of this machine's, or behind if negative."""
    if abs(away) <= _CLOCK_SECONDS:
        return ok(subject, f"It agrees with this machine's within {abs(away):.1f} s.")
    how = "before" if away > 0 else "behind"
    return warning(
        subject,
        f"This machine's clock is {abs(away):,.0f} s {how} it.",
        "See which one is wrong, and run an NTP client there: ages, leases and schedules go by them.",
    )


def check_text(_: Environment) -> Iterator[CheckFinding]:
    """Names and messages beyond ASCII can be written."""
    of_files, of_text = sys.getfilesystemencoding(), locale.getpreferredencoding(do_setlocale=False)
    message = f"File names are in {of_files}, text is in {of_text}."
    if {_plain(of_files), _plain(of_text)} == {"utf8"}:
        yield ok("text", message)
    else:
        yield failed(
            "text", message, "Set a locale with UTF-8: LANG=C.UTF-8, or PYTHONUTF8=1, where dcc is started from."
        )


def _plain(encoding: str) -> str:
    return encoding.lower().replace("-", "")


def check_versions(_: Environment) -> Iterator[CheckFinding]:
    """The installed packages have the tested versions."""
    from lxml import etree

    yield from _check_oldest("Python", sys.version_info[:3], _OLDEST_PYTHON, platform.python_version())
    yield from _check_oldest("SQLite", sqlite3.sqlite_version_info, _OLDEST_SQLITE, sqlite3.sqlite_version)
    libxml2 = ".".join(map(str, etree.LIBXML_VERSION))
    yield ok("libraries", f"dcc {version('dcc')}, {ssl.OPENSSL_VERSION}, libxml2 {libxml2}.")
    yield from _check_packages()


def _check_oldest(
    subject: str, present: tuple[int, ...], oldest: tuple[int, ...], shown: str
) -> Iterator[CheckFinding]:
    needed = ".".join(map(str, oldest))
    if present < oldest:
        yield failed(subject, f"It is {shown}, and {needed} or later is needed.", "Install a later one.")
    else:
        yield ok(subject, f"It is {shown}; {needed} or later is needed.")


def _check_packages() -> Iterator[CheckFinding]:
    missing = sorted(name for name in _required() if _installed(name) is None)
    if missing:
        yield failed("packages", f"Not installed: {', '.join(missing)}.", "Install them: make install")
        return
    if not CONSTRAINTS.is_file():
        yield not_checked("packages", "No constraints.txt beside the platform says what was tested.")
        return
    others = [
        f"{name} {present} instead of {wanted}"
        for name, wanted in constrained(CONSTRAINTS.read_text("utf-8"))
        if (present := _installed(name)) not in (None, wanted)
    ]
    if others:
        yield warning(
            "packages",
            f"Other versions than tested: {', '.join(others[:8])}{' ...' if len(others) > 8 else ''}.",
            "Install those of constraints.txt: make install",
        )
    else:
        yield ok("packages", "The versions are those of constraints.txt.")


def constrained(text: str) -> Iterator[tuple[str, str]]:
    """The names and versions of a constraints file."""
    for line in text.splitlines():
        name, found, wanted = line.partition("==")
        if found and not line.startswith("#"):
            yield name.strip(), wanted.partition(";")[0].strip()


def _required() -> set[str]:
    """The packages that the whole platform requires, without what only other extras need."""
    lines = requires("dcc") or ()
    wanted = (line for line in lines if "extra ==" not in line or 'extra == "platform"' in line)
    return {line.partition(";")[0].split(">")[0].split("=")[0].strip() for line in wanted}


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


_ADVICE = "Install a corrected version with pip, or remove the package with pip uninstall."


_ADDED = {RULES: "the rules of", SOURCES: "the protocol", CONVERTERS: "the converter", CHANNELS: "the channel"}


def check_added(environment: Environment) -> Iterator[CheckFinding]:
    """What installed packages add can be used, and protocols have names of their own."""
    well: dict[str, list[str]] = defaultdict(list)
    channels = open_channels(environment.settings)
    faulty = set(channels.faulty)
    taken: dict[str, str] = {str(protocol): "the platform" for protocol in OPENERS}
    for group in (RULES, SOURCES, CONVERTERS):
        for package, entry in added_entries(group):
            try:
                added = load_entry(entry, group)
                if group == CONVERTERS:
                    made_converter(added)
            except ConfigurationError as error:
                yield failed(f"package {package}", str(error), _ADVICE)
                faulty.add(package)
                continue
            if group == SOURCES and len(entry.name) > LONGEST_PROTOCOL:
                yield failed(
                    f"package {package}",
                    f"Its protocol {entry.name} is never used: its name has more than {LONGEST_PROTOCOL} characters.",
                    "Give its entry point a shorter name.",
                )
                faulty.add(package)
                continue
            other = taken.setdefault(entry.name, package) if group == SOURCES else package
            if other != package:
                yield warning(
                    f"package {package}",
                    f"Its protocol {entry.name} is never used: {other} has one of that name.",
                    "Give its entry point another name.",
                )
            well[package].append(f"{_ADDED[group]} {entry.name}")
    for problem in channels.problems:
        yield failed("channels of packages", problem, _ADVICE)
    for package, entry in added_entries(CHANNELS):
        well[package].append(f"{_ADDED[CHANNELS]} {entry.name}")
    for package, added in well.items():
        if package not in faulty:
            yield ok(f"package {package}", f"It adds {', '.join(added)}.")
