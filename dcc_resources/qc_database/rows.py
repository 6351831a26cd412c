"""What a document says, as rows of the QC database's tables.

Each element becomes rows with ids allocated here, under the upload lock. An entity with a text that is longer than its
column becomes none: it is refused, by rule Q1, and never cut. `row_loading` is the way back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import date
from typing import Final, NamedTuple

from sqlalchemy import String, Table

from dcc_resources.qc_database import contents as said
from dcc_resources.qc_database import models
from dcc_resources.qc_database.bulk import BulkInserter, Counters, Row, Value
from dcc_resources.qc_database.lexical import parse_boolean, parse_date, parse_integer, parse_number
from dcc_resources.qc_database.procedure_rows import ProcedureRows, RunOwner
from dcc_resources.qc_database.vocabulary import EntityKind

_MEASURED: Final = {"parameter_id", "sequence_id", "increment", "increment_status", "unit", "status"}
"""The columns of a measurement that do not repeat what the experiment, line or housing says."""

_LEXICAL_LIMIT: Final = 16_000
"""Characters; MySQL's TEXT holds four times as many bytes."""


DOCUMENT_TABLES: Final = tuple(
    model.__table__
    for model in (
        models.CentreBlock,
        models.Specimen,
        models.RelatedSpecimen,
        models.Genotype,
        models.ParentalStrain,
        models.ChromosomalAlteration,
        models.Chromosome,
        models.Experiment,
        models.ExperimentSpecimen,
        models.Line,
        models.Housing,
        models.StatusCodeRow,
        models.ProcedureRun,
        models.Measurement,
        models.Media,
        models.MediaAssociation,
        models.Dimension,
        models.Metadata,
        models.Lifetime,
    )
)
"""The tables that a document's rows are in, parents before their children."""

ENTITY_TABLES: Final[dict[EntityKind, Table]] = {
    EntityKind.SPECIMEN: models.Specimen.__table__,
    EntityKind.EXPERIMENT: models.Experiment.__table__,
    EntityKind.LINE: models.Line.__table__,
    EntityKind.HOUSING: models.Housing.__table__,
}


class TooLong(NamedTuple):
    """A text that its column cannot hold."""

    column: str
    length: int
    limit: int


class EntityRow(NamedTuple):
    """The row of an entity, to be completed with whether it is current."""

    kind: EntityKind
    id: int
    values: dict[str, Value]


