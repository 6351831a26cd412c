"""The Materialize button: one partition, by itself, in a run that opens its own session."""

import pytest
from dagster import DagsterRunStatus, JobDefinition
from sqlalchemy import select

from dcc.operations.sessions import open_session
from dcc.phases import Phase
from dcc.tracker.models import Reopening, SessionLock
from dcc_assets.keys import CHECK_OF_PHASE, REACHABLE
from dcc_assets.runs import SESSION_TAG
from dcc_assets.sessions import run_session
from tests.support.asking import column_in, row_in
from tests.support.dagster_instances import Dagster
from tests.support.installations import Installation

ZIP = "add/H.2013-10-31.1.impc.zip"
OTHER = "add/H.2013-10-31.2.impc.zip"
ZIP_ASSETS = ("zip_downloads", "xml_documents", "validated_documents")
ZIP_NAME, DOWNLOAD, ZIP_MD5, UNZIP, XML_NAME, XSD = CHECK_OF_PHASE.values()


def run(installation: Installation, dagster: Dagster) -> None:
    run_session(installation.settings, installation.tracker, dagster.instance, until=Phase.XSD)


def failure(dagster: Dagster) -> str:
    """Why the newest run failed."""
    newest = dagster.instance.get_runs(limit=1)[0]
    return "".join(
        str(event.dagster_event.event_specific_data.error)  # type: ignore[union-attr]
        for event in dagster.instance.all_logs(newest.run_id)
        if event.dagster_event is not None and event.dagster_event.is_step_failure
    )


def test_a_zip_action_is_processed_again_alone(
    installation: Installation, dagster: Dagster, asset_job: JobDefinition
) -> None:
    folder = installation.add_folder()
    folder.put(ZIP)
    folder.put(OTHER, b"no archive")
    run(installation, dagster)
    before = {key: len(installation.attempts(key)) for key in (ZIP, OTHER)}

    assert dagster.materialise(asset_job, ZIP, *ZIP_ASSETS) is DagsterRunStatus.SUCCESS
    assert len(installation.attempts(ZIP)) == before[ZIP] + 1
    assert len(installation.attempts(OTHER)) == before[OTHER]
    assert installation.states() == {ZIP: "xsd done", OTHER: "unzip failed"}
    checks = {check.name: dagster.checks(check).get(ZIP) for check in (DOWNLOAD, ZIP_MD5, UNZIP, XML_NAME, XSD)}
    assert checks == dict.fromkeys(checks, "passed")
    assert column_in(installation.tracker, select(Reopening.requested_by)) == ["Dagster"]
    assert dagster.instance.get_runs(limit=1)[0].tags[SESSION_TAG] == "2"


def test_a_file_source_is_crawled_and_its_session_left_open_for_what_it_found(
    installation: Installation, dagster: Dagster, asset_job: JobDefinition
) -> None:
    folder = installation.add_folder()
    other = installation.add_folder("J", "other")
    run(installation, dagster)
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
    run(installation, dagster)
    with open_session(installation.tracker, installation.settings) as session:
        assert dagster.materialise(asset_job, ZIP, *ZIP_ASSETS) is DagsterRunStatus.FAILURE
    assert f"SessionActiveError: Session {session.id} is active" in failure(dagster)
    assert installation.states() == {ZIP: "xsd done"}


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


def test_a_zip_action_with_an_odd_name_is_found_by_its_partition(
    installation: Installation, dagster: Dagster, asset_job: JobDefinition
) -> None:
    odd = "add/" + "very long and odd " * 5 + ".zip"
    installation.add_folder().put(odd)
    run(installation, dagster)
    (partition,) = dagster.checks(ZIP_NAME)
    assert partition is not None
    assert partition != odd
    assert dagster.materialise(asset_job, partition, "zip_actions") is DagsterRunStatus.SUCCESS
    assert dagster.checks(ZIP_NAME) == {partition: "failed"}
    assert dagster.materialise(asset_job, partition, "zip_downloads") is DagsterRunStatus.FAILURE
    assert "is refused for its name" in failure(dagster)
