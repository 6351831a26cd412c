"""Audits of the archive store in Dagster: a replica that is away is a failed check."""

import pytest
from dagster import AssetCheckSeverity, DagsterInstance, ExecuteInProcessResult

from dcc_assets.archive_audits import AUDIT_JOB
from dcc_assets.definitions import asset_definitions
from tests.support.dagster_instances import set_environment
from tests.support.installations import Folder, Installation


def checks(result: ExecuteInProcessResult) -> dict[str, bool]:
    return {one.check_name: one.passed for one in result.get_asset_check_evaluations()}


def test_a_replica_that_is_away_is_a_warning_with_the_reason(
    installation: Installation, folder: Folder, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, away = (installation.root / name for name in ("first", "second"))
    there.mkdir()
    away.mkdir()
    set_environment(installation, monkeypatch)
    monkeypatch.setenv("DCC_ARCHIVE_REPLICAS", f"{there}, {away}")
    folder.put("add/H.2013-10-31.1.impc.zip")
    installation.with_settings(archive_replicas=f"{there}, {away}").run_session()
    audit = asset_definitions().resolve_job_def(AUDIT_JOB)
    assert checks(audit.execute_in_process(instance=instance)) == {"archive_copies": True, "archive_replicas": True}
    away.rename(installation.root / "elsewhere")
    result = audit.execute_in_process(instance=instance)
    assert checks(result) == {"archive_copies": True, "archive_replicas": False}
    (failed,) = (one for one in result.get_asset_check_evaluations() if not one.passed)
    assert failed.severity is AssetCheckSeverity.WARN
    told = str(failed.metadata["replicas that are away"].value)
    assert str(away) in told
    assert "mount its disk" in told
