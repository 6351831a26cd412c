"""The batching event log beside Dagster's own class: the same rows, the same answers, fewer transactions."""

import threading
import uuid
from collections.abc import Iterator, Sequence
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

from dcc_dagster import event_storage
from dcc_dagster.event_storage import BatchingSqliteEventLogStorage
from tests.support.raising import raising

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


def make(kind: type[SqliteEventLogStorage], path: Path, instance: dg.DagsterInstance) -> SqliteEventLogStorage:
    storage = kind(str(path))
    storage.register_instance(instance)
    return storage


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


@pytest.fixture(scope="module")
def default_answers(tmp_path_factory: pytest.TempPathFactory, instance: dg.DagsterInstance) -> dict[str, object]:
    storage = make(SqliteEventLogStorage, tmp_path_factory.mktemp("default"), instance)
    for event in some_events():
        storage.store_event(event)
    return answers(storage)


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_batches_of_any_size_give_the_same_answers_as_dagsters_own_class(
    tmp_path: Path, instance: dg.DagsterInstance, default_answers: dict[str, object], size: int
) -> None:
    storage = make(BatchingSqliteEventLogStorage, tmp_path / "batching", instance)
    events = some_events()
    for start in range(0, len(events), size):
        storage.store_event_batch(events[start : start + size])
    assert answers(storage) == default_answers


def test_where_dagster_does_not_fit_its_own_class_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kind() -> type:
        return type(BatchingSqliteEventLogStorage.from_config_value(None, {"base_dir": str(tmp_path)}))

    assert kind() is BatchingSqliteEventLogStorage
    monkeypatch.setitem(event_storage.LEANED_ON, "_store_asset_event", ("self", "something", "else"))
    assert kind() is SqliteEventLogStorage


def test_dagsters_own_class_reads_what_was_stored_and_stores_on(
    tmp_path: Path, instance: dg.DagsterInstance, default_answers: dict[str, object]
) -> None:
    batching = make(BatchingSqliteEventLogStorage, tmp_path / "shared", instance)
    default = make(SqliteEventLogStorage, tmp_path / "shared", instance)
    events = some_events()
    batching.store_event_batch(events[:20])
    for event in events[20:30]:
        default.store_event(event)
    batching.store_event_batch(events[30:])
    assert answers(default) == default_answers
    assert answers(batching) == default_answers


def test_a_batch_that_fails_leaves_nothing_behind_and_the_next_one_works(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_a_batch(make(BatchingSqliteEventLogStorage, tmp_path, instance), monkeypatch)


def fail_a_batch(storage: SqlEventLogStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(storage, "_store_asset_event_tags", raising(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            storage.store_event_batch(some_events())
    assert storage.get_materialized_partitions(ASSETS[0]) == set()
    storage.store_event_batch(some_events())
    assert storage.get_materialized_partitions(ASSETS[0]) == {"add/H.1", "add/H.2"}


def test_threads_that_store_and_read_at_once_lose_nothing(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    store_in_threads(make(BatchingSqliteEventLogStorage, tmp_path, instance))


def store_in_threads(storage: SqlEventLogStorage) -> None:
    failures: list[BaseException] = []

    def store(run_id: str) -> None:
        try:
            for number in range(4):
                there = dg.AssetMaterialization(ASSETS[0], partition=f"{run_id} {number}")
                data = StepMaterializationData(there)
                storage.store_event_batch([entry(run_id, dg.DagsterEventType.ASSET_MATERIALIZATION, data, 1.0)])
                storage.get_logs_for_run(run_id)
        except BaseException as error:
            failures.append(error)

    run_all([threading.Thread(target=store, args=(str(uuid.UUID(int=number)),)) for number in range(10)])
    assert failures == []
    assert len(storage.get_materialized_partitions(ASSETS[0])) == 10 * 4


def run_all(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
