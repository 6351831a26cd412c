"""Rows as lines and back: nothing is lost, and nothing mistaken for something else."""

from hypothesis import example, given
from hypothesis import strategies as st

from dcc.qc.rows.lines import as_lines, rows_of_lines
from dcc.qc.rows.types import Row

_VALUES = st.one_of(
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
@given(rows=st.integers(1, 4).flatmap(lambda fields: st.lists(st.tuples(*[_VALUES] * fields), max_size=4)))
def test_lines_say_what_any_rows_said(rows: list[Row]) -> None:
    told = [tuple(one if one is None or isinstance(one, str) else repr(one) for one in row) for row in rows]
    assert list(rows_of_lines(as_lines(rows))) == told
    assert as_lines(rows).count(b"\n") == len(rows)