class DocumentRows:
    """Makes the rows of one document. `rows` takes all of them but for those of the entities themselves."""

    def __init__(self, document_id: int, counters: Counters, rows: BulkInserter) -> None:
        self._document_id = document_id
        self._rows = rows
        self._ids = {kind: counters.of(table) for kind, table in ENTITY_TABLES.items()}
        self._block_id = counters.of(models.CentreBlock.__table__)
        self._status_id = counters.of(models.StatusCodeRow.__table__)
        self._procedures = ProcedureRows(document_id, counters, rows)
        self._checks = [(rows.rows_of(table), _length_check(table)) for table in DOCUMENT_TABLES]
        self._entity_checks = {kind: _length_check(table) for kind, table in ENTITY_TABLES.items()}
        self._block: said.Block | None = None
        self._in_block: dict[str, Value] = {}

    def add_block(self, block: said.Block) -> TooLong | None:
        """Take the block that the next entities are in; what is too long in it, so that they cannot be taken."""
        row: Row = (
            block_id := self._block_id(),
            self._document_id,
            block.position,
            block.centre,
            block.pipeline,
            block.project,
            block.line,
        )
        too_long = _length_check(models.CentreBlock.__table__)(row)
        if too_long is None:
            self._rows.rows_of(models.CentreBlock.__table__).append(row)
            self._in_block = {"block_id": block_id, "document_id": self._document_id, "centre": block.centre}
        self._block = None if too_long else block
        return too_long

    def add_entity(self, entity: said.Entity) -> EntityRow | TooLong:
        """Take the rows of an entity of the last block but its own row, which is returned; or what is too long."""
        marks = [len(rows) for rows, _ in self._checks]
        if isinstance(entity, said.Specimen):
            made = self._specimen(entity)
        elif isinstance(entity, said.Experiment):
            made = self._experiment(entity)
        elif isinstance(entity, said.Line):
            made = self._line(entity)
        else:
            made = self._housing(entity)
        too_long = self._entity_checks[made.kind](entity_values(made, is_current=False))
        for mark, (rows, check) in zip(marks, self._checks, strict=True):
            if too_long is not None:
                break
            if len(rows) > mark:
                too_long = next(filter(None, map(check, rows[mark:])), None)
        if too_long is None:
            return made
        for mark, (rows, _) in zip(marks, self._checks, strict=True):
            del rows[mark:]
        return too_long

    def _specimen(self, entity: said.Specimen) -> EntityRow:
        lexical = _Lexical()
        status = entity.status_code
        row_id = self._ids[EntityKind.SPECIMEN]()
        values = self._in_block | {
            "id": row_id,
            "position": entity.position,
            "line": entity.line,
            "specimen_id": entity.specimen_id,
            "kind": entity.kind.value,
            "is_baseline": lexical.boolean("isBaseline", entity.is_baseline),
            "gender": entity.gender,
            "zygosity": entity.zygosity,
            "litter_id": entity.litter_id,
            "pipeline": entity.pipeline,
            "phenotyping_centre": entity.phenotyping_centre,
            "production_centre": entity.production_centre,
            "project": entity.project,
            "colony_id": entity.colony_id,
            "strain_id": entity.strain_id,
            "dob": lexical.date("DOB", entity.dob),
            "stage": entity.stage,
            "stage_unit": entity.stage_unit,
            "status_code": status.code if status else None,
            "status_date": lexical.date("date", status.date if status else None),
            "lexical": lexical.text(),
        }
        self._relations(row_id, entity)
        return EntityRow(EntityKind.SPECIMEN, row_id, values)

    def _relations(self, row_id: int, entity: said.Specimen) -> None:
        self._add(
            models.RelatedSpecimen,
            ((row_id, place, *related[1:], related.line) for place, related in enumerate(entity.related_specimens)),
        )
        self._add(
            models.Genotype,
            ((row_id, place, *genotype[1:], genotype.line) for place, genotype in enumerate(entity.genotypes)),
        )
        self._add(
            models.ParentalStrain,
            (_strain_row(row_id, place, strain) for place, strain in enumerate(entity.parental_strains)),
        )
        for place, alteration in enumerate(entity.chromosomal_alterations):
            self._add(models.ChromosomalAlteration, [(row_id, place, alteration.line)])
            regions = [("added", region) for region in alteration.added]
            regions += [("removed", region) for region in alteration.removed]
            self._add(
                models.Chromosome,
                ((row_id, place, part, kind, *region[1:], region.line) for part, (kind, region) in enumerate(regions)),
            )

    def _experiment(self, entity: said.Experiment) -> EntityRow:
        lexical = _Lexical()
        row_id = self._ids[EntityKind.EXPERIMENT]()
        day = lexical.date("dateOfExperiment", entity.date)
        values = self._procedure_values(row_id, entity, entity.procedure) | {
            "experiment_id": entity.experiment_id,
            "sequence_id": entity.sequence_id,
            "date": day,
            "lexical": lexical.text(),
        }
        specimens = entity.specimen_ids
        self._add(models.ExperimentSpecimen, ((row_id, place, one, entity.line) for place, one in enumerate(specimens)))
        self._status_codes(EntityKind.EXPERIMENT, row_id, entity.status_codes)
        if entity.procedure is not None:
            only = specimens[0] if len(specimens) == 1 else None
            self._run(EntityKind.EXPERIMENT, row_id, entity.procedure, entity.experiment_id, day, only)
        return EntityRow(EntityKind.EXPERIMENT, row_id, values)

    def _line(self, entity: said.Line) -> EntityRow:
        row_id = self._ids[EntityKind.LINE]()
        values = self._procedure_values(row_id, entity, entity.procedure) | {
            "colony_id": entity.colony_id,
            "sequence_id": entity.sequence_id,
            "lexical": None,
        }
        self._status_codes(EntityKind.LINE, row_id, entity.status_codes)
        self._run(EntityKind.LINE, row_id, entity.procedure)
        return EntityRow(EntityKind.LINE, row_id, values)

    def _housing(self, entity: said.Housing) -> EntityRow:
        lexical = _Lexical()
        row_id = self._ids[EntityKind.HOUSING]()
        values = self._procedure_values(row_id, entity, entity.procedure) | {
            "from_lims": lexical.boolean("fromLIMS", entity.from_lims),
            "last_updated": lexical.date("lastUpdated", entity.last_updated),
            "lexical": lexical.text(),
        }
        self._run(EntityKind.HOUSING, row_id, entity.procedure)
        return EntityRow(EntityKind.HOUSING, row_id, values)

    def _procedure_values(
        self, row_id: int, entity: said.Experiment | said.Line | said.Housing, procedure: said.Procedure | None
    ) -> dict[str, Value]:
        block = self._of_block()
        return self._in_block | {
            "id": row_id,
            "position": entity.position,
            "line": entity.line,
            "pipeline": block.pipeline,
            "project": block.project,
            "procedure_id": procedure.procedure_id if procedure else None,
        }

    def _run(
        self,
        kind: EntityKind,
        row_id: int,
        procedure: said.Procedure,
        experiment_id: str | None = None,
        day: str | None = None,
        specimen_id: str | None = None,
    ) -> None:
        block = self._of_block()
        owner = RunOwner(
            kind, row_id, block.centre, block.pipeline or "", block.project or "", experiment_id, day, specimen_id
        )
        self._procedures.add(owner, procedure)

    def _of_block(self) -> said.Block:
        if self._block is None:
            raise RuntimeError("An entity was added before the block that it is in.")
        return self._block

    def _status_codes(self, kind: EntityKind, row_id: int, codes: Iterable[said.StatusCode]) -> None:
        for place, code in enumerate(codes):
            lexical = _Lexical()
            day = lexical.date("date", code.date)
            row = (self._status_id(), kind.value, row_id, place, code.code, day, lexical.text(), code.line)
            self._add(models.StatusCodeRow, [row])

    def _add(self, model: type[models.QcBase], rows: Iterable[Row]) -> None:
        self._rows.rows_of(model.__table__).extend(rows)


