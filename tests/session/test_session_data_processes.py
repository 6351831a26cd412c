"""Sessions with so many documents that other processes check them: they come to the same end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dcc.errors import HelperEndedError, InternalFaultError
from dcc.phases import Phase
from dcc.qc import models
from dcc.qc.judging.checking_ahead import Checked, CheckingAhead
from dcc.session.data import checking, judging_ahead
from dcc.session.data.corrections import recheck
from dcc.session.data.uploading import upload_documents
from tests.support.data_installations import EXPERIMENTS, SPECIMENS, DataInstallation, experiments, specimens
from tests.support.databases import only_sqlite

ZIP = "add/H.2013-10-31.1.impc.zip"
LATER = "add/H.2013-11-05.1.impc.zip"
LATE_EXPERIMENTS = "H.2013-11-05.1.experiment.impc.xml"


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any documents are worth other processes, on any machine."""
    monkeypatch.setattr(checking, "MANY", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


def findings(data: DataInstallation) -> list[tuple[Any, ...]]:
    return data.rows(models.Finding, "id", "document_id", "rule", "message", "line", "entity_id", "is_active")


def test_a_session_with_other_processes_comes_to_the_same_end_as_one_without(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judged again by the session's own process, no document has a finding more or less, and none goes elsewhere."""
    data.put(ZIP, specimens(), experiments())
    data.put(LATER, specimens("2013-11-05.1", mice=4), experiments("2013-11-05.1", first=9))
    data.validate()
    data.take_up()
    ending, found = data.ending(), findings(data)
    assert set(data.documents().values()) == {"qc done", "qc pending", "data failed"}
    assert data.log(LATE_EXPERIMENTS) == ["E4"] * 3

    monkeypatch.setattr(checking, "MANY", 1_000_000_000)
    recheck(data.tracker, data.qc, data.settings, author="someone", reason="A test.")
    data.take_up()
    assert findings(data) == found
    assert data.ending() == ending


@only_sqlite
def test_what_was_applied_since_a_process_asked_counts(data: DataInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a finding that the arrival of an animal heals would be made after it had arrived."""
    data.put(ZIP, experiments())
    data.put(LATER, specimens("2013-11-05.1"))
    data.validate()
    data.take_up(until=Phase.UPLOAD, keys=[ZIP])
    answer = checking._answer

    def answer_before_others_upload(work: Any, question: Any) -> Any:
        said = answer(work, question)
        list(upload_documents(replace(work, keys=None)))
        return said

    monkeypatch.setattr(checking, "_answer", answer_before_others_upload)
    data.take_up(until=Phase.DATA, keys=[ZIP])
    assert data.documents() == {EXPERIMENTS: "data done", "H.2013-11-05.1.specimen.impc.xml": "upload done"}
    assert findings(data) == []


@only_sqlite
def test_documents_that_cannot_be_judged_together_are_judged_one_by_one(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is at fault with one keeps nothing from the others, and leaves nothing behind; nor does a lost file."""

    def break_down(connection: Any, *more: Any) -> Any:
        judge_together(connection, *more)
        return 1 // 0

    judge_together = judging_ahead.judge_together
    monkeypatch.setattr(judging_ahead, "judge_together", break_down)
    data.put(ZIP, specimens(), experiments(), experiments("2013-11-05.1", first=9))
    data.validate()
    data.take_up(until=Phase.UPLOAD)
    (data.settings.staging_directory / f"{ZIP}.contents" / EXPERIMENTS).unlink()
    data.take_up(until=Phase.DATA)
    assert data.documents() == {SPECIMENS: "data done", EXPERIMENTS: "data done", LATE_EXPERIMENTS: "data failed"}
    assert [row[2] for row in findings(data)] == ["E4"] * 3


@only_sqlite
def test_a_document_over_which_processes_end_goes_on_waiting_and_the_session_fails(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ending(CheckingAhead):
        def results(self) -> Iterator[Checked]:
            first, *others = super().results()
            yield Checked(None, error=HelperEndedError("The process ended with -9."))
            assert first.findings == []
            yield from others

    data.put(ZIP, specimens(), experiments())
    data.validate()
    with monkeypatch.context() as patched:
        patched.setattr(checking, "CheckingAhead", Ending)
        with pytest.raises(InternalFaultError, match=r"specimen\.impc\.xml: HelperEndedError: .* ended with -9"):
            data.take_up()
    assert data.documents() == {SPECIMENS: "upload done", EXPERIMENTS: "qc pending"}
    data.take_up()
    assert data.states() == {ZIP: "qc pending"}
