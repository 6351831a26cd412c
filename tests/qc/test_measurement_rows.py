"""Rows: measurements and their fingerprints, rows as lines, and rows inserted at once."""

import itertools
from zlib import crc32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import Column, Float, Integer, MetaData, Table, Text, create_engine, select

from dcc.documents.contents import OntologyParameter, Procedure, SeriesParameter, SeriesValue, SimpleParameter
from dcc.documents.lexical import parse_number
from dcc.qc.rows.bulk import insert_bulk
from dcc.qc.rows.lines import as_lines, rows_of_lines
from dcc.qc.rows.measurements import MeasurementRows
from dcc.qc.rows.types import NamedRows, Row, TooLong

TAIL = ("H", "PIPE", "µ\t", "PROC_001", None, "2013-10-31", "None")
LIMITS = {"measurement": ((5, 4, "parameter_id"), (7, 4, "increment"), (11, 4, "unit"), (12, 4, "status"))}

_TEXTS = st.one_of(st.text(alphabet="N\\\t\n\r\0µ", max_size=5), st.sampled_from(["7.10", "-0", " 1e3 ", "1" * 30]))
_MAYBE = st.none() | _TEXTS
_LINE = st.integers(1, 9)
_VALUES = st.lists(st.builds(SeriesValue, _LINE, _TEXTS, _MAYBE, _TEXTS), max_size=2).map(tuple)
_PROCEDURES = st.builds(
    Procedure,
    _LINE,
    _TEXTS,
    st.lists(st.builds(SimpleParameter, _LINE, _TEXTS, _MAYBE, _MAYBE, _MAYBE, _MAYBE), max_size=3).map(tuple),
    st.lists(st.builds(OntologyParameter, _LINE, _TEXTS, _MAYBE, st.tuples(_TEXTS, _TEXTS), _MAYBE)).map(tuple),
    st.lists(st.builds(SeriesParameter, _LINE, _TEXTS, _MAYBE, _MAYBE, _VALUES, _MAYBE), max_size=2).map(tuple),
    *[st.just(())] * 4,
)


def made_of(procedures: list[Procedure]) -> tuple[list[Row], list[TooLong | None], int]:
    rows: list[Row] = []
    measured = MeasurementRows({"measurement": itertools.count(1).__next__}, {"measurement": rows}, LIMITS)
    too_long = []
    for run_id, procedure in enumerate(procedures):
        measured.add(run_id, procedure, TAIL)
        too_long.append(measured.too_long)
    return rows, too_long, measured.held_text


@given(procedures=st.lists(_PROCEDURES, max_size=2))
def test_rows_have_their_number_their_fingerprint_and_texts_that_fit(procedures: list[Procedure]) -> None:
    rows, too_long, held_text = made_of(procedures)
    start = crc32("\x1f".join(map(str, TAIL)).encode())
    for row in rows:
        texts = ["\x1e" if text is None else str(text) for text in (*row[5:10], *row[11:13])]
        assert row[-1] == crc32("\x1f".join(texts).encode(), start) ** 2 % 4_294_967_291
        assert repr(row[10]) == repr(None if row[9] is None else parse_number(str(row[9])))
    for run_id, found in enumerate(too_long):
        told = (
            TooLong(name, len(str(row[place])), limit)
            for row in rows
            for place, limit, name in LIMITS["measurement"]
            if row[1] == run_id and row[place] is not None and len(str(row[place])) > limit
        )
        assert found == next(told, None)
    assert held_text == sum(len(str(row[9])) for row in rows if row[9] is not None)


def test_a_row_of_an_element_has_the_values_given_before_those_of_its_fields() -> None:
    named = NamedRows({"series": ("id", "value", "increment", "line")})
    value = SeriesValue(line=4, increment="1", increment_status=None, value="7.10")
    assert named.row("series", value, id=1, value=7.1) == (1, 7.1, "1", 4)
    assert named.row("series", value, value=7.1, id=1) == (1, 7.1, "1", 4)
    other = SimpleParameter(line=5, parameter_id="P", sequence_id=None, unit=None, value="7.20", status=None)
    several = NamedRows({"series": ("id", "value", "line")})
    assert [several.row("series", one, id=1) for one in (value, other)] == [(1, "7.10", 4), (1, "7.20", 5)]
    with pytest.raises(KeyError, match="number"):
        named.row("series", value, id=1, number=7.1)
    with pytest.raises(KeyError, match="id"):
        named.row("series", value)


def _mark(specimen: int, weight: int) -> int:
    """The fingerprint of the weight of an animal, in tenths of a gram."""
    rows: list[Row] = []
    measured = MeasurementRows({"measurement": lambda: 1}, {"measurement": rows}, LIMITS)
    simple = SimpleParameter(4, "IMPC_GRS_001_001", None, "g", f"{weight / 10:.1f}", None)
    procedure = Procedure(3, "IMPC_GRS_001", (simple,), (), (), *[()] * 4)
    measured.add(
        1, procedure, ("H", "HARWELL_001", "MGP", "IMPC_GRS_001", f"E{specimen}", "2024-01-01", f"M{specimen}")
    )
    (row,) = rows
    return int(row[-1])


@given(
    first=st.integers(10_000, 99_999),
    second=st.integers(10_000, 99_999),
    light=st.integers(180, 320),
    heavy=st.integers(180, 320),
)
@example(first=27_633, second=66_607, light=197, heavy=216)
def test_values_that_are_swapped_between_two_animals_change_the_sum(
    first: int, second: int, light: int, heavy: int
) -> None:
    """A sum of CRC-32s stays the same once in 7,000 times: each is an exclusive or of what is swapped."""
    before = _mark(first, light) + _mark(second, heavy)
    after = _mark(first, heavy) + _mark(second, light)
    assert (before == after) == (first == second or light == heavy)


_KEPT = st.one_of(
    st.none(),
    st.text(alphabet="None\\\t\n\r\0µ🐁", max_size=6),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)


@example(rows=[("None", None), ("a", "b")])
@example(
    rows=[
        ("\\N", None, "\t", "x\ny"),
        ("\\", "\r", "\0", ""),
        (None, None, None, "µ\\t"),
        (1, "None", None, -0.0),
    ]
)
@given(rows=st.integers(1, 4).flatmap(lambda fields: st.lists(st.tuples(*[_KEPT] * fields), max_size=4)))
def test_lines_say_what_any_rows_said(rows: list[Row]) -> None:
    told = [tuple(one if one is None or isinstance(one, str) else repr(one) for one in row) for row in rows]
    assert list(rows_of_lines(as_lines(rows))) == told
    assert as_lines(rows).count(b"\n") == len(rows)


ENGINE = create_engine("sqlite://")
TABLE = Table("row", MetaData(), Column("id", Integer), Column("text", Text), Column("a", Integer), Column("b", Float))
VALUES = (st.text(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False))
ROWS = st.tuples(*(st.none() | value for value in (st.integers(0, 9), *VALUES)))


@example([(1, None, 3, None), (2, None, None, None)])
@given(st.lists(ROWS, min_size=1, max_size=5))
def test_rows_are_kept_whichever_of_their_columns_are_null(rows: list[Row]) -> None:
    with ENGINE.connect() as connection:
        TABLE.create(connection, checkfirst=True)
        insert_bulk(connection, TABLE, ("id", "text", "a", "b"), rows)
        # What comes into it goes with the transaction.
        assert [tuple(row) for row in connection.execute(select(TABLE))] == rows
