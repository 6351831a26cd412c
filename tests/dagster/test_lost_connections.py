"""Wherever a session or a run asks the tracker or the QC database something, it outlives the connection's loss."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterRunStatus, JobDefinition
from sqlalchemy import Connection, Engine, event, make_url

from dcc.databases import transactions
from dcc.databases.database import OUTAGE_SECONDS
from dcc_assets.definitions import asset_definitions
from dcc_assets.jobs import CRAWL_JOB, LOAD_JOB, PROCESS_JOB, SHOW_JOB
from dcc_assets.reference import REFERENCE_JOB
from tests.assets.test_data_session import ARRIVAL, EXPERIMENT_CHECK
from tests.support.dagster_instances import Dagster
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import MariaDb, only_mariadb
from tests.support.shown_installations import GOOD, ORPHANS, put_orphans

Place = tuple[tuple[str, int], ...]
_OCCASIONS = ("before_cursor_execute", "commit")
_ROOT = Path(__file__).parents[2]
_OURS = tuple(str(_ROOT / name) + "/" for name in ("dcc", "dcc_resources", "dcc_assets", "dcc_dagster"))


@pytest.fixture
def data(data: DataInstallation, monkeypatch: pytest.MonkeyPatch) -> DataInstallation:
    """An installation that does not wait long between two tries, and gives up late."""
    monkeypatch.setattr(transactions, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(transactions, "_LONGEST_PAUSE", 0.01)
    for engine in (data.tracker, data.qc):
        engine.update_execution_options(**{OUTAGE_SECONDS: 120.0})
    return data.with_settings(database_retry=120.0)


@contextmanager
def connections_cut(data: DataInstallation, mariadb: MariaDb, *within: str) -> Iterator[set[Place]]:
    """Have the server kill a connection before a statement or commit, once for each way of the code that leads to one.

    What is tried again as a whole counts as one. `within`: only where these files of ours ask. Yields the ways on which
    that was done by now, by their frames, the innermost first.
    """
    databases = {make_url(str(engine.url)).database for engine in (data.tracker, data.qc)}
    cut: set[Place] = set()
    lock = threading.Lock()
    killer = mariadb.connect()

    def kill(connection: Connection, *_arguments: Any) -> None:
        place = _place()
        if connection.engine.url.database not in databases or not place:
            return
        if within and not place[0][0].startswith(within):
            return
        with lock:
            if place in cut:
                return
            cut.add(place)
            thread = connection.connection.driver_connection.thread_id()  # type: ignore[union-attr]
            with killer.cursor() as cursor:
                cursor.execute(f"KILL {thread}")

    for occasion in _OCCASIONS:
        event.listen(Engine, occasion, kill)
    try:
        yield cut
    finally:
        for occasion in _OCCASIONS:
            event.remove(Engine, occasion, kill)
        killer.close()


def _place() -> Place:
    place: list[tuple[str, int]] = []
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == transactions.__file__:
            place.clear()
        elif file.startswith(_OURS):
            place.append((file.removeprefix(f"{_ROOT}/"), frame.f_lineno))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(place)


def modules(cut: set[Place]) -> set[str]:
    return {file for place in cut for file, _ in place}


@only_mariadb
def test_a_session_that_loses_each_of_its_connections_ends_as_any_other(
    data: DataInstallation, data_dagster: Dagster, mariadb: MariaDb
) -> None:
    """Twice, since the second one has documents to judge again and changes to show."""
    data.put(GOOD, specimens(), experiments())
    put_orphans(data)
    with connections_cut(data, mariadb) as cut:
        data_dagster.session(data)
        assert data.states() == {GOOD: "qc pending", ORPHANS: "data failed"}
        data.put(ARRIVAL, specimens("2013-10-31.3", first=11))
        data_dagster.session(data)

    assert data.states() == {GOOD: "qc pending", ORPHANS: "qc pending", ARRIVAL: "qc done"}
    assert data_dagster.materialised("data_integrity") == {GOOD, ORPHANS, ARRIVAL}
    passed = dict.fromkeys((GOOD, ORPHANS, ARRIVAL), "passed")
    assert data_dagster.checks(EXPERIMENT_CHECK) == passed
    assert set(data_dagster.statuses()) == {DagsterRunStatus.SUCCESS}
    assert {"dcc_assets/sync/changes.py", "dcc_assets/sync/archives.py", "dcc/operations/session_work.py"} <= modules(
        cut
    )


@only_mariadb
def test_runs_of_the_daemon_that_lose_each_of_their_connections_succeed(
    data: DataInstallation, data_dagster: Dagster, asset_job: JobDefinition, mariadb: MariaDb
) -> None:
    """What the sensors start, and what the Materialize button does."""
    put_orphans(data)
    # What no session told of, since none was shown in Dagster.
    data.put(GOOD, specimens())
    data.validate()
    with connections_cut(data, mariadb, "dcc_assets/", "dcc_resources/", "dcc/databases/") as cut:
        for name in (CRAWL_JOB, PROCESS_JOB, LOAD_JOB, SHOW_JOB, REFERENCE_JOB):
            asset_definitions().resolve_job_def(name).execute_in_process(instance=data_dagster.instance)
        for asset in ("zip_actions", "validated_documents", "data_integrity"):
            assert data_dagster.materialise(asset_job, ORPHANS, asset) is DagsterRunStatus.SUCCESS

    assert data.states() == {GOOD: "qc done", ORPHANS: "data failed"}
    assert data_dagster.materialised("xml_documents") == {GOOD, ORPHANS}
    assert set(data_dagster.statuses()) == {DagsterRunStatus.SUCCESS}
    assert {"dcc_assets/validation.py", "dcc_assets/collection.py"} <= modules(cut)
