"""The tables that documents fill, and the rows of prepared documents copied into them.

What a document says is made into rows before (`qc.rows.prepared_file`), with ids that begin at 1 in its file: here they
get those that follow in the database. `qc.rows.loading` is the way back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import Column, Connection, String, Table

from dcc.databases.attached_files import attached
from dcc.qc import models
from dcc.qc.rows.building import NUMBERED
from dcc.qc.rows.bulk import BulkInserter
from dcc.qc.rows.prepared_file import Columns, PreparedDocument, quoted
from dcc.qc.rows.procedures import OF_RUN
from dcc.vocabulary import EntityKind, MetadataOwner, Validity

_MEASUREMENT: Final = models.Measurement.__table__
_RUN: Final = models.ProcedureRun.__table__

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


def _names(table: Table) -> tuple[str, ...]:
    """The columns of a table in prepared files."""
    names = tuple(f"{column.name}" for column in table.columns)
    if table is _MEASUREMENT:
        return tuple(name for name in names if name not in OF_RUN)
    return (*names, *(name for name in OF_RUN if name not in names)) if table is _RUN else names


def _limits(table: Table) -> tuple[tuple[int, int, str], ...]:
    return tuple(
        (place, column.type.length or _LEXICAL_LIMIT, name)
        for place, name in enumerate(_names(table))
        if (column := table.columns.get(name)) is not None
        and isinstance(column.type, String)
        and (column.type.length is not None or column.name == "lexical")
        and column.name not in _OWN_WORDS
    )


BY_NAME: Final = {f"{table.name}": table for table in DOCUMENT_TABLES}
"""The tables by their names."""

NUMBERED_TABLES: Final = tuple(BY_NAME[name] for name in (*NUMBERED, models.Lifetime.__tablename__))
"""The tables whose rows get ids from `upload_lock.reserve_ids`; lifetimes last."""

PREPARED_TABLES: Final = tuple(table for table in DOCUMENT_TABLES if table is not models.Lifetime.__table__)
"""The tables whose rows are prepared: which versions are current is decided when a document is applied."""

# Names of SQLAlchemy are texts of a class of its own: a process that was sent one would load SQLAlchemy.
COLUMNS: Final = Columns(
    {f"{table.name}": _names(table) for table in PREPARED_TABLES},
    {f"{table.name}": _limits(table) for table in PREPARED_TABLES},
)
"""What prepared files are made by."""


def copy_rows(
    connection: Connection, documents: Sequence[PreparedDocument], given: Mapping[str, int], bulk: BulkInserter
) -> None:
    """Copy the rows of documents, or have `bulk` take them where the database does not read files.

    The documents follow one another in one file. `given` is what is to be added to the numbers of documents, as
    `document`, and to the ids of each numbered table by its name, and whether entities `are_current`.
    """
    file = documents[0].file
    source = attached(connection, file.address) if connection.dialect.name == "sqlite" else None
    for table in PREPARED_TABLES:
        before, last = documents[0].rows[table.name][0], documents[-1].rows[table.name][1]
        if last == before:
            continue
        values = {**given, "row_before": before, "last_row": last}
        if source is None:
            for row in file.ask(_SHIFTED[table.name].format(source="main"), values):
                bulk.take(table, row)
        else:
            target = f"INSERT INTO main.{quoted(table.name)} "
            connection.exec_driver_sql(target + _SHIFTED[table.name].format(source=source), values)


def _shifted(table: Table) -> str:
    """The statement that asks a prepared file for rows of a table, with the ids that they are to have."""
    columns = ", ".join(_shifted_column(table, column) for column in table.columns)
    source = f"{{source}}.{quoted(table.name)} AS own"
    if table is _MEASUREMENT:
        source += f" CROSS JOIN {{source}}.{quoted(_RUN.name)} AS run ON run.id = own.procedure_run_id"
    return f"SELECT {columns} FROM {source} WHERE own.rowid > :row_before AND own.rowid <= :last_row"  # noqa: S608


def _shifted_column(table: Table, column: Column[object]) -> str:
    of_run = table is _MEASUREMENT and column.name in OF_RUN
    name = f"{'run' if of_run else 'own'}.{quoted(column.name)}"
    if column.name == "document_id":
        return f"{name} + :document"
    if column.name == "is_current":
        return ":are_current"
    if column.name == "validity":
        return f"{Validity.UNJUDGED:d}"
    if column.name == "owner_id":
        cases = " ".join(f"WHEN '{kind}' THEN :{owner}" for kind, owner in _OWNERS.items())
        return f"{name} + CASE owner_kind {cases} END"
    target = next((key.column.table.name for key in column.foreign_keys), table.name)
    return f"{name} + :{target}" if column.foreign_keys or column.name == "id" else name


_OWNERS: Final = {
    **{kind.value: kind.value for kind in EntityKind},
    MetadataOwner.PROCEDURE.value: models.ProcedureRun.__tablename__,
    MetadataOwner.MEDIA.value: models.Media.__tablename__,
    MetadataOwner.SERIES_MEDIA.value: models.Media.__tablename__,
}
"""The tables of what things belong to, by the kinds that are told of owners."""

_SHIFTED: Final = {table.name: _shifted(table) for table in PREPARED_TABLES}
