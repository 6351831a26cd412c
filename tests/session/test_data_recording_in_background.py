"""What the tracker is told while documents are uploaded: beside that, and never before the QC database has it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, select

from dcc.errors import QcDatabaseUnreachableError, SessionLostError
from dcc.naming import Action, DocumentKind
from dcc.operations.sessions import open_session
from dcc.phases import Phase
from dcc.qc import models
from dcc.qc.apply import many_documents, reading_ahead
from dcc.qc.apply.documents import Applied, apply_document
from dcc.qc.apply.many_documents import Prepared
from dcc.session.data import data_session, upload_groups, upload_turns, uploader
from dcc.session.data.session_data import take_up_data
from dcc.tracker.models import DocumentReopening
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import only_mariadb
from tests.support.qc_documents import contents, experiment, to_apply

GROUPS = 4
_SECONDS = 30
_NAMES = [(0, "specimen"), *((inc, "experiment") for inc in range(1, GROUPS))]

Write = Callable[[Connection, Sequence[Any], Sequence[Any]], Any]


@pytest.fixture(autouse=True)
def _told_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each document is a group by itself, and the tracker is written to at every chance."""
    monkeypatch.setattr(upload_groups, "LARGE", 0)
    monkeypatch.setattr(reading_ahead, "LARGE", 0)
    monkeypatch.setattr(upload_groups, "MOST_DOCUMENTS", 1)
    monkeypatch.setattr(data_session, "_COMMIT_SECONDS", 0.0)
    monkeypatch.setattr(data_session, "_MOST_SECONDS", 0.0)


@pytest.fixture
def waiting(data: DataInstallation) -> DataInstallation:
    """Documents that wait for their upload, one in each of so many archives."""
    data.put("add/H.2013-10-31.0.impc.zip", specimens("2013-10-31.0", mice=GROUPS))
    for inc in range(1, GROUPS):
        stem = f"2013-10-31.{inc}"
        data.put(f"add/H.{stem}.impc.zip", experiments(stem, first=inc, animals=1))
    data.validate()
    return data


def around_writing(monkeypatch: pytest.MonkeyPatch, before: Callable[[Sequence[Any], Sequence[Any]], None]) -> None:
    """Have `before` called with what is told and what is shown, when the tracker is written to."""
    write: Write = data_session._write

    def writing(connection: Connection, batch: Sequence[Any], shown: Sequence[Any]) -> Any:
        before(batch, shown)
        return write(connection, batch, shown)

    monkeypatch.setattr(data_session, "_write", writing)


def around_groups(monkeypatch: pytest.MonkeyPatch, before: Callable[[int], None]) -> None:
    """Have `before` called with the number of the group that is to be applied."""
    apply = upload_turns.apply_prepared
    numbers = iter(range(1_000))

    def applying(*arguments: Any) -> Any:
        before(next(numbers))
        return apply(*arguments)

    monkeypatch.setattr(upload_turns, "apply_prepared", applying)


def all_is_well(data: DataInstallation) -> bool:
    """Whether a further session takes all through, each document once."""
    data.take_up()
    applied = data.rows(models.Document, "file_name", "state")
    return set(data.documents().values()) <= {"qc pending", "qc done"} and len(applied) == GROUPS


