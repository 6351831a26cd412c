"""What a document would change, without changing it.

The document is applied in a write transaction that is then rolled back: so a plan equals the result, unless other
documents come between. It compares the versions that the document would end and open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Connection, Engine, FromClause, RowMapping, case, null, select

from dcc.databases.list_parameters import rows_with, sorted_chunks
from dcc.databases.transactions import RollBackError, run_writing
from dcc.qc.apply.document_effect import AppliedDocument, DocumentWithRows
from dcc.qc.apply.documents import apply_on
from dcc.qc.apply.ownership import ForeignData
from dcc.qc.apply.versions import (
    UPDATED,
    is_lifetime_of,
    is_run_of,
    key_columns,
    key_of_row,
    same_animal,
    with_experiments,
)
from dcc.qc.models import (
    CHROMOSOME,
    ENTITY_TABLES,
    EXPERIMENT,
    GENOTYPE,
    LIFETIME,
    MEASUREMENT,
    MEDIA,
    METADATA,
    NAMED,
    PARENTAL_STRAIN,
    RELATED,
    RUN,
    SPECIMEN,
    STATUS_CODE,
)
from dcc.qc.rows.entity_keys import Key
from dcc.rules.upload import describe
from dcc.vocabulary import EntityKind

CHANGES_LISTED: Final = 1_000
_IGNORED: Final = frozenset(
    {"id", "block_id", "document_id", "position", "line", "lexical", "is_current", "validity", UPDATED}
)
_LISTED: Final = {
    EntityKind.SPECIMEN: {
        "relative": RELATED,
        "genotype": GENOTYPE,
        "parental strain": PARENTAL_STRAIN,
        "chromosome": CHROMOSOME,
    },
    EntityKind.EXPERIMENT: {"animal": NAMED},
}
"""What the values in these tables are called, by kind of entity."""
_GENOTYPE: Final = case((SPECIMEN.c.is_baseline, "baseline"), else_=SPECIMEN.c.colony_id)
_PLACE: Final = ("centre", "pipeline", "procedure_id", "parameter_id")


class EntityChange(NamedTuple):
    """A value that would change: its entity, and column, part or parameter; None: missing."""

    entity: str
    what: str
    old: str | None
    new: str | None


class TouchedContext(NamedTuple):
    """A data context whose measurements would be added, changed or removed, or whose animals would leave or join it.

    `genotype` is a colony, or `baseline`; it and the strain are None if no specimen has them.
    """

    centre: str
    pipeline: str
    genotype: str | None
    strain_id: str | None
    procedure_id: str
    parameter_id: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a document would change. `would_be` is the result of applying it; its ids are not used.

    `changed` counts values, `changes` are the first `CHANGES_LISTED` of them; unchanged values of an edit are not
    listed. `removed` are the entities that would be gone, each with the number of its values. Added entities are only
    in the counts of `would_be`. A document that was applied before would change nothing: `would_be` is `repeated`, with
    the document's id in the QC database.
    """

    would_be: AppliedDocument
    changed: int
    changes: tuple[EntityChange, ...]
    removed: Mapping[str, int]
    contexts: frozenset[TouchedContext]


def plan_document(engine: Engine, document: DocumentWithRows) -> Plan:
    """What applying a document would change; nothing is changed. Raises as `apply_documents`."""

    def work(connection: Connection) -> Plan:
        # An addition that would be held is planned as if it were confirmed.
        (applied,) = apply_on(connection, [document], foreign_additions=ForeignData.NOTE)
        raise RollBackError(_compare(connection, applied))

    return run_writing(engine, work)


def _compare(connection: Connection, applied: AppliedDocument) -> Plan:
    if applied.repeated:
        return Plan(applied, 0, (), {}, frozenset())
    changed = 0
    changes: list[EntityChange] = []
    removed: Counter[str] = Counter()
    contexts: set[TouchedContext] = set()
    for kind in EntityKind:
        for ended, opened in _pairs(connection, kind, applied.document_id):
            for change, is_removed in _differences(connection, kind, ended, opened):
                changed += 1
                removed[change.entity] += is_removed
                if len(changes) < CHANGES_LISTED:
                    changes.append(change)
            if kind is EntityKind.SPECIMEN:
                contexts |= _contexts_of_animals(connection, ended, opened)
            else:
                contexts |= _contexts(connection, kind, [*ended, *opened])
    return Plan(applied, changed, tuple(changes), +removed, frozenset(contexts))


