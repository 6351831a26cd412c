"""The Materialize button, runs over chosen partitions, and runs in the process of a command."""

import signal
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from dagster import AssetCheckKey, AssetKey, DagsterEventType, DagsterInstance, DagsterRunStatus, JobDefinition, job, op
from dagster._core.storage.tags import PARTITION_NAME_TAG
from sqlalchemy import select, update

from dcc.operations.session_work import open_session
from dcc.phases import Phase
from dcc.runtime.clock import utc_now
from dcc.sources.crawl_policy import Pause
from dcc.tracker.models import CrawlingSession, Reopening, SessionLock
from dcc.tracker.register.file_sources import set_source_state
from dcc.tracker.register.source_schedules import set_pause
from dcc.tracker.session_statuses import SessionStatus
from dcc.vocabulary import SourceState
from dcc_assets.graph import CENTRE_SILENT, CHECK_OF_GROUP, CHECK_OF_PHASE, REACHABLE, UPLOAD_CHECK
from dcc_assets.runs import SESSION_TAG, finish_dead_runs, run_here
from dcc_dagster.run_processes import PROCESS_TAG
from tests.support.asking import column_in, execute_in, in_writing, row_in
from tests.support.dagster_instances import Dagster
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens
from tests.support.installations import Installation
from tests.support.shown_installations import GOOD, ORPHANS, Shown

ZIP = "add/H.2013-10-31.1.impc.zip"
OTHER = "add/H.2013-10-31.2.impc.zip"
ZIP_ASSETS = ("zip_downloads", "xml_documents", "validated_documents")
ZIP_NAME, DOWNLOAD, ZIP_MD5, UNZIP, XML_NAME, XSD = CHECK_OF_PHASE.values()


def failure(dagster: Dagster) -> str:
    """Why the newest run failed."""
    newest = dagster.instance.get_runs(limit=1)[0]
    return "".join(
        str(event.dagster_event.event_specific_data.error)  # type: ignore[union-attr]
        for event in dagster.instance.all_logs(newest.run_id)
        if event.dagster_event is not None and event.dagster_event.is_step_failure
    )


def test_a_file_source_is_crawled_and_its_session_left_open_for_what_it_found(
    installation: Installation, dagster: Dagster, asset_job: JobDefinition
) -> None:
    folder = installation.add_folder()
    other = installation.add_folder("J", "other")
    dagster.session(installation, until=Phase.XSD)
    folder.put(ZIP)
    other.put(OTHER)

    assert dagster.materialise(asset_job, "H-1", "file_source_listings") is DagsterRunStatus.SUCCESS
    assert installation.states() == {ZIP: "zip_name done"}
    assert dagster.materialised("zip_actions") == {ZIP}
    assert dagster.checks(REACHABLE)["H-1"] == "passed"
    assert row_in(installation.tracker, select(SessionLock.session_id, SessionLock.holder)) == (2, None)


def test_while_another_session_is_active_the_run_fails_and_says_so(
    installation: Installation, dagster: Dagster, asset_job: JobDefinition
) -> None:
    installation.add_folder().put(ZIP)
    dagster.session(installation, until=Phase.XSD)
    with open_session(installation.tracker, installation.settings) as session:
        assert dagster.materialise(asset_job, ZIP, *ZIP_ASSETS) is DagsterRunStatus.FAILURE
    assert f"SessionActiveError: Session {session.id} is active" in failure(dagster)
    assert installation.states() == {ZIP: "xsd done"}


