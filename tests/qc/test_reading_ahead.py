"""Documents read ahead by another process: the same rows whatever comes between, and no process left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from dcc.cli.demo.submissions import experiment_document
from dcc.documents.reading import read_document
from dcc.errors import HelperEndedError, NotWellFormedError
from dcc.naming import Action, DocumentKind
from dcc.qc.apply import reading_ahead, reading_turns
from dcc.qc.apply.documents import Applied, DocumentToApply, apply_document
from dcc.qc.apply.entity_rows import DOCUMENT_TABLES
from dcc.qc.apply.reading_ahead import ReadingAhead, Waiting
from dcc.qc.models import CentreBlock, Document, Experiment, Measurement
from dcc.runtime.helper_process import Helper
from tests.support.databases import only_sqlite
from tests.support.noted_helpers import note_helpers
from tests.support.qc_documents import to_apply

EXPERIMENT = DocumentKind.EXPERIMENT
ANIMALS = 3


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[Helper]:
    """The processes that were started; any document is worth one."""
    helpers = note_helpers(monkeypatch, reading_turns)
    monkeypatch.setattr(reading_ahead, "LARGE", 0)
    return helpers


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Six documents, each about animals of its own."""
    made = [tmp_path / f"{number}.xml" for number in range(6)]
    for number, path in enumerate(made):
        path.write_bytes(experiment_document("H", animals=ANIMALS, first=number * 100))
    return made


@pytest.fixture
def ahead(paths: list[Path], started: list[Helper]) -> Iterator[ReadingAhead]:
    with closing(ReadingAhead([Waiting(path, EXPERIMENT, path.stat().st_size) for path in paths])) as reading:
        yield reading
    assert all(helper.process.returncode is not None for helper in started)


def document(path: Path) -> DocumentToApply:
    made = to_apply(Action.ADD, EXPERIMENT, zip_file="H.2013-10-31.1.impc.zip")
    return replace(made, file_name=path.name, md5=f"{path.stem:0>32}")


def apply(engine: Engine, path: Path, ahead: ReadingAhead | None = None) -> Applied:
    read = read_document if ahead is None else ahead.read
    return apply_document(engine, document(path), lambda: read(path, EXPERIMENT), patience_seconds=5)


def all_rows(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    with engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
            for table in DOCUMENT_TABLES
        }


def animals_by_document(engine: Engine) -> dict[str, list[str]]:
    """The experiments of each document by its file's name, which also hold measurements of it, or none is told."""
    document, experiment, measurement = Document.__table__.c, Experiment.__table__.c, Measurement.__table__.c
    measured = select(measurement.experiment_id).where(measurement.document_id == document.id)
    asked = (
        select(document.file_name, experiment.experiment_id)
        .join(CentreBlock.__table__, CentreBlock.__table__.c.document_id == document.id)
        .join(Experiment.__table__, experiment.block_id == CentreBlock.__table__.c.id)
        .where(experiment.document_id == document.id, experiment.experiment_id.in_(measured))
        .order_by(experiment.id)
    )
    found: dict[str, list[str]] = {}
    with engine.connect() as connection:
        for file_name, experiment_id in connection.execute(asked):
            found.setdefault(file_name, []).append(experiment_id)
    return found


def expected(*paths: Path) -> dict[str, list[str]]:
    return {
        path.name: [f"H_IMPC_CBC_001_{int(path.stem) * 100 + animal:06d}" for animal in range(ANIMALS)]
        for path in paths
    }


def test_one_process_reads_all_and_every_row_is_as_it_would_be(
    qc_database: Engine, paths: list[Path], ahead: ReadingAhead, started: list[Helper]
) -> None:
    applied = [apply(qc_database, path, ahead) for path in paths]
    assert len(started) == 1
    assert [one.document_id for one in applied] == [1, 2, 3, 4, 5, 6]
    assert all(one.procedures == {"IMPC_CBC_001": ANIMALS * 16} for one in applied)
    assert all(one.said["measurements"] == ANIMALS * 16 for one in applied)
    assert animals_by_document(qc_database) == expected(*paths)
    rows = all_rows(qc_database)
    for name in ("measurement", "metadata", "experiment", "lifetime"):
        assert [row[0] for row in rows[name]] == list(range(1, len(rows[name]) + 1))


