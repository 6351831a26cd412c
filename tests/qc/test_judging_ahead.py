"""Documents judged in several transactions at once: a session comes to the same end as with one after the other."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection, Engine

from dcc.cli.demo.submissions import damaged
from dcc.errors import QcDatabaseUnreachableError
from dcc.phases import Phase
from dcc.qc import models
from dcc.qc.judging.checking_ahead import Checked
from dcc.session.data import checking, judging_ahead
from dcc.session.data.corrections import recheck
from dcc.session.data.judging_ahead import portions
from dcc.vocabulary import Validity
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import only_mariadb


def documents(*found: int | None, size: int = 1) -> list[Any]:
    """Documents with so many findings, each of the same size; None where it is not known."""
    return [
        ((SimpleNamespace(size_bytes=size), n), Checked(None if many is None else [None] * many))  # type: ignore[list-item]
        for n, many in enumerate(found)
    ]


def numbers(*found: int | None, size: int = 1) -> list[list[Any]]:
    return [[stored for (_, stored), _ in portion] for portion in portions(documents(*found, size=size))]


def test_a_portion_is_bounded_by_documents_findings_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging_ahead, "_TOGETHER", 3)
    monkeypatch.setattr(judging_ahead, "_FINDINGS_TOGETHER", 10)
    monkeypatch.setattr(judging_ahead, "_BYTES_TOGETHER", 100)
    assert numbers() == []
    assert numbers(0, 0, 0, 0) == [[0, 1, 2], [3]]
    assert numbers(0, 10, 2, 9) == [[0, 1], [2, 3]]
    assert numbers(0, 0, 0, size=50) == [[0, 1], [2]]


def test_a_document_of_which_nothing_is_known_is_by_itself_in_its_place() -> None:
    assert numbers(None, 0, 3, None, None, 0) == [[0], [1, 2], [3], [4], [5]]


@pytest.fixture
def archives(data: DataInstallation, monkeypatch: pytest.MonkeyPatch) -> DataInstallation:
    """Archives of documents, sound ones and faulty ones, in which other processes find what there is to be found."""
    monkeypatch.setattr(checking, "MANY", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    faulty = experiments("2013-10-31.9", first=1, procedure="IMPC_GRS_001")
    data.put(
        "add/H.2013-10-31.1.impc.zip",
        specimens(mice=9),
        *(experiments(f"2013-10-31.{n}", first=n) for n in range(2, 6)),
        {name: damaged(content, 'unit="g"', 'unit="kg"') for name, content in faulty.items()},
    )
    data.validate()
    return data


def kept(data: DataInstallation) -> list[Any]:
    """What judging has written of findings and of entities."""
    found = data.rows(models.Finding, "document_id", "rule", "message", "line", "entity_id", "is_active", "closed")
    entities = [data.rows(model, "id", "validity") for model in (models.Experiment, models.Specimen)]
    return [sorted(found, key=repr), *entities]


def test_a_session_with_many_portions_comes_to_the_same_end_as_with_one(
    archives: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    judge_together = judging_ahead.judge_together

    def counting(connection: Connection, found: Any, basis: Any) -> Any:
        taken.append(len(found))
        return judge_together(connection, found, basis)

    monkeypatch.setattr(judging_ahead, "judge_together", counting)
    with monkeypatch.context() as patched:
        patched.setattr(judging_ahead, "_TOGETHER", 1)
        archives.take_up(until=Phase.DATA)
    states, all_kept = archives.documents(), kept(archives)
    assert taken == [1] * 6
    assert set(states.values()) == {"data done", "data failed"}
    assert {row[1] for row in all_kept[1]} == {Validity.VALID, Validity.INVALID}
    recheck(archives.tracker, archives.qc, archives.settings, author="someone", reason="A test.")
    archives.take_up(until=Phase.DATA)
    assert taken == [1] * 6 + [6]
    assert (archives.documents(), kept(archives)) == (states, all_kept)


@only_mariadb
def test_a_transaction_beside_the_session_that_fails_is_done_once_more(
    archives: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried once, so that whoever ends a session need not wait for it; the session itself is patient."""
    monkeypatch.setattr(judging_ahead, "_TOGETHER", 2)
    patience: list[float] = []
    run_writing = judging_ahead.run_writing

    def failing_at_first(engine: Engine, work: Callable[[Connection], Any], *, patience_seconds: float) -> Any:
        if not patience_seconds:
            raise QcDatabaseUnreachableError("Another writer is in the way.")
        patience.append(patience_seconds)
        return run_writing(engine, work, patience_seconds=patience_seconds)

    monkeypatch.setattr(judging_ahead, "run_writing", failing_at_first)
    archives.take_up(until=Phase.DATA)
    assert patience == [archives.settings.database_retry] * 3
    assert set(archives.documents().values()) == {"data done", "data failed"}
