"""Sessions killed in the phases after validation, and several that upload at once."""

from typing import Any

import pytest
from sqlalchemy import select

from dcc.databases.engines import MAX_ATTACHED
from dcc.session.data import prepared_archives, uploading
from dcc.tracker.models import XmlLog
from tests.support import dying_data_session
from tests.support.asking import rows_in
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import only_mariadb, only_sqlite
from tests.support.prepared_databases import PreparedFile
from tests.support.prepared_installations import begun_installation
from tests.support.prepared_processes import run_dying

HEALS = "add/H.2013-10-01.1.impc.zip"


def fill(data: DataInstallation) -> None:
    """An experiment that waits for its animal has failed; two archives that wait, one of which brings that animal."""
    data.put(HEALS, experiments("2013-10-01.1", first=4, animals=1))
    data.run()
    data.put("add/H.2013-10-31.1.impc.zip", specimens(mice=5), experiments())
    data.put("add/H.2013-10-31.2.impc.zip", specimens("2013-10-31.2"), experiments("2013-10-31.2", first=90))
    data.validate()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, prepared_files: dict[str, PreparedFile]) -> dict[str, Any]:
    """How a session ends that nothing disturbs, on SQLite."""
    data = begun_installation(tmp_path_factory.mktemp("undisturbed"), prepared_files)
    fill(data)
    data.take_up()
    ending = data.ending()
    assert set(ending["documents"].values()) == {"qc pending", "qc done", "data failed", "upload failed"}
    return ending


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
    run_dying(dying_data_session.main, point, data.settings)
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
        run_dying(dying_data_session.main, point, data.settings)
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
    apply = uploading.apply_documents

    def one_at_a_time(engine: Any, documents: Any, **options: Any) -> Any:
        return apply(engine, documents, **options) if len(documents) == 1 else 1 // 0

    monkeypatch.setattr(uploading, "apply_documents", one_at_a_time)
    data.take_up()
    assert data.ending() == undisturbed
    assert "documents are applied one by one" in caplog.text


def test_archives_of_both_kinds_of_documents_are_applied_together(
    data: DataInstallation, caplog: pytest.LogCaptureFixture
) -> None:
    """Each has two prepared files, of which SQLite reads only so many in one transaction."""
    stems = [f"2013-10-{day}.1" for day in range(10, 10 + MAX_ATTACHED)]
    for number, stem in enumerate(stems):
        first = 1 + 3 * number
        data.put(f"add/H.{stem}.impc.zip", specimens(stem, first=first) | experiments(stem, first=first))
    data.run()
    assert "documents are applied one by one" not in caplog.text
    assert set(data.states().values()) == {"qc pending"}


def count_of_same_entries(data: DataInstallation) -> int:
    """How many times the most frequent entry of a log that holds is there."""
    query = select(XmlLog.xml_id, XmlLog.message, XmlLog.line).where(XmlLog.cleared.is_(None))
    rows = [tuple(row) for row in rows_in(data.tracker, query)]
    return max(rows.count(row) for row in rows)
