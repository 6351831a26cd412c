"""The `dagster.yaml` of an installation: written once, then the operator's, and consistent with DCC_DAGSTER_URL.

Dagster's processes load the modules that it names. So in a file of an earlier version, names that have moved since are
replaced; everything else, which may be the operator's, stays byte for byte.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

from dcc.errors import ConfigurationError, DagsterStorageError
from dcc.runtime.logging_setup import NOTICE
from dcc.runtime.private_files import (
    PRIVATE_FILE,
    keep_earlier,
    make_directory,
    remove_access_of_others,
    replacement_file,
)
from dcc.settings import Settings

log = logging.getLogger(__name__)

CONFIGURATION_FILE: Final = "dagster.yaml"

_URL_VARIABLE: Final = "DCC_DAGSTER_URL"
_BEGINNING: Final = """\
# The Dagster instance of the data coordination platform, written once by `dcc`; yours to change.

# Nothing about this installation is sent to anyone, and the web page does not ask for an e-mail address.
telemetry:
  enabled: false
nux:
  enabled: false

"""
_SQLITE: Final = """\
# Dagster's SQLite event log, with its engines kept and events stored in batches (dcc_dagster/event_storage.py).
event_log_storage:
  module: dcc_dagster.event_storage
  class: BatchingSqliteEventLogStorage

"""
_DATABASE: Final = """\
# Runs, events, schedules and their ticks are kept in the MySQL or MariaDB database that DCC_DAGSTER_URL names; every
# process of Dagster needs that variable, and this file holds no password. The class is Dagster's own storage with
# connections that are kept, events stored in batches, and patience with a server that restarts
# (dcc_dagster/mysql_storage.py). Its tables are made by `dcc init --production`.
storage:
  custom:
    module: dcc_dagster.mysql_storage
    class: PatientMysqlStorage
    config:
      mysql_url:
        env: DCC_DAGSTER_URL

"""
_END: Final = """\
# One crawling session at a time: what is asked for meanwhile waits in Dagster's queue. The pool of the QC database, as
# any other, has one place: its steps come one after the other, whatever starts them.
concurrency:
  runs:
    max_concurrent_runs: 1
  pools:
    granularity: op
    default_limit: 1

# Python's warnings of the platform appear in a run's events. What it tells of its progress (dcc.sessions,
# dcc.source_crawls and so on) does not: it goes to the log alone.
python_logs:
  managed_python_loggers: [
      dcc.archives, dcc.databases, dcc.documents, dcc.notify, dcc.operations, dcc.qc, dcc.reference, dcc.reports,
      dcc.rules, dcc.runtime, dcc.session, dcc.sources, dcc.store, dcc.tracker, dcc_assets, dcc_dagster,
    ]
  python_log_level: WARNING

# Ticks are kept for so many days.
retention:
  schedule:
    purge_after_days: 90
  sensor:
    purge_after_days:
      skipped: 1
      failure: 30
      success: 90
