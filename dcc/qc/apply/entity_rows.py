"""The rows of documents on their way into the QC database's tables.

They are built here (`qc.rows.building`), or come built from a process of their own (`building_process`): whoever reads
the document chooses. `qc.rows.loading` is the way back.
"""

from __future__ import annotations

from typing import Final, cast

from sqlalchemy import String, Table

from dcc.documents import contents as said
from dcc.qc import models
from dcc.qc.apply.building_process import Built, BuiltBlock, Order
from dcc.qc.rows.building import NUMBERED, EntityRow, RowBuilder
from dcc.qc.rows.bulk import BulkInserter, Counters, Row
from dcc.qc.rows.types import TooLong
from dcc.vocabulary import EntityKind, Validity

__all__ = [
    "BY_NAME",
    "DOCUMENT_TABLES",
    "ENTITY_TABLES",
    "LIMITS",
    "NUMBERED_TABLES",
    "DocumentRows",
    "EntityRow",
    "TooLong",
    "entity_values",
]

_MEASURED: Final = {"parameter_id", "sequence_id", "increment", "increment_status", "unit", "status"}
"""The columns of a measurement that do not repeat what the experiment, line or housing says."""

_OWN_WORDS: Final = {"type", "owner_kind", "entity_kind"}
"""Columns that hold words of the platform's own, which fit."""

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


class DocumentRows:
    """Makes the rows of one document. `rows` takes all of them but for those of the entities themselves.

    `counters` have read the ids of `NUMBERED_TABLES`.
    """

    def __init__(self, document_id: int, counters: Counters, rows: BulkInserter) -> None:
        self._document_id = document_id
        self._counters = counters
        self._rows = rows
        self.measured: dict[str, int] = {}
        """How many measurements were written of each procedure."""
        self._building: Built | None = None
        self._builder: RowBuilder | None = None

    def add_block(self, block: said.Block) -> TooLong | None:
        """Take the block that the next entities are in; what is too long in it, so that they cannot be taken."""
        if isinstance(block, BuiltBlock):
            self._building = block.building
            next_ids = {name: self._counters.following(BY_NAME[name]) for name in NUMBERED}
            self._building.begin(Order(self._document_id, next_ids, LIMITS, self._rows.wants_lines))
        if self._building is not None:
            return cast("TooLong | None", self._next_made(self._building))
        return self._own_builder().add_block(block)

    def add_entity(self, entity: said.Entity) -> EntityRow | TooLong:
        """Take the rows of an entity of the last block but its own row, which is returned; or what is too long."""
        if self._building is not None:
            return cast("EntityRow | TooLong", self._next_made(self._building))
        builder = self._own_builder()
        before = builder.held_text
        made = builder.add_entity(entity)
        self._rows.note_text(builder.held_text - before)
        return made

    def _own_builder(self) -> RowBuilder:
        if self._builder is None:
            new_ids = {name: self._counters.of(BY_NAME[name]) for name in NUMBERED}
            tables = {table.name: self._rows.rows_of(table) for table in DOCUMENT_TABLES}
            self._builder = RowBuilder(self._document_id, new_ids, tables, LIMITS)
            self.measured = self._builder.measured
        return self._builder

    def _next_made(self, building: Built) -> EntityRow | TooLong | None:
        """What became of the last content elsewhere. Rows that came built are held once all their entities are."""
        made = building.next_made()
        if blocks := building.blocks():
            self._rows.rows_of(models.CentreBlock.__table__).extend(blocks)
        batch = building.finished_batch()
        if batch is not None:
            for name, rows in batch.rows.items():
                self._rows.rows_of(BY_NAME[name]).extend(rows)
            for name, (number, lines) in batch.lines.items():
                self._rows.add_lines(name, number, lines)
            self._rows.note_text(batch.text)
            for procedure_id, number in batch.measured.items():
                self.measured[procedure_id] = self.measured.get(procedure_id, 0) + number
        return made


def entity_values(row: EntityRow, *, is_current: bool) -> Row:
    """The row of an entity with all columns of its table, in their order."""
    return (*row.values, int(is_current), Validity.UNJUDGED)


def _limits(table: Table) -> tuple[tuple[int, int, str], ...]:
    return tuple(
        (place, column.type.length or _LEXICAL_LIMIT, f"{column.name}")
        for place, column in enumerate(table.columns)
        if isinstance(column.type, String)
        and (column.type.length is not None or column.name == "lexical")
        and column.name not in _OWN_WORDS
        and (table is not models.Measurement.__table__ or column.name in _MEASURED)
    )


BY_NAME: Final = {f"{table.name}": table for table in DOCUMENT_TABLES}
"""The tables by their names."""

NUMBERED_TABLES: Final = tuple(BY_NAME[name] for name in (*NUMBERED, models.Lifetime.__tablename__))
"""The tables whose rows get ids from `Counters`."""

LIMITS: Final = {name: _limits(table) for name, table in BY_NAME.items()}
"""What the columns of each table hold, for `RowBuilder`."""
