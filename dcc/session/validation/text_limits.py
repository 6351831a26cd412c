"""Finds the texts of a document that the QC database cannot hold, as its upload does: rule Q1."""

from __future__ import annotations

from itertools import count
from typing import Final

from dcc.documents.contents import Block, Content, kind_of
from dcc.documents.origins import Origin
from dcc.qc.apply.entity_rows import LIMITS
from dcc.qc.apply.upload_findings import FindingsKept, too_long
from dcc.qc.rows.building import NUMBERED, RowBuilder
from dcc.qc.rows.entity_keys import key_of
from dcc.qc.rows.types import Row, TooLong


class TextLimits:
    """Tries the elements of one document; `findings` has one for each entity or centre element with such a text."""

    def __init__(self, origin: Origin | None) -> None:
        self.findings: Final = FindingsKept(origin)
        self._tables: dict[str, list[Row]] = {table: [] for table in LIMITS}
        self._rows = RowBuilder(1, dict.fromkeys(NUMBERED, count(1).__next__), self._tables, LIMITS)
        self._block: Block | None = None

    def permit(self, content: Content) -> bool:
        """Whether the database can hold the next element of the document, and the centre element that it is in."""
        if isinstance(content, Block):
            excess = self._rows.add_block(content)
            self._block = content if excess is None else None
            if excess is not None:
                self.findings.add(too_long(content.line, "centre element", excess))
        elif self._block is not None:
            row = self._rows.add_entity(content)
            if isinstance(row, TooLong):
                key = key_of(self._block, content)
                self.findings.add(too_long(content.line, kind_of(content).value, row, key))
                return False
        for rows in self._tables.values():
            rows.clear()
        return self._block is not None
