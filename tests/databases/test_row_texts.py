"""Rows that a server is asked for as one text are those that it would have yielded one by one, on each database."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, LargeBinary, String, func, insert, select
from sqlalchemy import cast as typed

from dcc.databases.engines import LISTED_BYTES
from dcc.databases.row_texts import many_rows_of, rows_of
from dcc.databases.transactions import writing
from dcc.qc.models import BUILD_BASIS
from tests.support.databases import only_mariadb
from tests.support.sent_statements import sent_statements
from tests.support.trials import trials

ROWS = select(BUILD_BASIS.c.snapshot_id, BUILD_BASIS.c.name, func.nullif(BUILD_BASIS.c.name, "none", type_=String))
BY_NAME = (
    select(BUILD_BASIS.c.name, func.max(BUILD_BASIS.c.snapshot_id))
    .group_by(BUILD_BASIS.c.name)
    .order_by(BUILD_BASIS.c.name)
)
BYTES = select(typed(BUILD_BASIS.c.name, LargeBinary))

# No blank at the end, and nothing that differs only by that: a server takes such names for the same.
_NAMES = st.text(max_size=30).filter(lambda name: name == name.rstrip() and "\0" not in name)
_MANY = st.dictionaries(_NAMES, st.integers(1, 2**63 - 1), max_size=4)


def write(engine: Engine, numbers: dict[str, int]) -> None:
    with writing(engine) as connection:
        connection.execute(BUILD_BASIS.delete())
        rows = [{"build": "test", "name": name, "snapshot_id": value} for name, value in numbers.items()]
        if rows:
            connection.execute(insert(BUILD_BASIS), rows)


@settings(max_examples=trials(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(numbers=_MANY)
def test_numbers_texts_and_nulls_are_what_they_are(qc_database: Engine, numbers: dict[str, int]) -> None:
    write(qc_database, numbers | {"none": 7, 'it\'s "so" \\ %s :x\t\n\u2028\U0001f42d': 8})
    with qc_database.connect() as connection:
        for query in (ROWS, BY_NAME):
            one_by_one = [tuple(row) for row in connection.execute(query)]
            assert sorted(tuple(row) for row in rows_of(connection, query, {})) == sorted(one_by_one)
        assert sorted(map(tuple, many_rows_of(connection, ROWS))) == sorted(map(tuple, connection.execute(ROWS)))


def test_rows_have_no_names_of_columns_on_any_database(qc_database: Engine) -> None:
    write(qc_database, {"one": 1})
    with qc_database.connect() as connection:
        for rows in (rows_of(connection, BY_NAME, {}), many_rows_of(connection, ROWS)):
            assert [type(row) for row in rows] == [list]


def test_no_rows_are_none(qc_database: Engine) -> None:
    with qc_database.connect() as connection:
        assert list(rows_of(connection, ROWS, {})) == []
        assert list(rows_of(connection, BY_NAME, {})) == []


@only_mariadb
@pytest.mark.parametrize(("rows", "asked"), [(500, 1), (2 * LISTED_BYTES // 80, 2)])
def test_what_a_server_cuts_off_is_asked_for_one_by_one(qc_database: Engine, rows: int, asked: int) -> None:
    write(qc_database, {f"{number:032}": number for number in range(rows)})
    with qc_database.connect() as connection, sent_statements(qc_database) as sent:
        assert sorted(number for number, _, _ in rows_of(connection, ROWS, {})) == list(range(rows))
    assert len(sent) == asked
    with qc_database.connect() as connection, sent_statements(qc_database) as sent:
        assert sorted(number for number, _, _ in many_rows_of(connection, ROWS)) == list(range(rows))
    assert len(sent) == 1


@only_mariadb
def test_columns_of_other_types_are_refused(qc_database: Engine) -> None:
    with qc_database.connect() as connection, pytest.raises(TypeError, match="only numbers and texts"):
        rows_of(connection, BYTES, {})
