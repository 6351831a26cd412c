"""The tables of documents' content, and the rows of prepared documents copied into them.

Content becomes rows before (`qc.rows.prepared_file`), with ids that begin at 1 in its file: here they get the next ids
of the database. `qc.rows.stored_content` is the inverse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import Connection, Engine, String, Table

from dcc.databases.engines import attached
from dcc.documents.forms import written_name
from dcc.qc.models import DOCUMENT_TABLES, LIFETIME, MEASUREMENT, MEDIA, METADATA, RUN, STATUS_CODE
from dcc.qc.rows.bulk import LineLoader, LoadedLines
from dcc.qc.rows.lines import with_fields
from dcc.qc.rows.measurements import MEASURED, OF_RUN
from dcc.qc.rows.prepared_file import Columns, PreparedDocument, quoted
from dcc.qc.rows.row_builder import NUMBERED
from dcc.vocabulary import EntityKind, MetadataOwner, Validity

_OWN_WORDS: Final = {"type", "owner_kind", "entity_kind"}
"""Columns with words of the platform's own, which always fit."""

_WRITTEN: Final = {
    "code": "statusCode",
    "dimension_id": "id",
    "region_end": "end",
    "region_start": "start",
    "sample_id": "localId",
    "section_id": "localId",
    "value": "dim",
}
"""The names in documents of columns that are not named for their fields."""

_NOT_SAID: Final = {"is_current", "validity"}
"""The columns of entities that tell what became of them: prepared files do not know that."""

_LEXICAL_LIMIT: Final = 16_000
"""Characters; MySQL's TEXT holds four times as many bytes."""


def _names(table: Table) -> tuple[str, ...]:
    """The columns of a table in prepared files."""
    if table is MEASUREMENT:
        return MEASURED
    names = tuple(f"{column.name}" for column in table.columns if column.name not in _NOT_SAID)
    return (*names, *(name for name in OF_RUN if name not in names)) if table is RUN else names


def _limits(table: Table) -> tuple[tuple[int, int, str], ...]:
    return tuple(
        (place, column.type.length or _LEXICAL_LIMIT, _WRITTEN.get(name) or written_name(name))
        for place, name in enumerate(_names(table))
        if (column := table.columns.get(name)) is not None
        and isinstance(column.type, String)
        and (column.type.length is not None or column.name == "lexical")
        and column.name not in _OWN_WORDS
    )


BY_NAME: Final = {f"{table.name}": table for table in DOCUMENT_TABLES}
"""The tables by their names."""

NUMBERED_TABLES: Final = tuple(BY_NAME[name] for name in (*NUMBERED, LIFETIME.name))
"""The tables whose ids come from `upload_lock.reserve_ids`; lifetimes last."""

PREPARED_TABLES: Final = tuple(table for table in DOCUMENT_TABLES if table is not LIFETIME)
"""The tables whose rows are prepared: which versions are current is decided when a document is applied."""

# SQLAlchemy's names are of a class of its own: a process that received one would load SQLAlchemy.
_NAMES: Final = {f"{table.name}": _names(table) for table in PREPARED_TABLES}
LIMITS: Final = {f"{table.name}": _limits(table) for table in PREPARED_TABLES}
"""What the texts of a table hold at most."""


def columns_for(database: Engine | Connection) -> Columns:
    """What prepared files are made by for a QC database."""
    return Columns(_NAMES, LIMITS, in_lines=not _copies_files(database))


def _copies_files(database: Engine | Connection) -> bool:
    return database.dialect.name == "sqlite"


def copy_rows(
    connection: Connection,
    documents: Sequence[PreparedDocument],
    id_offsets: Mapping[str, int],
    loader: LineLoader,
    *,
    are_current: bool,
) -> None:
    """Copy the rows of documents, or have `loader` take their lines where the database does not read files.

    The documents follow one another in one file. `id_offsets` are added to the numbers of documents, as `document`, and
    to the ids of each numbered table, by its name. `are_current`: entities are.
    """
    file, values = documents[0].file, {**id_offsets, "are_current": int(are_current)}
    for table in PREPARED_TABLES:
        (before, _), (_, last) = documents[0].rows[table.name], documents[-1].rows[table.name]
        if last == before:
            continue
        if not _copies_files(connection):
            added = [values[name] for name in _PARAMETERS[table.name].values()]
            for lines in file.lines(table.name, before, last):
                loader.take(table, with_fields(lines, added))
        else:
            source = attached(connection, file.address)
            values |= {"row_before": before, "last_row": last}
            connection.exec_driver_sql(_INSERT[table.name] + _SHIFTED[table.name].format(source=source), values)
    if not _copies_files(connection):
        # Of the many archives that a transaction may take, each would hold what was read of it.
        file.close()


