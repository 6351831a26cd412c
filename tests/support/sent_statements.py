"""The SQL statements that a test's database is sent."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, event


@contextmanager
def sent_statements(engine: Engine | type[Engine], counts: Callable[[str], bool] | None = None) -> Iterator[list[str]]:
    """The statements sent within the block, of those that count; one for many rows is there once.

    With `Engine` itself, those to any database.
    """
    sent: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if counts is None or counts(statement):
            sent.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(engine, "before_cursor_execute", note)
