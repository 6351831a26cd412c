"""Audits of the archive store in Dagster: a replica that is away is a failed check."""

from pathlib import Path

import pytest
from dagster import AssetCheckSeverity, DagsterInstance, ExecuteInProcessResult

from dcc_assets.archive_audits import AUDIT_JOB
from dcc_assets.definitions import asset_definitions
from tests.support.dagster_instances import set_environment
from tests.support.installations import Folder, Installation

KEY = "add/H.2013-10-31.1.impc.zip"


@pytest.fixture
def replicas(installation: Installation) -> list[Path]:
    folders = [installation.root / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    return folders


@pytest.fixture
def replicated(installation: Installation, replicas: list[Path], monkeypatch: pytest.MonkeyPatch) -> Installation:
    urls = ", ".join(map(str, replicas))
    set_environment(installation, monkeypatch)
    monkeypatch.setenv("DCC_ARCHIVE_REPLICAS", urls)
    return installation.with_settings(archive_replicas=urls)


def run() -> ExecuteInProcessResult:
    job = asset_definitions().resolve_job_def(AUDIT_JOB)
    with DagsterInstance.ephemeral() as instance:
        return job.execute_in_process(instance=instance, raise_on_error=False)


def checks(result: ExecuteInProcessResult) -> dict[str, bool]:
    return {one.check_name: one.passed for one in result.get_asset_check_evaluations()}


def test_a_replica_that_is_away_is_a_warning_with_the_reason(
    replicated: Installation, folder: Folder, replicas: list[Path]
) -> None:
    folder.put(KEY)
    replicated.run_session()
    assert checks(run()) == {"archive_copies": True, "archive_replicas": True}
    replicas[1].rename(replicated.root / "away")
    result = run()
    assert result.success
    assert checks(result) == {"archive_copies": True, "archive_replicas": False}
    (failed,) = (one for one in result.get_asset_check_evaluations() if not one.passed)
    assert failed.severity is AssetCheckSeverity.WARN
    told = str(failed.metadata["replicas that are away"].value)
    assert str(replicas[1]) in told
    assert "mount its disk" in told
