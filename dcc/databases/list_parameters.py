"""Passes thousands of numbers or texts to a statement: in chunks, or as one parameter.

With one parameter, the statement is the same whatever their number. It is a JSON array: SQLite (3.38) reads it by
`json_each`, MySQL (8.0) and MariaDB (10.6) by `JSON_TABLE`. With a parameter for each number, SQLAlchemy would take
longer than the database. Use one parameter only for reading: MariaDB 10 scans the whole table to change or delete the
rows of such a list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, TypeVar

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Executable,
    Select,
    String,
    Update,
    bindparam,
    func,
    literal,
    select,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import TableValuedAlias

from dcc.databases.columns import BIG

Item = TypeVar("Item", int, str)

AT_ONCE: Final = 2_000
"""The most numbers or texts in one statement: few enough for its result, and for SQLite to sort it in memory."""
_LISTED: Final = 500
"""The most as a list in a statement: MariaDB scans and locks the whole table for one of 1,000 or more."""


IDS: Final[BindParameter[Any]] = bindparam("ids", expanding=True)
"""A placeholder for the numbers or texts of one chunk in a statement."""


def sorted_chunks(items: Iterable[Item], at_once: int = AT_ONCE) -> Iterator[list[Item]]:
    """The distinct numbers or texts in ascending order, in lists of `at_once` at most."""
    ordered = sorted(set(items))
    for start in range(0, len(ordered), at_once):
        yield ordered[start : start + at_once]


def rows_about(
    connection: Connection, statement: Select[*tuple[Any, ...]], items: Iterable[Any], **given: object
) -> Iterator[Any]:
    """The rows of a statement about `IDS`, for any number of numbers or texts; `given` are its other parameters."""
    for some in sorted_chunks(items, _LISTED):
        yield from connection.execute(statement, {"ids": some, **given})


def rows_with(
    connection: Connection,
    statement: Select[*tuple[Any, ...]],
    column: ColumnElement[Any] | InstrumentedAttribute[Any],
    items: Iterable[Any] | None,
) -> Iterator[Any]:
    """The rows of a statement whose column has one of these numbers or texts; all rows for None.

    If the statement is a constant, put `IDS` into it, and call `rows_about`: to make a statement takes as long as its
    execution.
    """
    if items is None:
        yield from connection.execute(statement)
    else:
        yield from rows_about(connection, statement.where(column.in_(IDS)), items)


def equal(*pairs: tuple[ColumnElement[Any], object]) -> list[ColumnElement[bool]]:
    """The conditions that columns have given values; None: any."""
    return [column == value for column, value in pairs if value is not None]


def change_about(connection: Connection, statement: Executable, items: Iterable[Any], **given: object) -> None:
    """Execute a statement about `IDS` that changes rows, for any number of items; `given` are its other parameters."""
    for some in sorted_chunks(items, _LISTED):
        connection.execute(statement, {"ids": some, **given})


def change_rows(
    connection: Connection, column: Column[Any], items: Iterable[Any], *conditions: ColumnElement[bool], **values: Any
) -> None:
    """Give the rows of a table whose column has one of these numbers or texts new values."""
    given = {f"new_{name}": value for name, value in values.items()}
    change_about(connection, _change(column, conditions, tuple(values)), items, **given)


@lru_cache(maxsize=200)
def _change(column: Column[Any], conditions: tuple[ColumnElement[bool], ...], names: tuple[str, ...]) -> Update:
    those = update(column.table).where(column.in_(IDS), *conditions)
    return those.values({name: bindparam(f"new_{name}") for name in names})


def as_json(given: Iterable[int] | Iterable[str] | Iterable[Sequence[int]]) -> str:
    """The parameter for numbers, for lists of them, or for texts."""
    return json.dumps(list(given), separators=(",", ":"))


def numbers_in(parameter: str) -> Select[Any]:
    """The numbers of a parameter, for `column.in_(...)`."""
    return _numbers(bindparam(parameter))


def these_numbers(numbers: Iterable[int]) -> Select[Any]:
    """As `numbers_in`, with the numbers themselves."""
    return _numbers(literal(as_json(numbers)))


def _numbers(parameter: BindParameter[Any]) -> Select[Any]:
    return select(_Numbers(parameter).table_valued(Column("value", BIG)).c.value)


def texts_in(parameter: str) -> Select[Any]:
    """The texts of a parameter, for `column.in_(...)`; a server reads 255 characters of each at most."""
    return select(texts_given(parameter).c.value)


def these_texts(texts: Iterable[str]) -> Select[Any]:
    """As `texts_in`, with the texts themselves."""
    return select(_texts(literal(as_json(texts))).c.value)


def texts_given(parameter: str) -> TableValuedAlias:
    """A table of a parameter's texts, with the column `value`, to be joined with others."""
    return _texts(bindparam(parameter))


def _texts(parameter: BindParameter[Any]) -> TableValuedAlias:
    return _Texts(parameter).table_valued(Column("value", String))


def groups_in(parameter: str) -> TableValuedAlias:
    """A table of a parameter's lists of numbers, none of them empty, to be joined with others.

    Its columns are `number`, of the list, counted from 1, and `value`. The other table is looked up by the values, and
    not the other way round.
    """
    return _Groups(bindparam(parameter)).table_valued(Column("number", BIG), Column("value", BIG))


def only_compared(column: ColumnElement[str]) -> ColumnElement[str]:
    """A column that is never null, as an expression that SQLite does not use to look rows up.

    SQLite does not know how many rows have a value. It may read all rows with one of a few values, instead of the few
    rows whose numbers are given.
    """
    return func.coalesce(column, "")


class _ParameterRows(FunctionElement[Any]):
    """A parameter's content as rows; `taken` is the server's expression that reads it."""

    taken: ClassVar[str]


class _Numbers(_ParameterRows):
    name = "numbers"
    inherit_cache = True
    taken = "value BIGINT PATH '$'"


class _Texts(_ParameterRows):
    name = "texts"
    inherit_cache = True
    taken = "value VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$'"


class _Groups(_ParameterRows):
    name = "groups"
    inherit_cache = True
    taken = "number FOR ORDINALITY, NESTED PATH '$[*]' COLUMNS (value BIGINT PATH '$')"


@compiles(_ParameterRows)
def _compile_rows(element: _ParameterRows, compiler: SQLCompiler, **options: Any) -> str:
    return f"JSON_TABLE({compiler.process(element.clauses, **options)}, '$[*]' COLUMNS ({element.taken}))"


@compiles(_ParameterRows, "sqlite")
def _compile_rows_of_sqlite(element: _ParameterRows, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_Groups, "sqlite")
def _groups_of_sqlite(element: _Groups, compiler: SQLCompiler, **options: Any) -> str:
    # The limit, which limits nothing, makes the server read each list once, not once for each joined row.
    return (
        "(SELECT json_lists.key + 1 AS number, in_list.value AS value "  # noqa: S608
        f"FROM json_each({compiler.process(element.clauses, **options)}) AS json_lists, "
        "json_each(json_lists.value) AS in_list LIMIT -1)"
    )
