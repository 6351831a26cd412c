"""The batching event logs beside Dagster's own classes: the same rows, the same answers, fewer transactions."""

import os
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import (
    AssetMaterializationPlannedData,
    AssetObservationData,
    EngineEventData,
    StepMaterializationData,
)
from dagster._core.storage.event_log import SqlEventLogStorage, SqliteEventLogStorage
from dagster_mysql import MySQLEventLogStorage
from sqlalchemy.exc import DatabaseError

from dcc_dagster import event_storage, mysql_storage
from dcc_dagster.dagster_database import url_for_dagster
from dcc_dagster.event_batches import BatchingEventLog, remove_partitions
from dcc_dagster.event_storage import BatchingSqliteEventLogStorage
from dcc_dagster.mysql_storage import BatchingMysqlEventLogStorage, Connections
from tests.support.raising import raising
from tests.support.small_disks import small_disk
from tests.support.threads import at_once

pytestmark = pytest.mark.both_databases

Fresh = Callable[[], tuple[BatchingEventLog, SqlEventLogStorage]]
"""The batching event log of an empty database, and Dagster's own class on the same."""

ASSETS = [dg.AssetKey("zip_downloads"), dg.AssetKey(["deep", "asset"])]
CHECK = dg.AssetCheckKey(ASSETS[0], "zip_md5")
PARTITIONS = ["add/H.1", "add/H.2", None]
RUNS = [str(uuid.UUID(int=number)) for number in (1, 2)]


def entry(run_id: str, kind: dg.DagsterEventType, data: object, time: float) -> dg.EventLogEntry:
    event = dg.DagsterEvent(kind.value, job_name="job", step_key="step", event_specific_data=data, message=kind.value)
    return dg.EventLogEntry(None, 20, "", run_id, time, "step", "job", event)


