"""A session whose archives workers fetch and prepare ends as one that does all by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from dcc.qc.database import init_qc_database, open_qc_database
from dcc.settings import Settings
from dcc.store.objects import ObjectStore
from dcc.tracker.database import init_tracker, open_tracker
from tests.session.test_crash_recovery import ending, fill
from tests.support.installations import Installation, experiments, specimens
from tests.support.ports import free_port
from tests.support.qc_files import all_rows
from tests.support.redis_server import RedisServer
from tests.support.s3_server import SECRET_ACCESS_KEY, Bucket

PROGRAM = Path(sys.executable).parent
WORKERS = ("one", "two")


def environment(settings: Settings, **more: str) -> dict[str, str]:
    """What a process of the installation has."""
    return {
        "PATH": "/usr/bin:/bin",
        "DCC_HOME": str(settings.home),
        "DCC_MIN_FREE_BYTES": "0",
        "DCC_RETRY_DELAY": "0.05",
        "DCC_QUIET_SECONDS": "0",
        "DCC_LOG_FORMAT": "text",
        "DCC_LOG_LEVEL": "info",
        **more,
    }


def installed(root: Path) -> Installation:
    """An installation with two sources of a centre that hold archives of all sorts."""
    root.mkdir()
    settings = Settings(home=root / "home", min_free_bytes=0, retry_delay=0.05)
    tracker = open_tracker(settings)
    init_tracker(tracker)
    qc = open_qc_database(settings)
    init_qc_database(qc)
    qc.dispose()
    installation = Installation(tracker, settings, root)
    installation.add_centre("H", "J")
    folders = [installation.add_folder("H", "one"), installation.add_folder("H", "two")]
    fill(folders)
    for number in range(10, 16):
        stem = f"2013-10-{number}.1"
        folders[number % 2].put(f"add/H.{stem}.impc.zip", specimens(stem=stem) | experiments(stem=stem))
    folders[0].put("edit/H.2013-10-20.1.impc.zip", specimens(stem="2013-10-20.1"))
    folders[1].put("delete/H.2013-10-21.1.impc.zip", experiments(stem="2013-10-21.1"))
    return installation


def crawl(installation: Installation, *, exit_code: int = 1, **more: str) -> str:
    """Run a session as a process, which ends with 1 as some archives are faulty; what it says."""
    log = installation.root / "log"
    ended = subprocess.run(
        [PROGRAM / "dcc", "crawl"],
        env=environment(installation.settings, DCC_LOG_FILE=str(log), **more),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ended.returncode == exit_code, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def result(installation: Installation) -> dict[str, Any]:
    """What a session left in both databases."""
    qc = open_qc_database(installation.settings)
    try:
        tables = all_rows(qc)
    finally:
        qc.dispose()
    return ending(installation) | {name: _without_ids_and_times(name, rows) for name, rows in tables.items()}


XML_FILE_IDS = {"document": 1, "finding": 2}
"""The columns that have the ids of the tracker's documents, which are recorded in the order in which they come."""


def _without_ids_and_times(table: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [
        tuple(
            value
            for place, value in enumerate(row)
            if place != XML_FILE_IDS.get(table) and not isinstance(value, datetime)
        )
        for row in rows
    ]


@contextmanager
def workers(installation: Installation, variables: Mapping[str, str]) -> Iterator[None]:
    """Two Celery workers of one process each."""
    processes = []
    try:
        for name in WORKERS:
            with (installation.root / f"{name}.log").open("w") as log:
                command = [
                    PROGRAM / "celery",
                    "-A",
                    "dcc_dagster.celery_worker",
                    "worker",
                    "-c1",
                    "-linfo",
                    "-n",
                    f"{name}@%h",
                ]
                processes.append(
                    subprocess.Popen(
                        command, env=environment(installation.settings, **variables), stdout=log, stderr=log
                    )
                )
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def by_itself(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a session leaves that does all by itself."""
    installation = installed(tmp_path_factory.mktemp("workers") / "alone")
    crawl(installation)
    return result(installation)


def test_processes_of_the_machine_end_as_the_session_itself(tmp_path: Path, by_itself: dict[str, Any]) -> None:
    installation = installed(tmp_path / "processes")
    crawl(installation, DCC_EXECUTOR="multiprocess")
    assert "Workers have prepared" in (installation.root / "log").read_text()
    assert result(installation) == by_itself


def test_celery_workers_with_an_object_store_end_as_the_session_itself(
    tmp_path: Path, by_itself: dict[str, Any], redis_server: RedisServer, bucket: Bucket
) -> None:
    installation = installed(tmp_path / "celery")
    variables = {
        f"DCC_{name.upper()}": value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in bucket.variables.items()
    }
    variables |= {"DCC_EXECUTOR": "celery", "DCC_BROKER": redis_server.url}
    with workers(installation, variables):
        said = crawl(installation, **variables)
    assert SECRET_ACCESS_KEY not in said
    assert result(installation) == by_itself
    logs = [(installation.root / f"{name}.log").read_text() for name in WORKERS]
    assert "succeeded in" in "".join(logs)
    assert SECRET_ACCESS_KEY not in "".join(logs)
    assert "Workers have prepared" in (installation.root / "log").read_text()
    # All that the broker was ever told is in its files.
    told = b"".join(path.read_bytes() for path in (tmp_path / "redis").rglob("*") if path.is_file())
    assert b"prepare_batch" in told
    assert SECRET_ACCESS_KEY.encode() not in told
    # Nothing is left in the store.
    assert "Contents" not in bucket.client.list_objects_v2(Bucket=bucket.name)


def test_what_no_worker_takes_the_session_does_by_itself(
    tmp_path: Path, by_itself: dict[str, Any], redis_server: RedisServer
) -> None:
    installation = installed(tmp_path / "without")
    crawl(installation, DCC_EXECUTOR="celery", DCC_BROKER=redis_server.url, DCC_WORKER_PATIENCE="1")
    assert "Workers have left nothing for 1 s" in (installation.root / "log").read_text()
    assert result(installation) == by_itself


def test_without_an_object_store_the_session_does_all_by_itself(tmp_path: Path, by_itself: dict[str, Any]) -> None:
    installation = installed(tmp_path / "away")
    away = {
        "DCC_STORE": "s3://bucket/dcc",
        "DCC_STORE_ENDPOINT": f"http://127.0.0.1:{free_port()}",
        "DCC_STORE_ACCESS_KEY_ID": "id",
        "DCC_STORE_SECRET_ACCESS_KEY": "secret",
    }
    said = crawl(installation, exit_code=4, DCC_EXECUTOR="multiprocess", DCC_STORE_RETRY="0", **away)
    assert "The store s3://bucket/dcc could not be reached" in said
    assert result(installation) == by_itself


def test_what_was_left_for_a_killed_session_is_removed_by_the_next_one(tmp_path: Path) -> None:
    installation = installed(tmp_path / "killed")
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
    assert store.keys() == []
    assert not part.exists()
    assert list(installation.settings.staging_directory.glob(".workers-*")) == []
