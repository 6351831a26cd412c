"""Checks of the machine: disks, limits, clock and text encoding."""

from __future__ import annotations

import locale
import os
import resource
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from dcc.databases.columns import MYSQL_FAMILY
from dcc.messages import byte_size
from dcc.operations.doctor.checks import CheckFinding, Environment, failed, ok, warning
from dcc.qc.database import QC_DATABASE
from dcc.runtime.disk_space import advice_on_writing, is_full
from dcc.runtime.private_files import write_nothing
from dcc.tracker.database import TRACKER

_FEWEST_FILES: Final = 256
_WANTED_FILES: Final = 1024
_FEWEST_INODES: Final = 10_000
_CLOCK_SECONDS: Final = 5.0
_EARLIEST: Final = datetime(2026, 1, 1, tzinfo=UTC)


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
    free = f"{byte_size(usage.free)} of {byte_size(usage.total)} are free on the disk of {folder}"
    if usage.free == 0 and not to_stay_free:
        return failed(subject, f"{free}: nothing can be written there.", "Free some space there: df, du")
    if usage.free <= to_stay_free:
        return failed(
            subject,
            f"{free}, and {byte_size(to_stay_free)} must stay so (DCC_MIN_FREE_BYTES): nothing is downloaded.",
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
    if {encoding.lower().replace("-", "") for encoding in (of_files, of_text)} == {"utf8"}:
        yield ok("text", message)
    else:
        yield failed(
            "text", message, "Set a locale with UTF-8: LANG=C.UTF-8, or PYTHONUTF8=1, where dcc is started from."
        )
