"""Documents whose rows a process of its own builds: the same rows, the same refusals, and nothing left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, text

from dcc.cli.demo.submissions import experiment_document, specimen_document
from dcc.documents.contents import Content, Entity
from dcc.documents.reading import read_document
from dcc.documents.writing_xml import write_document
from dcc.errors import InternalFaultError, NotWellFormedError
from dcc.naming import Action, DocumentKind
from dcc.qc.apply import building_process
from dcc.qc.apply.building_process import BuiltBlock, read_for_upload
from dcc.qc.apply.documents import Applied, apply_document
from dcc.qc.apply.entity_rows import DOCUMENT_TABLES
from dcc.qc.models import Lifetime
from tests.support.databases import only_mariadb, only_sqlite
from tests.support.qc_documents import contents, experiment, housing, line, to_apply
from tests.support.strategies_documents import full_document

EXPERIMENT = DocumentKind.EXPERIMENT


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[building_process.Building]:
    """The processes that were started; every document is large."""
    processes: list[building_process.Building] = []
    init = building_process.Building.__init__

    def start(building: building_process.Building, *arguments: Any) -> None:
        init(building, *arguments)
        processes.append(building)

    monkeypatch.setattr(building_process.Building, "__init__", start)
    monkeypatch.setattr(building_process, "LARGE", 0)
    return processes


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "document.xml"


def ended(processes: Iterable[building_process.Building]) -> bool:
    return all(process._process.returncode is not None for process in processes)


def apply_file(
    engine: Engine,
    path: Path,
    kind: DocumentKind = EXPERIMENT,
    read: Callable[[Path, DocumentKind], Iterable[Content]] = read_for_upload,
) -> Applied:
    return apply_document(engine, to_apply(Action.ADD, kind), lambda: read(path, kind), patience_seconds=5)


def all_rows(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    with engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
            for table in DOCUMENT_TABLES
        }


def clear(engine: Engine) -> None:
    """Remove all documents, so that the next one's rows get the same ids."""
    with engine.begin() as connection:
        for table in (*reversed(DOCUMENT_TABLES), "finding", "document"):
            name = table if isinstance(table, str) else connection.dialect.identifier_preparer.format_table(table)
            connection.execute(text(f"DELETE FROM {name}"))


def written(path: Path, *entities: Entity) -> None:
    path.write_bytes(write_document(EXPERIMENT, contents(*entities)))


DOCUMENTS = {
    "all of specimens": (DocumentKind.SPECIMEN, lambda: full_document(DocumentKind.SPECIMEN).render()[0]),
    "all of experiments": (EXPERIMENT, lambda: full_document(EXPERIMENT).render()[0]),
    "many specimens": (DocumentKind.SPECIMEN, lambda: specimen_document("H", mice=1_200)),
    **{
        name: (EXPERIMENT, lambda name=name: experiment_document("H", procedure=name, animals=1_100))
        for name in ("IMPC_CBC_001", "IMPC_GRS_001")
    },
}


@pytest.mark.parametrize("case", DOCUMENTS)
def test_rows_are_the_same_whichever_process_builds_them(
    qc_database: Engine, place: Path, case: str, started: list[building_process.Building]
) -> None:
    kind, content = DOCUMENTS[case]
    place.write_bytes(content())
    here = apply_file(qc_database, place, kind, read_document)
    rows = all_rows(qc_database)
    clear(qc_database)
    assert not started
    there = apply_file(qc_database, place, kind)
    assert len(started) == 1
    assert ended(started)
    assert all_rows(qc_database) == rows
    assert (there.said, there.opened, there.refused) == (here.said, here.opened, here.refused)
    assert sum(map(len, rows.values())) > 10


def test_what_is_too_long_is_refused_and_the_rest_kept(qc_database: Engine, place: Path) -> None:
    written(
        place,
        experiment("E1"),
        experiment("E2" * 200),
        experiment("E3", procedure_id="P" * 65),
        line("C" * 129),
        housing("kept"),
        experiment("E4"),
    )
    applied = apply_file(qc_database, place)
    assert [finding.rule for finding in applied.findings] == ["Q1"] * 3
    assert (applied.refused, applied.opened) == (3, {"experiment": 2, "housing": 1})
    rows = all_rows(qc_database)
    assert len(rows["measurement"]) == len(rows["procedure_run"]) == len(rows[Lifetime.__tablename__]) == 3


