"""Runs over chosen partitions: what each shows of the archives that it was for, and that it shows nothing of others."""

from collections.abc import Sequence

import pytest
from dagster import AssetKey, DagsterEventType, DagsterRunStatus, JobDefinition

from dcc_assets.keys import CHECK_OF_GROUP, CHECK_OF_PHASE, UPLOAD_CHECK
from dcc_assets.sessions import run_session
from tests.support.dagster_instances import Dagster
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens
from tests.support.shown_installations import GOOD, Shown

OTHER = "add/H.2013-10-31.2.impc.zip"
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


def session(data: DataInstallation, dagster: Dagster) -> None:
    run_session(data.settings, data.tracker, dagster.instance)


def test_one_run_takes_a_partition_through_the_whole_flow(shown: Shown) -> None:
    """The steps after the first are not skipped, as Dagster does where an asset has no result."""
    assert shown.dagster.materialise(shown.job, GOOD, *FLOW) is DagsterRunStatus.SUCCESS

    newest = shown.dagster.instance.get_runs(limit=1)[0]
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
    data: DataInstallation, data_dagster: Dagster, data_job: JobDefinition
) -> None:
    data.put(GOOD, specimens())
    data.put(OTHER, specimens("2013-10-31.2", first=11))
    data.put(FAULTY, {"H.2013-10-31.3.specimen.impc.xml": b"<nonsense/>"})
    session(data, data_dagster)
    run_id = materialise_range(data_dagster, data_job, [GOOD, OTHER, FAULTY], *FLOW[:3])
    told = told_in(data_dagster, run_id)
    assert {asset: sorted(partitions) for asset, partitions in told.items() if asset in FLOW[:3]} == {
        "zip_downloads": [GOOD, OTHER, FAULTY],
        "xml_documents": [GOOD, OTHER, FAULTY],
        "validated_documents": [GOOD, OTHER, FAULTY],
    }
    xsd = data_dagster.checks(CHECK_OF_PHASE[max(CHECK_OF_PHASE)])
    assert xsd == {GOOD: "passed", OTHER: "passed", FAULTY: "failed"}


def test_a_retry_materialises_no_other_archive(data: DataInstallation, data_dagster: Dagster) -> None:
    data.put(GOOD, specimens(), experiments())
    data.put(OTHER, specimens("2013-10-31.2", first=11))
    session(data, data_dagster)
    # At once: the second in which the session ended is not over.
    report = run_session(data.settings, data.tracker, data_dagster.instance, keys=[key_of(OTHER)], requested_by="ann")
    told = [told_in(data_dagster, run_id) for run_id in report.run_ids]
    assert {partition for run in told for partitions in run.values() for partition in partitions} <= {OTHER, "H"}
    assert any(OTHER in partitions for run in told for partitions in run.values())


def test_a_failed_check_has_its_own_causes_beside_it_and_not_those_of_others(
    data: DataInstallation, data_dagster: Dagster
) -> None:
    """One document is not valid, another one is on animals that nobody has submitted."""
    data.put(FAULTY, {"H.2013-10-31.3.specimen.impc.xml": b"<nonsense/>"}, experiments("2013-10-31.3", first=31))
    session(data, data_dagster)
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


@pytest.mark.parametrize("asset", ["contexts", "overviews"])
def test_a_centre_is_brought_up_to_date_by_its_partition(shown: Shown, asset: str) -> None:
    assert shown.dagster.materialise(shown.job, "H", asset) is DagsterRunStatus.SUCCESS
    newest = shown.dagster.instance.get_runs(limit=1)[0]
    assert told_in(shown.dagster, newest.run_id)[asset] == ["H"]