Entities = dict[int, RowMapping]


def _pairs(connection: Connection, kind: EntityKind, document_id: int) -> Iterator[tuple[Entities, Entities]]:
    """What the document ended, in chunks, each with its replacement; then what it opened besides."""
    ended = _versions(connection, kind, LIFETIME.c.ended_by, document_id)
    opened = _versions(connection, kind, LIFETIME.c.opened_by, document_id)
    by_key = {_key(kind, row): row_id for row_id, row in opened.items()}
    by_name = _names(kind, by_key)
    for chunk in sorted_chunks(ended):
        old = {row_id: ended[row_id] for row_id in chunk}
        replacements = (_replacement(_key(kind, row), by_key, by_name) for row in old.values())
        ids = [by_key.pop(key) for key in replacements if key in by_key]
        yield old, {row_id: opened[row_id] for row_id in ids}
    for rest in sorted_chunks(by_key.values()):
        yield {}, {row_id: opened[row_id] for row_id in rest}


def _versions(connection: Connection, kind: EntityKind, side: Any, document_id: int) -> Entities:
    table = ENTITY_TABLES[kind]
    extra = [column for column in key_columns(kind) if column.name == UPDATED]
    statement = (
        select(table, *extra).join(LIFETIME, is_lifetime_of(kind)).where(side == document_id).order_by(table.c.id)
    )
    return {row["id"]: row for row in connection.execute(statement).mappings()}


def _key(kind: EntityKind, row: RowMapping) -> tuple[Any, ...]:
    return key_of_row([row[column.name] for column in key_columns(kind)])


def _names(kind: EntityKind, keys: Iterable[Key]) -> Mapping[Key, Key]:
    """The keys of experiments by what they have without a procedure."""
    return {key[:3]: key for key in keys} if kind is EntityKind.EXPERIMENT else {}


def _replacement(key: Key, keys: Container[Key], by_name: Mapping[Key, Key]) -> Key | None:
    """The key of what replaces an entity: its own or, of an experiment without results, that of one with results."""
    if key in keys:
        return key
    return by_name.get(key[:3]) if key[3:] == (None,) else None


def _differences(
    connection: Connection, kind: EntityKind, old: Entities, new: Entities
) -> Iterator[tuple[EntityChange, bool]]:
    """The values of the old and new entities that differ, and whether the entity is gone; added entities have none."""
    if not old:
        return
    before = _values(connection, kind, old)
    after = _values(connection, kind, new)
    by_name = _names(kind, after)
    for key, values in before.items():
        replacement = _replacement(key, after, by_name)
        others = {} if replacement is None else after[replacement]
        name = str(describe(kind, key))
        for of_value in values | others:
            if values.get(of_value) != others.get(of_value):
                yield EntityChange(name, of_value, values.get(of_value), others.get(of_value)), replacement is None


def _values(connection: Connection, kind: EntityKind, rows: Entities) -> dict[tuple[Any, ...], dict[str, str]]:
    """By key, the values of entities: their columns, what they list, and their results by parameter."""
    found = {_key(kind, row): _columns(row) for row in rows.values()}
    repeated: Counter[tuple[int, str]] = Counter()
    for row_id, first, value in chain(_listed(connection, kind, rows), _results(connection, kind, rows)):
        values, name = found[_key(kind, rows[row_id])], first
        while name in values:
            repeated[row_id, first] += 1
            name = f"{first} (again {repeated[row_id, first]})"
        values[name] = value
    return found


_Value: TypeAlias = tuple[int, str, str]
"""A value of an entity: the row of this, and the value's name and text."""


def _listed(connection: Connection, kind: EntityKind, rows: Entities) -> Iterator[_Value]:
    """What entities list: the animals of experiments, relatives and genotypes of animals, status codes."""
    for name, table in _LISTED.get(kind, {}).items():
        owner, *places = table.primary_key
        said = [column for column in table.c if column not in {owner, *places} and column.name not in _IGNORED]
        for row in connection.execute(select(table).where(owner.in_(rows)).order_by(owner, *places)).mappings():
            numbers = ".".join(str(row[place] + 1) for place in places)
            texts = [str(row[column]) for column in said if row[column] is not None]
            yield row[owner], f"{name} {numbers}", ", ".join(texts)
    own = (STATUS_CODE.c.owner_kind == kind.value) & STATUS_CODE.c.owner_id.in_(rows)
    codes = select(STATUS_CODE.c.owner_id, STATUS_CODE.c.position, STATUS_CODE.c.code).where(own)
    for row_id, position, code in connection.execute(codes.order_by(STATUS_CODE.c.id)):
        yield row_id, f"status code {position + 1}", code


