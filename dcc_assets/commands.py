"""Dagster for the commands of `dcc` (`dcc.cli.shell.dagster_side`); each function imports what it needs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dagster import DagsterInstance

    from dcc.cli.shell.dagster_side import DagsterSide
    from dcc.settings import Settings
    from dcc_assets import commands
    from dcc_assets.batches import workers_of as workers_of
    from dcc_assets.doctor import dagster_checks as dagster_checks
    from dcc_assets.doctor import deep_check as deep_check
    from dcc_assets.session_in_dagster import run_session as run_session
    from dcc_assets.sync.rebuild import rebuild_instance as rebuild_instance
    from dcc_dagster.crawl_intervals import require_crawl_intervals as require_crawl_intervals
    from dcc_dagster.dagster_database import init_dagster_database as init_dagster_database
    from dcc_dagster.instance import dagster_environment as dagster_environment
    from dcc_dagster.instance import make_instance as make_instance
    from dcc_dagster.instance import open_instance as open_instance
    from dcc_dagster.instance_configuration import configuration_path as configuration_path
    from dcc_dagster.instance_configuration import write_configuration as write_configuration

    _is_what_commands_ask_for: DagsterSide = commands

_MODULES: Final = {
    "dagster_checks": "dcc_assets.doctor",
    "deep_check": "dcc_assets.doctor",
    "configuration_path": "dcc_dagster.instance_configuration",
    "dagster_environment": "dcc_dagster.instance",
    "init_dagster_database": "dcc_dagster.dagster_database",
    "make_instance": "dcc_dagster.instance",
    "open_instance": "dcc_dagster.instance",
    "rebuild_instance": "dcc_assets.sync.rebuild",
    "require_crawl_intervals": "dcc_dagster.crawl_intervals",
    "run_session": "dcc_assets.session_in_dagster",
    "workers_of": "dcc_assets.batches",
    "write_configuration": "dcc_dagster.instance_configuration",
}
"""The modules of what commands use as it is."""


def __getattr__(name: str) -> object:
    """What another module has, which is imported now."""
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(importlib.import_module(_MODULES[name]), name)


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
