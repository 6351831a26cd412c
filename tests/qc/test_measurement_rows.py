"""Rows: measurements and their fingerprints, and rows as lines."""

import itertools
from zlib import crc32

from hypothesis import example, given
from hypothesis import strategies as st

from dcc.documents.contents import OntologyParameter, Procedure, SeriesParameter, SeriesValue, SimpleParameter
from dcc.documents.lexical import parse_number
from dcc.qc.rows.bulk import as_lines, rows_of_lines
from dcc.qc.rows.procedures import measurement_rows
from dcc.qc.rows.types import Row

TAIL = ("H", "PIPE", "µ\t", "PROC_001", None, "2013-10-31", "None")

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


@given(procedure=_PROCEDURES)
def test_rows_have_their_number_and_their_fingerprint(procedure: Procedure) -> None:
    start = crc32("\x1f".join(map(str, TAIL)).encode())
    for number, row in enumerate(measurement_rows(itertools.count(1).__next__, 7, procedure, TAIL), start=1):
        assert row[:2] == (number, 7)
        texts = ["\x1e" if text is None else str(text) for text in (*row[5:10], *row[11:13])]
        assert row[-1] == crc32("\x1f".join(texts).encode(), start) ** 2 % 4_294_967_291
        assert repr(row[10]) == repr(None if row[9] is None else parse_number(str(row[9])))


def _mark(specimen: int, weight: int) -> int:
    """The fingerprint of the weight of an animal, in tenths of a gram."""
    simple = SimpleParameter(4, "IMPC_GRS_001_001", None, "g", f"{weight / 10:.1f}", None)
    procedure = Procedure(3, "IMPC_GRS_001", (simple,), (), (), *[()] * 4)
    tail = ("H", "HARWELL_001", "MGP", "IMPC_GRS_001", f"E{specimen}", "2024-01-01", f"M{specimen}")
    (row,) = measurement_rows(lambda: 1, 1, procedure, tail)
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
