"""Reference data in Dagster: materialised they are refreshed; what fails or is old fails the check `fresh`."""

from datetime import datetime
from pathlib import Path

import pytest
from dagster import AssetKey, DagsterInstance, Definitions, ExecuteInProcessResult, RunRequest, SkipReason

from dcc.databases.schema import init_database
from dcc.qc.database import open_qc_database
from dcc.reference.loading import SETS
from dcc.settings import Settings
from dcc_assets.archive_audits import AUDIT_JOB
from dcc_assets.definitions import asset_definitions
from dcc_assets.jobs import CRAWL_JOB
from dcc_assets.reference import REFERENCE_JOB, REFERENCE_SPECS
from dcc_sensors.definitions import automation_definitions
from dcc_sensors.schedules import AUDIT_TIME, REFRESH_TIME, refresh_reference
from tests.support.dagster_instances import looked
from tests.support.databases import only_sqlite
from tests.support.reference_server import ReferenceServer

NAMES = [f"reference_{name}" for name in SETS]


@pytest.fixture
def _environment(qc_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCC_HOME", str(qc_settings.home))
    monkeypatch.setenv("DCC_QC_URL", qc_settings.qc_database_url)
    monkeypatch.setenv("DCC_RETRY_DELAY", "0.01")


def run(instance: DagsterInstance, *sets: str) -> ExecuteInProcessResult:
    job = asset_definitions().resolve_job_def(REFERENCE_JOB)
    chosen = [AssetKey(f"reference_{name}") for name in sets] or None
    return job.execute_in_process(instance=instance, asset_selection=chosen)


def checks(result: ExecuteInProcessResult) -> dict[str, tuple[bool, str, str]]:
    return {
        evaluation.asset_key.to_user_string(): (
            evaluation.passed,
            evaluation.severity.value,
            str(evaluation.metadata["message"].value) if "message" in evaluation.metadata else "",
        )
        for evaluation in result.get_asset_check_evaluations()
    }


def materialised(result: ExecuteInProcessResult) -> list[str]:
    return [event.asset_key.to_user_string() for event in result.get_asset_materialization_events() if event.asset_key]


def test_each_set_is_an_asset_that_names_its_setting() -> None:
    assert [spec.key.to_user_string() for spec in REFERENCE_SPECS] == NAMES
    for name, spec in zip(SETS, REFERENCE_SPECS, strict=True):
        assert f"DCC_REFERENCE_{name.upper()}" in (spec.description or "")


@pytest.mark.usefixtures("_environment", "qc_database")
def test_materialising_refreshes_and_tells_what_came_of_it(instance: DagsterInstance) -> None:
    first = run(instance)
    assert materialised(first) == NAMES
    assert checks(first) == dict.fromkeys(NAMES, (True, "WARN", ""))
    metadata = first.asset_materializations_for_node("refresh_reference")[2].metadata
    assert metadata["dagster/row_count"].value == 18
    assert metadata["outcome"].value == "new"
    assert metadata["source"].value == "shipped:projects.csv"
    assert datetime.fromtimestamp(float(metadata["retrieved"].value), None) >= datetime(2026, 11, 20)  # type: ignore[arg-type]
    again = run(instance, "projects")
    assert materialised(again) == ["reference_projects"]
    assert again.asset_materializations_for_node("refresh_reference")[0].metadata["outcome"].value == "unchanged"


@pytest.mark.usefixtures("_environment", "qc_database")
def test_what_cannot_be_refreshed_fails_its_check_and_does_not_keep_the_others(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ReferenceServer({"/projects.csv": b"project\nA\n"}) as server:
        monkeypatch.setenv("DCC_REFERENCE_PROJECTS", f"{server.url}/projects.csv")
        server.failing = {"/projects.csv": -1}
        missing = run(instance, "projects", "strains")
        assert materialised(missing) == ["reference_strains"]
        passed, severity, message = checks(missing)["reference_projects"]
        assert (passed, severity) == (False, "ERROR")
        assert "No projects are loaded" in message
        server.failing = {}
        assert checks(run(instance, "projects"))["reference_projects"][0]
        server.failing = {"/projects.csv": -1}
        passed, severity, message = checks(run(instance, "projects"))["reference_projects"]
        assert (passed, severity) == (False, "WARN")
        assert "503" in message


@pytest.mark.usefixtures("_environment", "qc_database")
def test_what_is_old_fails_its_check(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "projects.csv").write_text("project\nA\n")
    (tmp_path / "retrieved.txt").write_text("2020-01-01")
    monkeypatch.setenv("DCC_REFERENCE_PROJECTS", str(tmp_path))
    result = run(instance, "projects")
    assert materialised(result) == ["reference_projects"]
    passed, severity, message = checks(result)["reference_projects"]
    assert (passed, severity) == (False, "ERROR")
    assert "days old" in message


@only_sqlite
@pytest.mark.usefixtures("_environment")
def test_every_day_a_refresh_is_asked_for_once_there_is_a_database(qc_settings: Settings) -> None:
    skipped = looked(refresh_reference)
    assert isinstance(skipped, SkipReason)
    assert "dcc init" in (skipped.skip_message or "")
    engine = open_qc_database(qc_settings)
    init_database(engine)
    engine.dispose()
    assert isinstance(looked(refresh_reference), RunRequest)
    definitions = Definitions.merge(asset_definitions(), automation_definitions())
    Definitions.validate_loadable(definitions)
    scheduled = {schedule.job_name: schedule.cron_schedule for schedule in definitions.schedules or ()}
    assert scheduled == {REFERENCE_JOB: REFRESH_TIME, AUDIT_JOB: AUDIT_TIME, CRAWL_JOB: "0 * * * *"}