@pytest.mark.both_databases
def test_checks_that_a_run_announced_and_did_not_make_keep_their_results(
    installation: Installation, dagster: Dagster, asset_job: JobDefinition
) -> None:
    folder = installation.add_folder()
    folder.put(ZIP, b"no archive")
    folder.put(OTHER, b"no archive")
    dagster.session(installation, until=Phase.XSD)
    shown = {check: dagster.checks(check) for check in PAST_NAME}
    assert shown[UNZIP] == {ZIP: "failed", OTHER: "failed"}
    in_writing(installation.tracker, set_source_state, folder.source_id, SourceState.MAINTENANCE)
    assert dagster.materialise(asset_job, ZIP, *ZIP_ASSETS) is DagsterRunStatus.FAILURE
    assert f"No available file source hosts {ZIP}" in failure(dagster)
    assert {check: dagster.checks(check) for check in PAST_NAME} == shown
    # As a run that was killed: it has announced its checks, and other processes see to its end.
    selection = frozenset(AssetKey(asset) for asset in ZIP_ASSETS)
    chosen = asset_job.get_subset(asset_selection=selection)
    tags = {PARTITION_NAME_TAG: ZIP, PROCESS_TAG: "elsewhere:1:1", SESSION_TAG: "1"}
    dagster.instance.create_run_for_job(chosen, status=DagsterRunStatus.STARTED, tags=tags, asset_selection=selection)
    assert dagster.checks(UNZIP) == {ZIP: "planned", OTHER: "failed"}
    execute_in(installation.tracker, update(CrawlingSession).values(finish_time=datetime(2001, 1, 1)))
    finish_dead_runs(dagster.instance, installation.tracker, installation.settings)
    assert {check: dagster.checks(check) for check in PAST_NAME} == shown


@pytest.mark.parametrize(
    ("partition", "asset", "reason"),
    [
        ("add/H.2020-01-01.1.impc.zip", "zip_downloads", "knows no add/H.2020-01-01.1.impc.zip"),
        ("H-77", "file_source_listings", "knows no file source H-77"),
    ],
)
def test_a_partition_that_the_tracker_does_not_know_fails_the_run_and_says_so(
    installation: Installation, dagster: Dagster, asset_job: JobDefinition, partition: str, asset: str, reason: str
) -> None:
    dagster.instance.add_dynamic_partitions("zip_actions", [partition])
    dagster.instance.add_dynamic_partitions("file_sources", [partition])
    assert dagster.materialise(asset_job, partition, asset) is DagsterRunStatus.FAILURE
    assert reason in failure(dagster)
    assert sessions_that_broke_off(installation) == []


@pytest.mark.parametrize("check", [REACHABLE, XSD, UPLOAD_CHECK, CENTRE_SILENT], ids=str)
def test_checks_that_are_executed_without_partitions_say_that_some_are_to_be_chosen(
    installation: Installation, dagster: Dagster, asset_job: JobDefinition, check: AssetCheckKey
) -> None:
    alone = asset_job.get_subset(asset_selection=frozenset(), asset_check_selection=frozenset({check}))
    assert not alone.execute_in_process(instance=dagster.instance, raise_on_error=False).success
    assert "choose partitions" in failure(dagster)
    assert sessions_that_broke_off(installation) == []


def sessions_that_broke_off(installation: Installation) -> list[int]:
    """People are notified of these as outages."""
    failed = CrawlingSession.status != int(SessionStatus.SUCCEEDED)
    return column_in(installation.tracker, select(CrawlingSession.id).where(failed))


def test_what_cannot_be_materialised_fails_the_run_and_breaks_no_session_off(
    data: DataInstallation, data_dagster: Dagster, asset_job: JobDefinition
) -> None:
    refused = "add/not_a_name.zip"
    data.put(refused, specimens())
    data_dagster.session(data)
    for asset, reason in (("zip_downloads", "is refused for its name"), ("uploaded_data", "has no document")):
        assert data_dagster.materialise(asset_job, refused, asset) is DagsterRunStatus.FAILURE
        assert reason in failure(data_dagster)
    in_writing(data.tracker, set_pause, 1, Pause("they move", "ann", utc_now(), None))
    assert data_dagster.materialise(asset_job, "H-1", "file_source_listings") is DagsterRunStatus.FAILURE
    assert "File source 1 is paused by ann: they move" in failure(data_dagster)
    assert sessions_that_broke_off(data.base) == []