def test_what_others_apply_meanwhile_takes_no_id_and_loses_none(
    qc_database: Engine, paths: list[Path], ahead: ReadingAhead, started: list[Helper]
) -> None:
    apply(qc_database, paths[0], ahead)
    apply(qc_database, paths[5])
    for path in paths[1:5]:
        apply(qc_database, path, ahead)
    assert apply(qc_database, paths[5], ahead).repeated
    assert len(started) == 2
    assert animals_by_document(qc_database) == expected(*paths)


def test_a_document_that_cannot_be_read_leaves_no_row_and_the_others_are_applied(
    qc_database: Engine, paths: list[Path], ahead: ReadingAhead
) -> None:
    paths[2].write_bytes(paths[2].read_bytes()[:-30])
    paths[3].write_bytes(b"")
    for path in paths:
        if path in paths[2:4]:
            with pytest.raises(NotWellFormedError):
                apply(qc_database, path, ahead)
        else:
            apply(qc_database, path, ahead)
    assert animals_by_document(qc_database) == expected(*paths[:2], *paths[4:])


def test_a_process_that_is_killed_is_started_again_for_the_next_document(
    qc_database: Engine, paths: list[Path], ahead: ReadingAhead, started: list[Helper]
) -> None:
    apply(qc_database, paths[0], ahead)
    # It has told of all already: what is in the pipe is no less right.
    os.kill(started[0].process.pid, signal.SIGKILL)
    started[0].process.wait()
    started[0]._in.read()
    for path in paths[1:]:
        apply(qc_database, path, ahead)
    assert len(started) == 2
    assert animals_by_document(qc_database) == expected(*paths)


def test_a_process_that_is_killed_before_it_was_asked_is_said_to_have_ended_and_another_is_started(
    qc_database: Engine, paths: list[Path], ahead: ReadingAhead, started: list[Helper]
) -> None:
    os.kill(started[0].process.pid, signal.SIGKILL)
    started[0].process.wait()
    with pytest.raises(HelperEndedError, match=r"0\.xml ended with -9"):
        apply(qc_database, paths[0], ahead)
    for path in paths:
        apply(qc_database, path, ahead)
    assert len(started) == 2
    assert animals_by_document(qc_database) == expected(*paths)


def test_a_document_that_changed_since_it_was_read_is_read_anew(
    qc_database: Engine, paths: list[Path], ahead: ReadingAhead
) -> None:
    apply(qc_database, paths[0], ahead)
    paths[1].write_bytes(experiment_document("H", animals=ANIMALS + 1, first=100))
    assert apply(qc_database, paths[1], ahead).said["experiments"] == ANIMALS + 1
    apply(qc_database, paths[2], ahead)
    assert animals_by_document(qc_database)["2.xml"] == expected(paths[2])["2.xml"]


def test_a_transaction_that_is_run_again_reads_the_document_again(
    qc_database: Engine, paths: list[Path], ahead: ReadingAhead
) -> None:
    apply(qc_database, paths[0], ahead)
    half = ahead.read(paths[1], EXPERIMENT)
    next(half)
    for path in paths[1:]:
        apply(qc_database, path, ahead)
    assert animals_by_document(qc_database) == expected(*paths)


def test_documents_that_need_not_be_read_are_passed_over(
    qc_database: Engine, paths: list[Path], ahead: ReadingAhead, started: list[Helper]
) -> None:
    apply(qc_database, paths[0])
    apply(qc_database, paths[1])
    assert [apply(qc_database, path, ahead).repeated for path in paths] == [True, True, *[False] * 4]
    assert len(started) == 1
    assert animals_by_document(qc_database) == expected(*paths)


@only_sqlite
def test_after_many_wrong_guesses_this_process_reads_itself(
    qc_database: Engine, paths: list[Path], ahead: ReadingAhead, started: list[Helper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_ahead, "_WRONG_STARTS", 1)
    apply(qc_database, paths[0], ahead)
    apply(qc_database, paths[5])
    for path in paths[1:5]:
        apply(qc_database, path, ahead)
    assert len(started) == 2
    assert animals_by_document(qc_database) == expected(*paths)


@only_sqlite
def test_little_is_read_without_a_process(
    qc_database: Engine, paths: list[Path], started: list[Helper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_ahead, "LARGE", 10_000_000)
    little = ReadingAhead([Waiting(path, EXPERIMENT, path.stat().st_size) for path in paths])
    for path in paths:
        apply(qc_database, path, little)
    assert not started
    assert animals_by_document(qc_database) == expected(*paths)
