"""Sessions and replays whose archives workers fetch and prepare end as those that do all by themselves."""

import base64
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dagster import RunsFilter
from pydantic import SecretStr

from benchmarks.replay import rows
from dcc.errors import SessionLostError
from dcc.qc.database import open_qc_database
from dcc.session.batches.worker_results import SessionWorkerResults
from dcc.settings import Settings, load_settings
from dcc.store.objects import ObjectStore
from dcc_assets.batches import BATCHES_JOB, workers_of
from dcc_assets.runs import SESSION_TAG
from dcc_dagster.executors import execution_of
from dcc_dagster.instance import open_instance
from dcc_dagster.run_processes import PROCESS_TAG
from tests.cli.test_replay import RULE
from tests.replay.test_replay import proposed
from tests.session.test_crash_recovery import fill
from tests.session.test_session_data_faults import change
from tests.support.asking import closing_all
from tests.support.dagster_instances import put_prepared
from tests.support.fake_kubernetes import NAMESPACE, fake_kubernetes
from tests.support.installations import Installation, experiments, specimens
from tests.support.ports import free_port
from tests.support.process_trees import command_lines, descendants
from tests.support.raising import raising
from tests.support.redis_server import PASSWORD as BROKER_PASSWORD
from tests.support.redis_server import RedisServer
from tests.support.s3_server import SECRET_ACCESS_KEY, Bucket
from tests.support.worker_installations import (
    celery_variables,
    celery_workers,
    copied,
    empty_installation,
    environment,
    result,
    run,
    store_variables,
)


def installed(root: Path) -> Installation:
    """An installation with two sources of a centre that hold archives of all sorts, and one of another centre."""
    installation = empty_installation(root)
    folders = [installation.add_folder("H", "one"), installation.add_folder("H", "two")]
    fill(folders)
    for number in range(10, 12):
        stem = f"2013-10-{number}.1"
        folders[number % 2].put(f"add/H.{stem}.impc.zip", specimens(stem=stem) | experiments(stem=stem))
    folders[0].put("edit/H.2013-10-20.1.impc.zip", specimens(stem="2013-10-20.1"))
    folders[1].put("delete/H.2013-10-21.1.impc.zip", experiments(stem="2013-10-21.1"))
    more = installation.add_folder("J", "three")
    mothers = change(specimens("J", mice=4), 'relationship="littermate"', 'relationship="mother"')
    more.put("add/J.2013-10-31.1.impc.zip", mothers)
    more.put("add/J.2013-10-31.2.impc.zip", specimens("J", stem="2013-10-31.2"))
    # It is not opened, as its manifest names something else.
    (more.path / "add" / "J.2013-10-31.2.impc.zip.manifest.json").write_text('[{"file": "other.xml"}]')
    return installation


def crawl(installation: Installation, *, exit_code: int = 1, **more: str) -> str:
    """Run a session, which ends with 1 as some archives are faulty; what it says."""
    return "".join(run(installation, "crawl", exit_code=exit_code, **more))


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory, prepared_dagster_home: Path) -> Installation:
    """An installation before its first session, to be copied."""
    installation = installed(tmp_path_factory.mktemp("workers") / "new")
    put_prepared(prepared_dagster_home, installation.settings)
    return installation


