"""A session up to validation through Dagster, in this process: it shows what the tracker has, whatever fails."""

import pytest
from dagster import DagsterRunStatus
from sqlalchemy import select

from dcc.errors import ConfigurationError, DagsterStorageError, SessionLostError, TrackerUnreachableError
from dcc.phases import Phase
from dcc.session.session_request import Listeners
from dcc.session.sessions import Session
from dcc.settings.workers import ExecutorKind
from dcc.tracker.models import CrawlingSession
from dcc_assets.graph import CHECK_OF_PHASE, REACHABLE
from dcc_assets.runs import SESSION_TAG, STARTED_BY_TAG
from dcc_dagster.event_recorder import EventRecorder
from tests.support.asking import row_in, rows_in
from tests.support.dagster_instances import Dagster, Heard
from tests.support.installations import Installation, experiments, specimens
from tests.support.raising import raising

GOOD = "add/H.2013-10-31.1.impc.zip"
NO_ARCHIVE = "edit/H.2013-10-31.2.impc.zip"
BAD_NAME = "add/whatever.zip"
INVALID = "add/H.2013-10-31.3.impc.zip"
ODD_DOCUMENT = "delete/H.2013-10-31.4.impc.zip"
WRONG_MD5 = "add/H.2013-10-31.5.impc.zip"
ALL = [GOOD, NO_ARCHIVE, BAD_NAME, INVALID, ODD_DOCUMENT, WRONG_MD5]

ZIP_NAME, DOWNLOAD, ZIP_MD5, UNZIP, XML_NAME, XSD = CHECK_OF_PHASE.values()


def invalid_documents() -> dict[str, bytes]:
    documents = {**specimens(stem="2013-10-31.3"), **experiments(stem="2013-10-31.3")}
    name = next(name for name in documents if "specimen" in name)
    return documents | {name: documents[name].replace(b"</centre>", b"<nonsense/></centre>", 1)}


def put_all_kinds(installation: Installation) -> None:
    folder = installation.add_folder()
    folder.put(GOOD)
    folder.put(NO_ARCHIVE, b"this is no zip archive")
    folder.put(BAD_NAME)
    folder.put(INVALID, invalid_documents())
    folder.put(ODD_DOCUMENT, {**specimens(stem="2013-10-31.4"), "oddly named.xml": b"<x/>"})
    folder.put(WRONG_MD5)
    (folder.path / f"{WRONG_MD5}.md5").write_text("0" * 32 + "  H.2013-10-31.5.impc.zip\n")


def run(installation: Installation, dagster: Dagster, heard: Heard) -> None:
    listeners = Listeners(heard.crawls.append, heard.zips.append)
    dagster.session(installation, until=Phase.XSD, listeners=listeners)


def test_what_dagster_shows_agrees_with_the_tracker(installation: Installation, dagster: Dagster, heard: Heard) -> None:
    put_all_kinds(installation)
    run(installation, dagster, heard)

    assert installation.states() == {
        GOOD: "xsd done",
        NO_ARCHIVE: "unzip failed",
        BAD_NAME: "zip_name failed",
        INVALID: "xsd failed",
        ODD_DOCUMENT: "xml_name failed",
        WRONG_MD5: "zip_md5 failed",
    }
    assert set(dagster.instance.get_dynamic_partitions("zip_actions")) == set(ALL)
    assert dagster.materialised("file_source_listings") == {"H-1"}
    # An archive that failed is shown where it failed, with the reason, and no further.
    assert dagster.materialised("zip_actions") == set(ALL)
    assert dagster.materialised("zip_downloads") == {GOOD, NO_ARCHIVE, INVALID, ODD_DOCUMENT, WRONG_MD5}
    assert dagster.materialised("xml_documents") == {GOOD, INVALID, ODD_DOCUMENT, NO_ARCHIVE}
    assert dagster.materialised("validated_documents") == {GOOD, INVALID}
    assert dagster.checks(REACHABLE) == {"H-1": "passed"}
    assert {check.name: dagster.checks(check) for check in CHECK_OF_PHASE.values()} == {
        "zip_name": dict.fromkeys(ALL, "passed") | {BAD_NAME: "failed"},
        "download": dict.fromkeys((GOOD, NO_ARCHIVE, INVALID, ODD_DOCUMENT), "passed"),
        "zip_md5": dict.fromkeys((GOOD, NO_ARCHIVE, INVALID, ODD_DOCUMENT), "passed") | {WRONG_MD5: "failed"},
        "unzip": dict.fromkeys((GOOD, INVALID, ODD_DOCUMENT), "passed") | {NO_ARCHIVE: "failed"},
        "xml_name": dict.fromkeys((GOOD, INVALID), "passed") | {ODD_DOCUMENT: "failed"},
        "xsd": dict.fromkeys((GOOD, ODD_DOCUMENT), "passed") | {INVALID: "failed"},
    }
    assert dagster.statuses() == [DagsterRunStatus.SUCCESS] * 2
    assert {crawl.source_id for crawl in heard.crawls} == {1}
    assert set(heard.by_zip) == set(ALL) - {BAD_NAME}
    runs = dagster.instance.get_runs()
    number, finished = row_in(installation.tracker, select(CrawlingSession.id, CrawlingSession.finish_time))
    assert finished is not None
    assert [run.tags[SESSION_TAG] for run in runs] == [str(number)] * 2
    assert {run.tags[STARTED_BY_TAG] for run in runs} == {"dcc crawl"}
    shown = {key for run in runs for key in run.tags if not key.startswith(".dagster/")}
    assert shown == {SESSION_TAG, STARTED_BY_TAG}
    _failed_checks_name_the_zip_the_documents_and_the_lines(dagster, heard)


