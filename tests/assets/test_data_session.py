"""A session through all three jobs: what Dagster shows of documents that become data agrees with both databases."""

import logging
import os
import signal
import threading
import time
from multiprocessing.connection import Connection

import pytest
from dagster import DagsterRunStatus

from dcc.data_outcomes import DataOutcome, SubmissionData
from dcc.phases import Phase
from dcc.session.session_request import Listeners, SessionRequest
from dcc.settings import load_settings
from dcc.tracker.database import open_tracker
from dcc_assets.graph import CHECK_OF_GROUP, UPLOAD_CHECK
from dcc_assets.jobs import load_data
from dcc_assets.runs import finish_dead_runs
from dcc_assets.session_in_dagster import run_session
from dcc_dagster.instance import QC_DATABASE_POOL, dagster_environment, open_instance
from tests.support.asking import column_in
from tests.support.dagster_instances import Dagster
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.environments import of_installation, only
from tests.support.prepared_processes import holding
from tests.support.shown_installations import GOOD, ORPHANS, Shown

ARRIVAL = "add/H.2013-10-31.3.impc.zip"
DATA_ASSETS = ("uploaded_data", "data_integrity", "qc")
EXPERIMENT_CHECK = CHECK_OF_GROUP["experiments"]


def run(data: DataInstallation, dagster: Dagster) -> list[DataOutcome]:
    """A whole session; what it told of data."""
    heard: list[DataOutcome] = []
    dagster.session(data, listeners=Listeners(on_data=heard.append))
    return heard


def test_a_session_takes_documents_through_all_three_jobs(shown: Shown) -> None:
    data, data_dagster = shown.data, shown.dagster
    assert data.states() == {GOOD: "qc pending", ORPHANS: "data failed"}
    assert [run.job_name for run in data_dagster.instance.get_runs()] == [
        "load_data",
        "process_zip_actions",
        "crawl_file_sources",
    ]
    assert data_dagster.statuses() == [DagsterRunStatus.SUCCESS] * 3
    assert data_dagster.materialised("validated_documents") == {GOOD, ORPHANS}
    assert data_dagster.materialised("uploaded_data") == {GOOD, ORPHANS}
    assert data_dagster.materialised("data_integrity") == {GOOD, ORPHANS}
    assert data_dagster.materialised("qc") == {GOOD}
    assert data_dagster.materialised("contexts") == {"H"}
    assert data_dagster.materialised("overviews") == {"H"}
    assert list(data_dagster.instance.get_dynamic_partitions("centres")) == ["H"]
    passed = dict.fromkeys((GOOD, ORPHANS), "passed")
    checks = (UPLOAD_CHECK, *CHECK_OF_GROUP.values())
    assert {check.name: data_dagster.checks(check) for check in checks} == {
        **{check.name: passed for check in checks},
        "experiments": {GOOD: "passed", ORPHANS: "failed"},
    }


def test_a_failed_check_names_document_line_rule_and_message_the_worst_first(shown: Shown) -> None:
    evaluation = shown.dagster.evaluation(EXPERIMENT_CHECK, ORPHANS)
    assert evaluation.severity.value == "ERROR"
    findings = [dict(row.data) for row in evaluation.metadata["findings"].records]
    assert {(finding["rule"], finding["document"]) for finding in findings} == {
        ("E4", "H.2013-10-31.2.experiment.impc.xml")
    }
    assert all(finding["line"] > 0 for finding in findings)
    assert "3 errors in 1 of 1 document" in evaluation.description
    (cause,) = [dict(row.data) for row in evaluation.metadata["Causes"].records]
    assert (cause["found"], bool(cause["what to do"])) == (3, True)
    assert "/dcc/reports/add/H.2013-10-31.2.impc.zip" in evaluation.metadata["Links"].value
    assert {"What to do", "reason"} <= evaluation.metadata.keys()
    assert evaluation.metadata["Who acts"].value == "nobody"
    assert cause["who acts"] == "Nobody needs to act."
    assert evaluation.metadata["phase"].value == Phase.DATA.short_name
    stored = column_in(shown.data.qc, "SELECT message FROM finding WHERE is_active")
    assert {finding["message"] for finding in findings} == set(stored)


