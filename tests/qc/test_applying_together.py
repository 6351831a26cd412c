"""Several documents in one transaction: what each would have come to by itself, and nothing where it fails."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from dcc.cli.demo.submissions import experiment_document, specimen_document
from dcc.errors import NotWellFormedError, QcDatabaseUnreachableError
from dcc.naming import DocumentKind
from dcc.qc.apply import reading_ahead, reading_turns
from dcc.qc.apply.building_process import Order
from dcc.qc.apply.documents import Applied, apply_document
from dcc.qc.apply.many_documents import apply_together
from dcc.qc.apply.reading_ahead import ReadingAhead
from dcc.qc.apply.whole_documents import WholeDocument
from dcc.qc.models import Document
from dcc.runtime.helper_process import Helper
from dcc.vocabulary import DocumentState
from tests.support.databases import only_mariadb
from tests.support.noted_helpers import note_helpers
from tests.support.qc_child import fail_at_each_statement
from tests.support.qc_documents import contents, experiment, housing, line, specimen
from tests.support.qc_files import File, all_rows, alone, clear, file_maker
from tests.support.strategies_documents import full_document

EXPERIMENT, SPECIMEN = DocumentKind.EXPERIMENT, DocumentKind.SPECIMEN
LATE, REFUSED = "Q5", DocumentState.REFUSED


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[Helper]:
    """The processes that were started; any document is worth one."""
    helpers = note_helpers(monkeypatch, reading_turns)
    monkeypatch.setattr(reading_ahead, "LARGE", 0)
    return helpers


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., File]:
    """Makes a file of a document's text, or of what it says."""
    return file_maker(tmp_path)


@pytest.fixture
def files(put: Callable[..., File]) -> list[File]:
    """Five plain documents, each about animals of its own."""
    return [put(EXPERIMENT, experiment_document("H", animals=3, first=number * 100)) for number in range(5)]


def reading(files: Sequence[File]) -> Any:
    return closing(ReadingAhead([one.waiting for one in files]))


def together(engine: Engine, files: Sequence[File], ahead: ReadingAhead) -> list[Applied]:
    def build(number: int, order: Order) -> list[WholeDocument]:
        return ahead.read_whole([one.path for one in files[:number]], order)

    return apply_together(engine, [one.document for one in files], build, patience_seconds=5)


@pytest.mark.parametrize("large", [0, 10_000_000], ids=["read ahead", "read here"])
def test_documents_come_to_the_same_together_as_one_by_one(
    qc_database: Engine, put: Callable[..., File], large: int, monkeypatch: pytest.MonkeyPatch, started: list[Helper]
) -> None:
    """Every row and every outcome: also of what is there already, is named twice, comes late or is refused."""
    monkeypatch.setattr(reading_ahead, "LARGE", large)
    old, new = date(2013, 10, 1), date(2013, 11, 1)
    first = put(EXPERIMENT, contents(experiment("E1"), experiment("E2"), housing()))
    files = [
        put(SPECIMEN, specimen_document("H", mice=12), tracker_id=7),
        put(SPECIMEN, contents(specimen("S1"), specimen("S1"), specimen("S2")), tracker_id=8),
        put(SPECIMEN, contents(specimen("S1"), centre="J"), centre="J"),
        put(EXPERIMENT, experiment_document("H", animals=30), created=old),
        put(EXPERIMENT, contents(experiment("E1"), experiment("E3"), housing(), line("C1")), created=new),
        put(EXPERIMENT, contents(experiment("E3"), line("C1"))),
        put(EXPERIMENT, contents(experiment("E4"))),
        put(SPECIMEN, contents(specimen("S3", "L2"))),
        put(EXPERIMENT, full_document(EXPERIMENT).render()[0]),
        put(SPECIMEN, full_document(SPECIMEN).render()[0]),
        put(EXPERIMENT, experiment_document("H", animals=2)),
    ]
    alone(qc_database, first)
    expected = [alone(qc_database, one) for one in files]
    rows = all_rows(qc_database)
    clear(qc_database)
    alone(qc_database, first)
    with reading(files) as ahead:
        applied = together(qc_database, files, ahead)
    assert applied == expected
    assert all_rows(qc_database) == rows
    assert [one.late for one in applied][3:8] == [True, False, True, True, True]
    assert [one.state is REFUSED for one in applied].count(True) == 2
    assert len(started) == (0 if large else 1)


