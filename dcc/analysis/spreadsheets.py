"""Makes CSV safe to open in a spreadsheet: centres' texts stay texts, and can be restored exactly.

A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, which can start programs and send the
sheet's contents elsewhere. Centres choose what is in these cells. Such texts get an apostrophe before them, which
spreadsheets read as a sign of text, and so do texts that begin with an apostrophe themselves. To restore the submitted
text, remove one apostrophe from the beginning of each text that has one. Numbers are not changed, nor is Parquet.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

GUARD: Final = "'"

_BEGINNINGS: Final = r"\A['=+\-@\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}\t\r\n]"
"""Also in full width, as Japanese spreadsheets accept them, and characters that some strip first."""

_NUMBER: Final = r"\A[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z"

_BEGINNINGS_OF_TEXT: Final = re.compile(re.sub(r"\\x\{(\w+)\}", r"\\u\1", _BEGINNINGS))
_NUMBER_OF_TEXT: Final = re.compile(_NUMBER.replace(r"\z", r"\Z"))


def escape_formulas(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, with an apostrophe before each text that a spreadsheet could take for a formula."""
    columns = [_guarded(column) if pa.types.is_string(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def guarded(text: str | None) -> str | None:
    """One text, in the same way."""
    risky = text is not None and re.match(_BEGINNINGS_OF_TEXT, text) and not re.match(_NUMBER_OF_TEXT, text)
    return f"{GUARD}{text}" if risky else text


def _guarded(texts: Any) -> Any:
    risky = pc.and_(pc.match_substring_regex(texts, _BEGINNINGS), pc.invert(pc.match_substring_regex(texts, _NUMBER)))
    if not pc.any(risky).as_py():
        return texts
    return pc.if_else(risky, pc.binary_join_element_wise(GUARD, texts, ""), texts)