def test_a_failing_check_turns_green_when_its_cause_goes(shown: Shown) -> None:
    """E4 heals when the specimen arrives, without anyone submitting again."""
    assert shown.dagster.checks(EXPERIMENT_CHECK) == {GOOD: "passed", ORPHANS: "failed"}
    shown.data.put(ARRIVAL, specimens("2013-10-31.3", first=11))
    heard = run(shown.data, shown.dagster)
    told = [(str(one.key), one.reached) for one in heard if isinstance(one, SubmissionData)]
    assert [reached for key, reached in told if key == ARRIVAL] == [phase for phase in Phase if phase >= Phase.UPLOAD]
    assert shown.data.states()[ORPHANS] == "qc pending"
    assert shown.dagster.checks(EXPERIMENT_CHECK) == dict.fromkeys((GOOD, ORPHANS, ARRIVAL), "passed")
    assert ORPHANS in shown.dagster.materialised("data_integrity")
    assert ORPHANS in shown.dagster.materialised("qc")


def test_a_check_stays_red_while_another_document_of_the_archive_is_faulty(
    data: DataInstallation, data_dagster: Dagster
) -> None:
    data.put(ORPHANS, experiments("2013-10-31.2", first=11), experiments("2013-10-30.2", first=21))
    run(data, data_dagster)
    data.put(ARRIVAL, specimens("2013-10-31.3", first=11))
    run(data, data_dagster)
    assert data.states()[ORPHANS] == "data failed"
    assert data_dagster.checks(EXPERIMENT_CHECK) == {ORPHANS: "failed", ARRIVAL: "passed"}
    assert "in 1 of 2 documents" in data_dagster.evaluation(EXPERIMENT_CHECK, ORPHANS).description


def hold(said: Connection, environment: dict[str, str]) -> None:
    """A session that stops, with the place it has, when the first document is told of."""

    def stay(_outcome: object) -> None:
        said.send("It has the place.")
        time.sleep(600)

    with only(environment):
        settings = load_settings()
        with open_instance(settings) as instance:
            run_session(settings, open_tracker(settings), instance, SessionRequest(listeners=Listeners(on_data=stay)))


def test_a_holder_that_is_killed_frees_its_place_and_the_next_session_shows_what_it_left(
    data: DataInstallation, data_dagster: Dagster
) -> None:
    data.put(GOOD, specimens(), experiments())
    storage = data_dagster.instance.event_log_storage
    with holding(hold, of_installation(data.settings) | dagster_environment(data.settings)):
        assert len(storage.get_concurrency_info(QC_DATABASE_POOL).claimed_slots) == 1
        finish_dead_runs(data_dagster.instance, data.tracker, data.settings)
        assert len(storage.get_concurrency_info(QC_DATABASE_POOL).claimed_slots) == 1
    assert data_dagster.materialised("uploaded_data") == set()
    began = time.monotonic()
    run(data, data_dagster)
    assert time.monotonic() - began < 60
    assert data.states() == {GOOD: "qc pending"}
    assert all(data_dagster.materialised(asset) == {GOOD} for asset in DATA_ASSETS)
    assert storage.get_concurrency_info(QC_DATABASE_POOL).claimed_slots == []


def test_a_session_that_waits_for_another_run_can_be_interrupted(
    data: DataInstallation, data_dagster: Dagster, caplog: pytest.LogCaptureFixture
) -> None:
    data.put(GOOD, specimens(), experiments())
    at_work = data_dagster.instance.create_run_for_job(load_data, status=DagsterRunStatus.STARTED).run_id
    storage = data_dagster.instance.event_log_storage
    assert storage.claim_concurrency_slot(QC_DATABASE_POOL, at_work, "load").is_claimed
    interrupting = threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT])

    class Interrupts(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if f"Waiting for run {at_work}" in record.getMessage():
                interrupting.start()

    sessions, handler = logging.getLogger("dcc.sessions"), Interrupts()
    sessions.addHandler(handler)
    try:
        with caplog.at_level(logging.INFO, "dcc.sessions"), pytest.raises(KeyboardInterrupt):
            run(data, data_dagster)
    finally:
        sessions.removeHandler(handler)
        storage.free_concurrency_slots_for_run(at_work)
    assert data.states() == {GOOD: "xsd done"}
