"""The Dagster instance of an installation: its place and set-up.

It is in `DCC_HOME/dagster`, and in the database of DCC_DAGSTER_URL if that is set. It only mirrors the tracker: it may
be deleted and rebuilt (`dcc_assets.sync.rebuild`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dagster import DagsterInstance
from dagster._core.instance.ref import InstanceRef

from dcc.errors import DagsterStorageError, DagsterUnreachableError, DccError
from dcc.runtime.disk_space import comes_from_full_disk, no_space_left
from dcc.runtime.private_files import PRIVATE_FILE
from dcc.settings import Settings
from dcc_dagster.instance_configuration import CONFIGURATION_FILE, write_configuration
from dcc_dagster.sqlite_instance import are_complete, complete_files, migrate_rows

if TYPE_CHECKING:
    from dagster._core.instance import DagsterInstanceOverrides

QC_DATABASE_POOL: Final = "qc_database"
"""The concurrency pool of the steps that write to the QC database: one at a time, in any run."""

_OPENING_LOCK: Final = "opening.lock"


def open_instance(settings: Settings, more: DagsterInstanceOverrides | None = None) -> DagsterInstance:
    """The Dagster instance, for runs in this process; a context manager that closes it.

    It follows its `dagster.yaml` and `more`. Its pool of the QC database has one place, even if the instance was made
    without. The output of steps is not captured. Raises DagsterStorageError, its subclass DagsterUnreachableError if
    Dagster's database is away, DagsterStorageOutdatedError, DatabaseServerUnfitError and ConfigurationError.
    """
    home = settings.dagster_home
    overrides: DagsterInstanceOverrides = {
        "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"},
        **(more or {}),
    }
    try:
        # The class's own default needs DAGSTER_HOME, which is set for Dagster's processes, not for this one.
        write_configuration(settings)
        require_dagster_database(settings)
        with _alone_at(home), _environment(settings):
            rows_wait = complete_files(home)
            instance = DagsterInstance.from_ref(InstanceRef.from_dir(str(home), overrides=overrides))
            if rows_wait:
                migrate_rows(instance)
            if QC_DATABASE_POOL not in instance.event_log_storage.get_concurrency_keys():
                instance.event_log_storage.set_concurrency_slots(QC_DATABASE_POOL, 1)
    except DccError:
        raise
    except Exception as error:
        if comes_from_full_disk(error, home):
            raise DagsterUnreachableError(
                f"The Dagster instance in {home} cannot be used: {no_space_left(home)}. Free some space there, then "
                "run the command again."
            ) from error
        if isinstance(error, OSError) and error.filename is not None:
            raise DagsterStorageError(
                f"The Dagster instance in {home} could not be opened: {error.filename} cannot be used "
                f"({error.strerror}). See to the disk, and that all files there belong to the user that runs dcc."
            ) from error
        reason = " ".join(str(error).split())
        raise DagsterStorageError(
            f"The Dagster instance in {home} could not be opened ({reason}). Correct its {CONFIGURATION_FILE}, or "
            "delete the directory and rebuild it from the tracker: dcc instance rebuild."
        ) from error
    else:
        return instance


def make_instance(settings: Settings) -> None:
    """Make the Dagster instance, or its missing parts, before several processes of Dagster open it.

    Raises as `open_instance`.
    """
    write_configuration(settings)
    if settings.dagster_url is not None:
        require_dagster_database(settings)
    elif not are_complete(settings.dagster_home):
        with open_instance(settings):
            pass


@contextmanager
def _alone_at(home: Path) -> Iterator[None]:
    """Wait until no other command opens the instance: Dagster makes its SQLite files as if it were alone."""
    descriptor = os.open(home / _OPENING_LOCK, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def require_dagster_database(settings: Settings) -> None:
    """Raise unless Dagster's database, if any, is reachable and has the tables of the installed Dagster.

    Raises DagsterUnreachableError, DagsterStorageOutdatedError, DatabaseServerUnfitError and ConfigurationError.
    """
    if settings.dagster_url is None:
        return
    from dcc.databases.engines import disposed
    from dcc_dagster.dagster_database import open_dagster_database, require_current

    with disposed(open_dagster_database(settings.dagster_url.get_secret_value())) as engine:
        require_current(engine)


def storage_place(settings: Settings) -> str:
    """What to check when Dagster's storage fails, for messages: its database, without the password, or its disk."""
    if settings.dagster_url is None:
        return f"the disk of {settings.dagster_home}"
    from dcc.databases.engines import database_label
    from dcc_dagster.dagster_database import DAGSTER, open_dagster_database

    engine = open_dagster_database(settings.dagster_url.get_secret_value())
    return f"the {DAGSTER.name} {database_label(engine.url)}"


def dagster_environment(settings: Settings) -> dict[str, str]:
    """The environment variables by which Dagster's processes find the instance."""
    variables = {
        "DCC_HOME": str(settings.home),
        "DAGSTER_HOME": str(settings.dagster_home),
        "DCC_DATABASE_RETRY": str(settings.database_retry),
        # Else a file such as yaml.py in the working directory would be imported in the place of the library.
        "PYTHONSAFEPATH": "1",
    }
    if settings.dagster_url is not None:
        variables["DCC_DAGSTER_URL"] = settings.dagster_url.get_secret_value()
    return variables


@contextmanager
def _environment(settings: Settings) -> Iterator[None]:
    wanted = dagster_environment(settings)
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
