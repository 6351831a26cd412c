"""The causes and findings of a scope as a spreadsheet (XLSX), which shows what centres sent and runs none of it.

Wranglers send it to centres, so that it names no commands. Every text is written as a text, so that none is a formula
or a link, whatever it begins with. Invisible characters (control characters, blanks of no width) stand as `\\xNN`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import xlsxwriter
from sqlalchemy import Connection

from dcc.declarations import ACTOR_NAMES
from dcc.errors import ExportError
from dcc.messages import mark
from dcc.reports.causes.cause import SEVERITY_NAMES, Cause, Fact
from dcc.reports.causes.collecting import FoundCauses
from dcc.reports.causes.data_facts import DataFacts
from dcc.reports.causes.log_facts import LogFacts
from dcc.runtime.legible_text import legible
from dcc.runtime.private_files import PRIVATE_FILE, replacement_file, writing_errors
from dcc.tracker.models import XmlLog, ZipActionLog, ZipLog

if TYPE_CHECKING:
    from dcc.reports.languages import Catalogue

MAX_ROWS: Final = 1_048_576
"""Rows that a sheet can have, its header and its last line included."""

_OPTIONS: Final = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
_LONGEST_CELL: Final = 32_000

_Column = tuple[str, int, Callable[[Any, "Catalogue"], str | int | None]]
"""The title and the width of a column, and its value for a cause or a finding."""

_CAUSE_COLUMNS: Final[Sequence[_Column]] = (
    (mark("What is wrong"), 70, Cause.title),
    (mark("What to do"), 60, Cause.remedy_for_centre),
    (mark("Who acts"), 12, lambda cause, catalogue: catalogue.say(ACTOR_NAMES[cause.acts])),
    (mark("Centre"), 8, lambda cause, _: cause.centre),
    (mark("Rule or error"), 18, lambda cause, _: cause.kind),
    (mark("Severity"), 10, lambda cause, catalogue: catalogue.say(SEVERITY_NAMES[cause.severity])),
    (mark("Findings"), 10, lambda cause, _: cause.findings),
    (mark("Documents"), 10, lambda cause, _: cause.documents),
    (mark("Archives"), 10, lambda cause, _: cause.zips),
    (mark("Documents that a fix clears"), 14, lambda cause, _: cause.clears_documents),
    (mark("Archives that a fix clears"), 14, lambda cause, _: cause.clears_zips),
    (mark("Such as, in"), 50, lambda cause, _: ": ".join(filter(None, (cause.example.zip, cause.example.document)))),
    (mark("Line"), 8, lambda cause, _: cause.example.line),
    (mark("Value"), 25, lambda cause, _: cause.example.value),
    (mark("Nearest permitted value"), 25, lambda cause, _: cause.example.nearest),
)
_FINDING_COLUMNS: Final[Sequence[_Column]] = (
    (mark("Archive"), 34, lambda fact, _: fact.zip),
    (mark("Document"), 40, lambda fact, _: fact.document),
    (mark("Line"), 8, lambda fact, _: fact.line),
    (mark("Column"), 8, lambda fact, _: fact.column),
    (mark("Element"), 45, lambda fact, catalogue: catalogue.tell(fact.element or "")),
    (mark("Value"), 25, lambda fact, _: fact.value),
    (
        mark("What is permitted"),
        45,
        lambda fact, catalogue: ", ".join(fact.permitted) or catalogue.tell(fact.expected or ""),
    ),
    (mark("Nearest permitted value"), 25, lambda fact, _: fact.nearest),
    (mark("Message"), 90, lambda fact, catalogue: fact.message_in(catalogue)),
    (mark("Rule or error"), 16, lambda fact, _: fact.kind),
    (mark("Severity"), 10, lambda fact, catalogue: catalogue.say(SEVERITY_NAMES[fact.severity])),
    (mark("Who acts"), 12, lambda fact, catalogue: catalogue.say(ACTOR_NAMES[fact.acts])),
)
_CUT: Final = mark("One sheet cannot hold all findings: the rest is left out.")


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
    found: FoundCauses,
    catalogue: Catalogue,
    *,
    max_rows: int = MAX_ROWS,
) -> WrittenSpreadsheet:
    """Write a sheet of causes and one of all their findings, in the catalogue's language; memory stays flat.

    What is at `path` is replaced when all is written, by a file for this user alone. Raises ExportError when it cannot
    be, and for a name without .xlsx: other programs would take the file for what its name says.
    """
    if path.suffix.lower() != ".xlsx":
        raise ExportError(f"A spreadsheet is written as an Excel file, and {path} does not end with .xlsx. Rename it.")
    with (
        writing_errors(path, ExportError),
        _as_os_errors(),
        TemporaryDirectory() as folder,
        replacement_file(path, PRIVATE_FILE) as part,
        xlsxwriter.Workbook(str(part), {**_OPTIONS, "tmpdir": folder}) as workbook,
    ):
        causes, facts = found.causes[: max_rows - 1], _facts(tracker, qc, found)
        _add_sheet(workbook, catalogue.say(mark("Causes")), _CAUSE_COLUMNS, causes, catalogue)
        name = catalogue.say(mark("Findings"))
        sheet, number = _add_sheet(workbook, name, _FINDING_COLUMNS, islice(facts, max_rows - 2), catalogue)
        is_cut = next(facts, None) is not None
        if is_cut:
            sheet.write_string(number + 1, 0, catalogue.say(_CUT))
        return WrittenSpreadsheet(len(causes), number, is_cut)


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Raise errors of XlsxWriter as OSError, with what the system said."""
    try:
        yield
    except xlsxwriter.exceptions.XlsxWriterException as error:
        raise error.__context__ if isinstance(error.__context__, OSError) else OSError(str(error)) from error


