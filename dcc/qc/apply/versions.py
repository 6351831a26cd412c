"""Versions of entities: which version of an entity is current, and how versions begin and end.

Entities are identified by their keys (`rows.types`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Label,
    Select,
    String,
    and_,
    bindparam,
    cast,
    func,
    insert,
    literal,
    select,
)

from dcc.databases.list_parameters import as_json, change_rows, rows_with, sorted_chunks, texts_given, texts_in
from dcc.qc.models import ENTITY_TABLES, EXPERIMENT, LIFETIME, NAMED, RUN, SPECIMEN
from dcc.qc.models.base import ID_LENGTH
from dcc.qc.rows.bulk import insert_bulk
from dcc.qc.rows.entity_keys import Key, iso_day
from dcc.vocabulary import EntityKind

_KEY_COLUMNS: Final[dict[EntityKind, tuple[str, ...]]] = {
    EntityKind.SPECIMEN: ("centre", "specimen_id"),
    EntityKind.EXPERIMENT: ("centre", "experiment_id", "sequence_id", "procedure_id"),
    EntityKind.LINE: ("centre", "colony_id", "sequence_id", "procedure_id"),
    EntityKind.HOUSING: ("centre", "procedure_id", "pipeline", "from_lims"),
}
"""Centre first, then the column by which versions are looked up, then the others; `UPDATED` is another of housings."""
UPDATED: Final = "updated"


class Version(NamedTuple):
    """A version of an entity: its row and its document."""

    id: int
    document_id: int


def key_columns(kind: EntityKind, table: Any = None) -> list[ColumnElement[Any]]:
    """The key's columns in an entity's table, or in an alias of it; in order, each with a name."""
    source = ENTITY_TABLES[kind] if table is None else table
    columns: list[ColumnElement[Any]] = [source.c[name] for name in _KEY_COLUMNS[kind]]
    return [*columns, _updated(source).label(UPDATED)] if kind is EntityKind.HOUSING else columns


def _updated(housing: Any) -> ColumnElement[Any]:
    """The day on which a housing was updated; its text if no database has such a day, as after the year 9999."""
    written = func.replace(func.json_extract(housing.c.lexical, "$.lastUpdated"), '"', "", type_=String)
    return func.coalesce(cast(housing.c.last_updated, String(ID_LENGTH)), written, type_=String)


def same_key(kind: EntityKind, one: Any, other: Any) -> ColumnElement[bool]:
    """Whether the rows of two aliases of an entity's table are versions of the same entity."""
    pairs = zip(key_columns(kind, one), key_columns(kind, other), strict=True)
    first, *rest = ((_unnamed(left), _unnamed(right)) for left, right in pairs)
    return and_(
        first[0] == first[1],
        *(
            left == right if isinstance(left, Column) and not left.nullable else left.is_not_distinct_from(right)
            for left, right in rest
        ),
        *(
            func.coalesce(func.length(left), -1) == func.coalesce(func.length(right), -1)
            for left, right in rest
            if isinstance(left.type, String)
        ),
    )


