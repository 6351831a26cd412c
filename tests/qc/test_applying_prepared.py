"""Documents that are prepared while others are on their way come to what they would have come to one by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from dcc.cli.demo.submissions import experiment_document, specimen_document
from dcc.naming import DocumentKind
from dcc.qc.apply.building_process import Order
from dcc.qc.apply.documents import Applied
from dcc.qc.apply.many_documents import Build, Prepared, apply_prepared, prepare_together
from dcc.qc.apply.upload_lock import let_rows_come, take_upload_lock
from dcc.qc.apply.whole_documents import WholeDocument, build_whole, read_whole
from tests.support.databases import only_mariadb
from tests.support.qc_child import fail_at_each_statement
from tests.support.qc_documents import contents, experiment, housing, line, specimen
from tests.support.qc_files import File, all_rows, alone, clear, file_maker
from tests.support.strategies_documents import full_document

EXPERIMENT, SPECIMEN = DocumentKind.EXPERIMENT, DocumentKind.SPECIMEN
_SECONDS = 30


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., File]:
    """Makes a file of a document's text, or of what it says."""
    return file_maker(tmp_path)


@pytest.fixture
def files(put: Callable[..., File]) -> list[File]:
    """Documents some of which name what others before them do, or come late after them."""
    old, new = date(2013, 10, 1), date(2013, 11, 1)
    return [
        put(SPECIMEN, specimen_document("H", mice=12), tracker_id=7),
        put(SPECIMEN, contents(specimen("S1"), specimen("S2")), tracker_id=8),
        put(SPECIMEN, contents(specimen("S1"), specimen("S3")), tracker_id=9),
        put(EXPERIMENT, contents(experiment("E1"), housing(), line("C1")), created=new),
        put(EXPERIMENT, experiment_document("H", animals=3), created=old),
        put(EXPERIMENT, contents(experiment("E1"), experiment("E2"), line("C1"))),
        put(EXPERIMENT, contents(experiment("E2"))),
        put(SPECIMEN, contents(specimen("S4", "L2"), specimen("S3"))),
        put(EXPERIMENT, full_document(EXPERIMENT).render()[0]),
        put(SPECIMEN, full_document(SPECIMEN).render()[0]),
        put(EXPERIMENT, contents(experiment("E3"), housing())),
    ]


def building(files: Sequence[File]) -> Build:
    def build(number: int, order: Order) -> list[WholeDocument]:
        built = []
        for one in files[:number]:
            whole = build_whole(read_whole(one.path, one.document.kind, one.document.md5), order)
            built.append(whole)
            order = order._replace(document_id=order.document_id + 1, next_ids=whole.next_ids)
        return built

    return build


def prepare(engine: Engine, files: Sequence[File], former: Sequence[Prepared] = ()) -> Prepared:
    return prepare_together(engine, [one.document for one in files], building(files), former, patience_seconds=5)


def one_by_one(engine: Engine, files: Sequence[File]) -> tuple[list[Applied], dict[str, list[tuple[Any, ...]]]]:
    """What becomes of documents that are applied by themselves, and all rows; there are none afterwards."""
    applied, rows = [alone(engine, one) for one in files], all_rows(engine)
    clear(engine)
    return applied, rows


