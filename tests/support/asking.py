"""One question to a database, or one change, in a transaction of its own. A text is a statement of SQL."""

from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from sqlalchemy import Connection, Engine, Executable, FromClause, Row, func, select, text

from dcc.databases.engines import disposed
from dcc.databases.transactions import writing

P = ParamSpec("P")
T = TypeVar("T")

closing_all = disposed


class Databases(Protocol):
    """What has a tracker and a QC database."""

    @property
    def tracker(self) -> Engine:
        """The tracker's engine."""

    @property
    def qc(self) -> Engine:
        """The QC database's engine."""


def value_in(engine: Engine, statement: Executable | str) -> Any:
    """The first column of the first row; None without any."""
    return in_reading(engine, lambda connection: connection.scalar(_statement(statement)))


def column_in(engine: Engine, statement: Executable | str) -> list[Any]:
    return [row[0] for row in rows_in(engine, statement)]


def count_in(engine: Engine, table: FromClause | type) -> int:
    found: int = value_in(engine, select(func.count()).select_from(table))
    return found


def row_in(engine: Engine, statement: Executable | str) -> Row[Any]:
    """The only row."""
    (row,) = rows_in(engine, statement)
    return row


def rows_in(engine: Engine, statement: Executable | str) -> list[Row[Any]]:
    return in_reading(engine, lambda connection: list(connection.execute(_statement(statement))))


def in_reading(
    engine: Engine, function: Callable[Concatenate[Connection, P], T], *arguments: P.args, **options: P.kwargs
) -> T:
    """What a function that reads from a connection returns."""
    with engine.connect() as connection:
        return _whole(function(connection, *arguments, **options))


def in_both(
    databases: Databases,
    function: Callable[Concatenate[Connection, Connection, P], T],
    *arguments: P.args,
    **options: P.kwargs,
) -> T:
    """What a function that reads from the tracker and the QC database returns."""
    with databases.tracker.connect() as tracker, databases.qc.connect() as qc:
        return _whole(function(tracker, qc, *arguments, **options))


def execute_in(engine: Engine, *statements: Executable | str) -> None:
    with writing(engine) as connection:
        for statement in statements:
            connection.execute(_statement(statement))


def in_writing(
    engine: Engine, function: Callable[Concatenate[Connection, P], T], *arguments: P.args, **options: P.kwargs
) -> T:
    """What a function that writes to a connection returns."""
    with writing(engine) as connection:
        return function(connection, *arguments, **options)


def _statement(statement: Executable | str) -> Executable:
    return text(statement) if isinstance(statement, str) else statement


def _whole(found: T) -> T:
    """What outlives the connection: an iterator with all that it yields."""
    return cast("T", iter(list(found))) if isinstance(found, Iterator) else found