def test_a_session_does_not_begin_while_its_workers_lack_a_setting(
    installation: Installation, dagster: Dagster, heard: Heard
) -> None:
    without_broker = installation.with_settings(executor=ExecutorKind.CELERY)
    with pytest.raises(ConfigurationError, match="DCC_BROKER names no broker"):
        run(without_broker, dagster, heard)
    assert rows_in(installation.tracker, select(CrawlingSession.id)) == []


def _failed_checks_name_the_zip_the_documents_and_the_lines(dagster: Dagster, heard: Heard) -> None:
    evaluation = dagster.evaluation(XSD, INVALID)
    assert evaluation.severity.value == "ERROR"
    assert evaluation.metadata["zip"].value == INVALID
    assert (evaluation.metadata["phase"].value, evaluation.metadata["status"].value) == ("xsd", "failed")
    error = evaluation.metadata["errors"].records[0].data
    told = next(document.errors[0] for document in heard.by_zip[INVALID].documents if document.errors)
    assert (error["line"], error["column"], error["message"]) == (told.line, told.column, told.message)
    assert "nonsense" in error["message"]
    assert "1 of 2 documents failed validation. First: H.2013-10-31.3.specimen.impc.xml" in evaluation.description
    reason = heard.by_zip[NO_ARCHIVE].reasons[-1].message
    assert dagster.evaluation(UNZIP, NO_ARCHIVE).metadata["reason"].value == reason
    assert "does not follow" in dagster.evaluation(ZIP_NAME, BAD_NAME).description


def test_a_zip_that_is_right_again_turns_its_check_green(
    installation: Installation, dagster: Dagster, heard: Heard
) -> None:
    """By the next session, which takes it because it has changed."""
    folder = installation.add_folder()
    folder.put(INVALID, invalid_documents())
    run(installation, dagster, heard)
    assert dagster.checks(XSD) == {INVALID: "failed"}

    folder.put(INVALID, specimens(stem="2013-10-31.3"), modified=1_500_000_000)
    run(installation, dagster, heard)

    assert installation.states() == {INVALID: "xsd done"}
    assert dagster.checks(XSD) == {INVALID: "passed"}
    assert dagster.materialised("validated_documents") == {INVALID}
    target = dagster.evaluation(XSD, INVALID).target_materialization_data
    assert target.run_id == dagster.instance.get_runs()[0].run_id


@pytest.mark.parametrize("error", [SessionLostError, TrackerUnreachableError])
def test_what_the_work_raises_reaches_the_caller_as_it_was(
    installation: Installation,
    dagster: Dagster,
    heard: Heard,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    error: type[Exception],
) -> None:
    monkeypatch.setattr(Session, "raise_if_over", raising(error("the reason")))
    installation.add_folder().put(GOOD)
    with pytest.raises(error, match=r"^the reason$"):
        run(installation, dagster, heard)
    assert dagster.statuses() == [DagsterRunStatus.FAILURE]
    assert capfd.readouterr() == ("", "")


def test_the_work_is_done_when_dagster_cannot_store_events(
    installation: Installation, dagster: Dagster, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventRecorder, "_write", raising(OSError("no space left on device")))
    put_all_kinds(installation)
    with pytest.raises(DagsterStorageError, match=r"no space left.*dcc instance rebuild"):
        run(installation, dagster, heard)
    assert installation.states()[GOOD] == "xsd done"
    assert set(heard.by_zip) == set(ALL) - {BAD_NAME}
