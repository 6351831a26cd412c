"""CSV that a spreadsheet shows and does not run: what a centre sent stays text, and can be had back to the letter.

A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, which can start programs and send the
sheet's contents elsewhere, and centres choose what is in these cells. CSV is what people open by a click, so such texts
have an apostrophe before them, by which spreadsheets know a text. So have texts that begin with an apostrophe
themselves: whoever takes one from the beginning of each text that has one has what was submitted. Numbers stay as they
are; so does Parquet, which no spreadsheet takes for formulas.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

GUARD: Final = "'"

_BEGINNINGS: Final = r"\A['=+\-@\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}\t\r\n]"
"""Also in full width, as spreadsheets in Japanese take them, and what some strip before they look."""

_NUMBER: Final = r"\A[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z"


def guarded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, with an apostrophe before each text that a spreadsheet could take for a formula."""
    columns = [_guarded(column) if pa.types.is_string(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _guarded(texts: Any) -> Any:
    risky = pc.and_(pc.match_substring_regex(texts, _BEGINNINGS), pc.invert(pc.match_substring_regex(texts, _NUMBER)))
    if not pc.any(risky).as_py():
        return texts
    return pc.if_else(risky, pc.binary_join_element_wise(GUARD, texts, ""), texts)
