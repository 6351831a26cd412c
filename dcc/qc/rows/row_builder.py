"""A document's content as rows of the QC database's tables.

Each element becomes rows with ids from here. An entity with a text that is longer than its column becomes none: it is
refused, by rule Q1, and never cut. `dcc.qc.rows.stored_content` is the inverse.

Uses no database: rows are tuples, tables are names, so that a process that prepares documents loads no SQLAlchemy
(`prepared_file`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeAlias

from dcc.documents import contents
from dcc.documents.lexical import parse_boolean, parse_date, parse_integer, parse_number
from dcc.qc.rows.procedures import ProcedureRows, RunOwner
from dcc.qc.rows.types import Limits, NamedRows, NewIds, Row, Tables, TooLong, Value, too_long_text
from dcc.vocabulary import EntityKind

NUMBERED: Final = (
    "centre_block",
    *(kind.value for kind in EntityKind),
    "status_code",
    "procedure_run",
    "measurement",
    "media",
    "metadata",
)
"""The tables whose rows get ids here."""

_Appended: TypeAlias = tuple[list[Any], Callable[[list[Any]], TooLong | None]]
"""Rows, and the check of their lengths."""

_OF_SPECIMENS: Final = {"related_specimen", "genotype", "parental_strain", "chromosomal_alteration", "chromosome"}
"""The tables of specimens' parts."""
_OF_OTHERS: Final = {
    "experiment_specimen",
    "status_code",
    "procedure_run",
    "measurement",
    "media",
    "media_association",
    "dimension",
    "metadata",
}
"""The tables of other entities' parts."""


