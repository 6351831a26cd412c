"""The recorder: what it stores of what it is told, in batches, and what it says when it cannot."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
from dagster import AssetCheckKey, AssetCheckSeverity, AssetKey, DagsterInstance, EventLogEntry

from dcc.errors import DagsterStorageError
from dcc_dagster.event_recorder import EventRecorder, RunStep
from dcc_dagster.metadata import Metadata
from dcc_dagster.partition_events import (
    CheckVerdict,
    MaterialisedPartition,
    PartitionEvents,
    PartitionReport,
    ReportedVerdict,
)
from tests.support.dagster_instances import Dagster
from tests.support.raising import raising

ASSET = AssetKey("validated_documents")
CHECK = AssetCheckKey(ASSET, "xsd")
OTHER = AssetCheckKey(ASSET, "other")
STEP = RunStep("f" * 36, "job", "step")


@pytest.fixture
def dagster(instance: DagsterInstance) -> Dagster:
    return Dagster(instance)


def told(dagster: Dagster, *reports: PartitionReport, planned: Sequence[AssetCheckKey] = ()) -> None:
    with EventRecorder(dagster.instance, STEP, PartitionEvents(dagster.instance, planned)) as recorder:
        recorder.record(reports)


def verdict(passed: bool, *, always: bool = True) -> CheckVerdict:
    return CheckVerdict(CHECK, "why", passed=passed, always=always)


def test_a_pass_is_stored_only_where_the_check_failed_before(dagster: Dagster) -> None:
    told(dagster, PartitionReport("bad", (), (verdict(False),)))
    told(
        dagster,
        PartitionReport("bad", (), (verdict(True, always=False),)),
        PartitionReport("good", (), (verdict(True, always=False),)),
    )
    assert dagster.checks(CHECK) == {"bad": "passed"}
    history = dagster.instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=10)
    told(dagster, PartitionReport("bad", (), (verdict(True, always=False),)))
    assert dagster.instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=10) == history
    told(dagster, *(PartitionReport("mended", (), (verdict(passed, always=not passed),)) for passed in (False, True)))
    assert dagster.checks(CHECK) == {"bad": "passed", "mended": "passed"}, "failed in the same batch"


def test_a_check_that_the_run_announced_gets_every_verdict(dagster: Dagster) -> None:
    reports = [
        PartitionReport("one", (), (verdict(True, always=False), CheckVerdict(OTHER, "why", passed=True, always=False)))
    ]
    told(dagster, *reports, planned=[CHECK])
    assert dagster.checks(CHECK) == {"one": "passed"}
    assert dagster.checks(OTHER) == {}


def test_an_evaluation_points_at_the_materialisation_that_it_is_about(dagster: Dagster) -> None:
    told(dagster, PartitionReport("one", (MaterialisedPartition(ASSET, {"bytes": 1}),), (verdict(False),)))
    newest = dagster.instance.get_latest_materialization_event(ASSET)
    assert newest is not None
    (info,) = dagster.instance.event_log_storage.get_asset_check_partition_info([CHECK])
    assert info.is_current
    assert info.latest_target_materialization_storage_id is not None
    target = dagster.evaluation(CHECK, "one").target_materialization_data
    assert (target.run_id, target.timestamp) == (STEP.run_id, newest.timestamp)
    assert target.storage_id == info.latest_materialization_storage_id


def test_events_keep_the_time_at_which_it_happened(dagster: Dagster) -> None:
    told(
        dagster,
        PartitionReport("one", (MaterialisedPartition(ASSET, {}),), (verdict(False),), timestamp=1_400_000_000.0),
    )
    newest = dagster.instance.get_latest_materialization_event(ASSET)
    assert newest is not None
    assert newest.timestamp == 1_400_000_000.0


def test_a_storage_that_fails_never_holds_up_the_work_and_is_said_at_the_end(
    dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dagster.instance.event_log_storage, "store_event_batch", raising(OSError("disk full")))
    done: list[int] = []

    def work() -> None:
        with EventRecorder(dagster.instance, STEP) as recorder:
            for number in range(300):
                recorder.record([PartitionReport(f"zip {number}", (MaterialisedPartition(ASSET, {}),))])
                done.append(number)

    with pytest.raises(DagsterStorageError, match=r"disk full.*dcc instance rebuild") as failure:
        work()
    assert len(done) == 300
    assert isinstance(failure.value.__cause__, OSError)


def test_a_failure_of_the_work_itself_is_not_hidden_by_one_of_the_storage(
    dagster: Dagster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dagster.instance.event_log_storage, "store_event_batch", raising(OSError("disk full")))

    def work() -> None:
        with EventRecorder(dagster.instance, STEP) as recorder:
            recorder.record([PartitionReport("one", (MaterialisedPartition(ASSET, {}),))])
            raise ValueError("the work")

    with caplog.at_level(logging.ERROR), pytest.raises(ValueError, match="the work"):
        work()
    assert "disk full" in caplog.text


@pytest.mark.parametrize("fails", ["nothing", "the work", "the store"])
def test_only_what_is_stored_counts_as_shown_and_nothing_after_a_failure(
    fails: str, dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[str] = []
    if fails == "the store":
        monkeypatch.setattr(dagster.instance.event_log_storage, "store_event_batch", raising(OSError("disk full")))

    def work() -> None:
        with EventRecorder(dagster.instance, STEP) as recorder:
            recorder.record([PartitionReport("one", (MaterialisedPartition(ASSET, {}),))])
            for name in ("first", "second"):
                recorder.when_stored(partial(noted.append, name))
            if fails == "the work":
                raise ValueError("the work")

    with suppress(DagsterStorageError, ValueError):
        work()
    assert noted == (["first", "second"] if fails == "nothing" else [])


def test_what_explains_a_failure_stands_beside_it_and_beside_nothing_else(dagster: Dagster) -> None:
    asked: list[Sequence[ReportedVerdict]] = []

    def explain(failures: Sequence[ReportedVerdict]) -> list[Metadata]:
        asked.append(failures)
        return [{"Causes": "a colony"} for _ in failures]

    good, bad = (
        PartitionReport("good", (), (verdict(True),), partition_set="zips"),
        PartitionReport("bad", (), (replace(verdict(False), kinds={"S1"}),), None, "zips"),
    )
    source = PartitionReport("source", (), (verdict(False),))
    events = PartitionEvents(dagster.instance, explain=explain)
    with EventRecorder(dagster.instance, STEP, events) as recorder:
        recorder.record([good, bad, source])
    assert [[failure.report.partition for failure in failures] for failures in asked] == [["bad"]]
    shown = {name: "Causes" in dagster.evaluation(CHECK, name).metadata for name in ("good", "bad", "source")}
    assert shown == {"good": False, "bad": True, "source": False}

    events = PartitionEvents(dagster.instance, explain=raising(OSError("cannot be explained")))
    with EventRecorder(dagster.instance, STEP, events) as recorder:
        recorder.record([replace(bad, partition="worse")])
    assert dagster.checks(CHECK)["worse"] == "failed"


def test_what_centres_wrote_is_legible_where_pages_read_markdown(dagster: Dagster) -> None:
    told(dagster, PartitionReport("one", (), (replace(verdict(False), description="<mouse> [x](y)\n*z*"),)))
    assert dagster.evaluation(CHECK, "one").description == r"‹mouse› \[x\](y) \*z\*"


def test_a_partition_with_several_failed_checks_begins_with_the_worst_and_who_acts_on_each(dagster: Dagster) -> None:
    failed = [
        CheckVerdict(OTHER, "more", {"Who acts": "DCC"}, passed=False, severity=AssetCheckSeverity.WARN),
        replace(verdict(False), metadata={"reason": "why", "Who acts": "centre"}),
    ]
    told(dagster, PartitionReport("one", (), failed))
    shown = dagster.metadata(ASSET.to_user_string(), "one")
    assert list(shown) == ["failed checks", "reason", "Who acts"]
    assert [tuple(row.values()) for row in shown["failed checks"]] == [
        ("xsd", "why", "centre"),
        ("other", "more", "DCC"),
    ]


EARLY = AssetKey("zip_actions")


def recalled(partitions: Sequence[str]) -> list[PartitionReport]:
    """All there is of partitions that had been archived."""
    return [
        PartitionReport(name, (MaterialisedPartition(EARLY, {}),), (verdict(False),), partition_set="zips")
        for name in partitions
    ]


def tell_of_an_archived_one(dagster: Dagster, partition: str) -> None:
    with EventRecorder(dagster.instance, STEP, recall=recalled) as recorder:
        recorder.record([PartitionReport(partition, (MaterialisedPartition(ASSET, {}),), partition_set="zips")])


def test_what_was_archived_is_shown_whole_wherever_its_showing_was_broken_off(
    dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, stored = dagster.instance.event_log_storage, dagster.instance.event_log_storage.store_event_batch
    left = 0

    def store(events: Sequence[EventLogEntry]) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError("broken off")
        stored(events)

    monkeypatch.setattr(storage, "store_event_batch", store)
    names = [f"broken off after {writes} writes" for writes in range(5)]
    for writes, name in enumerate(names):
        left = writes
        with suppress(DagsterStorageError):
            tell_of_an_archived_one(dagster, name)
        left = 100
        tell_of_an_archived_one(dagster, name)

    assert set(dagster.instance.get_dynamic_partitions("zips")) == set(names)
    assert dagster.materialised("zip_actions") == set(names)
    assert dagster.checks(CHECK) == dict.fromkeys(names, "failed")