def _facts(tracker: Connection, qc: Connection | None, found: FoundCauses) -> Iterator[Fact]:
    """What is wrong with archives and documents: first what stopped them, then what rules found, with what that waits
    for.
    """
    for log in (ZipActionLog, ZipLog, XmlLog):
        yield from LogFacts(tracker, found.scope, log).rows()
    if qc is not None:
        failed = {
            (cause.code, str(cause.centre), specimen): document
            for cause in found.causes
            for document in cause.failed_documents
            for specimen in document.specimens
        }
        for fact in DataFacts(qc, found.scope).rows():
            document = failed.get((fact.code, str(fact.details.get("centre")), fact.value or ""))
            yield fact if document is None else replace(fact, failed_document=document)


def _add_sheet(
    workbook: Any, name: str, columns: Sequence[_Column], things: Iterable[object], catalogue: Catalogue
) -> tuple[Any, int]:
    """Add a sheet with a row for each thing, a header that stays in sight, and filters; returns it and its rows."""
    sheet = workbook.add_worksheet(name.translate(_FORBIDDEN_IN_NAMES).strip()[:31])
    bold = workbook.add_format({"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"})
    for column, (title, width, _) in enumerate(columns):
        sheet.set_column(column, column, width)
        sheet.write_string(0, column, catalogue.say(title), bold)
    sheet.freeze_panes(1, 0)
    row = 0
    for row, thing in enumerate(things, 1):
        for column, (_, _, value_of) in enumerate(columns):
            value = value_of(thing, catalogue)
            if isinstance(value, int):
                sheet.write_number(row, column, value)
            elif value:
                sheet.write_string(row, column, _cell(value))
    sheet.autofilter(0, 0, max(row, 1), len(columns) - 1)
    return sheet, row


_FORBIDDEN_IN_NAMES: Final = str.maketrans(dict.fromkeys("[]:*?/\\'", " "))


def _cell(text: str) -> str:
    shown = legible(text)
    return shown if len(shown) <= _LONGEST_CELL else f"{shown[:_LONGEST_CELL]}..."