class RowBuilder:
    """Makes the rows of one document and appends them to `tables`.

    `held_rows` counts all appended rows of parts of entities, and `held_text` the characters of long texts; `measured`
    the measurements of each procedure.
    """

    def __init__(self, document_id: int, new_ids: NewIds, tables: Tables, limits: Limits, named: NamedRows) -> None:
        self._document_id = document_id
        self._tables = tables
        self._row = named.row
        of_specimen = ("experiment_row", "position", "specimen_id")
        self._specimen_of = named.in_order("experiment_specimen", contents.Experiment, *of_specimen)
        self._new_ids = new_ids
        self._procedures = ProcedureRows(document_id, new_ids, tables, limits, named)
        self._limits = limits
        measured = self._procedures.measurements
        appended: dict[str, _Appended] = {
            **{name: (rows, partial(too_long_text, texts=limits[name])) for name, rows in tables.items()},
            # Their texts are checked as they are added.
            "measurement": (tables["measurement"], lambda _rows: measured.too_long),
        }
        self._of_specimens = [one for name, one in appended.items() if name in _OF_SPECIMENS]
        self._of_others = [one for name, one in appended.items() if name in _OF_OTHERS]
        self._in_block: dict[str, Value] = {}
        self._of_procedures: dict[str, Value] = {}
        self._of_run: tuple[str, str, str] = ("", "", "")
        self.measured: dict[str, int] = {}
        self.held_rows = 0

    @property
    def held_text(self) -> int:
        """The number of characters of long texts appended so far."""
        return self._procedures.held_text

    def add_block(self, block: contents.Block) -> TooLong | None:
        """Begin a block; returns a text that is too long, so that its entities cannot be stored."""
        block_id = self._new_ids["centre_block"]()
        row = self._row("centre_block", block, id=block_id, document_id=self._document_id)
        too_long = too_long_text([row], self._limits["centre_block"])
        if too_long is None:
            self._tables["centre_block"].append(row)
            self._in_block = {"block_id": block_id, "document_id": self._document_id, "centre": block.centre}
            self._of_procedures = {**self._in_block, "pipeline": block.pipeline, "project": block.project}
            self._of_run = (block.centre, block.pipeline or "", block.project or "")
        return too_long

    def add_entity(self, kind: EntityKind, entity: contents.Entity) -> int | TooLong:
        """Append an entity's rows; returns the id of its own, or a text that is too long."""
        checks = self._of_specimens if isinstance(entity, contents.Specimen) else self._of_others
        marks = [len(rows) for rows, _ in checks]
        measured_before = len(self._tables["measurement"])
        row_id = self._new_ids[kind.value]()
        row = self._made(row_id, entity)
        too_long = too_long_text([row], self._limits[kind.value])
        for mark, (rows, check) in zip(marks, checks, strict=True):
            if too_long is None and (added := len(rows) - mark):
                self.held_rows += added
                too_long = check(rows[mark:])
        if too_long is None:
            if measured := len(self._tables["measurement"]) - measured_before:
                procedure_id = entity.procedure.procedure_id  # type: ignore[union-attr]
                self.measured[procedure_id] = self.measured.get(procedure_id, 0) + measured
            self._tables[kind.value].append(row)
            return row_id
        for mark, (rows, _) in zip(marks, checks, strict=True):
            del rows[mark:]
        return too_long

    def _made(self, row_id: int, entity: contents.Entity) -> Row:
        if isinstance(entity, contents.Experiment):
            return self._experiment(row_id, entity)
        if isinstance(entity, contents.Specimen):
            return self._specimen(row_id, entity)
        if isinstance(entity, contents.Line):
            return self._line(row_id, entity)
        return self._housing(row_id, entity)

    def _specimen(self, row_id: int, entity: contents.Specimen) -> Row:
        lexical = _Lexical()
        self._relations(row_id, entity)
        status = entity.status_code
        return self._row(
            "specimen",
            entity,
            id=row_id,
            **self._in_block,
            kind=entity.kind.value,
            is_baseline=lexical.boolean("isBaseline", entity.is_baseline),
            dob=lexical.date("DOB", entity.dob),
            status_code=None if status is None else status.code,
            status_date=None if status is None else lexical.date("date", status.date),
            lexical=lexical.text(),
        )

    def _relations(self, row_id: int, entity: contents.Specimen) -> None:
        row, tables = self._row, self._tables
        for place, related in enumerate(entity.related_specimens):
            tables["related_specimen"].append(row("related_specimen", related, specimen_row=row_id, position=place))
        for place, genotype in enumerate(entity.genotypes):
            tables["genotype"].append(row("genotype", genotype, specimen_row=row_id, position=place))
        for place, strain in enumerate(entity.parental_strains):
            tables["parental_strain"].append(self._strain(row_id, place, strain))
        for place, one in enumerate(entity.chromosomal_alterations):
            alteration = row("chromosomal_alteration", one, specimen_row=row_id, position=place)
            tables["chromosomal_alteration"].append(alteration)
            regions = [("added", region) for region in one.added] + [("removed", region) for region in one.removed]
            for part, (kind, region) in enumerate(regions):
                head: dict[str, Value] = {"specimen_row": row_id, "alteration": place, "position": part, "kind": kind}
                ends = {"region_start": region.start, "region_end": region.end}
                tables["chromosome"].append(row("chromosome", region, **head, **ends))

    def _strain(self, row_id: int, place: int, strain: contents.ParentalStrain) -> Row:
        lexical = _Lexical()
        return self._row(
            "parental_strain",
            strain,
            specimen_row=row_id,
            position=place,
            percentage=lexical.number("percentage", strain.percentage),
            level=lexical.integer("level", strain.level),
            lexical=lexical.text(),
        )

    def _experiment(self, row_id: int, entity: contents.Experiment) -> Row:
        lexical = _Lexical()
        specimens, procedure = entity.specimen_ids, entity.procedure
        day = lexical.date("dateOfExperiment", entity.date)
        for place, one in enumerate(specimens):
            self._tables["experiment_specimen"].append(self._specimen_of((*entity, row_id, place, one)))
        self._status_codes(EntityKind.EXPERIMENT, row_id, entity.status_codes)
        if procedure is not None:
            only = specimens[0] if len(specimens) == 1 else None
            owner = RunOwner(EntityKind.EXPERIMENT.value, row_id, *self._of_run, entity.experiment_id, day, only)
            self._procedures.add(owner, procedure)
        return self._row("experiment", entity, **self._head(row_id, procedure), date=day, lexical=lexical.text())

    def _line(self, row_id: int, entity: contents.Line) -> Row:
        self._status_codes(EntityKind.LINE, row_id, entity.status_codes)
        self._procedures.add(RunOwner(EntityKind.LINE.value, row_id, *self._of_run), entity.procedure)
        return self._row("line", entity, **self._head(row_id, entity.procedure), lexical=None)

    def _housing(self, row_id: int, entity: contents.Housing) -> Row:
        lexical = _Lexical()
        self._procedures.add(RunOwner(EntityKind.HOUSING.value, row_id, *self._of_run), entity.procedure)
        return self._row(
            "housing",
            entity,
            **self._head(row_id, entity.procedure),
            from_lims=lexical.boolean("fromLIMS", entity.from_lims),
            last_updated=lexical.date("lastUpdated", entity.last_updated),
            lexical=lexical.text(),
        )

    def _head(self, row_id: int, procedure: contents.Procedure | None) -> dict[str, Value]:
        """The columns of `BlockColumns` that an entity does not say itself."""
        procedure_id = None if procedure is None else procedure.procedure_id
        return {"id": row_id, **self._of_procedures, "procedure_id": procedure_id}

    def _status_codes(self, kind: EntityKind, row_id: int, codes: Iterable[contents.StatusCode]) -> None:
        for place, code in enumerate(codes):
            lexical, code_id = _Lexical(), self._new_ids["status_code"]()
            owner: dict[str, Value] = {"owner_kind": kind.value, "owner_id": row_id, "position": place}
            day = lexical.date("date", code.date)
            row = self._row("status_code", code, id=code_id, **owner, date=day, lexical=lexical.text())
            self._tables["status_code"].append(row)


class _Lexical:
    """The written text, if a typed column cannot reproduce it."""

    def __init__(self) -> None:
        self._written: dict[str, str] = {}

    def boolean(self, name: str, written: str) -> int:
        if written not in {"true", "false"}:
            self._written[name] = written
        return int(parse_boolean(written))

    def date(self, name: str, written: str | None) -> str | None:
        if written is None:
            return None
        day = parse_date(written)
        iso = None if day is None else day.isoformat()
        if iso != written:
            self._written[name] = written
        return iso

    def number(self, name: str, written: str) -> float | None:
        number = parse_number(written)
        # Databases do not distinguish -0.0 from 0.0, and neither does the sum.
        if number is None or repr(number + 0.0) != written:
            self._written[name] = written
        return number

    def integer(self, name: str, written: str) -> int:
        sign = "-" if written.startswith("-") else ""
        number = parse_integer(sign + (written.lstrip("+-").lstrip("0") or "0"))
        if number is None:
            raise ValueError(f"{name} is {written[:40]!r}, which is no whole number")
        if str(number) != written:
            self._written[name] = written
        return number

    def text(self) -> str | None:
        return json.dumps(self._written, ensure_ascii=False) if self._written else None
