"""Sessions killed after validation, with documents prepared by processes, or judged one by one: they end alike."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import select

from dcc.cli.demo.submissions import damaged
from dcc.databases.engines import MAX_ATTACHED
from dcc.errors import InternalFaultError, SessionLostError
from dcc.phases import Phase
from dcc.qc import models
from dcc.session.data import judgement_phase, prepared_archives, upload_phase
from dcc.session.data.rechecks import recheck
from dcc.session.prepare import documents
from dcc.session.prepare.documents import ArchiveToPrepare, PreparationBasis, prepare_archive
from dcc.tracker.decisions import DecisionKind, count_decided, quarantine, record_fault, revoke
from dcc.tracker.models import XmlFile, XmlLog
from dcc.tracker.submission_rows import find_submission
from tests.support import dying_data_session
from tests.support.asking import column_in, in_reading, in_writing, rows_in
from tests.support.data_installations import EXPERIMENTS, SPECIMENS, DataInstallation, experiments, key_of, specimens
from tests.support.databases import only_sqlite
from tests.support.dying_preparation import DEADLY, DEADLY_ONCE, prepare_or_die
from tests.support.prepared_databases import PreparedFile
from tests.support.prepared_installations import begun_installation
from tests.support.prepared_processes import run_dying

HEALS = "add/H.2013-10-01.1.impc.zip"


def fill(data: DataInstallation) -> None:
    """An experiment that waits for its animal has failed; two archives that wait, one of which brings that animal."""
    data.run(HEALS, experiments("2013-10-01.1", first=4, animals=1))
    data.put("add/H.2013-10-31.1.impc.zip", specimens(mice=5), experiments())
    data.validate("add/H.2013-10-31.2.impc.zip", specimens("2013-10-31.2"), experiments("2013-10-31.2", first=90))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, prepared_files: dict[str, PreparedFile]) -> dict[str, Any]:
    """How a session ends that nothing disturbs, on SQLite."""
    data = begun_installation(tmp_path_factory.mktemp("undisturbed"), prepared_files)
    fill(data)
    data.take_up()
    ending = data.ending()
    assert set(ending["documents"].values()) == {"qc pending", "qc done", "data failed", "upload failed"}
    return ending


POINTS = {
    "sqlite": (
        "when an archive is prepared",
        "within the transaction of documents",
        "before the tracker hears of uploads",
        "when documents are set back",
        "when documents are judged",
        "before the overviews are built",
    ),
    "mysql": (
        "when documents are applied",
        "when the uploads are recorded",
        "within the transaction of a judgement",
        "when the contexts are built",
        "before documents are handed over",
    ),
}
"""Where sessions are killed, one after the other, by the database."""


@pytest.mark.both_databases
def test_sessions_killed_one_after_the_other_come_to_the_same_end_with_nothing_lost_and_nothing_twice(
    data: DataInstallation, undisturbed: dict[str, Any]
) -> None:
    """For the phases after validation: each session goes on where the one before was killed."""
    fill(data)
    for point in POINTS[data.tracker.dialect.name]:
        run_dying(dying_data_session.main, point, data.settings)
    data.take_up()
    assert data.ending() == undisturbed
    assert count_of_same_entries(data) == 1


@pytest.mark.usefixtures("forked_workers")
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
    apply = upload_phase.apply_documents

    def one_at_a_time(engine: Any, documents: Any, **options: Any) -> Any:
        return apply(engine, documents, **options) if len(documents) == 1 else 1 // 0

    monkeypatch.setattr(upload_phase, "apply_documents", one_at_a_time)
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


ZIP = "add/H.2013-10-31.1.impc.zip"
LATER = "add/H.2013-11-05.1.impc.zip"
LATE_EXPERIMENTS = "H.2013-11-05.1.experiment.impc.xml"


@pytest.fixture
def many(forked_workers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any documents are worth processes, on any machine."""
    monkeypatch.setattr(prepared_archives, "LARGE", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


def findings(data: DataInstallation) -> list[tuple[Any, ...]]:
    return data.rows(models.FINDING, "id", "document_id", "rule", "message", "line", "entity_id", "is_active")


def change(documents: dict[str, bytes], old: str, new: str) -> dict[str, bytes]:
    """The documents, with something else in each."""
    return {name: damaged(content, old, new) for name, content in documents.items()}


def mixed(data: DataInstallation) -> None:
    """Have an archive with documents that are sound, and with all sorts of faults, of their own and with animals."""
    animal = '<relatedSpecimen specimenID="H-M000001" relationship="littermate"/>'
    of_date = 'dateOfExperiment="2013'
    data.put(
        ZIP,
        specimens(mice=6),
        experiments(animals=3),
        change(experiments("2013-10-31.2", procedure="IMPC_GRS_001"), 'unit="g"', 'unit="kg"'),
        change(experiments("2013-10-31.3", procedure="IMPC_IPG_001"), "IMPC_001", "NONE_001"),
        experiments("2013-10-31.4", first=90, procedure="IMPC_CBC_001"),
        change(experiments("2013-10-31.5", procedure="IMPC_HEM_001"), of_date, 'dateOfExperiment="2010'),
        change(experiments("2013-10-31.6", first=4), of_date, 'dateOfExperiment="2113'),
        change(specimens("2013-11-01.1", first=20), animal.replace("01", "20"), animal.replace("01", "77")),
        change(specimens("2013-11-02.1", first=40), 'relationship="littermate"', 'relationship="mother"'),
        change(specimens("2013-11-03.1", first=60), 'project="BaSH"', 'project="Nobody"'),
    )


@pytest.mark.usefixtures("many")
def test_documents_judged_again_as_they_are_read_have_no_finding_more_or_less(data: DataInstallation) -> None:
    mixed(data)
    data.run()
    ending, found = data.ending(), findings(data)
    assert {row[2] for row in found} >= {"E1", "E4", "E8", "P11", "S12", "S14", "X8"}
    assert list(data.settings.staging_directory.rglob("prepared.rows*")) == []

    recheck(data.tracker, data.qc, data.settings, author="someone", reason="A test.")
    data.take_up()
    assert findings(data) == found
    assert data.ending() == ending


@only_sqlite
def test_prepared_files_of_a_session_that_ended_early_are_used_if_they_are_whole(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.put(ZIP, specimens(), experiments())
    data.validate(LATER, specimens("2013-11-05.1", first=40))
    prepare, made = prepare_archive, []

    def preparing(basis: PreparationBasis, archive: ArchiveToPrepare) -> dict[str, Exception]:
        made.append(archive.target)
        return prepare(basis, archive)

    monkeypatch.setattr(prepared_archives, "prepare_archive", preparing)
    with monkeypatch.context() as patched:
        patched.setattr(prepared_archives.PreparedArchives, "document", _interrupted(3))
        with pytest.raises(SessionLostError):
            data.take_up()
    first, damaged, experiment = (
        data.settings.staging_directory / f"{name}.contents" / f"prepared.rows.{kind}"
        for name, kind in ((ZIP, "specimen"), (LATER, "specimen"), (ZIP, "experiment"))
    )
    assert made == [first, damaged], "specimens of all archives come first"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    data.take_up()
    assert made[2:] == [damaged, experiment]
    assert set(data.documents().values()) == {"qc done", "qc pending"}


def _interrupted(call: int) -> Callable[..., Any]:
    document, calls = prepared_archives.PreparedArchives.document, []

    def interrupted(*given: Any) -> Any:
        calls.append(1)
        if len(calls) == call:
            raise SessionLostError("Another took over.")
        return document(*given)

    return interrupted


@only_sqlite
def test_documents_that_cannot_be_judged_together_are_judged_one_by_one(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is at fault with one keeps nothing from the others, and leaves nothing behind; nor does a lost file."""

    def break_down(connection: Any, *more: Any) -> Any:
        judge_together(connection, *more)
        return 1 // 0

    judge_together = judgement_phase.judge_together
    monkeypatch.setattr(judgement_phase, "judge_together", break_down)
    data.validate(ZIP, specimens(), experiments(), experiments("2013-11-05.1", first=9))
    data.take_up(until=Phase.UPLOAD)
    (data.settings.staging_directory / f"{ZIP}.contents" / EXPERIMENTS).unlink()
    data.take_up(until=Phase.DATA)
    assert data.documents() == {SPECIMENS: "data done", EXPERIMENTS: "data done", LATE_EXPERIMENTS: "data failed"}
    assert [row[2] for row in findings(data)] == ["E4"] * 3


@only_sqlite
@pytest.mark.usefixtures("many")
def test_when_a_process_is_killed_others_go_on_and_only_what_it_ends_over_each_time_is_failed(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        prepared_archives, "preparing", SimpleNamespace(begin=documents.begin, prepare_archive=prepare_or_die)
    )
    data.put(ZIP, specimens(), experiments())
    data.put(DEADLY_ONCE, specimens("2013-11-05.1", first=40))
    data.validate(DEADLY, specimens("2013-11-06.1", first=70))
    data.take_up()
    assert data.states() == {ZIP: "qc pending", DEADLY_ONCE: "qc done", DEADLY: "upload failed"}


def test_a_fault_with_another_archive_does_not_put_a_released_one_in_quarantine_again(data: DataInstallation) -> None:
    for number in (1, 2):
        data.put(f"add/H.2013-10-31.{number}.impc.zip", {f"H.2013-10-31.{number}.specimen.impc.xml": b"<x/>"})
    data.validate()
    first, second = (
        in_reading(data.tracker, find_submission, key_of(f"add/H.2013-10-31.{number}.impc.zip")).za_id
        for number in (1, 2)
    )
    for document in column_in(data.tracker, select(XmlFile.id)):
        in_writing(data.tracker, record_fault, document, InternalFaultError("It is a fault."))
    counts = []
    for met in ([first, second], [second], [first]):
        in_writing(data.tracker, quarantine, 1, 1, met)
        counts.append(in_reading(data.tracker, count_decided)[DecisionKind.QUARANTINE])
        in_writing(data.tracker, revoke, [first], DecisionKind.QUARANTINE, by="wrangler")
    assert counts == [2, 1, 2]
