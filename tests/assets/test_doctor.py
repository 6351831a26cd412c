"""`dcc doctor` on Dagster's instance, and in depth."""

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from dagster import DagsterInstance, DagsterRunStatus
from dagster._daemon.types import DaemonHeartbeat
from dagster._utils.error import SerializableErrorInfo

from dcc.operations.doctor.checks import CheckFinding, Environment
from dcc.settings import Settings
from dcc_assets import doctor
from dcc_assets.doctor import check_dagster, check_depths, check_workers
from dcc_assets.jobs import crawl_file_sources
from dcc_dagster.instance import open_instance
from tests.support.dagster_instances import Dagster
from tests.support.data_installations import DataInstallation, specimens
from tests.support.databases import only_sqlite
from tests.support.fake_kubernetes import NAMESPACE, fake_kubernetes
from tests.support.installations import Installation
from tests.support.ports import free_port
from tests.support.redis_server import RedisServer

ZIP = "add/H.2013-10-31.1.impc.zip"


def _found(
    check: Callable[[Environment], Iterator[CheckFinding]], settings: Settings
) -> dict[str, tuple[str, str, str]]:
    around = Environment(settings, time.monotonic() + 60)
    return {one.subject: (one.verdict.value, one.message, one.advice) for one in check(around)}


def _beat(instance: DagsterInstance, age: timedelta, *errors: str) -> None:
    said = [SerializableErrorInfo(message=error, stack=[], cls_name=None) for error in errors]
    beat = DaemonHeartbeat(time.time() - age.total_seconds(), "SENSOR", "daemon", said)
    instance.add_daemon_heartbeat(beat)


@only_sqlite
def test_an_instance_that_was_not_made_or_is_not_used(settings: Settings) -> None:
    assert _found(check_dagster, settings)["Dagster instance"][0] == "not checked"
    assert not settings.dagster_home.exists()
    without = settings.model_copy(update={"dagster_events": False})
    assert "DCC_DAGSTER_EVENTS" in _found(check_dagster, without)["Dagster instance"][1]


@only_sqlite
@pytest.mark.parametrize("is_link", [False, True], ids=["file", "dead-link"])
def test_an_instance_that_no_session_can_make_is_found(settings: Settings, is_link: bool) -> None:
    settings.home.mkdir(parents=True, exist_ok=True)
    if is_link:
        settings.dagster_home.symlink_to(settings.home / "not-there")
    else:
        settings.dagster_home.write_text("")
    assert _found(check_dagster, settings)["Dagster instance"] == (
        "failed",
        f"{settings.dagster_home} is no folder, nor a link to one.",
        "Move it elsewhere: dcc init",
    )


def test_a_daemon_that_runs_has_errors_stopped_or_was_replaced(installation: Installation, dagster: Dagster) -> None:
    found = _found(check_dagster, installation.settings)
    assert {subject: verdict for subject, (verdict, _, _) in found.items()} == {
        "Dagster instance": "ok",
        "Dagster daemon": "not checked",
        "Dagster runs": "ok",
    }
    _beat(dagster.instance, timedelta(seconds=5))
    assert _found(check_dagster, installation.settings)["Dagster daemon"][0] == "ok"
    _beat(dagster.instance, timedelta(seconds=5), "no\ncode location")
    verdict, message, _ = _found(check_dagster, installation.settings)["Dagster daemon"]
    assert (verdict, "sensor met an error: no code location" in message) == ("warning", True)
    _beat(dagster.instance, timedelta(hours=1))
    verdict, _, advice = _found(check_dagster, installation.settings)["Dagster daemon"]
    assert (verdict, "dcc daemon" in advice) == ("warning", True)
    installation.run_session()
    verdict, message, _ = _found(check_dagster, installation.settings)["Dagster daemon"]
    assert (verdict, "Sessions have run since without it." in message) == ("ok", True)


@only_sqlite
@pytest.mark.parametrize(
    "wrong", [{"crawl_interval": "61 * * * *"}, {"group_intervals": "asia=0 * * * *"}, {"crawl_interval": "hourly"}]
)
def test_a_time_to_crawl_that_is_none_is_found_before_a_daemon_runs(settings: Settings, wrong: dict[str, str]) -> None:
    verdict, message, _ = _found(check_dagster, settings.model_copy(update=wrong))["times of crawls"]
    assert (verdict, message.partition(":")[0]) == ("failed", f"DCC_{next(iter(wrong)).upper()}")


