"""The rows of CSV tables: `specimens*.csv` and `experiments*.csv`."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from dcc.converters.base import ConversionFault, SubmittedFile
from dcc.converters.tables import Header, Row, Tables
from dcc.messages import Message, mark, message

_SEPARATORS: Final = ",;\t"
_LONGEST_ROW: Final = 1024 * 1024
_UNDECODED: Final = re.compile("[\udc80-\udcff]")


class CsvTables(Tables):
    """Converts CSV tables, whose first row names the columns."""

    name = "CSV tables"
    ending = ".csv"

    def rows(self, file: SubmittedFile) -> Iterator[Header | Row | ConversionFault]:
        """The rows that are not blank; their numbers count rows, as spreadsheets do, not lines."""
        names: list[str] | None = None
        number = 0
        with file.path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as table:
            beginning = table.readline(_LONGEST_ROW)
            table.seek(0)
            separator = max(_SEPARATORS, key=beginning.count)
            lines = _Lines(table)
            try:
                for number, cells in enumerate(csv.reader(lines, delimiter=separator, strict=True), 1):
                    lines.of_row = 0
                    if _UNDECODED.search("".join(cells)):
                        text = mark("The row is not in UTF-8. Export the table as CSV UTF-8.")
                        yield ConversionFault(number, message(text))
                        return
                    if not any(map(str.strip, cells)):
                        continue
                    if names is None:
                        names = [name.strip() for name in cells]
                        yield Header(number, names)
                    else:
                        yield _row(number, names, cells)
            except csv.Error as error:
                text = mark("The table cannot be read from here on ({reason}). Correct the quotes, or export it again.")
                yield ConversionFault(number + 1, message(text, reason=Message(str(error)[:200])))


def _row(number: int, names: Sequence[str], cells: Sequence[str]) -> Row | ConversionFault:
    if len(cells) != len(names):
        text = mark("Cells of the row: {found}; columns of the table: {expected}. Correct the row.")
        return ConversionFault(number, message(text, found=len(cells), expected=len(names)))
    return Row(number, {name: cell for name, cell in zip(names, cells, strict=True) if cell})


class _Lines:
    """The lines of a table for a reader, which keeps those of a row; `of_row` are the characters of its lines so far.

    Raises csv.Error for a row that is too long.
    """

    def __init__(self, text: TextIO) -> None:
        self._text, self.of_row = text, 0

    def __iter__(self) -> Iterator[str]:
        while line := self._text.readline(_LONGEST_ROW):
            self.of_row += len(line)
            if self.of_row >= _LONGEST_ROW:
                raise csv.Error(f"a row is longer than {_LONGEST_ROW:,} characters")
            yield line
