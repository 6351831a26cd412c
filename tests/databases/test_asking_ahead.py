"""What a transaction reads ahead of itself, on each database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice

import pytest
from sqlalchemy import Connection, Engine, insert, select

from dcc.databases.asking_ahead import answers_ahead
from dcc.qc import models
from dcc.qc.database import writing

WORD = models.BuildBasis.__table__


def write(connection: Connection, number: int) -> None:
    connection.execute(insert(WORD), [{"build": "test", "name": f"word {number}", "snapshot_id": number}])


def words(connection: Connection, number: int) -> list[str]:
    return list(connection.scalars(select(WORD.c.name).where(WORD.c.snapshot_id == number)))


def test_answers_come_in_the_order_of_questions_beside_a_transaction_that_writes(qc_database: Engine) -> None:
    with writing(qc_database) as connection:
        for number in range(0, 20, 2):
            write(connection, number)
    with writing(qc_database) as connection, closing(answers_ahead(connection, words, range(10))) as answers:
        found = []
        for answer in answers:
            found.append(answer)
            write(connection, 100 + len(found))
    assert found == [[f"word {number}"] if number % 2 == 0 else [] for number in range(10)]


def test_what_the_transaction_wrote_is_not_seen_ahead(qc_database: Engine) -> None:
    with writing(qc_database) as connection:
        write(connection, 1)
        with closing(answers_ahead(connection, words, [1, 2])) as answers:
            # SQLite is not asked ahead.
            assert list(answers) == [["word 1"] if qc_database.dialect.name == "sqlite" else [], []]


@pytest.fixture
def asked_on() -> list[tuple[Connection, threading.Thread]]:
    """On which connections, and in which threads, was asked."""
    return []


@pytest.fixture
def ask(asked_on: list[tuple[Connection, threading.Thread]]) -> Callable[[Connection, int], int]:
    """Answers with the question."""

    def ask(connection: Connection, question: int) -> int:
        asked_on.append((connection, threading.current_thread()))
        return question

    return ask


def test_a_single_question_is_asked_by_the_transaction_itself(
    qc_database: Engine,
    ask: Callable[[Connection, int], int],
    asked_on: list[tuple[Connection, threading.Thread]],
) -> None:
    with writing(qc_database) as connection:
        assert list(answers_ahead(connection, ask, [7])) == [7]
        assert asked_on == [(connection, threading.current_thread())]
        assert list(answers_ahead(connection, ask, [])) == []


def test_several_are_asked_beside_it_but_for_sqlite(
    qc_database: Engine,
    ask: Callable[[Connection, int], int],
    asked_on: list[tuple[Connection, threading.Thread]],
) -> None:
    with writing(qc_database) as connection, closing(answers_ahead(connection, ask, range(5))) as answers:
        assert list(answers) == list(range(5))
    is_sqlite = qc_database.dialect.name == "sqlite"
    assert [(on is connection, thread is threading.current_thread()) for on, thread in asked_on] == [
        (is_sqlite, is_sqlite)
    ] * 5


def test_what_a_question_meets_is_raised_in_its_turn_and_the_rest_is_given_up(qc_database: Engine) -> None:
    def ask(connection: Connection, question: int) -> int:
        if question == 3:
            raise ValueError("The third one.")
        return question

    with writing(qc_database) as connection, closing(answers_ahead(connection, ask, range(100))) as ahead:
        assert list(islice(ahead, 3)) == [0, 1, 2]
        with pytest.raises(ValueError, match=r"The third one\."):
            next(ahead)
        assert list(ahead) == []


def test_few_answers_are_held_however_many_questions_there_are(qc_database: Engine) -> None:
    taken = 0

    def questions() -> Iterator[int]:
        nonlocal taken
        for number in range(1_000):
            taken += 1
            yield number

    with (
        writing(qc_database) as connection,
        closing(answers_ahead(connection, lambda _, number: number, questions())) as ahead,
    ):
        for dealt_with, answer in enumerate(ahead):
            assert answer == dealt_with
            assert taken <= dealt_with + 4
            if dealt_with == 20:
                break
    assert taken < 30