def some_events() -> list[dg.EventLogEntry]:
    """Events of all the kinds that are mirrored into the index, in two runs, and others."""
    events: list[dg.EventLogEntry] = []
    for number, (run_id, asset, partition) in enumerate((r, a, p) for r in RUNS for a in ASSETS for p in PARTITIONS):
        time = 1_700_000_000.0 + number
        planned = AssetMaterializationPlannedData(asset, partition)
        events.append(entry(run_id, dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED, planned, time))
        tags = {"dagster/data_version": f"v{number}"}
        there = dg.AssetMaterialization(asset, partition=partition, metadata={"bytes": number}, tags=tags)
        events.append(entry(run_id, dg.DagsterEventType.ASSET_MATERIALIZATION, StepMaterializationData(there), time))
        events.append(entry(run_id, dg.DagsterEventType.ENGINE_EVENT, EngineEventData({"number": number}), time))
        seen = AssetObservationData(dg.AssetObservation(asset, partition=partition, metadata={"lines": number}))
        events.append(entry(run_id, dg.DagsterEventType.ASSET_OBSERVATION, seen, time))
        if asset == CHECK.asset_key:
            verdict = dg.AssetCheckEvaluation(asset, CHECK.name, number % 2 == 0, partition=partition)
            events.append(entry(run_id, dg.DagsterEventType.ASSET_CHECK_EVALUATION, verdict, time))
    for number, run_id in enumerate(RUNS):
        events.append(entry(run_id, dg.DagsterEventType.RUN_SUCCESS, None, 1_700_000_100.0 + number))
    return events


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    """What a storage is registered with; nothing is stored in it."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def fresh(dagster_url: str | None, tmp_path: Path, instance: dg.DagsterInstance) -> Iterator[Fresh]:
    made: list[SqlEventLogStorage] = []

    def make() -> tuple[BatchingEventLog, SqlEventLogStorage]:
        batching: BatchingEventLog
        if dagster_url is None:
            path = str(tmp_path / f"{len(made)}")
            batching, own = BatchingSqliteEventLogStorage(path), SqliteEventLogStorage(path)
        else:
            connections = Connections(dagster_url, 20.0)
            with connections.connect() as connection:
                for table in ("event_logs", "asset_keys", "asset_event_tags", "asset_check_executions"):
                    connection.exec_driver_sql(f"TRUNCATE TABLE {table}")
            batching = BatchingMysqlEventLogStorage(connections, dagster_url)
            own = MySQLEventLogStorage(url_for_dagster(dagster_url))
        for storage in (batching, own):
            storage.register_instance(instance)
            made.append(storage)
        return batching, own

    yield make
    for storage in made:
        storage.dispose()


def answers(storage: SqlEventLogStorage) -> dict[str, object]:
    """What the public interface tells of everything stored, without what the clock gives."""
    checks = storage.get_asset_check_execution_history(CHECK, limit=100)
    return {
        "logs": {run: [repr(e) for e in storage.get_logs_for_run(run)] for run in RUNS},
        "asset keys": sorted(key.to_string() for key in storage.all_asset_keys()),
        "assets": sorted(
            (repr(r.asset_entry.asset_key), repr(r.asset_entry.last_materialization_record), r.asset_entry.last_run_id)
            for r in storage.get_asset_records()
        ),
        "materialised": {key: sorted(storage.get_materialized_partitions(key)) for key in ASSETS},
        "newest": {
            key: storage.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION)
            for key in ASSETS
        },
        "records": {
            key: [repr(r) for r in storage.fetch_materializations(dg.AssetRecordsFilter(key), limit=100).records]
            for key in ASSETS
        },
        "observations": {
            key: [repr(r) for r in storage.fetch_observations(dg.AssetRecordsFilter(key), limit=100).records]
            for key in ASSETS
        },
        "versions": {
            key: storage.get_latest_tags_by_partition(
                key, dg.DagsterEventType.ASSET_MATERIALIZATION, ["dagster/data_version"]
            )
            for key in ASSETS
        },
        "checks": [(c.key, c.run_id, c.status, c.partition, repr(c.event)) for c in checks],
        "check states": sorted(repr(info) for info in storage.get_asset_check_partition_info([CHECK])),
        "run status": [repr(r) for r in storage.fetch_run_status_changes(dg.DagsterEventType.RUN_SUCCESS, 10).records],
    }


def test_batches_and_single_events_give_the_same_answers_as_dagsters_own_class(fresh: Fresh) -> None:
    events = some_events()
    _, own = fresh()
    for event in events:
        own.store_event(event)
    expected = answers(own)
    for size in (1, 5, 1000):
        batching, own = fresh()
        for start in range(0, len(events), size):
            batching.store_event_batch(events[start : start + size])
        assert answers(batching) == answers(own) == expected
    batching, own = fresh()
    batching.store_event_batch(events[:20])
    for event in events[20:30]:
        own.store_event(event)
    for event in events[30:]:
        batching.store_event(event)
    assert answers(batching) == answers(own) == expected


def test_where_dagster_does_not_fit_its_own_class_is_taken(
    dagster_url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def batches() -> bool:
        if dagster_url is None:
            storage = BatchingSqliteEventLogStorage.from_config_value(None, {"base_dir": str(tmp_path)})
        else:
            storage = mysql_storage.event_storage_of(Connections(dagster_url, 20.0), dagster_url)
        storage.dispose()
        return isinstance(storage, BatchingEventLog)

    assert batches()
    for module in (event_storage, mysql_storage):
        monkeypatch.setitem(module.LEANED_ON, "_store_asset_event", ("self", "something", "else"))
    assert not batches()


def test_a_batch_that_fails_leaves_nothing_behind_and_the_next_one_works(
    fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, _ = fresh()
    with monkeypatch.context() as patch:
        patch.setattr(storage, "_store_asset_event_tags", raising(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            storage.store_event_batch(some_events())
    assert storage.get_materialized_partitions(ASSETS[0]) == set()
    storage.store_event_batch(some_events())
    assert storage.get_materialized_partitions(ASSETS[0]) == {"add/H.1", "add/H.2"}


def test_removed_partitions_take_their_events_checks_and_tags_of_these_assets_with_them(fresh: Fresh) -> None:
    storage, _ = fresh()
    storage.store_event_batch(some_events())
    storage.add_dynamic_partitions("zips", ["add/H.1", "add/H.2"])
    assert remove_partitions(storage, "zips", ASSETS[:1], ["add/H.1", "add/H.3"]) == 1
    assert storage.get_dynamic_partitions("zips") == ["add/H.2"]
    assert [storage.get_materialized_partitions(asset) for asset in ASSETS] == [{"add/H.2"}, {"add/H.1", "add/H.2"}]
    assert {info.partition_key for info in storage.get_asset_check_partition_info([CHECK])} == {"add/H.2", None}
    without_event = "SELECT count(*) FROM asset_event_tags WHERE event_id NOT IN (SELECT id FROM event_logs)"
    with storage.index_connection() as connection:
        assert connection.exec_driver_sql(without_event).scalar() == 0
    storage.delete_dynamic_partition("zips", "add/H.2")


def test_threads_that_store_and_read_at_once_lose_nothing(fresh: Fresh) -> None:
    storage, _ = fresh()
    store_at_once(storage)


def store_at_once(*storages: BatchingEventLog) -> None:
    """Store and read in several threads, by these storages of one log."""

    def store(storage: BatchingEventLog, run_id: str) -> None:
        for number in range(4):
            there = dg.AssetMaterialization(ASSETS[0], partition=f"{run_id} {number}")
            data = StepMaterializationData(there)
            storage.store_event_batch([entry(run_id, dg.DagsterEventType.ASSET_MATERIALIZATION, data, 1.0)])
            storage.get_logs_for_run(run_id)

    runs = [(storages[number % len(storages)], str(uuid.UUID(int=number))) for number in range(10)]
    at_once(*[partial(store, *run) for run in runs])
    assert len(storages[0].get_materialized_partitions(ASSETS[0])) == 10 * 4


@pytest.fixture
def on_sqlite(tmp_path: Path, instance: dg.DagsterInstance) -> Iterator[BatchingSqliteEventLogStorage]:
    """A batching event log on SQLite, whichever database the tests are on."""
    storage = BatchingSqliteEventLogStorage(str(tmp_path / "batching"))
    storage.register_instance(instance)
    yield storage
    storage.dispose()


def test_processes_that_store_at_once_lose_nothing(
    on_sqlite: BatchingSqliteEventLogStorage, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    other = BatchingSqliteEventLogStorage(str(tmp_path / "batching"))
    other.register_instance(instance)
    store_at_once(on_sqlite, other)
    other.dispose()


@pytest.mark.parametrize("close", [BatchingSqliteEventLogStorage.dispose, BatchingSqliteEventLogStorage.wipe])
def test_connections_are_closed_when_no_thread_is_in_a_transaction(
    on_sqlite: BatchingSqliteEventLogStorage, close: Callable[[BatchingSqliteEventLogStorage], None]
) -> None:
    other = threading.Thread(target=close, args=(on_sqlite,))
    with on_sqlite.index_connection() as connection:
        other.start()
        other.join(0.2)
        assert other.is_alive()
        connection.exec_driver_sql("SELECT 1")
    other.join()


def test_the_index_is_opened_once_however_many_runs_come_between(on_sqlite: BatchingSqliteEventLogStorage) -> None:
    def descriptors() -> list[str]:
        index = on_sqlite.path_for_shard("index")
        names = (os.path.realpath(number) for number in Path("/proc/self/fd").iterdir())
        return sorted(name for name in names if name.startswith(index))

    event = some_events()[1]
    on_sqlite.store_event(event)
    before = descriptors()
    assert before
    for number in range(9):
        on_sqlite.get_logs_for_run(str(uuid.UUID(int=number)))
    on_sqlite.store_event(event)
    assert descriptors() == before
    on_sqlite.dispose()
    assert descriptors() == []


def test_the_database_of_a_run_is_made_in_one_step_as_dagster_makes_it(
    on_sqlite: BatchingSqliteEventLogStorage,
    tmp_path: Path,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = SqliteEventLogStorage(str(tmp_path / "own"))
    own.register_instance(instance)
    own.store_event(some_events()[0])
    with monkeypatch.context() as patch:
        patch.setattr(on_sqlite, "_initdb", raising(AssertionError("left to Dagster")))
        on_sqlite.store_event(some_events()[0])
    assert tables_of(on_sqlite) == tables_of(own)
    assert on_sqlite.get_all_run_ids() == [RUNS[0]]


def tables_of(storage: SqliteEventLogStorage) -> list[tuple[object, ...]]:
    """The tables, revision and journal of the first run's file."""
    with closing(sqlite3.connect(storage.path_for_shard(RUNS[0]))) as connection:
        schema = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()
        revisions = connection.execute("SELECT * FROM alembic_version").fetchall()
        return [*schema, *revisions, *connection.execute("PRAGMA journal_mode")]


