"""With Dagster's own storages in `dagster.yaml`, and no class of dcc_dagster, everything is shown as with ours."""

from collections.abc import Iterator

import pytest
from dagster import DagsterRunStatus, JobDefinition
from dagster_mysql import MySQLEventLogStorage, MySQLRunStorage
from pydantic import SecretStr
from sqlalchemy import make_url

from dcc.settings import Settings
from dcc_assets.graph import CHECK_OF_GROUP, CHECK_OF_PHASE, UPLOAD_CHECK
from dcc_assets.sync.consistency import check_events
from dcc_assets.sync.rebuild import rebuild_instance
from dcc_dagster.event_batches import remove_partitions
from dcc_dagster.instance import open_instance
from dcc_dagster.instance_configuration import configuration_path, write_configuration
from tests.support.dagster_instances import Dagster, set_environment
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens
from tests.support.shown_installations import GOOD, ORPHANS, put_orphans

NO_ARCHIVE = "add/H.2013-10-31.3.impc.zip"
_, _, _, UNZIP, _, _ = CHECK_OF_PHASE.values()

ON_SQLITE = "telemetry:\n  enabled: false\n"
ON_A_SERVER = ON_SQLITE + "storage:\n  mysql:\n    mysql_url:\n      env: DCC_DAGSTER_URL\n"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Those of all tests, with a URL that Dagster's own classes take: they want to be told of a driver."""
    if settings.dagster_url is None:
        return settings
    url = make_url(settings.dagster_url.get_secret_value()).set(drivername="mysql+mysqlconnector")
    return settings.model_copy(update={"dagster_url": SecretStr(url.render_as_string(hide_password=False))})


@pytest.fixture
def own(data: DataInstallation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dagster]:
    """An instance of Dagster's own classes, on the kind of database that the tracker is on."""
    settings = data.settings
    set_environment(data.base, monkeypatch)
    settings.dagster_home.mkdir(parents=True, exist_ok=True)
    configuration = configuration_path(settings)
    configuration.write_text(ON_SQLITE if settings.dagster_url is None else ON_A_SERVER)
    with open_instance(settings) as instance:
        used = [instance.run_storage, instance.event_log_storage, instance.schedule_storage]
        assert {type(storage).__module__.split(".")[0] for storage in used} <= {"dagster", "dagster_mysql"}
        if settings.dagster_url is not None:
            assert isinstance(instance.event_log_storage, MySQLEventLogStorage)
            assert isinstance(instance.run_storage, MySQLRunStorage)
        yield Dagster(instance)
    write_configuration(settings)
    assert configuration.read_text() in (ON_SQLITE, ON_A_SERVER)


def test_a_session_is_shown_taken_out_in_part_and_shown_anew(
    data: DataInstallation, own: Dagster, asset_job: JobDefinition
) -> None:
    data.put(GOOD, specimens(), experiments())
    put_orphans(data)
    data.folder.put(NO_ARCHIVE, b"this is no zip archive")
    own.session(data)

    assert own.materialised("zip_downloads") == {GOOD, ORPHANS, NO_ARCHIVE}
    assert own.materialised("validated_documents") == {GOOD, ORPHANS}
    assert own.checks(UNZIP)[NO_ARCHIVE] == "failed"
    assert own.checks(CHECK_OF_GROUP["experiments"])[ORPHANS] == "failed"
    assert "failed" not in [checks.get(GOOD) for checks in map(own.checks, (*CHECK_OF_PHASE.values(), UPLOAD_CHECK))]
    assert set(own.statuses()) == {DagsterRunStatus.SUCCESS}
    assert check_events(data.tracker, data.settings, own.instance) == []

    own.session(data, keys=[key_of(ORPHANS)])
    assert own.materialise(asset_job, ORPHANS, "submission_reports") is DagsterRunStatus.SUCCESS
    assert check_events(data.tracker, data.settings, own.instance) == []

    assert remove_partitions(own.instance.event_log_storage, "zip_actions", [], [GOOD]) == 1
    assert set(own.instance.get_dynamic_partitions("zip_actions")) == {ORPHANS, NO_ARCHIVE}
    rebuild_instance(data.settings, data.tracker, own.instance, None)
    assert set(own.instance.get_dynamic_partitions("zip_actions")) == {GOOD, ORPHANS, NO_ARCHIVE}
    assert check_events(data.tracker, data.settings, own.instance) == []