def test_a_zip_action_with_an_odd_name_is_found_by_its_partition(
    installation: Installation, dagster: Dagster, asset_job: JobDefinition
) -> None:
    odd = "add/" + "very long and odd " * 5 + ".zip"
    installation.add_folder().put(odd)
    dagster.session(installation, until=Phase.XSD)
    (partition,) = dagster.checks(ZIP_NAME)
    assert partition is not None
    assert partition != odd
    assert dagster.materialise(asset_job, partition, "zip_actions") is DagsterRunStatus.SUCCESS
    assert dagster.checks(ZIP_NAME) == {partition: "failed"}
    assert dagster.materialise(asset_job, partition, "zip_downloads") is DagsterRunStatus.FAILURE
    assert "is refused for its name" in failure(dagster)


FAULTY = "add/H.2013-10-31.3.impc.zip"
FLOW = ("zip_downloads", "xml_documents", "validated_documents", "uploaded_data", "data_integrity")
PAST_NAME = [check for check in CHECK_OF_PHASE.values() if check.name != "zip_name"]


def materialise_range(dagster: Dagster, job: JobDefinition, partitions: Sequence[str], *assets: str) -> str:
    """What a backfill of neighbouring partitions does; returns the run's id."""
    first, last = partitions[0], partitions[-1]
    result = job.execute_in_process(
        instance=dagster.instance,
        tags={"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last},
        asset_selection=[AssetKey(asset) for asset in assets],
        raise_on_error=False,
    )
    assert result.success
    return result.run_id


def told_in(dagster: Dagster, run_id: str) -> dict[str, list[str]]:
    """The partitions that a run materialised, by asset, each as often as it did."""
    told: dict[str, list[str]] = {}
    for entry in dagster.instance.all_logs(run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION):
        event = entry.get_dagster_event()
        assert event.asset_key is not None
        told.setdefault(event.asset_key.to_user_string(), []).append(str(event.partition))
    return told


def test_one_run_takes_a_partition_through_the_whole_flow(shown: Shown) -> None:
    """The steps after the first are not skipped, as Dagster does where an asset has no result."""
    before = {key: len(shown.data.base.attempts(key)) for key in (GOOD, ORPHANS)}
    assert shown.dagster.materialise(shown.job, GOOD, *FLOW) is DagsterRunStatus.SUCCESS

    assert {key: len(shown.data.base.attempts(key)) for key in before} == before | {GOOD: before[GOOD] + 1}
    assert column_in(shown.data.tracker, select(Reopening.requested_by)) == ["Dagster"]
    newest = shown.dagster.instance.get_runs(limit=1)[0]
    assert newest.tags[SESSION_TAG] == "3", "that of the second step"
    told = told_in(shown.dagster, newest.run_id)
    assert {asset: told[asset] for asset in FLOW} == {asset: [GOOD] for asset in FLOW}
    assert all(set(partitions) <= {GOOD, "H"} for partitions in told.values())
    checks = [*PAST_NAME, UPLOAD_CHECK, *CHECK_OF_GROUP.values()]
    assert {check.name: shown.dagster.checks(check)[GOOD] for check in checks} == {
        check.name: "passed" for check in checks
    }
    events = shown.dagster.instance.all_logs(newest.run_id)
    assert [entry for entry in events if entry.is_dagster_event and entry.get_dagster_event().is_step_skipped] == []


def test_a_run_over_several_partitions_shows_what_each_came_to(
    data: DataInstallation, data_dagster: Dagster, asset_job: JobDefinition
) -> None:
    data.put(GOOD, specimens())
    data.put(OTHER, specimens("2013-10-31.2", first=11))
    data.put(FAULTY, {"H.2013-10-31.3.specimen.impc.xml": b"<nonsense/>"})
    data_dagster.session(data)
    run_id = materialise_range(data_dagster, asset_job, [GOOD, OTHER, FAULTY], *FLOW[:3])
    told = told_in(data_dagster, run_id)
    assert {asset: sorted(partitions) for asset, partitions in told.items() if asset in FLOW[:3]} == {
        "zip_downloads": [GOOD, OTHER, FAULTY],
        "xml_documents": [GOOD, OTHER, FAULTY],
        "validated_documents": [GOOD, OTHER, FAULTY],
    }
    xsd = CHECK_OF_PHASE[max(CHECK_OF_PHASE)]
    assert data_dagster.checks(xsd) == {GOOD: "passed", OTHER: "passed", FAULTY: "failed"}
    made = data_dagster.instance.event_log_storage.get_asset_check_execution_history(xsd, limit=3)
    assert {record.run_id for record in made} == {run_id}, "they stay when the run ends"


def test_a_retry_materialises_no_other_archive(data: DataInstallation, data_dagster: Dagster) -> None:
    data.put(GOOD, specimens(), experiments())
    data.put(OTHER, specimens("2013-10-31.2", first=11))
    data.put(FAULTY, {"H.2013-10-31.3.specimen.impc.xml": b"<nonsense/>"})
    data_dagster.session(data)
    # At once: the second in which the session ended is not over.

    def told_by_a_retry(key: str) -> list[dict[str, list[str]]]:
        before = data_dagster.instance.get_runs_count()
        data_dagster.session(data, keys=[key_of(key)], requested_by="ann")
        runs = data_dagster.instance.get_runs()
        return [told_in(data_dagster, run.run_id) for run in runs[: len(runs) - before]]

    told = told_by_a_retry(OTHER)
    assert {partition for run in told for partitions in run.values() for partition in partitions} <= {OTHER, "H"}
    assert any(OTHER in partitions for run in told for partitions in run.values())
    for place in (data.folder.path, data.settings.staging_directory):
        (place / FAULTY).unlink()
    assert not any(told_by_a_retry(FAULTY)), "what could not be fetched stays as it was"


def test_a_failed_check_has_its_own_causes_beside_it_and_not_those_of_others(
    data: DataInstallation, data_dagster: Dagster
) -> None:
    """One document is not valid, another one is on animals that nobody has submitted."""
    data.put(FAULTY, {"H.2013-10-31.3.specimen.impc.xml": b"<nonsense/>"}, experiments("2013-10-31.3", first=31))
    data_dagster.session(data)
    xsd = CHECK_OF_PHASE[max(CHECK_OF_PHASE)]
    shown = {
        check.name: {
            record.data["document"] for record in data_dagster.evaluation(check, FAULTY).metadata["Causes"].records
        }
        for check in (xsd, CHECK_OF_GROUP["experiments"])
    }
    assert shown == {
        "xsd": {"H.2013-10-31.3.specimen.impc.xml"},
        "experiments": {"H.2013-10-31.3.experiment.impc.xml"},
    }
    # By the rule alone nobody acts; the cause says that the animals may be in the document that failed.
    assert data_dagster.metadata("data_integrity", FAULTY)["Who acts"] == "centre"


def test_a_centre_is_brought_up_to_date_by_its_partition(shown: Shown) -> None:
    assert shown.dagster.materialise(shown.job, "H", "contexts", "overviews") is DagsterRunStatus.SUCCESS
    newest = shown.dagster.instance.get_runs(limit=1)[0]
    assert told_in(shown.dagster, newest.run_id) == {"contexts": ["H"], "overviews": ["H"]}


@op
def work() -> None:
    """A step."""


@job
def of_one_step() -> None:
    """A run."""
    work()


@pytest.mark.parametrize(
    "moment",
    [
        DagsterEventType.RUN_START,
        DagsterEventType.STEP_START,
        DagsterEventType.STEP_SUCCESS,
        DagsterEventType.RUN_SUCCESS,
    ],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_at_any_moment_is_raised(
    dagster: Dagster, monkeypatch: pytest.MonkeyPatch, moment: DagsterEventType, number: signal.Signals
) -> None:
    store = DagsterInstance.handle_new_event

    def interrupted(instance: DagsterInstance, event: Any, **options: Any) -> None:
        store(instance, event, **options)
        if event.is_dagster_event and event.get_dagster_event().event_type is moment:
            signal.raise_signal(number)

    monkeypatch.setattr(DagsterInstance, "handle_new_event", interrupted)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_here(of_one_step, dagster.instance, {})
    assert signal.getsignal(signal.SIGINT) is before