def loader_on(connection: Connection) -> LineLoader:
    """What loads the lines of prepared files."""
    return LineLoader(connection, _LOADED)


def _insert(table: Table) -> str:
    """The beginning of a statement that writes rows of a table, whatever the order of its columns in the database."""
    return f"INSERT INTO main.{quoted(table.name)} ({', '.join(quoted(column.name) for column in table.columns)}) "


def _shifted(table: Table) -> str:
    """The statement that reads a table's rows from a prepared file, with their final ids."""
    computed = _computed(table)
    parameters = {field: f":{name}" for field, name in _parameters(computed).items()}
    columns = []
    for column in table.columns:
        of_run = table is MEASUREMENT and column.name in OF_RUN
        name = f"{'run' if of_run else 'own'}.{quoted(column.name)}"
        own = {column.name: name, "owner_kind": "owner_kind"} | parameters
        columns.append(computed[column.name].format_map(own) if column.name in computed else name)
    source = f"{{source}}.{quoted(table.name)} AS own"
    if table is MEASUREMENT:
        source += f" CROSS JOIN {{source}}.{quoted(RUN.name)} AS run ON run.id = own.procedure_run_id"
    return f"SELECT {', '.join(columns)} FROM {source} WHERE own.rowid > :row_before AND own.rowid <= :last_row"  # noqa: S608


def _loaded(table: Table) -> LoadedLines:
    """How the lines of a prepared file become rows of a table, once the values of parameters are at the end of each."""
    computed = _computed(table)
    of_run = OF_RUN if table is MEASUREMENT else ()
    return LoadedLines(table, [*_names(table), *of_run, *_parameters(computed)], computed)


def _computed(table: Table) -> dict[str, str]:
    """By column, the SQL that computes it from prepared values and id offsets."""
    computed = {}
    for column in table.columns:
        name = f"{{{column.name}}}"
        target = next((key.column.table.name for key in column.foreign_keys), table.name)
        if column.name == "document_id":
            computed[column.name] = f"{name} + {{offset_document}}"
        elif column.name == "is_current":
            computed[column.name] = "{are_current}"
        elif column.name == "validity":
            computed[column.name] = f"{Validity.UNJUDGED:d}"
        elif column.name == "owner_kind":
            computed[column.name] = name
        elif column.name == "owner_id":
            cases = " ".join(f"WHEN '{kind}' THEN {{offset_{owner}}}" for kind, owner in _OWNERS[table].items())
            computed[column.name] = f"{name} + CASE {{owner_kind}} {cases} END"
        elif column.foreign_keys or column.name == "id":
            computed[column.name] = f"{name} + {{offset_{target}}}"
    return computed


def _parameters(computed: Mapping[str, str]) -> dict[str, str]:
    """The values that computed columns need, by their fields: `are_current`, and the id offsets of tables."""
    fields = set(re.findall(r"\{(offset_\w+|are_current)\}", " ".join(computed.values())))
    return {field: field.removeprefix("offset_") for field in sorted(fields)}


_OWNERS: Final = {
    METADATA: {
        MetadataOwner.PROCEDURE.value: RUN.name,
        MetadataOwner.MEDIA.value: MEDIA.name,
        MetadataOwner.SERIES_MEDIA.value: MEDIA.name,
    },
    **{table: {kind.value: kind.value for kind in EntityKind} for table in (STATUS_CODE, RUN)},
}
"""The tables of owners, by the kinds used for them."""

_INSERT: Final = {table.name: _insert(table) for table in PREPARED_TABLES}
_SHIFTED: Final = {table.name: _shifted(table) for table in PREPARED_TABLES}
_PARAMETERS: Final = {table.name: _parameters(_computed(table)) for table in PREPARED_TABLES}
_LOADED: Final = tuple(map(_loaded, PREPARED_TABLES))