def test_on_a_disk_without_hard_links_dagster_makes_the_database_of_a_run(
    on_sqlite: BatchingSqliteEventLogStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "hardlink_to", raising(PermissionError("Operation not permitted")))
    on_sqlite.store_event(some_events()[0])
    assert len(on_sqlite.get_logs_for_run(RUNS[0])) == 1
    names = (path.name for path in Path(on_sqlite.path_for_shard("index")).parent.iterdir())
    assert sorted(name for name in names if not name.endswith(("-wal", "-shm"))) == [f"{RUNS[0]}.db", "index.db"]


def test_a_disk_that_was_full_while_the_database_of_a_run_was_made_leaves_none_that_is_damaged(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    with small_disk(tmp_path / "disk", 8_000_000) as disk:
        storage = BatchingSqliteEventLogStorage(str(disk.path / "runs"))
        storage.register_instance(instance)
        storage.store_event(some_events()[0])
        for number, leave in enumerate(range(0, 420_000, 12_288), 100):
            event = some_events()[0]._replace(run_id=str(uuid.UUID(int=number)))
            disk.fill(leave)
            with suppress(DatabaseError):
                storage.store_event(event)
            disk.make_room()
            storage.store_event(event)
            assert storage.get_logs_for_run(event.run_id)
            Path(storage.path_for_shard(event.run_id)).unlink()
        storage.dispose()