def entity_values(row: EntityRow, *, is_current: bool) -> Row:
    """The row of an entity with all columns of its table, in their order."""
    values = row.values | {"is_current": int(is_current), "is_valid": None}
    return tuple([values[column.name] for column in ENTITY_TABLES[row.kind].columns])


def _strain_row(row_id: int, place: int, strain: said.ParentalStrain) -> Row:
    lexical = _Lexical()
    return (
        row_id,
        place,
        lexical.number("percentage", strain.percentage),
        strain.mgi_strain_id,
        strain.gender,
        lexical.integer("level", strain.level),
        lexical.text(),
        strain.line,
    )


class _Lexical:
    """What was written where a typed column does not say it."""

    def __init__(self) -> None:
        self._written: dict[str, str] = {}

    def boolean(self, name: str, written: str) -> int:
        if written not in {"true", "false"}:
            self._written[name] = written
        return int(parse_boolean(written))

    def date(self, name: str, written: str | None) -> str | None:
        if written is None:
            return None
        day: date | None = parse_date(written)
        if day is None or day.isoformat() != written:
            self._written[name] = written
        return None if day is None else day.isoformat()

    def number(self, name: str, written: str) -> float | None:
        number = parse_number(written)
        if number is None or repr(number) != written:
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


def _length_check(table: Table) -> Callable[[Row], TooLong | None]:
    """A function that finds the first text of a row that its column cannot hold."""
    limits = tuple(
        (place, column.type.length or _LEXICAL_LIMIT, column.name)
        for place, column in enumerate(table.columns)
        if isinstance(column.type, String)
        and (column.type.length is not None or column.name == "lexical")
        and (table is not models.Measurement.__table__ or column.name in _MEASURED)
    )

    def check(row: Row) -> TooLong | None:
        for place, limit, name in limits:
            value = row[place]
            if value is not None and len(value) > limit:  # type: ignore[arg-type]
                return TooLong(f"{table.name}.{name}", len(value), limit)  # type: ignore[arg-type]
        return None

    return check
