"""What a write transaction reads portion by portion, read ahead of it on connections of their own.

While the transaction deals with the answer about one portion, a server finds those about the next ones: two processors
work. SQLite is asked by the transaction itself: it works in this process, whose threads would wait for each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Final, TypeVar

from sqlalchemy import Connection

Q = TypeVar("Q")
A = TypeVar("A")

_AHEAD: Final = 2
"""How many questions are asked at once, and how many answers are held at most beside the one dealt with."""


def answers_ahead(connection: Connection, ask: Callable[[Connection, Q], A], questions: Iterable[Q]) -> Generator[A]:
    """The answers to questions in their order; to be closed. A single one, or one to SQLite, is asked on `connection`.

    Others are asked in threads, and see what is committed. So nothing may be asked for that the transaction of
    `connection` changes before it has the last answer, or that others may change. What `ask` raises is raised here.
    """
    waiting = iter(questions)
    first = list(islice(waiting, 2))
    if len(first) < 2 or connection.dialect.name == "sqlite":
        for question in chain(first, waiting):
            yield ask(connection, question)
        return
    engine = connection.engine

    def ask_beside(question: Q) -> A:
        with engine.connect() as beside:
            return ask(beside, question)

    pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="ask ahead")
    asked: deque[Future[A]] = deque()
    try:
        for question in chain(first, waiting):
            asked.append(pool.submit(ask_beside, question))
            if len(asked) > _AHEAD:
                yield asked.popleft().result()
        while asked:
            yield asked.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