@only_sqlite
def test_a_stuck_run_an_older_storage_and_a_broken_configuration(
    installation: Installation, dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = dagster.instance.create_run_for_job(crawl_file_sources, status=DagsterRunStatus.STARTED)
    assert _found(check_dagster, installation.settings)["Dagster runs"][0] == "ok"
    monkeypatch.setattr(doctor, "_STUCK", timedelta(seconds=-60))
    verdict, message, _ = _found(check_dagster, installation.settings)["Dagster runs"]
    assert (verdict, run.run_id in message) == ("warning", True)

    runs = installation.settings.dagster_home / "history" / "runs.db"
    with closing(sqlite3.connect(runs)) as connection:
        (before,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        connection.execute("UPDATE alembic_version SET version_num = '567bc23fd1ac'")
        connection.commit()
    verdict, message, advice = _found(check_dagster, installation.settings)["Dagster instance"]
    assert (verdict, "567bc23fd1ac" in message, before in message) == ("failed", True, True)
    assert "dagster instance migrate" in advice

    (installation.settings.dagster_home / "dagster.yaml").write_text("telemetry: [")
    verdict, message, advice = _found(check_dagster, installation.settings)["Dagster instance"]
    assert (verdict, "could not be opened" in message) == ("failed", True)
    assert "dagster.yaml" in message + advice


@only_sqlite
def test_what_does_not_fit_together_is_found_in_depth(data: DataInstallation) -> None:
    data.put(ZIP, specimens())
    data.run()
    settings = data.settings.model_copy(update={"dagster_events": False})
    found = _found(check_depths, settings)
    assert [verdict for verdict, _, _ in found.values()] == ["ok"]
    assert "23 rules hold for tracker, staging and QC database" in found["consistency"][1]
    (settings.staging_directory / ZIP).write_bytes(b"another")
    found = _found(check_depths, settings)
    (wrong,) = found.items()
    assert wrong[0] == f"C9 {ZIP}"
    assert (wrong[1][0], f"dcc retry {ZIP}" in wrong[1][1]) == ("failed", True)


@only_sqlite
def test_what_dagster_does_not_show_is_found_in_depth(data: DataInstallation) -> None:
    data.put(ZIP, specimens())
    data.validate()
    with open_instance(data.settings):
        pass
    found = _found(check_depths, data.settings)
    assert {subject.split()[0] for subject in found} >= {"C20", "C21"}
    assert all("dcc instance rebuild" in message for _, message, _ in found.values())


def test_workers_that_lack_something(
    settings: Settings, redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(**changes: object) -> tuple[str, str]:
        of = _found(check_workers, settings.changed(changes))
        assert ("shared with workers" in of) is (
            of["workers"][0] != "failed" and changes.get("executor") in ("celery", "k8s")
        )
        return of["workers"][0], " ".join(of["workers"][1:])

    assert found()[0] == "ok"
    assert found(executor="multiprocess")[0] == "ok"
    assert found(executor="celery") == (
        "failed",
        "DCC_BROKER names no broker. Set it to the URL of Redis or RabbitMQ. dcc explain configuration",
    )
    verdict, said = found(executor="celery", broker=f"redis://:s3cret4711@127.0.0.1:{free_port()}/0")
    assert (verdict, "Start it, or correct the setting" in said, "s3cret" in said) == ("warning", True, False)
    verdict, said = found(executor="celery", broker=redis_server.url)
    assert (verdict, "No worker answers at the broker" in said) == ("warning", True)
    assert "DCC_K8S_IMAGE names no image" in found(executor="k8s")[1]
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert "Kubernetes cannot be asked" in found(executor="k8s", k8s_image="dcc:1")[1]
    with fake_kubernetes(tmp_path / "pods", {}) as (_, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        assert "may not make jobs in the namespace default" in found(executor="k8s", k8s_image="dcc:1")[1]
        assert found(executor="k8s", k8s_image="dcc:1", k8s_namespace=NAMESPACE)[0] == "ok"
    monkeypatch.setitem(sys.modules, "dagster_celery", None)
    assert "pip install 'dcc[celery]'" in found(executor="celery")[1]