@pytest.mark.parametrize("what", ["not well-formed", "not as it was validated", "gone", "a text too long"])
def test_what_cannot_go_with_others_ends_the_group_and_the_rest_follows(
    qc_database: Engine, files: list[File], put: Callable[..., File], what: str, started: list[Helper]
) -> None:
    if what == "not well-formed":
        files[2] = put(EXPERIMENT, files[2].path.read_bytes()[:-30])
    elif what == "not as it was validated":
        files[2] = replace(files[2], document=replace(files[2].document, md5="0" * 32))
    elif what == "a text too long":
        files[2] = put(EXPERIMENT, contents(experiment("E" * 300), experiment("E1")))
    with reading(files) as ahead:
        if what == "gone":
            files[2].path.unlink()
        assert [one.document_id for one in together(qc_database, files, ahead)] == [1, 2]
        assert together(qc_database, files[2:], ahead) == []
        if what == "a text too long":
            assert alone(qc_database, files[2]).refused == 1
        elif what == "not well-formed":
            with pytest.raises(NotWellFormedError):
                alone(qc_database, files[2])
        ids = [one.document_id for one in together(qc_database, files[3:], ahead)]
    assert ids == ([4, 5] if what == "a text too long" else [3, 4])
    assert len(started) == 1


@pytest.mark.parametrize("how", ["applied", "held", "its number is another's"])
def test_what_came_before_goes_by_itself(
    qc_database: Engine, files: list[File], put: Callable[..., File], how: str
) -> None:
    files[1] = replace(files[1], document=replace(files[1].document, tracker_id=5))
    before = files[1]
    if how == "held":
        before = replace(before, document=replace(before.document, md5="0" * 32))
    elif how == "its number is another's":
        before = put(EXPERIMENT, contents(experiment("E1")), tracker_id=5)
    alone(qc_database, before)
    if how == "held":
        with qc_database.begin() as connection:
            connection.execute(Document.__table__.update().values(state=DocumentState.HELD.value))
    with reading(files) as ahead:
        assert len(together(qc_database, files, ahead)) == 1
        assert together(qc_database, files[1:], ahead) == []
        assert alone(qc_database, files[1]).repeated == (how == "applied")
        assert len(together(qc_database, files[2:], ahead)) == 3


def test_what_others_apply_meanwhile_takes_no_id_and_loses_none(
    qc_database: Engine, files: list[File], put: Callable[..., File], started: list[Helper]
) -> None:
    with reading(files) as ahead:
        assert [one.document_id for one in together(qc_database, files[:2], ahead)] == [1, 2]
        alone(qc_database, put(EXPERIMENT, contents(experiment("E1"))))
        assert [one.document_id for one in together(qc_database, files[2:], ahead)] == [4, 5, 6]
    assert len(started) == 2
    rows = all_rows(qc_database)
    for name in ("measurement", "experiment", "lifetime", "procedure_run"):
        assert [row[0] for row in rows[name]] == list(range(1, len(rows[name]) + 1))


def test_a_failure_at_any_statement_leaves_nothing_and_they_can_be_applied_again(
    qc_database: Engine, files: list[File], put: Callable[..., File]
) -> None:
    alone(qc_database, put(EXPERIMENT, contents(experiment("E1"))))
    files.append(put(EXPERIMENT, contents(experiment("E1"), experiment("E2"), line("C1"))))
    before = all_rows(qc_database)

    def nothing_is_left() -> None:
        assert all_rows(qc_database) == before

    with reading(files) as ahead:
        applied, number = fail_at_each_statement(
            qc_database, lambda: together(qc_database, files, ahead), nothing_is_left
        )
    assert number > 10
    assert [one.document_id for one in applied] == [2, 3, 4, 5, 6, 7]
    assert applied[-1].refused == 1


