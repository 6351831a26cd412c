"""Sessions killed in the phases after validation, and several that upload at once."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select

from dcc.databases.engines import MOST_ATTACHED
from dcc.databases.schema import init_database
from dcc.phases import Phase
from dcc.qc import models
from dcc.qc.database import open_qc_database
from dcc.rights import Delegations
from dcc.session.data import prepared_archives, uploader
from dcc.session.data.data_session import Fact
from dcc.session.data.documents import load_due
from dcc.session.data.prepared_archives import prepared_once
from dcc.session.data.uploader import Uploader
from dcc.settings import Settings
from dcc.store.staging import Staging
from dcc.tracker.database import open_tracker
from dcc.tracker.models import XmlLog
from tests.support import dying_data_session
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import only_mariadb, only_sqlite
from tests.support.installations import Installation
from tests.support.prepared_processes import run_in_process

HEALS = "add/H.2013-10-01.1.impc.zip"


def fill(data: DataInstallation) -> None:
    """An experiment that waits for its animal has failed; two archives that wait, one of which brings that animal."""
    data.put(HEALS, experiments("2013-10-01.1", first=4, animals=1))
    data.run()
    data.put("add/H.2013-10-31.1.impc.zip", specimens(mice=5), experiments())
    data.put("add/H.2013-10-31.2.impc.zip", specimens("2013-10-31.2"), experiments("2013-10-31.2", first=90))
    data.validate()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """How a session ends that nothing disturbs, on SQLite."""
    root = tmp_path_factory.mktemp("undisturbed")
    settings = Settings(home=root / "home", min_free_bytes=0, retry_delay=0.05)
    tracker, qc = open_tracker(settings), open_qc_database(settings)
    init_database(tracker)
    init_database(qc)
    base = Installation(tracker, settings, root)
    base.add_centre("H", "J")
    data = DataInstallation(base, qc, base.add_folder())
    fill(data)
    data.take_up()
    ending = data.ending()
    assert set(ending["documents"].values()) == {"qc pending", "qc done", "data failed", "upload failed"}
    return ending


def run_dying(settings: Settings, point: str) -> int | None:
    environment = {
        "DCC_HOME": str(settings.home),
        "DCC_TRACKER_URL": settings.tracker_database_url,
        "DCC_QC_URL": settings.qc_database_url,
    }
    return run_in_process(dying_data_session.main, point, environment)


@only_sqlite
@pytest.mark.parametrize(
    "point",
    [
        "when an archive is prepared",
        "within the transaction of documents",
        "before the tracker hears of uploads",
        "when documents are set back",
        "when documents are judged",
        "before the overviews are built",
    ],
)
def test_a_session_killed_anywhere_is_continued_with_nothing_lost_and_nothing_twice(
    data: DataInstallation, undisturbed: dict[str, Any], point: str
) -> None:
    """For the phases after validation."""
    fill(data)
    assert run_dying(data.settings, point) == -signal.SIGKILL
    data.take_up()
    assert data.ending() == undisturbed
    assert count_of_same_entries(data) == 1


@only_mariadb
def test_sessions_killed_one_after_the_other_come_to_the_same_end(
    data: DataInstallation, undisturbed: dict[str, Any]
) -> None:
    """On MariaDB: each session goes on where the one before was killed."""
    fill(data)
    for point in (
        "when documents are applied",
        "when the uploads are recorded",
        "within the transaction of a judgement",
        "when the contexts are built",
        "before documents are handed over",
    ):
        assert run_dying(data.settings, point) == -signal.SIGKILL
    data.take_up()
    assert data.ending() == undisturbed
    assert count_of_same_entries(data) == 1


def test_a_session_in_which_processes_prepare_comes_to_the_same_end(
    data: DataInstallation, undisturbed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared_archives, "LARGE", 0)
    monkeypatch.setattr(prepared_archives, "prepare_archive", None)
    fill(data)
    data.take_up()
    assert data.ending() == undisturbed


def test_documents_that_fail_together_are_applied_one_by_one(
    data: DataInstallation,
    undisturbed: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fill(data)
    apply = uploader.apply_documents

    def one_at_a_time(engine: Any, documents: Any, **options: Any) -> Any:
        return apply(engine, documents, **options) if len(documents) == 1 else 1 // 0

    monkeypatch.setattr(uploader, "apply_documents", one_at_a_time)
    data.take_up()
    assert data.ending() == undisturbed
    assert "documents are applied one by one" in caplog.text


def test_archives_of_both_kinds_of_documents_are_applied_together(
    data: DataInstallation, caplog: pytest.LogCaptureFixture
) -> None:
    """Each has two prepared files, of which SQLite reads only so many in one transaction."""
    stems = [f"2013-10-{day}.1" for day in range(10, 10 + MOST_ATTACHED)]
    for number, stem in enumerate(stems):
        first = 1 + 3 * number
        data.put(f"add/H.{stem}.impc.zip", specimens(stem, first=first) | experiments(stem, first=first))
    data.run()
    assert "documents are applied one by one" not in caplog.text
    assert set(data.states().values()) == {"qc pending"}


def count_of_same_entries(data: DataInstallation) -> int:
    """How many times the most frequent entry of a log that holds is there."""
    query = select(XmlLog.xml_id, XmlLog.message, XmlLog.line).where(XmlLog.cleared.is_(None))
    with data.tracker.connect() as connection:
        rows = [tuple(row) for row in connection.execute(query)]
    return max(rows.count(row) for row in rows)


def test_two_that_upload_the_same_documents_at_once_apply_each_once(data: DataInstallation) -> None:
    """Strictly one at a time, across processes; here each with an engine of its own."""
    for inc in range(4):
        stem = f"2013-10-31.{inc}"
        data.put(f"add/H.{stem}.impc.zip", specimens(stem, first=10 * inc + 1), experiments(stem, first=10 * inc + 1))
    data.validate()
    with data.tracker.connect() as connection:
        due = load_due(connection, Phase.UPLOAD, data.settings.naming)
    barrier = threading.Barrier(2)

    def upload() -> list[Fact]:
        qc = open_qc_database(data.settings)
        try:
            barrier.wait(30)
            uploader = Uploader(qc, data.settings, Delegations())
            facts = []
            for document in due:
                with prepared_once(Staging(data.settings.staging_directory), [document], qc) as prepared:
                    facts += uploader.upload([document], [prepared(document)])
            return facts
        finally:
            qc.dispose()

    with ThreadPoolExecutor(2) as pool:
        first, second = (done.result() for done in [pool.submit(upload) for _ in range(2)])
    assert [a.data.repeated != b.data.repeated for a, b in zip(first, second, strict=True)] == [True] * len(due)
    assert [a.data.document_id == b.data.document_id for a, b in zip(first, second, strict=True)] == [True] * len(due)
    assert len(data.rows(models.DOCUMENT, "id")) == len(due) == 8
    data.take_up()
    assert set(data.documents().values()) == {"qc pending", "qc done"}
