"""The lookup tables from CSV or TSV: the first line names the columns, in any order; others are ignored.

- status_codes: code, description
- projects: project
- colonies: colony_id, production_centre, status; and, each of which may be empty or left out, created (yyyy-mm-dd),
  strain_id, gene_id, gene_symbol, allele_id, allele_symbol
- strains: strain_id, name. MGI's own report (MGI_Strain.rpt: id, name, type between tabs, no names above) also serves.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from dcc.errors import ReferenceDataError
from dcc.reference.snapshots import Colonies, Colony, Projects, Provenance, StatusCodes, Strains

MGI_REPORT_SUFFIX = ".rpt"
_CARRIED = ("strain_id", "gene_id", "gene_symbol", "allele_id", "allele_symbol")
_MGI_COLUMNS = "strain_id\tname\ttype\n"


@dataclass(frozen=True, slots=True)
class _Row:
    where: str
    cells: dict[str, str]

    def fault(self, what: str) -> ReferenceDataError:
        return ReferenceDataError(f"{self.where}: {what}. Correct the file and load it again.")

    def needed(self, column: str) -> str:
        value = self.cells[column].strip()
        if not value:
            raise self.fault(f"{column} is empty")
        return value


def status_codes_from_table(content: bytes, provenance: Provenance) -> StatusCodes:
    """The status codes of a table. Raises ReferenceDataError for an unusable one."""
    meanings: dict[str, str] = {}
    for row in _rows(content, provenance.source, ("code",)):
        code = row.needed("code")
        if code in meanings:
            raise row.fault(f"the code {code} is there twice")
        meanings[code] = row.cells.get("description", "").strip()
    return StatusCodes(provenance, meanings)


def projects_from_table(content: bytes, provenance: Provenance) -> Projects:
    """The projects of a table. Raises ReferenceDataError for an unusable one."""
    return Projects(
        provenance, frozenset(row.needed("project") for row in _rows(content, provenance.source, ("project",)))
    )


def colonies_from_table(content: bytes, provenance: Provenance) -> Colonies:
    """The colonies of a table. Raises ReferenceDataError for an unusable one."""
    productions: dict[str, list[Colony]] = {}
    for row in _rows(content, provenance.source, ("colony_id", "production_centre", "status")):
        created = row.cells.get("created", "").strip()
        try:
            created_on = date.fromisoformat(created) if created else None
        except ValueError as error:
            raise row.fault(f"created is {created!r}, which is no date") from error
        colony = Colony(
            row.needed("colony_id"),
            row.needed("production_centre"),
            row.needed("status"),
            created_on,
            *(row.cells.get(column, "").strip() or None for column in _CARRIED),
        )
        productions.setdefault(colony.colony_id, []).append(colony)
    return Colonies(provenance, {colony_id: tuple(found) for colony_id, found in productions.items()})


def strains_from_table(content: bytes, provenance: Provenance) -> Strains:
    """The strains of a table, or of MGI's report. Raises ReferenceDataError for an unusable one."""
    if provenance.source.endswith(MGI_REPORT_SUFFIX):
        content = _MGI_COLUMNS.encode() + content
    rows = _rows(content, provenance.source, ("strain_id", "name"))
    return Strains(provenance, {row.needed("strain_id"): row.cells["name"].strip() for row in rows})


def _rows(content: bytes, source: str, needed: tuple[str, ...]) -> Iterator[_Row]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReferenceDataError(f"{source} is not in UTF-8 ({error}). Save it as UTF-8.") from error
    first_line = text.split("\n", 1)[0]
    table = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in first_line else ",", strict=True)
    read = 0
    try:
        columns = [column.strip() for column in next(table, [])]
        missing = [column for column in needed if column not in columns]
        if missing:
            raise ReferenceDataError(f"{source} lacks the columns {missing}: its first line is {first_line[:200]!r}.")
        for cells in table:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(columns):
                raise ReferenceDataError(
                    f"{source}, line {table.line_num}: {len(cells)} cells where there are {len(columns)} columns. "
                    "Correct the file and load it again."
                )
            read += 1
            yield _Row(f"{source}, line {table.line_num}", dict(zip(columns, cells, strict=True)))
    except csv.Error as error:
        raise ReferenceDataError(f"{source}, line {table.line_num}: {error}. Correct the file.") from error
    if read == 0:
        raise ReferenceDataError(f"{source} has no rows. Retrieve it again.")
