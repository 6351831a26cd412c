"""The Dagster instance of an installation: where it is kept, and how it is set up.

It lives in `DCC_HOME/dagster` and only mirrors the tracker: it may be deleted and rebuilt (`rebuilding`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dagster import DagsterInstance
from dagster._core.instance.ref import InstanceRef

from dcc_assets.data_catalogue import QC_DATABASE_POOL
from dcc_resources.errors import DagsterStorageError
from dcc_resources.settings import Settings

if TYPE_CHECKING:
    from dagster._core.instance import DagsterInstanceOverrides

CONFIGURATION_FILE: Final = "dagster.yaml"

_CONFIGURATION: Final = """\
# The Dagster instance of the data coordination platform, written once by `dcc`; yours to change.

# Nothing about this installation is sent to anyone, and the web page does not ask for an e-mail address.
telemetry:
  enabled: false
nux:
  enabled: false

# Dagster's SQLite event log, with its engines kept and events stored in batches (dcc_assets/event_storage.py).
event_log_storage:
  module: dcc_assets.event_storage
  class: BatchingSqliteEventLogStorage

# One crawling session at a time: what is asked for meanwhile waits in Dagster's queue. The pool of the QC database, as
# any other, has one place: its steps come one after the other, whatever starts them.
concurrency:
  runs:
    max_concurrent_runs: 1
  pools:
    granularity: op
    default_limit: 1

# Python's log messages of the platform appear in a run's events.
python_logs:
  managed_python_loggers: [dcc_resources, dcc_assets]
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
    """Make the instance's directory with its `dagster.yaml`, unless they are there; returns the directory.

    Raises DagsterStorageError.
    """
    home = settings.dagster_home
    configuration = home / CONFIGURATION_FILE
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not configuration.exists():
            configuration.write_text(_CONFIGURATION, "utf-8")
    except OSError as error:
        raise DagsterStorageError(
            f"The directory of the Dagster instance, {home}, could not be made ({error}). See to the permissions and "
            "the disk, or set DCC_HOME to another place."
        ) from error
    return home


def open_instance(settings: Settings) -> DagsterInstance:
    """The Dagster instance, for runs in this process; a context manager that closes it.

    Its pool of the QC database has one place, also in an instance that was made without. Whatever the process prints
    stays its own: the output of steps is not captured. Raises DagsterStorageError.
    """
    home = prepare_dagster_home(settings)
    overrides: DagsterInstanceOverrides = {
        "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
    }
    try:
        # The class's own default needs DAGSTER_HOME, which is set for Dagster's processes, not for this one.
        with _dagster_home(home):
            instance = DagsterInstance.from_ref(InstanceRef.from_dir(str(home), overrides=overrides))
        _make_pool(instance)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise DagsterStorageError(
            f"The Dagster instance in {home} could not be opened ({reason}). Correct its {CONFIGURATION_FILE}, or "
            "delete the directory and rebuild it from the tracker: dcc instance rebuild."
        ) from error
    else:
        return instance


def _make_pool(instance: DagsterInstance) -> None:
    storage = instance.event_log_storage
    if QC_DATABASE_POOL not in storage.get_concurrency_keys():
        storage.set_concurrency_slots(QC_DATABASE_POOL, 1)


@contextmanager
def _dagster_home(home: Path) -> Iterator[None]:
    before = os.environ.get("DAGSTER_HOME")
    os.environ["DAGSTER_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["DAGSTER_HOME"]
        else:
            os.environ["DAGSTER_HOME"] = before
