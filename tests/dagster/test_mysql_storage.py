"""The batching event log on MariaDB: a batch is stored once whatever the server does, and names and texts are whole."""

import threading
from collections.abc import Iterator
from functools import partial

import pytest
import sqlalchemy as sa
from dagster import AssetCheckEvaluation, DagsterEventType, DagsterInstance

from dcc_dagster.mysql_storage import BatchingMysqlEventLogStorage, Connections
from tests.dagster.test_event_storage import ASSETS, CHECK, RUNS, entry, some_events
from tests.support.asking import column_in
from tests.support.databases import only_mariadb
from tests.support.threads import at_once

pytestmark = only_mariadb


@pytest.fixture
def url(dagster_url: str | None) -> str:
    assert dagster_url is not None
    return dagster_url


@pytest.fixture
def connections(url: str) -> Connections:
    return Connections(url, 20.0)


@pytest.fixture
def storage(url: str, connections: Connections, instance: DagsterInstance) -> Iterator[BatchingMysqlEventLogStorage]:
    made = BatchingMysqlEventLogStorage(connections, url)
    made.register_instance(instance)
    yield made
    made.dispose()


@pytest.mark.parametrize("committed", [True, False])
def test_a_batch_whose_commit_was_not_answered_is_stored_once(
    storage: BatchingMysqlEventLogStorage,
    connections: Connections,
    monkeypatch: pytest.MonkeyPatch,
    committed: bool,
) -> None:
    original = connections.engine.dialect.do_commit
    lost: list[int] = []

    def commit(connection: object) -> None:
        if not lost:
            lost.append(1)
            if committed:
                original(connection)  # type: ignore[arg-type]
            connection.driver_connection._force_close()  # type: ignore[attr-defined]
        original(connection)  # type: ignore[arg-type]

    monkeypatch.setattr(connections.engine.dialect, "do_commit", commit)
    events = some_events()
    storage.store_event_batch(events)
    assert lost == [1]
    assert sum(len(storage.get_logs_for_run(run_id)) for run_id in RUNS) == len(events)


def test_a_deadlock_is_tried_again(storage: BatchingMysqlEventLogStorage, connections: Connections) -> None:
    """Two transactions that lock two assets' rows in opposite order: InnoDB gives one up, with error 1213."""
    storage.store_event_batch(some_events())
    both_hold_one = threading.Barrier(2, timeout=20)
    tries: list[int] = []

    def lock(names: list[str]) -> None:
        waited = False

        def work() -> None:
            nonlocal waited
            tries.append(1)
            with connections.transaction() as connection:
                for name in names:
                    update = sa.text("UPDATE asset_keys SET last_run_id = 'x' WHERE asset_key LIKE :name")
                    connection.execute(update, {"name": name})
                    if not waited:
                        waited = True
                        both_hold_one.wait()

        connections.patiently(work)

    found = column_in(connections, "SELECT asset_key FROM asset_keys ORDER BY id")
    names = list(found)
    assert len(names) == 2
    at_once(partial(lock, names), partial(lock, names[::-1]))
    assert len(tries) == 3


def test_connections_that_the_server_closed_are_replaced(
    storage: BatchingMysqlEventLogStorage, connections: Connections
) -> None:
    """Errors 2006 and 2013, within a transaction too."""
    storage.store_event_batch(some_events())
    tries: list[int] = []

    def work() -> object:
        with connections.transaction() as connection:
            tries.append(1)
            if len(tries) == 1:
                with connections.engine.connect() as other:
                    other.exec_driver_sql(f"KILL {connection.exec_driver_sql('SELECT CONNECTION_ID()').scalar()}")
            return connection.exec_driver_sql("SELECT COUNT(*) FROM event_logs").scalar()

    assert connections.patiently(work) == len(some_events())
    assert len(tries) == 2


def test_partitions_that_begin_alike_are_told_apart_and_two_processes_may_add_the_same(
    storage: BatchingMysqlEventLogStorage,
) -> None:
    """Dagster's own tables on MySQL take partitions for the same whose first 64 characters are."""
    names = [f"add/{'x' * 100}.{number}" for number in range(3)]
    storage.add_dynamic_partitions("zip_actions", names[:2])
    storage.add_dynamic_partitions("zip_actions", names)
    storage.add_dynamic_partitions("zip_actions", ["add/a.zip", "add/A.zip", "add/\N{GRINNING FACE}.zip"])
    assert len(storage.get_dynamic_partitions("zip_actions")) == 6


def test_a_verdict_with_thousands_of_findings_is_stored_whole(storage: BatchingMysqlEventLogStorage) -> None:
    """Dagster's own tables on MySQL hold 65,535 bytes of a check's evaluation."""
    long = "a finding of a document " * 10_000
    verdict = AssetCheckEvaluation(ASSETS[0], CHECK.name, False, description=long, partition="add/H.1")
    storage.store_event_batch([entry(RUNS[0], DagsterEventType.ASSET_CHECK_EVALUATION, verdict, 1.0)])
    (found,) = storage.get_asset_check_execution_history(CHECK, limit=10)
    assert found.event is not None
    assert found.event.dagster_event is not None
    assert found.event.dagster_event.asset_check_evaluation_data.description == long