def test_a_block_that_is_too_long_is_refused_with_all_in_it(qc_database: Engine, place: Path) -> None:
    said = [*contents(experiment("E1"), centre="H" * 33), *contents(experiment("E2"))]
    said[2] = said[2]._replace(position=2)
    place.write_bytes(write_document(EXPERIMENT, said))
    applied = apply_file(qc_database, place)
    assert (applied.refused, applied.opened) == (1, {"experiment": 1})
    assert [row[9] for row in all_rows(qc_database)["experiment"]] == ["E2"]


def test_a_document_that_breaks_off_leaves_no_row_and_no_process(
    qc_database: Engine, place: Path, started: list[building_process.Building]
) -> None:
    content = experiment_document("H", animals=900)
    place.write_bytes(content[: len(content) * 9 // 10])
    with pytest.raises(NotWellFormedError, match=r"Line \d{4,}: "):
        apply_file(qc_database, place)
    assert not any(all_rows(qc_database).values())
    assert len(started) == 1
    assert ended(started)


@pytest.mark.parametrize("content", [b"", b"<centreProcedureSet><centre/>"])
def test_what_cannot_be_read_at_all_is_told(qc_database: Engine, place: Path, content: bytes) -> None:
    place.write_bytes(content)
    with pytest.raises(Exception, match="Line 1: "):
        apply_file(qc_database, place)


def test_a_file_that_is_gone_is_told(qc_database: Engine, place: Path) -> None:
    with pytest.raises(FileNotFoundError):
        apply_file(qc_database, place)


@only_sqlite
def test_a_process_that_is_killed_is_a_fault_and_leaves_no_row(
    qc_database: Engine, place: Path, started: list[building_process.Building]
) -> None:
    place.write_bytes(experiment_document("H", animals=9_000))

    def read(path: Path, kind: DocumentKind) -> Iterable[Content]:
        for number, content in enumerate(read_for_upload(path, kind)):
            if number == 1:
                os.kill(started[0]._process.pid, signal.SIGKILL)
            yield content

    with pytest.raises(InternalFaultError, match="ended with -9"):
        apply_file(qc_database, place, read=read)
    assert not any(all_rows(qc_database).values())


def test_a_fault_of_the_other_process_is_one_of_this(
    place: Path, qc_database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(place, experiment("E1"))
    monkeypatch.setattr(building_process, "NUMBERED", ("media",))
    monkeypatch.setattr("dcc.qc.apply.entity_rows.NUMBERED", ("media",))
    with pytest.raises(KeyError):
        apply_file(qc_database, place)
    assert not any(all_rows(qc_database).values())


def test_without_being_asked_contents_come_whole(place: Path, started: list[building_process.Building]) -> None:
    place.write_bytes(full_document(EXPERIMENT).render()[0])
    assert list(read_for_upload(place, EXPERIMENT)) == list(read_document(place, EXPERIMENT))
    assert ended(started)


def test_whoever_stops_reading_leaves_no_process(place: Path, started: list[building_process.Building]) -> None:
    place.write_bytes(experiment_document("H", animals=9_000))
    reading = read_for_upload(place, EXPERIMENT)
    assert isinstance(next(reading), BuiltBlock)
    reading.close()  # type: ignore[attr-defined]
    assert ended(started)


def test_small_documents_start_no_process(
    place: Path, started: list[building_process.Building], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building_process, "LARGE", 2_000)
    written(place, experiment("E1"))
    assert list(read_for_upload(place, EXPERIMENT)) == list(read_document(place, EXPERIMENT))
    assert not started


@only_mariadb
def test_lines_are_inserted_where_the_server_takes_no_files(qc_database: Engine, place: Path) -> None:
    values = ["a\t\\b\n🐁", "\\N", "", "\\", "1e-7", "\r"]
    written(place, *(experiment(f"E{number}", value=values[number % len(values)]) for number in range(900)))
    rows = []
    for allowed in (1, 0):
        with qc_database.connect() as connection:
            connection.exec_driver_sql(f"SET GLOBAL local_infile = {allowed}")
        try:
            apply_file(qc_database, place)
        finally:
            with qc_database.connect() as connection:
                connection.exec_driver_sql("SET GLOBAL local_infile = 1")
        rows.append(all_rows(qc_database))
        clear(qc_database)
    assert rows[0] == rows[1]
    assert {row[10] for row in rows[0]["measurement"]} == set(values)
