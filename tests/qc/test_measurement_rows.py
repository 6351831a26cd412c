"""Measurements become rows, whatever they say, and their fingerprints are those in databases."""

import itertools
from zlib import crc32

from hypothesis import example, given
from hypothesis import strategies as st

from dcc.documents.contents import OntologyParameter, Procedure, SeriesParameter, SeriesValue, SimpleParameter
from dcc.documents.lexical import parse_number
from dcc.qc.rows.measurements import MeasurementRows
from dcc.qc.rows.types import Row, TooLong

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
            TooLong(f"measurement.{name}", len(str(row[place])), limit)
            for row in rows
            for place, limit, name in LIMITS["measurement"]
            if row[1] == run_id and row[place] is not None and len(str(row[place])) > limit
        )
        assert found == next(told, None)
    assert held_text == sum(len(str(row[9])) for row in rows if row[9] is not None)


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
