"""What is killed or fails while it applies, withdraws or plans leaves nothing, on SQLite and on MariaDB."""

import random
import signal
from collections.abc import Callable
from typing import NamedTuple

import pytest
from sqlalchemy import Engine

from dcc.databases.transactions import run_writing
from dcc.naming import Action, DocumentKind
from dcc.qc.apply.upload_lock import lock_all
from dcc.settings import Settings
from tests.qc.test_applying import all_rows, litters, values
from tests.support.qc_child import before_statement, die, fail_at_each_statement, finish, start
from tests.support.qc_documents import (
    apply,
    apply_document,
    experiment,
    housing,
    line,
    reading,
    specimen,
    to_apply,
    undo_documents,
)
from tests.support.trials import trials

ADD, EDIT, DELETE = Action.ADD, Action.EDIT, Action.DELETE
PATIENCE = 20
KILLS = 24


class Work(NamedTuple):
    """Something to be done to a database, and what it then holds: the litters of specimens and measured values."""

    do: Callable[[Engine], object]
    litters: dict[str, str]
    values: list[str]


def prepared(engine: Engine) -> dict[str, Work]:
    """A database with some documents, and what is to be broken off."""
    apply(engine, ADD, *(specimen(f"S{number}", "old") for number in range(8)))
    apply(engine, ADD, *(experiment(f"E{number}", (f"S{number}",), "1") for number in range(4)), housing(), line("C1"))
    edited = apply(engine, EDIT, specimen("S0", "edited"), specimen("S1", "edited")).document_id
    old = {f"S{number}": "edited" if number < 2 else "old" for number in range(8)}
    made = {
        ADD: to_apply(ADD, DocumentKind.EXPERIMENT),
        EDIT: to_apply(EDIT, DocumentKind.SPECIMEN),
        DELETE: to_apply(DELETE, DocumentKind.EXPERIMENT),
    }
    many = reading(*(experiment(f"F{number}", value="2") for number in range(30)), experiment("E1"))
    changed = reading(*(specimen(f"S{number}", "new") for number in range(9)))
    gone = reading(experiment("E0", ("S0",)), experiment("E3", ("S3",)), line("C1"))

    def applying(action: Action, read: Callable[[], list[object]]) -> Callable[[Engine], object]:
        return lambda on: apply_document(on, made[action], read, patience_seconds=PATIENCE, hold_threshold=100)

    return {
        "add": Work(applying(ADD, many), old, ["1"] * 4 + ["2"] * 30),
        "edit": Work(applying(EDIT, changed), {f"S{number}": "new" for number in range(8)}, ["1"] * 4),
        "delete": Work(applying(DELETE, gone), old, ["1"] * 2),
        "undo": Work(
            lambda on: undo_documents(on, [edited], patience_seconds=PATIENCE),
            {f"S{number}": "old" for number in range(8)},
            ["1"] * 4,
        ),
    }


def held_by(engine: Engine) -> tuple[dict[str, str], list[str]]:
    return litters(engine), values(engine)


@pytest.mark.both_databases(first_only=True)
@pytest.mark.parametrize("name", ["edit", "delete", "undo"])
def test_a_failure_at_any_statement_leaves_nothing_and_the_work_can_be_done_again(
    qc_database: Engine, name: str
) -> None:
    work = prepared(qc_database)[name]
    before = all_rows(qc_database)

    def nothing_is_left() -> None:
        assert all_rows(qc_database) == before

    _, number = fail_at_each_statement(qc_database, lambda: work.do(qc_database), nothing_is_left)
    assert number > 5
    assert held_by(qc_database) == (work.litters, work.values)


@pytest.mark.parametrize("name", ["add", "edit", "delete", "undo"])
def test_a_process_killed_at_any_moment_leaves_nothing_and_the_work_can_be_done_again(
    qc_database: Engine, qc_settings: Settings, name: str
) -> None:
    work = prepared(qc_database)[name]
    before = all_rows(qc_database)
    chance = random.Random(f"kills of {name}")

    def killed_at(number: int) -> Callable[[Engine], object]:
        def run(engine: Engine) -> None:
            with before_statement(engine, number, die):
                work.do(engine)

        return run

    kills = 0
    for number in sorted(chance.sample(range(3, 27), trials(KILLS // 3))):
        ended = finish(start(qc_settings, killed_at(number)))
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
        kills += 1
        wait_for_rollback(qc_database)
        assert all_rows(qc_database) == before
    else:
        work.do(qc_database)
    assert kills >= trials(KILLS // 8)
    assert held_by(qc_database) == (work.litters, work.values)


def wait_for_rollback(engine: Engine) -> None:
    """A server notices after a moment that a client is gone: who waits for the upload lock waits for that."""
    run_writing(engine, lock_all, patience_seconds=PATIENCE)
