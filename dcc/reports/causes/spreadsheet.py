"""The causes and findings of a scope as a spreadsheet (XLSX), which shows what centres sent and runs none of it.

Every text is written as a text, so that none is a formula or a link, whatever it begins with; what would not be seen
of it (control characters, blanks of no width) stands as `\\xNN`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import xlsxwriter
from sqlalchemy import Connection

from dcc.declarations import ACTOR_NAMES
from dcc.errors import ExportError
from dcc.messages import mark
from dcc.reports.causes.cause import SEVERITY_NAMES, Cause
from dcc.reports.causes.finding_rows import FindingRow, finding_rows
from dcc.reports.causes.zip_scopes import Scope
from dcc.runtime.legible_text import legible
from dcc.runtime.private_files import replacement_file

if TYPE_CHECKING:
    from dcc.reports.languages import Catalogue

MOST_ROWS: Final = 1_048_576
"""Rows that a sheet can have, its header and its last line included."""

_OPTIONS: Final = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
_LONGEST_CELL: Final = 32_000

_CAUSE_COLUMNS: Final = (
    (mark("What is wrong"), 70),
    (mark("What to do"), 60),
    (mark("Who acts"), 12),
    (mark("Centre"), 8),
    (mark("Rule or error"), 18),
    (mark("Severity"), 10),
    (mark("Findings"), 10),
    (mark("Documents"), 10),
    (mark("Archives"), 10),
    (mark("Documents that a fix clears"), 14),
    (mark("Archives that a fix clears"), 14),
    (mark("Such as, in"), 50),
    (mark("Line"), 8),
    (mark("Value"), 25),
    (mark("Nearest permitted value"), 25),
)
_FINDING_COLUMNS: Final = (
    (mark("Archive"), 34),
    (mark("Document"), 40),
    (mark("Line"), 8),
    (mark("Column"), 8),
    (mark("Element"), 45),
    (mark("Value"), 25),
    (mark("What is permitted"), 45),
    (mark("Nearest permitted value"), 25),
    (mark("Message"), 90),
    (mark("Rule or error"), 16),
    (mark("Severity"), 10),
    (mark("Who acts"), 12),
)


@dataclass(frozen=True, slots=True)
class WrittenSpreadsheet:
    """How many causes and findings a spreadsheet has, and whether there are more findings than a sheet can hold."""

    causes: int
    findings: int
    is_cut: bool


def write_findings_spreadsheet(
    path: Path,
    tracker: Connection,
    qc: Connection | None,
    scope: Scope,
    causes: Sequence[Cause],
    catalogue: Catalogue,
    *,
    most_rows: int = MOST_ROWS,
) -> WrittenSpreadsheet:
    """Write a sheet of causes and one of all findings of a scope, in the catalogue's language; memory stays flat.

    What is at `path` is replaced when all is written. Raises ExportError when it cannot be.
    """
    try:
        with TemporaryDirectory() as folder, replacement_file(path) as part:
            return _write(part, folder, finding_rows(tracker, qc, scope), causes, catalogue, most_rows)
    except (OSError, xlsxwriter.exceptions.XlsxWriterException) as error:
        raise ExportError(
            f"The spreadsheet {path} cannot be written: {error}. Name a file in a folder that may be written to, with "
            "space on its disk."
        ) from error


def _write(
    path: Path,
    temporary: str,
    findings: Iterable[FindingRow],
    causes: Sequence[Cause],
    catalogue: Catalogue,
    most_rows: int,
) -> WrittenSpreadsheet:
    with xlsxwriter.Workbook(str(path), {**_OPTIONS, "tmpdir": temporary}) as workbook:
        sheet = _Sheet(workbook, catalogue.say(mark("Causes")), _CAUSE_COLUMNS, catalogue)
        for cause in causes[: most_rows - 1]:
            sheet.add(_cause_cells(cause, catalogue))
        sheet.finish()
        sheet = _Sheet(workbook, catalogue.say(mark("Findings")), _FINDING_COLUMNS, catalogue)
        rows = iter(findings)
        for row in islice(rows, most_rows - 2):
            sheet.add(_finding_cells(row, catalogue))
        is_cut = next(rows, None) is not None
        number = sheet.rows
        sheet.finish()
        if is_cut:
            sheet.add([catalogue.say(mark("There are more findings than a sheet can hold: the rest is left out."))])
    return WrittenSpreadsheet(min(len(causes), most_rows - 1), number, is_cut)


class _Sheet:
    """A sheet with a header that stays in sight, and filters."""

    def __init__(self, workbook: Any, name: str, columns: Sequence[tuple[str, int]], catalogue: Catalogue) -> None:
        self._sheet = workbook.add_worksheet(_sheet_name(name))
        self._columns = len(columns)
        self.rows = 0
        bold = workbook.add_format({"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"})
        for number, (title, width) in enumerate(columns):
            self._sheet.set_column(number, number, width)
            self._sheet.write_string(0, number, catalogue.say(title), bold)
        self._sheet.freeze_panes(1, 0)

    def add(self, cells: Sequence[str | int | None]) -> None:
        """Write the next row."""
        self.rows += 1
        for number, cell in enumerate(cells):
            if isinstance(cell, int):
                self._sheet.write_number(self.rows, number, cell)
            elif cell:
                self._sheet.write_string(self.rows, number, _cell(cell))

    def finish(self) -> None:
        """Have filters for the rows that there are."""
        self._sheet.autofilter(0, 0, max(self.rows, 1), self._columns - 1)


def _cause_cells(cause: Cause, catalogue: Catalogue) -> list[str | int | None]:
    example = cause.example
    place = ": ".join(part for part in (example.zip, example.document) if part)
    return [
        cause.title(catalogue),
        cause.remedy_for_centre(catalogue),
        catalogue.say(ACTOR_NAMES[cause.acts]),
        cause.centre,
        cause.kind,
        catalogue.say(SEVERITY_NAMES[cause.severity]),
        cause.findings,
        cause.documents,
        cause.zips,
        cause.clears.documents,
        cause.clears.zips,
        place,
        example.line,
        example.value,
        example.nearest,
    ]


def _finding_cells(row: FindingRow, catalogue: Catalogue) -> list[str | int | None]:
    found = row.found
    return [
        found.zip,
        found.document,
        found.line,
        found.column,
        None if found.element is None else catalogue.tell(found.element),
        found.value,
        ", ".join(found.permitted) or (None if found.expected is None else catalogue.tell(found.expected)),
        found.nearest,
        catalogue.tell(found.said),
        row.kind,
        catalogue.say(SEVERITY_NAMES[row.severity]),
        catalogue.say(ACTOR_NAMES[row.acts]),
    ]


def _cell(text: str) -> str:
    shown = legible(text)
    return shown if len(shown) <= _LONGEST_CELL else f"{shown[:_LONGEST_CELL]}..."


_FORBIDDEN_IN_NAMES: Final = str.maketrans(dict.fromkeys("[]:*?/\\'", " "))


def _sheet_name(name: str) -> str:
    return name.translate(_FORBIDDEN_IN_NAMES).strip()[:31]