def _results(connection: Connection, kind: EntityKind, rows: Entities) -> Iterator[_Value]:
    """The measurements, media and metadata of entities."""
    own = (RUN.c.owner_kind == kind.value) & RUN.c.owner_id.in_(rows)
    for table, value, *places in (
        (MEASUREMENT, "value", "sequence_id", "increment"),
        (MEDIA, "uri", "increment"),
        (METADATA, "value", "sequence_id"),
    ):
        columns = [table.c[name] for name in ("parameter_id", value, "status", *places)]
        query = select(RUN.c.owner_id, *columns).join(table, table.c.procedure_run_id == RUN.c.id)
        for row_id, parameter, text, status, *found in connection.execute(query.where(own).order_by(table.c.id)):
            named = [f"{name.removesuffix('_id')} {one}" for name, one in zip(places, found, strict=True) if one]
            yield row_id, " ".join([parameter, *named]), text if text is not None else f"no value, status {status}"


def _columns(row: RowMapping) -> dict[str, str]:
    return {name: str(value) for name, value in row.items() if name not in _IGNORED and value is not None}


def _contexts(connection: Connection, kind: EntityKind, ids: list[int]) -> set[TouchedContext]:
    """The contexts of the measurements of experiments, lines or housings; of an experiment, of each of its animals."""
    table = ENTITY_TABLES[kind]
    source = table.join(RUN, is_run_of(kind)).join(MEASUREMENT, MEASUREMENT.c.procedure_run_id == RUN.c.id)
    whose: list[ColumnElement[Any]] = [null(), null()]
    if kind is EntityKind.LINE:
        whose = [table.c.colony_id, null()]
    elif kind is EntityKind.EXPERIMENT:
        source = source.outerjoin(NAMED, NAMED.c.experiment_row == table.c.id)
        source = source.outerjoin(SPECIMEN, same_animal(table) & SPECIMEN.c.is_current)
        whose = [_GENOTYPE, SPECIMEN.c.strain_id]
    return _found_contexts(connection, source, whose, table.c.id, ids)


def _contexts_of_animals(connection: Connection, old: Entities, new: Entities) -> set[TouchedContext]:
    """The contexts of the current experiments on specimens, by the old and new versions of these, if that differs."""
    before = {_key(EntityKind.SPECIMEN, row): row for row in old.values()}
    after = {_key(EntityKind.SPECIMEN, row): row for row in new.values()}
    moved = [key for key in before.keys() | after.keys() if _animal(before.get(key)) != _animal(after.get(key))]
    ids = [side[key]["id"] for side in (before, after) for key in moved if key in side]
    runs = with_experiments(SPECIMEN).join(RUN, is_run_of(EntityKind.EXPERIMENT) & EXPERIMENT.c.is_current)
    source = runs.join(MEASUREMENT, MEASUREMENT.c.procedure_run_id == RUN.c.id)
    found = _found_contexts(connection, source, [_GENOTYPE, SPECIMEN.c.strain_id], SPECIMEN.c.id, ids)
    appeared = [after[key]["id"] for key in moved if key not in before]
    unknown: list[ColumnElement[Any]] = [null(), null()]
    return found | _found_contexts(connection, source, unknown, SPECIMEN.c.id, appeared)


def _animal(row: RowMapping | None) -> tuple[Any, ...] | None:
    return None if row is None else (row["is_baseline"], row["colony_id"], row["strain_id"])


def _found_contexts(
    connection: Connection, source: FromClause, whose: list[ColumnElement[Any]], column: Any, ids: list[int]
) -> set[TouchedContext]:
    place = [MEASUREMENT.c[name] for name in _PLACE]
    statement = select(*place, *whose).distinct().select_from(source)
    found = rows_with(connection, statement, column, ids)
    return {TouchedContext(row[0], row[1], *row[4:], *row[2:4]) for row in found}