def unnumbered(rows: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows without the ids of findings, which are in the order in which these were written."""
    return rows | {"finding": sorted((row[1:] for row in rows["finding"]), key=repr)}


@pytest.mark.parametrize("size", [1, 2, 4])
def test_groups_prepared_before_any_is_written_come_to_the_same_as_one_by_one(
    qc_database: Engine, files: list[File], size: int
) -> None:
    expected, rows = one_by_one(qc_database, files)
    assert sum(one.refused > 0 for one in expected) == 5
    assert any(one.late for one in expected)
    groups: list[Prepared] = []
    for start in range(0, len(files), size):
        groups.append(prepare(qc_database, files[start : start + size], groups))
    applied = [apply_prepared(qc_database, one, patience_seconds=5) for one in groups]
    assert [one for some in applied for one in some or ()] == expected
    assert all_rows(qc_database) == rows


@only_mariadb
@pytest.mark.parametrize("size", [1, 4])
def test_a_server_takes_rows_while_those_before_them_are_on_their_way(
    qc_database: Engine, files: list[File], size: int
) -> None:
    # A number of the tracker's that was given up a moment ago keeps its place until the server tidies up.
    files = [replace(one, document=replace(one.document, tracker_id=None)) for one in files]
    expected, rows = one_by_one(qc_database, files)
    first = prepare(qc_database, files[:size])
    second = prepare(qc_database, files[size:], [first])
    taken, written = threading.Event(), threading.Event()
    applied: list[list[Applied] | None] = []

    def wait() -> bool:
        taken.set()
        return written.wait(_SECONDS)

    thread = threading.Thread(target=lambda: applied.append(apply_prepared(qc_database, second, wait)))
    thread.start()
    assert taken.wait(_SECONDS)
    applied.append(apply_prepared(qc_database, first))
    written.set()
    thread.join(_SECONDS)
    assert [one for some in applied for one in some or ()] == expected
    assert unnumbered(all_rows(qc_database)) == unnumbered(rows)


def test_nothing_stays_of_documents_that_come_after_what_was_not_written(
    qc_database: Engine, files: list[File]
) -> None:
    first = prepare(qc_database, files[:2])
    second = prepare(qc_database, files[2:], [first])
    before = all_rows(qc_database)
    assert apply_prepared(qc_database, second, lambda: False) is None
    assert all_rows(qc_database) == before
    assert apply_prepared(qc_database, second) is None
    assert all_rows(qc_database) == before


def test_what_was_prepared_is_written_once(qc_database: Engine, files: list[File]) -> None:
    prepared = prepare(qc_database, files)
    assert apply_prepared(qc_database, prepared) is not None
    before = all_rows(qc_database)
    assert apply_prepared(qc_database, prepared) is None
    assert all_rows(qc_database) == before


@pytest.mark.parametrize("is_former_on_its_way", [False, True])
def test_what_others_apply_first_has_documents_prepared_anew(
    qc_database: Engine, files: list[File], put: Callable[..., File], is_former_on_its_way: bool
) -> None:
    prepared = prepare(qc_database, files)
    alone(qc_database, put(EXPERIMENT, contents(experiment("E3"))))
    before = all_rows(qc_database)
    is_former_written = (lambda: True) if is_former_on_its_way else None
    assert apply_prepared(qc_database, prepared, is_former_written) is None
    assert all_rows(qc_database) == before
    applied = apply_prepared(qc_database, prepare(qc_database, files))
    assert applied is not None
    assert [one.document_id for one in applied] == list(range(2, 2 + len(files)))
    assert applied[-1].refused == 2


def await_waiting(engine: Engine, number: int) -> None:
    """Wait until so many transactions wait for locks."""
    waits = text("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")
    ends = time.monotonic() + _SECONDS
    found = -1
    while found < number and time.monotonic() < ends:
        # The server looks anew only where nobody has looked for a tenth of a second.
        time.sleep(0.2)
        with engine.connect() as connection:
            found = connection.scalar(waits) or 0
    assert found == number


@only_mariadb
def test_others_who_want_the_same_ids_meanwhile_and_the_documents_do_not_wait_for_each_other(
    qc_database: Engine, files: list[File], put: Callable[..., File]
) -> None:
    prepared = prepare(qc_database, files)
    other, by_others = put(EXPERIMENT, contents(experiment("E9"))), []
    thread = threading.Thread(target=lambda: by_others.append(alone(qc_database, other)))

    def have_another_wait() -> bool:
        thread.start()
        await_waiting(qc_database, 1)
        return True

    applied = apply_prepared(qc_database, prepared, have_another_wait)
    thread.join(_SECONDS / 2)
    assert not thread.is_alive()
    if applied is None:
        applied = apply_prepared(qc_database, prepare(qc_database, files))
    assert applied is not None
    ids = [one.document_id for one in [*applied, *by_others]]
    assert sorted(ids) == list(range(1, len(files) + 2))
    rows = all_rows(qc_database)
    for name in ("document", "measurement", "experiment", "lifetime", "procedure_run"):
        assert [row[0] for row in rows[name]] == list(range(1, len(rows[name]) + 1))


def test_ids_that_were_given_to_nothing_keep_nobody_from_being_written(qc_database: Engine, files: list[File]) -> None:
    first = prepare(qc_database, files[:2])
    with_gap = replace(first, next_ids=first.next_ids | {"line": first.next_ids["line"] + 3})
    second = prepare(qc_database, files[2:], [with_gap])
    assert apply_prepared(qc_database, first) is not None
    assert apply_prepared(qc_database, second, lambda: True) is not None


@only_mariadb
def test_who_wants_the_lock_waits_for_rows_on_their_way_and_later_rows_wait_for_them(qc_database: Engine) -> None:
    order: list[str] = []

    def wait_for_lock() -> None:
        with qc_database.begin() as connection:
            take_upload_lock(connection)
            order.append("lock")

    def bring_rows() -> None:
        with qc_database.begin() as connection:
            let_rows_come(connection)
            order.append("rows")

    bring_rows()
    others = [threading.Thread(target=wait_for_lock), threading.Thread(target=bring_rows)]
    with qc_database.begin() as connection:
        let_rows_come(connection)
        bring_rows()
        for number, one in enumerate(others, start=1):
            one.start()
            await_waiting(qc_database, number)
        take_upload_lock(connection, rows_have_come=True)
        order.append("committed")
    for one in others:
        one.join(_SECONDS)
    assert order == ["rows", "rows", "committed", "lock", "rows"]


def test_what_is_on_its_way_already_goes_by_itself(qc_database: Engine, files: list[File]) -> None:
    first = prepare(qc_database, files[:3])
    second = prepare(qc_database, [files[3], files[1], files[4]], [first])
    assert second.documents == [files[3].document]


def test_a_failure_at_any_statement_leaves_nothing(qc_database: Engine, files: list[File]) -> None:
    before = all_rows(qc_database)

    prepared = [prepare(qc_database, files)]

    def nothing_is_left() -> None:
        assert all_rows(qc_database) == before
        prepared.append(prepare(qc_database, files))

    applied, number = fail_at_each_statement(
        qc_database, lambda: apply_prepared(qc_database, prepared[-1], lambda: True), nothing_is_left
    )
    assert number > 5
    assert applied is not None
    assert len(applied) == len(files)