def test_a_transaction_that_is_run_again_takes_what_was_read_and_no_more(
    qc_database: Engine, files: list[File], started: list[Helper]
) -> None:
    calls: list[int] = []
    with reading(files) as ahead:

        def build(number: int, order: Order) -> list[WholeDocument]:
            built = ahead.read_whole([one.path for one in files[:number]], order)
            calls.append(len(built))
            if len(calls) < 3:
                raise QcDatabaseUnreachableError("The connection was lost.")
            return built

        applied = apply_together(qc_database, [one.document for one in files], build, patience_seconds=5)
    assert calls == [5, 5, 5]
    assert len(started) == 1
    assert [one.document_id for one in applied] == [1, 2, 3, 4, 5]
    assert len(all_rows(qc_database)["document"]) == 5


def test_a_process_that_is_killed_is_started_again(
    qc_database: Engine, files: list[File], started: list[Helper]
) -> None:
    with reading(files) as ahead:
        together(qc_database, files[:2], ahead)
        os.kill(started[0].process.pid, signal.SIGKILL)
        started[0].process.wait()
        started[0]._in.read()
        assert [one.document_id for one in together(qc_database, files[2:], ahead)] == [3, 4, 5]
    assert len(started) == 2


@only_mariadb
def test_what_follows_is_received_while_the_database_is_waited_for(
    qc_database: Engine, files: list[File], started: list[Helper]
) -> None:
    """As many documents as were asked for: those are there when the process that read them has ended."""
    with reading(files) as ahead:
        together(qc_database, files[:2], ahead)
        ahead._await_receiving()
        os.kill(started[0].process.pid, signal.SIGKILL)
        started[0].process.wait()
        assert [one.document_id for one in together(qc_database, files[2:4], ahead)] == [3, 4]
    assert len(started) == 1


@only_mariadb
def test_what_is_received_meanwhile_is_not_taken_with_ids_that_others_took(
    qc_database: Engine, files: list[File], put: Callable[..., File], started: list[Helper]
) -> None:
    with reading(files) as ahead:
        together(qc_database, files[:2], ahead)
        ahead._await_receiving()
        alone(qc_database, put(EXPERIMENT, contents(experiment("E1"))))
        assert [one.document_id for one in together(qc_database, files[2:4], ahead)] == [4, 5]
        assert [one.document_id for one in together(qc_database, files[4:], ahead)] == [6]
    assert len(started) == 2


@only_mariadb
def test_what_goes_wrong_while_receiving_is_raised_to_whoever_asks_next(
    qc_database: Engine, files: list[File], monkeypatch: pytest.MonkeyPatch
) -> None:
    take, taken = reading_ahead.unpacked, []

    def failing(message: Any) -> Any:
        taken.append(message)
        return take(message) if len(taken) != 3 else 1 // 0

    monkeypatch.setattr(reading_ahead, "unpacked", failing)
    with reading(files) as ahead:
        together(qc_database, files[:2], ahead)
        with pytest.raises(ZeroDivisionError):
            together(qc_database, files[2:], ahead)
        assert [one.document_id for one in together(qc_database, files[2:], ahead)] == [3, 4, 5]


@only_mariadb
def test_what_never_comes_keeps_nobody_from_ending(
    qc_database: Engine, files: list[File], started: list[Helper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_turns, "_LOT_DOCUMENTS", 1)
    files[3].path.unlink()
    os.mkfifo(files[3].path)
    with reading(files) as ahead:
        together(qc_database, files[:2], ahead)
        receiving = ahead._receiving
        assert receiving is not None
    assert not receiving.is_going_on
    assert len(started) == 1


@only_mariadb
def test_what_comes_bit_by_bit_after_others_is_left_to_whoever_reads_it(
    qc_database: Engine, files: list[File], started: list[Helper]
) -> None:
    waiting = [one.waiting for one in files]
    waiting[2] = waiting[2]._replace(md5=None)
    with closing(ReadingAhead(waiting)) as ahead:
        together(qc_database, files[:2], ahead)
        apply_document(qc_database, files[2].document, lambda: ahead.read(files[2].path, EXPERIMENT))
        assert [one.document_id for one in together(qc_database, files[3:], ahead)] == [4, 5]
    assert len(started) == 1


@pytest.fixture(autouse=True)
def _no_process_is_left(started: list[Helper]) -> Iterator[None]:
    yield
    assert all(helper.process.returncode is not None for helper in started)
