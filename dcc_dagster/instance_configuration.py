"""The `dagster.yaml` of an installation: written once, then the operator's, and consistent with DCC_DAGSTER_URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

from dcc.errors import ConfigurationError, DagsterStorageError
from dcc.runtime.private_files import (
    PRIVATE_FILE,
    keep_earlier,
    make_directory,
    remove_access_of_others,
    replacement_file,
)
from dcc.settings import Settings
from dcc_dagster.earlier_configuration import bring_up_to_date

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

# Python's warnings of the platform appear in a run's events. What it tells of its progress (dcc.sessions, dcc.crawling
# and so on) does not: it goes to the log alone.
python_logs:
  managed_python_loggers:
    - dcc.archives
    - dcc.databases
    - dcc.documents
    - dcc.notify
    - dcc.operations
    - dcc.qc
    - dcc.reference
    - dcc.reports
    - dcc.rules
    - dcc.runtime
    - dcc.session
    - dcc.sources
    - dcc.store
    - dcc.tracker
    - dcc_assets
    - dcc_dagster
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


def prepare_dagster_home(settings: Settings) -> Path:
    """Make the instance's directory with its `dagster.yaml`, unless they exist; returns the directory.

    A file of an earlier version is updated. Raises DagsterStorageError, and ConfigurationError if `dagster.yaml` and
    DCC_DAGSTER_URL contradict each other.
    """
    home = settings.dagster_home
    write_configuration(settings)
    bring_up_to_date(home / CONFIGURATION_FILE)
    _require_agreement(home / CONFIGURATION_FILE, settings)
    return home


def configuration_path(settings: Settings) -> Path:
    """The path of an installation's `dagster.yaml`."""
    return settings.dagster_home / CONFIGURATION_FILE


def write_configuration(settings: Settings, *, replace: bool = False) -> Path | None:
    """Write a `dagster.yaml` for the settings if there is none.

    An existing one stays; with `replace` it is kept under another name, whose path is returned. Raises
    DagsterStorageError.
    """
    path = configuration_path(settings)
    kept: Path | None = None
    try:
        make_directory(path.parent)
        remove_access_of_others(path.parent)
        if path.exists():
            if not replace:
                return None
            kept = keep_earlier(path)
        storage = _SQLITE if settings.dagster_url is None else _DATABASE
        with replacement_file(path, PRIVATE_FILE) as draft:
            draft.write_text(_BEGINNING + storage + _END, "utf-8")
    except OSError as error:
        raise DagsterStorageError(
            f"The directory of the Dagster instance, {path.parent}, could not be made ({error}). See to the "
            "permissions and the disk, or set DCC_HOME to another place."
        ) from error
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