def _unnamed(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return column.element if isinstance(column, Label) else column


def same_text(left: ColumnElement[Any], right: ColumnElement[Any] | str) -> ColumnElement[bool]:
    """Whether two texts are exactly equal: MySQL and MariaDB ignore trailing blanks."""
    return and_(left == right, func.length(left) == func.length(right))


def same_animal(whose: Any, named: Any = NAMED, animal: Any = SPECIMEN) -> ColumnElement[bool]:
    """Whether a row of `specimen`, or of its alias `animal`, is a version of the one that another row names.

    `whose` is the table, or an alias, with that row's centre; `named` the one with the specimenID in it.
    """
    return and_(animal.c.centre == whose.c.centre, same_text(animal.c.specimen_id, named.c.specimen_id))


def is_lifetime_of(kind: EntityKind, lifetime: Any = LIFETIME, table: Any = None) -> ColumnElement[bool]:
    """Whether a lifetime, or an alias of it, is that of a version in an entity's table, or in an alias of this."""
    own = ENTITY_TABLES[kind] if table is None else table
    return and_(lifetime.c.entity_kind == kind.value, lifetime.c.entity_id == own.c.id)


def is_run_of(kind: EntityKind) -> ColumnElement[bool]:
    """Whether a procedure run is that of a version in an entity's table."""
    return and_(RUN.c.owner_kind == kind.value, RUN.c.owner_id == ENTITY_TABLES[kind].c.id)


def with_experiments(specimens: Any) -> Any:
    """Joins rows of `specimen`, or a query of them, with all experiments on these animals."""
    of_centre = and_(EXPERIMENT.c.id == NAMED.c.experiment_row, EXPERIMENT.c.centre == SPECIMEN.c.centre)
    named = specimens.join(NAMED, same_text(NAMED.c.specimen_id, SPECIMEN.c.specimen_id))
    return named.join(EXPERIMENT, of_centre)


def current_versions(connection: Connection, kind: EntityKind, keys: Collection[Key]) -> dict[Key, Version]:
    """The current versions of these entities, if they have one. A statement for each centre and 2,000 names."""
    names: dict[Any, set[Any]] = {}
    for key in keys:
        names.setdefault(key[0], set()).add(key[1])
    found: dict[Key, Version] = {}
    statement = (_CURRENT if connection.dialect.name == "sqlite" else _CURRENT_ON_SERVER)[kind]
    for centre, of_centre in names.items():
        of_centre.discard(None)
        for chunk in sorted_chunks(of_centre):
            rows = connection.execute(statement, {"of_centre": centre, "names": as_json(chunk)})
            found |= {key_of_row(row[2:]): Version(row[0], row[1]) for row in rows}
    # Databases may treat texts as equal that differ in trailing blanks: only the given keys count.
    return {key: found[key] for key in keys if key in found}


def _current(kind: EntityKind) -> Select[Any]:
    table = ENTITY_TABLES[kind]
    columns = key_columns(kind)
    named = columns[1].in_(texts_in("names"))
    statement = select(table.c.id, table.c.document_id, *columns)
    return statement.where(columns[0] == bindparam("of_centre"), named, table.c.is_current)


def _current_on_server(kind: EntityKind) -> Select[Any]:
    """The same, with a given join order and index: otherwise MariaDB reads all of a centre's entities.

    It has no statistics on them while they are being uploaded.
    """
    table, given = ENTITY_TABLES[kind], texts_given("names")
    columns = key_columns(kind)
    same = and_(columns[0] == bindparam("of_centre"), columns[1] == given.c.value, table.c.is_current)
    statement = select(table.c.id, table.c.document_id, *columns).prefix_with("STRAIGHT_JOIN")
    (index,) = (index for index in table.indexes if list(index.columns)[:2] == columns[:2])
    return statement.select_from(given.join(table, same)).with_hint(table, f"FORCE INDEX ({index.name})")


_CURRENT: Final = {kind: _current(kind) for kind in EntityKind}
"""The current versions of a centre's entities by names; made once, because that takes as long as executing it."""
_CURRENT_ON_SERVER: Final = {kind: _current_on_server(kind) for kind in EntityKind}


def key_of_row(values: Sequence[Any]) -> Key:
    """The key in the key columns of a row."""
    return tuple([iso_day(value) if isinstance(value, date) else value for value in values])


def experiments_about(connection: Connection, keys: Collection[Key]) -> dict[Key, list[str]]:
    """The experimentIDs of the current experiments on these specimens, and maybe on others, by keys of specimens."""
    columns = (EXPERIMENT.c.centre, NAMED.c.specimen_id, EXPERIMENT.c.experiment_id)
    about = select(*columns).join(EXPERIMENT, EXPERIMENT.c.id == NAMED.c.experiment_row).where(EXPERIMENT.c.is_current)
    found: dict[Key, list[str]] = {}
    names = {str(key[1]) for key in keys}
    for centre, specimen_id, experiment_id in rows_with(
        connection, about.order_by(EXPERIMENT.c.id), NAMED.c.specimen_id, names
    ):
        found.setdefault((centre, specimen_id), []).append(experiment_id)
    return found


def open_versions(connection: Connection, kind: EntityKind, row_ids: range, first_id: int) -> None:
    """Begin the lifetimes of the current ones of new entities, by the ids of their rows.

    Lifetimes have ids from `first_id` on, as many as there are rows at most.
    """
    table = ENTITY_TABLES[kind]
    are_new = (table.c.id >= row_ids.start) & (table.c.id < row_ids.stop) & table.c.is_current
    shifted = table.c.id + (first_id - row_ids.start)
    opened = select(shifted, literal(kind.value), table.c.id, table.c.document_id).where(are_new)
    columns = ["id", "entity_kind", "entity_id", "opened_by"]
    connection.execute(insert(LIFETIME).from_select(columns, opened))


def end_versions(connection: Connection, kind: EntityKind, ids: Iterable[int], document_id: int) -> None:
    """End current versions by a document."""
    ended = sorted(ids)
    change_rows(connection, ENTITY_TABLES[kind].c.id, ended, is_current=False)
    are_open = (LIFETIME.c.entity_kind == kind.value) & LIFETIME.c.ended_by.is_(None)
    change_rows(connection, LIFETIME.c.entity_id, ended, are_open, ended_by=document_id)


def reopen_versions(
    connection: Connection, kind: EntityKind, ids: Collection[int], document_id: int, first_id: int
) -> None:
    """Make ended versions current again by a document; lifetimes have ids from `first_id` on."""
    change_rows(connection, ENTITY_TABLES[kind].c.id, ids, is_current=True)
    rows = [(number, kind.value, row_id, document_id) for number, row_id in enumerate(sorted(ids), first_id)]
    if rows:
        insert_bulk(connection, LIFETIME, ("id", "entity_kind", "entity_id", "opened_by"), rows)
