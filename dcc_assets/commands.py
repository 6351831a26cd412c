"""Dagster for the commands of `dcc` (`dcc.cli.shell.dagster_side`); each function imports what it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dagster import DagsterInstance
    from sqlalchemy import Engine

    from dcc.cli.shell.dagster_side import DagsterSide
    from dcc.databases.schema import InitReport
    from dcc.operations.doctor.checks import DoctorCheck
    from dcc.session.batches.exchange import Workers
    from dcc.session.session_request import SessionRequest
    from dcc.settings import Settings
    from dcc_assets import commands
    from dcc_assets.session_in_dagster import FinishedSession
    from dcc_assets.sync.rebuild import RebuildReport

    _is_what_commands_ask_for: DagsterSide = commands


def run_session(
    settings: Settings, tracker: Engine, instance: DagsterInstance, request: SessionRequest
) -> FinishedSession:
    """See `dcc_assets.session_in_dagster`."""
    from dcc_assets import session_in_dagster

    return session_in_dagster.run_session(settings, tracker, instance, request)


def workers_of(settings: Settings) -> Workers | None:
    """See `dcc_assets.batches`."""
    from dcc_assets import batches

    return batches.workers_of(settings)


def require_crawl_intervals(settings: Settings) -> None:
    """See `dcc_dagster.crawl_intervals`."""
    from dcc_dagster import crawl_intervals

    crawl_intervals.require_crawl_intervals(settings)


def open_instance(settings: Settings) -> DagsterInstance:
    """See `dcc_dagster.instance`."""
    from dcc_dagster import instance

    return instance.open_instance(settings)


def make_instance(settings: Settings) -> None:
    """See `dcc_dagster.instance`."""
    from dcc_dagster import instance

    instance.make_instance(settings)


def dagster_environment(settings: Settings) -> dict[str, str]:
    """See `dcc_dagster.instance`."""
    from dcc_dagster import instance

    return instance.dagster_environment(settings)


def rebuild_instance(
    settings: Settings, tracker: Engine, instance: DagsterInstance, progress: Callable[[str], None] | None
) -> RebuildReport:
    """See `dcc_assets.sync.rebuild`."""
    from dcc_assets.sync import rebuild

    return rebuild.rebuild_instance(settings, tracker, instance, progress)


def init_dagster_database(url: str) -> InitReport:
    """See `dcc_dagster.dagster_database`."""
    from dcc_dagster import dagster_database

    return dagster_database.init_dagster_database(url)


def configuration_path(settings: Settings) -> Path:
    """See `dcc_dagster.instance_configuration`."""
    from dcc_dagster import instance_configuration

    return instance_configuration.configuration_path(settings)


def upgrade_instance(settings: Settings) -> None:
    """Bring the instance's `dagster.yaml` up to date, and complete its SQLite files; the first session makes an
    instance.
    """
    if not settings.dagster_home.is_dir():
        return
    from dcc_dagster.instance_configuration import bring_up_to_date, configuration_path

    bring_up_to_date(configuration_path(settings))
    if settings.dagster_url is None:
        from dcc_dagster.instance import make_instance
        from dcc_dagster.sqlite_instance import are_complete

        if not are_complete(settings.dagster_home):
            make_instance(settings)


def daemon_beats(instance: DagsterInstance, since: float) -> bool:
    """Whether each part of the daemon that the instance needs has reported since a time, in Unix seconds."""
    beating = {kind for kind, beat in instance.get_daemon_heartbeats().items() if beat.timestamp >= since}
    return beating >= set(instance.get_required_daemon_types())


def last_daemon_beat(instance: DagsterInstance) -> float | None:
    """When a part of the daemon reported last, in Unix seconds by the clock of its machine; None if none ever did."""
    return max((beat.timestamp for beat in instance.get_daemon_heartbeats().values()), default=None)


def pending_changes(settings: Settings) -> list[str]:
    """What `dcc init` would change of Dagster's storage and `dagster.yaml`, a sentence each."""
    from dcc.errors import DagsterStorageOutdatedError
    from dcc_dagster.instance import require_dagster_database
    from dcc_dagster.instance_configuration import configuration_path, moved_names

    path = configuration_path(settings)
    moved = moved_names(path)
    changes = [f"{path} names what this version has moved ({', '.join(moved)}): dcc init corrects it."] if moved else []
    try:
        require_dagster_database(settings)
    except DagsterStorageOutdatedError as error:
        changes.append(str(error))
    return changes


def write_configuration(settings: Settings, *, replace: bool = False) -> Path | None:
    """Write `dagster.yaml` if there is none, or replace it with `replace`, and check that it fits the settings.

    Returns the path of the kept copy of a replaced file. Raises ConfigurationError and DagsterStorageError.
    """
    from dcc_dagster import instance_configuration

    kept = instance_configuration.write_configuration(settings, replace=replace)
    instance_configuration.prepare_dagster_home(settings)
    return kept


def doctor_checks() -> Sequence[DoctorCheck]:
    """The checks of `dcc doctor` that look at Dagster."""
    from dcc_assets.doctor import DAGSTER_CHECKS

    return DAGSTER_CHECKS


def doctor_depths() -> DoctorCheck:
    """The check of `dcc doctor --deep`, which compares Dagster with both databases."""
    from dcc_assets.doctor import DEPTHS

    return DEPTHS
