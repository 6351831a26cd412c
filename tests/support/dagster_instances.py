"""A Dagster instance for an installation, and a look at it as the web page takes it."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetCheckKey,
    AssetKey,
    AssetRecordsFilter,
    DagsterInstance,
    DagsterRunStatus,
    JobDefinition,
    ScheduleDefinition,
    SensorDefinition,
    build_schedule_context,
    build_sensor_context,
)
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from pydantic import SecretStr
from sqlalchemy import Engine

from dcc.outcomes import SourceCrawl, SubmissionOutcome
from dcc.session.session_request import SessionRequest
from dcc.settings import Settings
from dcc_assets.definitions import asset_definitions
from dcc_assets.jobs import show_changes
from dcc_assets.runs import ready_made
from dcc_assets.session_in_dagster import run_session
from dcc_dagster.dagster_database import init_dagster_database, open_dagster_database
from dcc_dagster.instance import open_instance
from dcc_resources.code_location import platform_resources
from dcc_resources.databases import QcDatabaseResource, TrackerResource
from dcc_resources.session import SessionResource
from tests.support.data_installations import DataInstallation
from tests.support.environments import of_installation
from tests.support.installations import Installation

_OF_SESSIONS = "Links, seconds, transfer seconds, bytes per second, new archives, refused archives, procedures"
ONLY_OF_SESSIONS = set(_OF_SESSIONS.split(", "))
"""Metadata that are not recorded, or not as exactly."""


@cache
def _resources() -> Mapping[str, Any]:
    """Those of the code location, which makes them once too."""
    return platform_resources()


def looked(automation: SensorDefinition | ScheduleDefinition, instance: DagsterInstance | None = None) -> Any:
    """What a sensor or schedule answers to one look, with those resources of the code location that it asks for."""
    needed = automation.required_resource_keys
    # That of sessions takes its values from the others.
    resources = {name: one for name, one in _resources().items() if name in needed or SessionResource.key in needed}
    if isinstance(automation, SensorDefinition):
        with build_sensor_context(instance=instance, resources=resources) as looking:
            return automation(looking)
    with build_schedule_context(instance=instance, resources=resources) as due:
        return automation(due)


@dataclass
class Dagster:
    """A Dagster instance, and what it shows."""

    instance: DagsterInstance

    def session(self, of: Installation | DataInstallation, **wanted: Any) -> None:
        """A session of an installation, which is shown here; `wanted` is what a SessionRequest may have."""
        run_session(of.settings, of.tracker, self.instance, SessionRequest(**wanted))

    def materialised(self, asset: str) -> set[str]:
        return self.instance.get_materialized_partitions(AssetKey(asset))

    def metadata(self, asset: str, partition: str) -> dict[str, Any]:
        """The metadata of the newest materialisation of a partition of an asset, as plain values."""
        wanted = AssetRecordsFilter(AssetKey(asset), asset_partitions=[partition])
        (record,) = self.instance.fetch_materializations(wanted, limit=1).records
        assert record.asset_materialization is not None
        return {
            name: [dict(row.data) for row in value.records] if hasattr(value, "records") else value.value
            for name, value in record.asset_materialization.metadata.items()
        }

    def facts(self, *assets: str) -> dict[tuple[str, str], dict[str, Any]]:
        """The metadata of all partitions of these assets, without those that only a session knows."""
        return {
            (asset, partition): {
                name: value for name, value in self.metadata(asset, partition).items() if name not in ONLY_OF_SESSIONS
            }
            for asset in assets
            for partition in self.materialised(asset)
        }

    def checks(self, check: AssetCheckKey) -> dict[str | None, str]:
        """The latest result of a check for each partition that has one."""
        words = {
            AssetCheckExecutionRecordStatus.FAILED: "failed",
            AssetCheckExecutionRecordStatus.SUCCEEDED: "passed",
            AssetCheckExecutionRecordStatus.PLANNED: "planned",
        }
        infos = self.instance.event_log_storage.get_asset_check_partition_info([check])
        return {info.partition_key: words[info.latest_execution_status] for info in infos}

    def evaluation(self, check: AssetCheckKey, partition: str) -> Any:
        """The latest evaluation of a check for a partition."""
        for record in self.instance.event_log_storage.get_asset_check_execution_history(check, limit=1000):
            if record.partition == partition and record.event is not None:
                return record.event.dagster_event.event_specific_data
        raise LookupError(partition)

    def materialise(self, job: JobDefinition, partition: str, *assets: str) -> DagsterRunStatus:
        """What the Materialize button of the web page does, for one partition."""
        result = job.execute_in_process(
            instance=self.instance,
            partition_key=partition,
            asset_selection=[AssetKey(asset) for asset in assets],
            raise_on_error=False,
        )
        return self.instance.get_run_by_id(result.run_id).status  # type: ignore[union-attr]

    def statuses(self) -> list[DagsterRunStatus]:
        return [run.status for run in self.instance.get_runs()]


@pytest.fixture
def settings(settings: Settings, dagster_url: str | None) -> Settings:
    """Those of all tests, with Dagster's storage on the same kind of database as the tracker."""
    return settings if dagster_url is None else settings.model_copy(update={"dagster_url": SecretStr(dagster_url)})