def test_the_tracker_hears_of_documents_that_the_qc_database_has(
    waiting: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[list[str]] = []

    def look(batch: Sequence[Any], _: Sequence[Any]) -> None:
        stored = {name for (name,) in waiting.rows(models.Document, "file_name")}
        told.append([fact.document.name.file_name for fact in batch])
        assert stored.issuperset(told[-1])

    around_writing(monkeypatch, look)
    result = waiting.take_up(Phase.UPLOAD)
    # First of nothing but what waits, and whose turn has come.
    assert told[:2] == [[], []]
    names = [f"H.2013-10-31.{inc}.{kind}.impc.xml" for inc, kind in _NAMES]
    assert [name for some in told for name in some] == names
    if waiting.qc.dialect.name == "sqlite":
        assert told[2:] == [[name] for name in names]
    assert [one.key.file_name for one in result.zips] == [f"H.2013-10-31.{inc}.impc.zip" for inc in range(GROUPS)]
    assert set(waiting.documents().values()) == {"upload done"}


@only_mariadb
def test_documents_are_applied_while_the_tracker_is_told_of_those_before(
    waiting: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    applying = [threading.Event() for _ in range(GROUPS)]

    def wait_for_the_next(batch: Sequence[Any], _: Sequence[Any]) -> None:
        following = batch[0].document.name.inc + 1 if batch else 0
        if following < GROUPS:
            assert applying[following].wait(_SECONDS)

    around_writing(monkeypatch, wait_for_the_next)
    around_groups(monkeypatch, lambda number: applying[number].set())
    waiting.take_up(Phase.UPLOAD)
    assert set(waiting.documents().values()) == {"upload done"}


@pytest.mark.parametrize("error", [SessionLostError("lost"), ArithmeticError("a fault")], ids=["lost", "fault"])
@pytest.mark.parametrize("nth", range(GROUPS + 2))
def test_what_keeps_the_tracker_from_hearing_ends_the_upload_and_the_next_session_goes_on(
    waiting: DataInstallation, monkeypatch: pytest.MonkeyPatch, error: Exception, nth: int
) -> None:
    """At any writing: the first one shows what waits, the second whose turn it is, others tell of documents."""
    calls = iter(range(1_000))
    groups: list[int] = []

    def fail(*_: Sequence[Any]) -> None:
        if next(calls) == nth:
            raise error

    with monkeypatch.context() as patch:
        around_writing(patch, fail)
        around_groups(patch, groups.append)
        with pytest.raises(type(error)):
            waiting.take_up(Phase.UPLOAD)
    # No group is begun once it is known.
    assert len(groups) <= max(1, nth)
    assert all_is_well(waiting)


def test_a_qc_database_that_goes_away_meanwhile_leaves_no_document_as_if_it_were_its_turn(
    waiting: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = threading.Event()

    def go_away(number: int) -> None:
        if number == 2:
            gone.set()
            raise QcDatabaseUnreachableError("It is gone.")

    def wait_until_gone(batch: Sequence[Any], _: Sequence[Any]) -> None:
        # Where it is told beside: the end of the upload waits for it.
        if waiting.tracker.dialect.name != "sqlite" and batch and batch[0].document.name.inc == 1:
            assert gone.wait(_SECONDS)

    with monkeypatch.context() as patch:
        around_writing(patch, wait_until_gone)
        around_groups(patch, go_away)
        with pytest.raises(QcDatabaseUnreachableError):
            waiting.take_up(Phase.UPLOAD)
    assert sorted(waiting.documents().values()) == ["upload done", "upload done", "upload pending", "upload pending"]
    with waiting.tracker.connect() as connection:
        # A server has two groups at a time.
        turns = 1 if waiting.qc.dialect.name == "sqlite" else 2
        assert len(connection.execute(select(DocumentReopening.id)).all()) == turns
    assert all_is_well(waiting)


@pytest.mark.parametrize("how", ["fails", "is overtaken"])
@pytest.mark.parametrize("nth", range(GROUPS))
def test_a_group_that_is_not_written_is_uploaded_before_those_that_follow_it(
    waiting: DataInstallation, monkeypatch: pytest.MonkeyPatch, how: str, nth: int
) -> None:
    apply, anew = upload_turns.apply_prepared, uploader.apply_together
    calls, applied_anew = iter(range(1_000)), []

    def applying(*arguments: Any) -> Any:
        if next(calls) != nth:
            return apply(*arguments)
        if how == "fails":
            raise ArithmeticError("a fault")
        return None

    def applying_anew(*arguments: Any) -> Any:
        applied_anew.append(arguments)
        return anew(*arguments)

    monkeypatch.setattr(upload_turns, "apply_prepared", applying)
    monkeypatch.setattr(uploader, "apply_together", applying_anew)
    waiting.take_up(Phase.UPLOAD)
    # What follows is prepared anew, and then goes on as before.
    assert len(applied_anew) == (how == "is overtaken")
    assert set(waiting.documents().values()) == {"upload done"}
    names = [f"H.2013-10-31.{inc}.{kind}.impc.xml" for inc, kind in _NAMES]
    assert [name for _, name in sorted(waiting.rows(models.Document, "id", "file_name"))] == names


@only_mariadb
def test_the_rows_of_a_group_come_once_those_of_the_group_before_it_do(
    waiting: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    come, calls = many_documents.let_rows_come, iter(range(1_000))
    second_has_come, order = threading.Event(), []

    def slowly(connection: Connection) -> None:
        number = next(calls)
        if number == 0:
            second_has_come.wait(1)
        come(connection)
        order.append(number)
        if number == 1:
            second_has_come.set()

    monkeypatch.setattr(many_documents, "let_rows_come", slowly)
    waiting.take_up(Phase.UPLOAD)
    assert order == list(range(GROUPS))
    assert set(waiting.documents().values()) == {"upload done"}


@only_mariadb
def test_an_upload_that_is_given_up_does_not_have_groups_that_wait_be_tried_again(
    waiting: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, given_up = threading.Event(), []

    def waits(_: Any, prepared: Prepared, *__: Any) -> None:
        begun.set()
        ends = time.monotonic() + _SECONDS
        while not prepared.is_taken and time.monotonic() < ends:
            time.sleep(0.01)
        given_up.append(prepared.is_taken)

    def fail(batch: Sequence[Any], shown: Sequence[Any]) -> None:
        if not batch and len(shown) == 1:
            assert begun.wait(_SECONDS)
            raise SessionLostError("lost")

    with monkeypatch.context() as patch:
        around_writing(patch, fail)
        patch.setattr(upload_turns, "apply_prepared", waits)
        with pytest.raises(SessionLostError):
            waiting.take_up(Phase.UPLOAD)
    # The group after it is not tried at all.
    assert given_up == [True]
    assert all_is_well(waiting)


@only_mariadb
def test_others_who_apply_have_their_turn_while_one_group_follows_another(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait for the two groups that are on their way, and those that follow wait for them."""
    groups, last = 12, 10
    for inc in range(groups):
        stem = f"2013-10-31.{inc}"
        data.put(f"add/H.{stem}.impc.zip", experiments(stem, first=inc, animals=1))
    data.validate()
    other = to_apply(Action.ADD, DocumentKind.EXPERIMENT, zip_file="H.2013-11-30.1.impc.zip")
    by_others: list[Applied] = []
    thread = threading.Thread(
        target=lambda: by_others.append(apply_document(data.qc, other, lambda: contents(experiment("E1"))))
    )

    def look(number: int) -> None:
        if number == 2:
            thread.start()
        elif number == last:
            thread.join(_SECONDS)

    around_groups(monkeypatch, look)
    data.take_up(Phase.UPLOAD)
    assert not thread.is_alive()
    assert by_others[0].document_id < last
    assert len(data.rows(models.Document, "id")) == groups + 1
    assert set(data.documents().values()) == {"upload done"}


def test_no_thread_is_left_when_nobody_listens_any_more(waiting: DataInstallation) -> None:
    with open_session(waiting.tracker, waiting.settings) as session:
        outcomes = take_up_data(waiting.tracker, waiting.qc, waiting.settings, session)
        next(outcomes)
        outcomes.close()  # type: ignore[attr-defined]
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith(("tracker", "receive", "QC"))]
    assert all_is_well(waiting)