"""


_MOVED_MODULE: Final = re.compile(r"""(\bmodule["']?\s*:\s*["']?)dcc_assets\.((?:event|mysql)_storage)\b""")
_LOGGERS: Final = re.compile(r"""managed_python_loggers["']?\s*:(?:\s*\[[^]]*]|(?:\s*-[ \t]+\S+)+)""")
_FORMER_LOGGER: Final = re.compile(r"\bdcc_resources(?![\w.])")
# The item, with what divides it from the one before.
_DIVIDED_LOGGER: Final = re.compile(r"""(,[ \t]*|\s*-[ \t]+)(["']?)dcc_assets\2(?![\w.])""")


def configuration_path(settings: Settings) -> Path:
    """The path of an installation's `dagster.yaml`."""
    return settings.dagster_home / CONFIGURATION_FILE


def write_configuration(settings: Settings, *, replace: bool = False) -> Path | None:
    """Make the instance's directory with a `dagster.yaml` for the settings, unless there is one.

    An existing one is brought up to date; with `replace` it is kept under another name, whose path is returned. Raises
    DagsterStorageError, and ConfigurationError if `dagster.yaml` and DCC_DAGSTER_URL contradict each other.
    """
    path = configuration_path(settings)
    kept: Path | None = None
    try:
        make_directory(path.parent)
        remove_access_of_others(path.parent)
        if replace and path.exists():
            kept = keep_earlier(path)
        if replace or not path.exists():
            storage = _SQLITE if settings.dagster_url is None else _DATABASE
            with replacement_file(path, PRIVATE_FILE) as draft:
                draft.write_text(_BEGINNING + storage + _END, "utf-8")
    except OSError as error:
        raise DagsterStorageError(
            f"The directory of the Dagster instance, {path.parent}, could not be made ({error}). See to the "
            "permissions and the disk, or set DCC_HOME to another place."
        ) from error
    bring_up_to_date(path)
    _require_agreement(path, settings)
    return kept


def _require_agreement(path: Path, settings: Settings) -> None:
    try:
        configuration = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        # Dagster reports errors in it.
        return
    uses_database = _names_variable(configuration)
    if uses_database and settings.dagster_url is None:
        raise ConfigurationError(
            f"{path} has Dagster keep everything in the database that {_URL_VARIABLE} names, and that is not set. Set "
            "it: mysql://user:password@host/phenodcc_dagster. Or remove the file, to have Dagster on SQLite again: the "
            "next command writes another, and dcc instance rebuild fills it."
        )
    if not uses_database and settings.dagster_url is not None:
        raise ConfigurationError(
            f"{_URL_VARIABLE} is set, but {path}, which was there before, does not use it. Have a new one written with "
            "dcc init --production --force, which keeps the old one beside it, or unset the variable."
        )


def _names_variable(configuration: Any) -> bool:
    if isinstance(configuration, dict):
        return configuration.get("env") == _URL_VARIABLE or any(map(_names_variable, configuration.values()))
    return isinstance(configuration, list) and any(map(_names_variable, configuration))


def bring_up_to_date(path: Path) -> None:
    """Replace moved names in a `dagster.yaml`, in one step, and log it; no effect without such names.

    Raises DagsterStorageError if Dagster cannot work with the file as it is, and it cannot be changed.
    """
    text, updated, names = _moved(path)
    if not names:
        return
    try:
        _replace(path.resolve(), updated)
    except OSError as error:
        message = (
            f"{path} names what was moved by this version ({', '.join(names)}), and could not be changed ({error})."
        )
        modules = [f"dcc_assets.{name} to dcc_dagster.{name}" for _, name in _MOVED_MODULE.findall(text)]
        if modules:
            advice = f"See to its permissions, or change {' and '.join(modules)} in it yourself."
            raise DagsterStorageError(f"{message} {advice}") from error
        log.warning("%s Change dcc_resources in it to dcc yourself.", message, extra={NOTICE: True})
        return
    message = f"{path} was brought up to date: it named {', '.join(names)}, which this version has moved."
    log.warning("%s", message, extra={NOTICE: True})


def moved_names(path: Path) -> list[str]:
    """The names in a `dagster.yaml` that `bring_up_to_date` would replace."""
    return _moved(path)[-1]


def _moved(path: Path) -> tuple[str, str, list[str]]:
    """The text of a file, as it must become, and the names that differ; Dagster reports a file that cannot be read."""
    try:
        # Not by read_text, which would change the line ends.
        text = path.read_bytes().decode("utf-8")
    except (OSError, ValueError):
        return "", "", []
    with_loggers = _LOGGERS.sub(_present_loggers, text)
    names = [f"dcc_assets.{name}" for _, name in _MOVED_MODULE.findall(text)]
    names += [] if with_loggers == text else ["dcc_resources"]
    return text, _MOVED_MODULE.sub(r"\1dcc_dagster.\2", with_loggers), names


def _present_loggers(found: re.Match[str]) -> str:
    """A list of loggers: the library's is renamed, and that of the assets is two."""
    loggers = found.group()
    if not _FORMER_LOGGER.search(loggers) or re.search(r"\bdcc(?![\w.])", loggers):
        return loggers
    if "dcc_dagster" not in loggers:
        loggers = _DIVIDED_LOGGER.sub(r"\g<0>\1\2dcc_dagster\2", loggers)
    return _FORMER_LOGGER.sub("dcc", loggers)


def _replace(path: Path, text: str) -> None:
    """Replace a file's text; its owner and permissions stay. Raises OSError."""
    before = path.stat()
    if not os.access(path, os.W_OK):
        raise PermissionError(f"it is not writable for user {os.geteuid()}")
    with replacement_file(path, stat.S_IMODE(before.st_mode)) as draft:
        draft.write_bytes(text.encode())
        if (before.st_uid, before.st_gid) != (draft.stat().st_uid, draft.stat().st_gid):
            os.chown(draft, before.st_uid, before.st_gid)
        draft.chmod(stat.S_IMODE(before.st_mode))
