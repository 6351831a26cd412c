"""`dcc doctor` on Dagster's instance, and in depth."""

import sqlite3
import sys
import time
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from dagster import DagsterInstance, DagsterRunStatus
from dagster._daemon.types import DaemonHeartbeat
from dagster._utils.error import SerializableErrorInfo
from sqlalchemy import update

from dcc.operations.session_work import open_session
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.tracker.models import CrawlingSession
from dcc_assets import doctor
from dcc_assets.doctor import check_dagster, check_depths, check_workers
from dcc_assets.jobs import crawl_file_sources
from dcc_dagster.instance import open_instance
from tests.support.asking import execute_in
from tests.support.dagster_instances import Dagster
from tests.support.data_installations import DataInstallation, specimens
from tests.support.databases import only_sqlite
from tests.support.doctor_findings import expect, found_by, verdicts
from tests.support.fake_kubernetes import NAMESPACE, fake_kubernetes
from tests.support.installations import Installation
from tests.support.ports import free_port
from tests.support.redis_server import RedisServer

ZIP = "add/H.2013-10-31.1.impc.zip"


def _beat(instance: DagsterInstance, age: timedelta, *errors: str) -> None:
    said = [SerializableErrorInfo(message=error, stack=[], cls_name=None) for error in errors]
    beat = DaemonHeartbeat(time.time() - age.total_seconds(), "SENSOR", "daemon", said)
    instance.add_daemon_heartbeat(beat)


@only_sqlite
def test_an_instance_that_was_not_made_or_is_not_used(settings: Settings) -> None:
    expect(check_dagster, settings, "Dagster instance", "not checked")
    assert not settings.dagster_home.exists()
    without = settings.model_copy(update={"dagster_events": False})
    expect(check_dagster, without, "Dagster instance", "not checked", "DCC_DAGSTER_EVENTS")


@only_sqlite
@pytest.mark.parametrize("is_link", [False, True], ids=["file", "dead-link"])
def test_an_instance_that_no_session_can_make_is_found(settings: Settings, is_link: bool) -> None:
    settings.home.mkdir(parents=True, exist_ok=True)
    if is_link:
        settings.dagster_home.symlink_to(settings.home / "not-there")
    else:
        settings.dagster_home.write_text("")
    said = f"{settings.dagster_home} is no folder, nor a link to one. -> Move it elsewhere: dcc init"
    expect(check_dagster, settings, "Dagster instance", "failed", said)


def test_a_daemon_that_runs_has_errors_stopped_or_was_replaced(installation: Installation, dagster: Dagster) -> None:
    assert verdicts(check_dagster, installation.settings) == {
        "Dagster instance": "ok",
        "Dagster daemon": "not checked",
        "Dagster runs": "ok",
    }
    expect_daemon = partial(expect, check_dagster, installation.settings, "Dagster daemon")
    _beat(dagster.instance, timedelta(seconds=5))
    expect_daemon("ok")
    _beat(dagster.instance, timedelta(seconds=5), "no\ncode location")
    expect_daemon("warning", "sensor met an error: no code location")
    _beat(dagster.instance, timedelta(hours=1))
    expect_daemon("warning", "dcc daemon")
    installation.run_session()
    expect_daemon("ok", "Sessions have run since without it.")
    execute_in(installation.tracker, update(CrawlingSession).values(start_time=utc_now() - timedelta(hours=2)))
    expect_daemon("warning", "Nothing crawls since.")


@only_sqlite
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"crawl_interval": "61 * * * *"}, "DCC_CRAWL_INTERVAL: '61 * * * *' is not a cron expression"),
        ({"group_intervals": "europe=hourly"}, "DCC_GROUP_INTERVALS: 'hourly' is not a cron expression"),
        ({"group_intervals": "asia=0 * * * *"}, "DCC_GROUP_INTERVALS: DCC_GROUPS has no group 'asia'"),
    ],
)
def test_a_time_to_crawl_that_is_none_is_found_before_a_daemon_runs(
    settings: Settings, wrong: dict[str, str], said: str
) -> None:
    unfit = settings.model_copy(update={"groups": "europe=H"} | wrong)
    expect(check_dagster, unfit, "times of crawls", "failed", said)


@only_sqlite
def test_a_stuck_run_an_older_storage_and_a_broken_configuration(
    installation: Installation, dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = dagster.instance.create_run_for_job(crawl_file_sources, status=DagsterRunStatus.STARTED)
    expect(check_dagster, installation.settings, "Dagster runs", "ok")
    monkeypatch.setattr(doctor, "_STUCK", timedelta(seconds=-60))
    expect(check_dagster, installation.settings, "Dagster runs", "warning", run.run_id)
    with open_session(installation.tracker, installation.settings):
        expect(check_dagster, installation.settings, "Dagster runs", "ok")

    expect_instance = partial(expect, check_dagster, installation.settings, "Dagster instance", "failed")
    runs = installation.settings.dagster_home / "history" / "runs.db"
    with closing(sqlite3.connect(runs)) as connection:
        (before,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        connection.execute("UPDATE alembic_version SET version_num = '567bc23fd1ac'")
        connection.commit()
    expect_instance("567bc23fd1ac", before, "dagster instance migrate")

    (installation.settings.dagster_home / "dagster.yaml").write_text("telemetry: [")
    expect_instance("could not be opened", "dagster.yaml")


@only_sqlite
def test_a_configuration_of_an_earlier_version_is_found_and_left_as_it_is(
    installation: Installation, dagster: Dagster
) -> None:
    path = installation.settings.dagster_home / "dagster.yaml"
    earlier = path.read_text("utf-8").replace("dcc_dagster.event_storage", "dcc_assets.event_storage")
    path.write_text(earlier, "utf-8")
    said = ("dcc_assets.event_storage", "databases: dcc init")
    expect(check_dagster, installation.settings, "Dagster instance", "failed", *said)
    assert path.read_text("utf-8") == earlier


@only_sqlite
def test_what_does_not_fit_together_is_found_in_depth(data: DataInstallation) -> None:
    data.put(ZIP, specimens())
    data.run()
    settings = data.settings.model_copy(update={"dagster_events": False})
    said = "23 rules hold for tracker, staging and QC database"
    expect(check_depths, settings, "consistency", "ok", said)
    with open_instance(data.settings):
        pass
    found = found_by(check_depths, data.settings)
    assert {subject.split()[0] for subject in found} >= {"C20", "C21"}
    assert all("dcc instance rebuild" in one.message for one in found.values())
    (settings.staging_directory / ZIP).write_bytes(b"another")
    assert list(verdicts(check_depths, settings)) == [f"C9 {ZIP}"]
    expect(check_depths, settings, f"C9 {ZIP}", "failed", f"dcc retry {ZIP}")


def test_workers_that_lack_something(
    settings: Settings, redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(**changes: object) -> tuple[str, str]:
        of = found_by(check_workers, settings.changed(changes))
        verdict = of["workers"].verdict.value
        shared = of.get("shared with workers")
        assert (shared is not None) is (verdict != "failed" and changes.get("executor") in ("celery", "k8s"))
        assert shared is None or "DCC_STORE" in shared.message
        return verdict, f"{of['workers'].message} {of['workers'].advice}"

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