@pytest.fixture(scope="module")
def alone(new: Installation, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An installation whose session did all by itself, not to be changed."""
    installation = copied(new, tmp_path_factory.mktemp("workers") / "alone")
    crawl(installation)
    return installation


@pytest.fixture(scope="module")
def by_itself(alone: Installation) -> dict[str, Any]:
    """What a session leaves that does all by itself."""
    return result(alone)


@dataclass(frozen=True)
class Replayed:
    """The words of a replay of proposed schemas, reference data and rules, which change much, and what it prints."""

    words: list[str]
    printed: str


@pytest.fixture(scope="module")
def replayed(alone: Installation, tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    """A replay that did all by itself, without a word of its own."""
    folder = tmp_path_factory.mktemp("proposed")
    proposal, rules = proposed(folder), folder / "proposed_rules.py"
    rules.write_text(RULE)
    words = ["replay", "--json", "--workers", "1", "--xsd", str(proposal.xsd), "--rules", str(rules)]
    words += ["--reference", f"projects={proposal.reference['projects']}"]
    printed, said = run(alone, *words)
    assert said == ""
    return Replayed(words, printed)


def test_processes_of_the_machine_end_as_the_session_itself(
    tmp_path: Path, new: Installation, by_itself: dict[str, Any]
) -> None:
    """And remove what was left for a killed session."""
    installation = copied(new, tmp_path / "processes")
    left = installation.root / "bundle"
    left.write_bytes(b"left")
    store = ObjectStore(installation.settings)
    store.put("sessions/77/results/add/H.2013-10-31.1.impc.zip", left)
    part = Path(store.url) / f"sessions/77/results/add/.{'0' * 32}.part"
    part.touch()
    os.utime(part, (0, 0))
    scratch = installation.settings.staging_directory / ".workers-77"
    scratch.mkdir(parents=True)
    crawl(installation, DCC_EXECUTOR="multiprocess")
    assert (store.keys(), part.exists()) == ([], False)
    assert list(installation.settings.staging_directory.glob(".workers-*")) == []
    log = (installation.root / "log").read_text()
    assert "Workers have prepared" in log
    # It is the first session, before which there are no reference data to prepare by.
    assert "prepared again" not in log
    assert result(installation) == by_itself
    with open_instance(installation.settings) as instance:
        (of_batches,) = instance.get_runs(RunsFilter(job_name=BATCHES_JOB))
    assert of_batches.tags[SESSION_TAG] == "1"
    assert PROCESS_TAG in of_batches.tags, "nobody sees that it is dead"


@contextmanager
def nothing_changes(installation: Installation) -> Iterator[None]:
    """Both databases are as before."""
    with closing_all(open_qc_database(installation.settings)) as qc:
        before = rows(installation.tracker), rows(qc)
        yield
        assert (rows(installation.tracker), rows(qc)) == before


KILLED_ONCE = """
import os, signal
from pathlib import Path

def kill_worker(number, of_worker):
    while number > 1 and not of_worker:
        number = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
        of_worker = "dcc_assets.batches" in Path(f"/proc/{number}/cmdline").read_text()
    if of_worker:
        MARK.touch(exist_ok=False)
        os.kill(os.getppid(), signal.SIGKILL)

if not MARK.exists():
    kill_worker(os.getpid(), False)
"""
"""Rules that kill the first worker to load them: the parent of the process that does. MARK is a path to mark it."""


def test_a_replay_whose_process_of_the_machine_is_killed_ends_as_by_itself(
    tmp_path: Path, alone: Installation, replayed: Replayed
) -> None:
    mark, rules = tmp_path / "killed", tmp_path / "proposed_rules.py"
    rules.write_text(RULE + KILLED_ONCE.replace("MARK", f"Path({str(mark)!r})"))
    with nothing_changes(alone):
        found, said = run(alone, *replayed.words, "--rules", str(rules), DCC_EXECUTOR="multiprocess")
    assert mark.exists()
    # All but the place of the rules.
    assert json.loads(found) | {"proposal": None} == json.loads(replayed.printed) | {"proposal": None}
    log = (alone.root / "log").read_text()
    assert " ERROR dcc_assets.batches" in log
    assert "prepare_batch[batch_1] failed: " in log
    assert "Stack Trace" not in said + log
    assert "Workers prepared 0 of 9 archives. This machine prepares the others." in said


def test_two_celery_workers_end_session_and_replay_as_these_do_by_themselves_and_are_soon_free_if_they_hang(
    tmp_path: Path,
    new: Installation,
    by_itself: dict[str, Any],
    replayed: Replayed,
    redis_server: RedisServer,
    bucket: Bucket,
) -> None:
    installation = copied(new, tmp_path / "celery")
    secret = tmp_path / "secret"
    secret.write_text(redis_server.url)
    secret.chmod(0o600)
    variables = celery_variables(bucket, redis_server) | {"DCC_BROKER": f"file:{secret}"}
    of_worker = variables | {"DCC_ARCHIVE_REPLICAS": str(tmp_path / "empty")}
    with celery_workers(installation, of_worker, app="tests.support.hanging_worker") as workers:
        with command_lines() as shown:
            said = crawl(installation, **variables)
        assert result(installation) == by_itself
        with nothing_changes(installation):
            assert run(installation, *replayed.words, **variables) == (replayed.printed, "")
    found = json.loads(replayed.printed)
    assert {"D1", "S12"} <= {cause["code"] for cause in found["causes"]}
    assert {"failed xsd", "failed data"} <= {change["after"] for change in found["changes"]}
    assert by_itself["states"]["add/J.2013-10-31.2.impc.zip"] == "unzip failed"
    assert "already registered" not in said
    assert len(workers) == 2
    for worker in workers.values():
        assert "Timeout (0:00:03)!" in worker.said()
        assert "hanging_worker.py" in worker.said()
        # A batch waits for whichever worker is free, and not for one that is at work on another.
        before = worker.said().partition("Timeout (0:00:03)!")[0]
        assert before.count("] received") - before.count("] succeeded in") == 1
    # Other batches are done by the processes that took the places of those that hung.
    assert any("succeeded in" in worker.said().partition("Timeout (0:00:03)!")[2] for worker in workers.values())
    of_workers = "".join(worker.said() for worker in workers.values())
    log = (installation.root / "log").read_text()
    assert "Workers have prepared" in log
    # The session itself would wait for five minutes.
    assert "Workers have left nothing" not in log
    # All that the broker was ever told is in its files.
    told = "".join(path.read_text("latin-1") for path in (tmp_path / "redis").rglob("*.aof"))
    assert "prepare_batch" in told
    events = "".join(path.read_text("latin-1") for path in installation.settings.dagster_home.rglob("*.db*"))
    assert "prepare_batch" in events
    assert any("dcc_assets.batches" in line for line in shown)
    for word in (SECRET_ACCESS_KEY, BROKER_PASSWORD):
        assert not [text for text in (said, log, of_workers, told, events, *shown) if word in text]
    # Nothing is left in the store.
    assert "Contents" not in bucket.client.list_objects_v2(Bucket=bucket.name)


def test_jobs_of_kubernetes_end_as_the_session_itself(
    tmp_path: Path, new: Installation, by_itself: dict[str, Any], bucket: Bucket
) -> None:
    installation = copied(new, tmp_path / "k8s")
    store = store_variables(bucket)
    secret = {"DCC_STORE_SECRET_ACCESS_KEY": store.pop("DCC_STORE_SECRET_ACCESS_KEY")}
    session = {
        "DCC_EXECUTOR": "k8s",
        "DCC_K8S_IMAGE": "dcc:1",
        "DCC_K8S_NAMESPACE": NAMESPACE,
        "DCC_K8S_SECRET": "dcc-sessions",
        "DCC_K8S_CONFIG_MAP": "dcc-settings",
    }
    settings = environment(installation.settings, **session, **store)
    with fake_kubernetes(tmp_path / "pods", {"dcc-settings": settings, "dcc-sessions": secret}) as (cluster, config):
        crawl(installation, KUBECONFIG=str(config), **session, **store, **secret)
        jobs = list(cluster.jobs.values())
        assert all(cluster.status(name)["succeeded"] for name in cluster.jobs), cluster.logs()
    assert result(installation) == by_itself
    assert "Workers have prepared" in (installation.root / "log").read_text()
    assert cluster.namespaces == {NAMESPACE}
    assert len(jobs) > 1
    for job in jobs:
        _assert_locked_in(job["spec"]["template"]["spec"])
        (container,) = job["spec"]["template"]["spec"]["containers"]
        given = {one["name"]: one["value"] for one in container["env"]}
        told = zlib.decompress(base64.b64decode(given["DAGSTER_COMPRESSED_EXECUTE_STEP_ARGS"])).decode()
        assert "prepare_batch" in told
        assert SECRET_ACCESS_KEY not in told + json.dumps(job)


def _assert_locked_in(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    assert (container["image"], container["command"]) == ("dcc:1", [sys.executable, "-m"])
    assert container["args"] == ["dagster", "api", "execute_step"]
    assert container["envFrom"] == [
        {"configMapRef": {"name": "dcc-settings"}},
        {"secretRef": {"name": "dcc-sessions"}},
    ]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert {one["mountPath"] for one in container["volumeMounts"]} == {"/tmp", "/var/lib/dcc"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsNonRoot"]) == (10001, True)
    assert "hostPath" not in json.dumps(pod)


def test_jobs_of_kubernetes_need_no_secret_and_no_config_map() -> None:
    execution = execution_of(load_settings(executor="k8s", k8s_image="dcc:1"))
    assert (execution["env_secrets"], execution["env_config_maps"]) == ([], [])


def test_what_no_worker_takes_the_session_does_by_itself(
    tmp_path: Path, new: Installation, by_itself: dict[str, Any], redis_server: RedisServer
) -> None:
    installation = copied(new, tmp_path / "without")
    crawl(installation, DCC_EXECUTOR="celery", DCC_BROKER=redis_server.url, DCC_WORKER_PATIENCE="1")
    assert "Workers have left nothing for 1 s" in (installation.root / "log").read_text()
    assert result(installation) == by_itself


OTHER_VALUES: dict[str, tuple[Callable[[Settings], Settings], str | None]] = {
    "another tracker": (
        lambda settings: settings.changed({"tracker_url": SecretStr("sqlite:////elsewhere/tracker.db")}),
        "tracker_url",
    ),
    "patience for SFTP": (
        lambda settings: settings.changed_for(["sftp"], {"login_timeout": 61.0}),
        "login_timeout",
    ),
    "what counts for the session alone": (lambda settings: settings.changed({"until": "xsd", "workers": 3}), None),
}


@pytest.mark.parametrize(("change", "left_out"), OTHER_VALUES.values(), ids=OTHER_VALUES)
def test_a_run_whose_values_workers_do_not_have_prepares_archives_by_itself(
    change: Callable[[Settings], Settings],
    left_out: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("DCC_HOME", f"{tmp_path}")
    monkeypatch.setenv("DCC_EXECUTOR", "multiprocess")
    workers, before = workers_of(change(load_settings())), descendants(os.getpid())
    if left_out is None:
        assert workers is not None
        results = SessionWorkerResults(ObjectStore(load_settings()), 1, tmp_path / "scratch", "")
        with pytest.raises(SessionLostError):
            workers.run(results, ["batch"], raising(SessionLostError("It is over while workers are at work.")))
        assert descendants(os.getpid()) == before
    else:
        assert workers is None
        assert f"Workers do not have this run's {left_out}: it prepares archives by itself" in caplog.text


def test_without_an_object_store_the_session_does_all_by_itself(
    tmp_path: Path, new: Installation, by_itself: dict[str, Any]
) -> None:
    installation = copied(new, tmp_path / "away")
    away = {
        "DCC_STORE": "s3://bucket/dcc",
        "DCC_STORE_ENDPOINT": f"http://127.0.0.1:{free_port()}",
        "DCC_STORE_ACCESS_KEY_ID": "id",
        "DCC_STORE_SECRET_ACCESS_KEY": "secret",
    }
    said = crawl(installation, exit_code=4, DCC_EXECUTOR="multiprocess", DCC_STORE_RETRY="0", **away)
    assert "The store s3://bucket/dcc could not be reached" in said
    assert result(installation) == by_itself
