"""A document's content as rows of the QC database's tables.

Each element becomes rows with ids from here. An entity with a text that is longer than its column becomes none: it is
refused, by rule Q1, and never cut. `dcc.qc.rows.loading` is the inverse.

Uses no database: rows are tuples, tables are names, so that a process that prepares documents loads no SQLAlchemy
(`prepared_file`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from dcc.documents import contents
from dcc.documents.lexical import parse_boolean, parse_date, parse_integer, parse_number
from dcc.qc.rows.procedures import ProcedureRows, RunOwner
from dcc.qc.rows.types import Limits, NewIds, Row, Tables, TooLong, checks_by
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
_TEXTS_OF_SPECIMENS: Final = attrgetter(
    *("gender", "zygosity", "litter_id", "pipeline", "phenotyping_centre"),
    *("production_centre", "project", "colony_id", "strain_id"),
)
"""The texts that follow one another in rows of specimens."""


class EntityRow(NamedTuple):
    """The row of an entity, without its last columns: whether it is current and whether it is valid."""

    kind: EntityKind
    id: int
    values: Row


class RowBuilder:
    """Makes the rows of one document and appends them to `tables`, except those of the entities themselves.

    `held_rows` counts all appended rows of entities, and `held_text` the characters of long texts; `measured` the
    measurements of each procedure.
    """

    def __init__(self, document_id: int, new_ids: NewIds, tables: Tables, limits: Limits) -> None:
        self._document_id = document_id
        self._tables = tables
        self._ids = {kind: new_ids[kind.value] for kind in EntityKind}
        self._block_id = new_ids["centre_block"]
        self._status_id = new_ids["status_code"]
        self._procedures = ProcedureRows(document_id, new_ids, tables, limits)
        self._checks_by_table = checks_by(limits)
        measured = self._procedures.measurements
        appended: dict[str, _Appended] = {
            **{name: (rows, self._checks_by_table[name].of_rows) for name, rows in tables.items()},
            # Their texts are checked as they are added.
            "measurement": (tables["measurement"], lambda _rows: measured.too_long),
        }
        self._of_specimens = [one for name, one in appended.items() if name in _OF_SPECIMENS]
        self._of_others = [one for name, one in appended.items() if name in _OF_OTHERS]
        self._block: contents.Block | None = None
        self._in_block: Row = ()
        self._of_run: tuple[str, str, str] = ("", "", "")
        self._measurements = tables["measurement"]
        self.measured: dict[str, int] = {}
        self.held_rows = 0

    @property
    def held_text(self) -> int:
        """The number of characters of long texts appended so far."""
        return self._procedures.held_text

    def add_block(self, block: contents.Block) -> TooLong | None:
        """Begin a block; returns a text that is too long, so that its entities cannot be stored."""
        block_id = self._block_id()
        row: Row = (block_id, self._document_id, block.position, *block[2:], block.line)
        too_long = self._checks_by_table["centre_block"].of_row(row)
        if too_long is None:
            self._tables["centre_block"].append(row)
            self._in_block = (block_id, self._document_id)
            self._of_run = (block.centre, block.pipeline or "", block.project or "")
        self._block = None if too_long else block
        return too_long

    def add_entity(self, entity: contents.Entity) -> EntityRow | TooLong:
        """Append an entity's rows except its own, which is returned; or return a text that is too long."""
        checks = self._of_specimens if isinstance(entity, contents.Specimen) else self._of_others
        marks = [len(rows) for rows, _ in checks]
        held = len(self._measurements)
        row = self._made(entity)
        too_long = self._checks_by_table[row.kind.value].of_row((*row.values, None, None))
        for mark, (rows, check) in zip(marks, checks, strict=True):
            if too_long is None and (added := len(rows) - mark):
                self.held_rows += added
                too_long = check(rows[mark:])
        if too_long is None:
            if measured := len(self._measurements) - held:
                procedure_id = entity.procedure.procedure_id  # type: ignore[union-attr]
                self.measured[procedure_id] = self.measured.get(procedure_id, 0) + measured
            return row
        for mark, (rows, _) in zip(marks, checks, strict=True):
            del rows[mark:]
        return too_long

    def _made(self, entity: contents.Entity) -> EntityRow:
        if self._block is None:
            raise RuntimeError("An entity was added before the block that it is in.")
        if isinstance(entity, contents.Experiment):
            return self._experiment(self._block, entity)
        if isinstance(entity, contents.Specimen):
            return self._specimen(self._block, entity)
        if isinstance(entity, contents.Line):
            return self._line(self._block, entity)
        return self._housing(self._block, entity)

    def _specimen(self, block: contents.Block, entity: contents.Specimen) -> EntityRow:
        lexical = _Lexical()
        status = entity.status_code
        row_id = self._ids[EntityKind.SPECIMEN]()
        self._relations(row_id, entity)
        code, day = (None, None) if status is None else (status.code, status.date)
        values = (
            *(row_id, *self._in_block, entity.position, entity.line, block.centre, entity.specimen_id),
            *(entity.kind.value, lexical.boolean("isBaseline", entity.is_baseline), *_TEXTS_OF_SPECIMENS(entity)),
            *(lexical.date("DOB", entity.dob), entity.stage, entity.stage_unit),
            *(code, lexical.date("date", day), lexical.text()),
        )
        return EntityRow(EntityKind.SPECIMEN, row_id, values)

    def _relations(self, row_id: int, entity: contents.Specimen) -> None:
        tables = self._tables
        for place, related in enumerate(entity.related_specimens):
            tables["related_specimen"].append((row_id, place, *related[1:], related.line))
        for place, genotype in enumerate(entity.genotypes):
            tables["genotype"].append((row_id, place, *genotype[1:], genotype.line))
        for place, strain in enumerate(entity.parental_strains):
            tables["parental_strain"].append(_strain_row(row_id, place, strain))
        for place, alteration in enumerate(entity.chromosomal_alterations):
            tables["chromosomal_alteration"].append((row_id, place, alteration.line))
            regions = [("added", region) for region in alteration.added]
            regions += [("removed", region) for region in alteration.removed]
            tables["chromosome"].extend(
                (row_id, place, part, kind, *region[1:], region.line) for part, (kind, region) in enumerate(regions)
            )

    def _experiment(self, block: contents.Block, entity: contents.Experiment) -> EntityRow:
        lexical = _Lexical()
        row_id = self._ids[EntityKind.EXPERIMENT]()
        specimens, procedure = entity.specimen_ids, entity.procedure
        day = lexical.date("dateOfExperiment", entity.date)
        for place, one in enumerate(specimens):
            self._tables["experiment_specimen"].append((row_id, place, one, entity.line))
        self._status_codes(EntityKind.EXPERIMENT, row_id, entity.status_codes)
        if procedure is not None:
            only = specimens[0] if len(specimens) == 1 else None
            owner = RunOwner(EntityKind.EXPERIMENT.value, row_id, *self._of_run, entity.experiment_id, day, only)
            self._procedures.add(owner, procedure)
        own = (entity.experiment_id, entity.sequence_id, day)
        return EntityRow(EntityKind.EXPERIMENT, row_id, (*self._head(block, row_id, entity), *own, lexical.text()))

    def _line(self, block: contents.Block, entity: contents.Line) -> EntityRow:
        row_id = self._ids[EntityKind.LINE]()
        self._status_codes(EntityKind.LINE, row_id, entity.status_codes)
        self._procedures.add(RunOwner(EntityKind.LINE.value, row_id, *self._of_run), entity.procedure)
        values = (*self._head(block, row_id, entity), entity.colony_id, entity.sequence_id, None)
        return EntityRow(EntityKind.LINE, row_id, values)

    def _housing(self, block: contents.Block, entity: contents.Housing) -> EntityRow:
        lexical = _Lexical()
        row_id = self._ids[EntityKind.HOUSING]()
        self._procedures.add(RunOwner(EntityKind.HOUSING.value, row_id, *self._of_run), entity.procedure)
        from_lims = lexical.boolean("fromLIMS", entity.from_lims)
        day = lexical.date("lastUpdated", entity.last_updated)
        values = (*self._head(block, row_id, entity), from_lims, day, lexical.text())
        return EntityRow(EntityKind.HOUSING, row_id, values)

    def _head(
        self, block: contents.Block, row_id: int, entity: contents.Experiment | contents.Line | contents.Housing
    ) -> Row:
        """The columns of `BlockColumns`, which those of the entity follow in the order of its model."""
        procedure_id = None if entity.procedure is None else entity.procedure.procedure_id
        return (row_id, *self._in_block, entity.position, entity.line, *block[2:], procedure_id)

    def _status_codes(self, kind: EntityKind, row_id: int, codes: Iterable[contents.StatusCode]) -> None:
        for place, code in enumerate(codes):
            lexical = _Lexical()
            day = lexical.date("date", code.date)
            row = (self._status_id(), kind.value, row_id, place, code.code, day, lexical.text(), code.line)
            self._tables["status_code"].append(row)


def _strain_row(row_id: int, place: int, strain: contents.ParentalStrain) -> Row:
    lexical = _Lexical()
    percentage, level = lexical.number("percentage", strain.percentage), lexical.integer("level", strain.level)
    return (row_id, place, percentage, strain.mgi_strain_id, strain.gender, level, lexical.text(), strain.line)


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