@pytest.fixture(scope="session")
def prepared_dagster_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a new Dagster instance that keeps files, to be copied: to make one takes a second."""
    settings = Settings(home=tmp_path_factory.mktemp("dagster"), tracker_url=None, qc_url=None, dagster_url=None)
    with open_instance(settings):
        pass
    return settings.dagster_home


def put_prepared(prepared: Path, settings: Settings) -> None:
    """Have the instance of `settings` there already, where it keeps files."""
    if settings.dagster_url is None:
        shutil.copytree(prepared, settings.dagster_home, dirs_exist_ok=True)


@pytest.fixture
def dagster_made(settings: Settings, prepared_dagster_home: Path) -> None:
    """For a test whose sessions open the instance themselves: it is there, without an event."""
    put_prepared(prepared_dagster_home, settings)


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    """An instance that keeps nothing."""
    with DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def dagster(installation: Installation, prepared_dagster_home: Path) -> Iterator[Dagster]:
    """The installation's Dagster instance, as `dcc crawl` opens it."""
    put_prepared(prepared_dagster_home, installation.settings)
    with open_instance(installation.settings) as instance:
        yield Dagster(instance)


@pytest.fixture
def asset_job(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> JobDefinition:
    """The job behind the Materialize button, in an environment that names the installation, or the one of `data`."""
    has_data = "data" in request.fixturenames
    named = request.getfixturevalue("data").base if has_data else request.getfixturevalue("installation")
    set_environment(named, monkeypatch)
    return asset_definitions().resolve_implicit_global_asset_job_def()


def set_environment(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process's environment name the installation, as that of Dagster's own processes does."""
    settings = installation.settings
    variables = of_installation(settings) | {"DCC_STAGING": str(settings.staging_directory)}
    if settings.dagster_url is not None:
        variables["DCC_DAGSTER_URL"] = settings.dagster_url.get_secret_value()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def lose_instance(settings: Settings) -> None:
    """Lose the Dagster instance: its directory and, where it has one, its database, which is made anew and empty."""
    shutil.rmtree(settings.dagster_home)
    if settings.dagster_url is None:
        return
    url = settings.dagster_url.get_secret_value()
    engine = open_dagster_database(url)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {engine.url.database}")
    engine.dispose()
    init_dagster_database(url)


@dataclass
class Heard:
    """What a session told its caller."""

    crawls: list[SourceCrawl]
    zips: list[SubmissionOutcome]

    @property
    def by_zip(self) -> Mapping[str, SubmissionOutcome]:
        """The outcomes by `<action>/<file name>`."""
        return {str(outcome.key): outcome for outcome in self.zips}


@pytest.fixture
def heard() -> Heard:
    return Heard([], [])


@pytest.fixture
def data_dagster(data: DataInstallation, prepared_dagster_home: Path) -> Iterator[Dagster]:
    """The Dagster instance of an installation with a QC database."""
    put_prepared(prepared_dagster_home, data.settings)
    with open_instance(data.settings) as instance:
        yield Dagster(instance)


def show_changed_data(settings: Settings, tracker: Engine, instance: DagsterInstance) -> None:
    """Have an instance show what was changed beside sessions."""
    with QcDatabaseResource.of(settings).opened() as qc_database:
        resources = {
            TrackerResource.key: ready_made(TrackerResource.holding(settings, tracker)),
            QcDatabaseResource.key: ready_made(qc_database),
        }
        show_changes.execute_in_process(instance=instance, resources=resources)
