"""Rows that are bound to a statement: kept as they are, without the columns that none of them has."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Column, Float, Integer, MetaData, Table, Text, create_engine, event, select

from dcc.qc.rows.bulk import insert_bulk
from dcc.qc.rows.types import Row

ENGINE = create_engine("sqlite://")
TABLE = Table("row", MetaData(), Column("id", Integer), Column("text", Text), Column("a", Integer), Column("b", Float))
VALUES = (st.text(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False))
ROWS = st.tuples(*(st.none() | value for value in (st.integers(0, 9), *VALUES)))


def inserted(rows: Sequence[Row]) -> tuple[list[Any], str]:
    """What a table holds after rows came into it, and the statement that did it."""
    statements: list[str] = []
    with ENGINE.connect() as connection:
        TABLE.create(connection, checkfirst=True)
        event.listen(connection, "before_cursor_execute", lambda *given: statements.append(given[2]))
        insert_bulk(connection, TABLE, rows)
        (statement,) = statements
        # What comes into it goes with the transaction.
        return [tuple(row) for row in connection.execute(select(TABLE))], statement


@given(st.lists(ROWS, min_size=1, max_size=5))
def test_rows_are_kept_whichever_of_their_columns_are_null(rows: list[Row]) -> None:
    assert inserted(rows)[0] == rows


@pytest.mark.parametrize(
    ("rows", "marks"),
    [
        ([(1, None, 3, None), (2, None, None, None)], "?, NULL, ?, NULL"),
        ([(1, None, 3, None), (None, "b", None, 0.0)], "?, ?, ?, ?"),
        ([(1, "", 0, 0.0)], "?, ?, ?, ?"),
        ([(1, None, None, None)], "?, ?, ?, ?"),
        ([(None, None, None, None)], "?, ?, ?, ?"),
    ],
)
def test_a_column_is_bound_if_any_row_has_it(rows: list[Row], marks: str) -> None:
    kept, statement = inserted(rows)
    assert kept == rows
    assert statement.endswith(f"VALUES ({marks})")
