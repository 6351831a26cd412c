"""Snapshots of reference data in the QC database: saved, and loaded for the rules.

Of each set one snapshot is active, the newest. Those that findings name stay with their rows, so that anybody can look
up what judged them. Of the others the last few are kept, because running work may still use them. A refused answer of a
server is recorded too, until one is accepted.

A snapshot becomes rows and is read back exactly. Procedures and parameters of IMPReSS are shared by many pipelines and
written once; one that differs from another of the same key is another variant of it, counted from 1.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import date, datetime
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, Row, ScalarSelect, String, Table, delete, func, insert, select, update

from dcc.databases.columns import MESSAGE_BYTES
from dcc.databases.transactions import insert_rows
from dcc.errors import ReferenceDataError
from dcc.qc.models import (
    COLONY,
    FINDING,
    INCREMENT,
    KNOWN_STATUS_CODE,
    ONTOLOGY_OPTION,
    OPTION,
    PARAMETER,
    PIPELINE,
    PROCEDURE,
    PROJECT,
    REFUSAL,
    SNAPSHOT,
    STRAIN,
)
from dcc.qc.rows.bulk import insert_bulk
from dcc.qc.rows.types import Row as NewRow
from dcc.qc.rows.types import Value
from dcc.reference.impress import (
    Impress,
    Increment,
    Option,
    Parameter,
    ParameterType,
    Pipeline,
    Procedure,
    ProcedureDue,
    required_of,
    retired_among,
)
from dcc.reference.loading import ReferenceData
from dcc.reference.snapshots import Colonies, Colony, Projects, Provenance, Snapshot, StatusCodes, Strains
from dcc.settings.reference import shown_source

Made = TypeVar("Made")
_Variant = tuple[str, int]
_EMPTY: Final = {"str": "", "bool": False}
"""What a missing value is in a field of a type, if not None."""


def rows_of(snapshot_id: int, snapshot: Snapshot) -> Mapping[Table, list[NewRow]]:
    """The rows of a snapshot by table, with all columns in their order."""
    if isinstance(snapshot, Impress):
        return _impress_rows(snapshot_id, snapshot)
    stored = _LOOKUPS[type(snapshot)]
    return {stored.table: [(snapshot_id, *row) for row in stored.rows(snapshot)]}


def load_snapshot(connection: Connection, name: str, snapshot_id: int, provenance: Provenance) -> Snapshot:
    """The snapshot of a set with an id, from its rows."""
    if name == Impress.NAME:
        return _load_impress(connection, snapshot_id, provenance)
    kind = next(kind for kind in _LOOKUPS if name == kind.NAME)
    stored = _LOOKUPS[kind]
    made: Any = kind
    return made(provenance, stored.content(row[1:] for row in _rows(connection, stored.table, snapshot_id)))  # type: ignore[no-any-return]


class _Lookup(NamedTuple):
    """How a lookup table is stored: its rows, without the snapshot's id, and its content from these."""

    table: Table
    rows: Callable[[Any], Iterable[tuple[Any, ...]]]
    content: Callable[[Iterable[Any]], Any]


def _colony_rows(colonies: Colonies) -> Iterator[NewRow]:
    for colony_id, productions in colonies.productions.items():
        for place, colony in enumerate(productions, start=1):
            yield _row(COLONY, colony, snapshot_id=None, colony_id=colony_id, position=place)[1:]


def _productions(rows: Iterable[tuple[Any, ...]]) -> dict[str, tuple[Colony, ...]]:
    found: dict[str, list[Colony]] = defaultdict(list)
    for colony_id, _, *of_production in rows:
        found[colony_id].append(Colony(colony_id, *of_production))
    return {colony_id: tuple(productions) for colony_id, productions in found.items()}


_LOOKUPS: Final[Mapping[type[Snapshot], _Lookup]] = {
    StatusCodes: _Lookup(KNOWN_STATUS_CODE, lambda codes: codes.meanings.items(), dict),
    Projects: _Lookup(
        PROJECT, lambda projects: zip(sorted(projects.names)), lambda rows: frozenset(one for (one,) in rows)
    ),
    Colonies: _Lookup(COLONY, _colony_rows, _productions),
    Strains: _Lookup(STRAIN, lambda strains: strains.names.items(), dict),
}


def _row(table: Table, thing: object, /, **given: Any) -> NewRow:
    """A row with all columns of a table: those given, and the others from the fields of their names.

    An empty text is missing where the column permits it.
    """
    return tuple(
        given[column.name] if column.name in given else _column_value(getattr(thing, column.name), column.nullable)
        for column in table.columns
    )


def _column_value(value: Any, may_be_missing: bool | None) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, date):
        return value.isoformat()
    return None if value == "" and may_be_missing else value


def _made(kind: type[Made], row: Row[Any], /, **given: Any) -> Made:
    """An object with the fields given, and the others from the columns of their names."""
    for name, empty in _fields(kind).items():  # type: ignore[arg-type]
        if name not in given:
            value = getattr(row, name)
            given[name] = empty if value is None else value
    return kind(**given)


@cache
def _fields(kind: Any) -> dict[str, Any]:
    """The fields of a class, each with what it is where a row has nothing."""
    return {field.name: _EMPTY.get(str(field.type)) for field in fields(kind)}


def _impress_rows(snapshot_id: int, impress: Impress) -> Mapping[Table, list[NewRow]]:
    rows: dict[Table, list[NewRow]] = defaultdict(list)
    procedures: dict[str, list[Any]] = defaultdict(list)
    choices: dict[str, list[Any]] = defaultdict(list)

    def add(table: Table, thing: object, **given: Any) -> None:
        rows[table].append(_row(table, thing, snapshot_id=snapshot_id, **given))

    def add_parameter(procedure_key: str, procedure_variant: int, each: Parameter) -> None:
        parts = (each.options, each.increments, each.ontology_terms, each.retired_terms)
        variant, is_new = _number(choices[each.key], parts)
        of_procedure = {"procedure_id": procedure_key, "procedure_variant": procedure_variant}
        key = {"parameter_id": each.key, "variant": variant}
        add(PARAMETER, each, **key, **of_procedure)
        if is_new:
            for place, option in enumerate(each.options, start=1):
                add(OPTION, option, **key, position=place)
            for place, increment in enumerate(each.increments, start=1):
                add(INCREMENT, increment, **key, position=place, value=increment.text)
            for place, term in enumerate(each.ontology_terms, start=1):
                is_active = int(term not in each.retired_terms)
                add(ONTOLOGY_OPTION, term, **key, position=place, ontology_id=term, is_active=is_active)

    for pipeline in impress.pipelines.values():
        add(PIPELINE, pipeline, pipeline=pipeline.key)
        for procedure in pipeline.procedures.values():
            variant, is_new = _number(procedures[procedure.key], procedure)
            due = pipeline.due.get(procedure.key, ProcedureDue())
            key = {"pipeline": pipeline.key, "procedure_id": procedure.key, "variant": variant}
            add(PROCEDURE, procedure, **key, weeks=due.weeks, stage=due.stage or None)
            for parameter in procedure.parameters.values() if is_new else ():
                add_parameter(procedure.key, variant, parameter)
    return rows


def _number(variants: list[Any], thing: object) -> tuple[int, bool]:
    """The number of a thing among the variants of its key, from 1, and whether it is new among them."""
    for place, known in enumerate(variants, start=1):
        if known is thing or known == thing:
            return place, False
    variants.append(thing)
    return len(variants), True


def _load_impress(connection: Connection, snapshot_id: int, provenance: Provenance) -> Impress:
    parameters = _load_parameters(connection, snapshot_id)
    pipelines = {row.pipeline: row.name or "" for row in _rows(connection, PIPELINE, snapshot_id)}
    members: dict[str, dict[str, Procedure]] = {key: {} for key in pipelines}
    due: dict[str, dict[str, ProcedureDue]] = {key: {} for key in pipelines}
    # The rows of one variant are equal except for the pipeline, so that pipelines share them.
    shared: dict[_Variant, Procedure] = {}
    for row in _rows(connection, PROCEDURE, snapshot_id):
        variant = (row.procedure_id, row.variant)
        if variant not in shared:
            own = parameters.get(variant, {})
            shared[variant] = _made(Procedure, row, key=row.procedure_id, parameters=own, required=required_of(own))
        members[row.pipeline][row.procedure_id] = shared[variant]
        if (asked := _made(ProcedureDue, row)) != ProcedureDue():
            due[row.pipeline][row.procedure_id] = asked
    by_key = {key: Pipeline(key, members[key], name, due[key]) for key, name in pipelines.items()}
    return Impress(provenance, by_key)


def _load_parameters(connection: Connection, snapshot_id: int) -> dict[_Variant, dict[str, Parameter]]:
    def parts(table: Table, build: Callable[[Row[Any]], Made]) -> dict[_Variant, tuple[Made, ...]]:
        found: dict[_Variant, list[Made]] = defaultdict(list)
        for row in _rows(connection, table, snapshot_id):
            found[row.parameter_id, row.variant].append(build(row))
        return {variant: tuple(keys) for variant, keys in found.items()}

    options = parts(OPTION, lambda row: _made(Option, row))
    increments = parts(INCREMENT, lambda row: _made(Increment, row, text=row.value))
    terms = parts(ONTOLOGY_OPTION, lambda row: (str(row.ontology_id), row.is_active is not False))
    found: dict[_Variant, dict[str, Parameter]] = defaultdict(dict)
    for row in _rows(connection, PARAMETER, snapshot_id):
        variant = (row.parameter_id, row.variant)
        found[row.procedure_id, row.procedure_variant][row.parameter_id] = _made(
            Parameter,
            row,
            key=row.parameter_id,
            type=ParameterType(row.type),
            options=options.get(variant, ()),
            increments=increments.get(variant, ()),
            ontology_terms=tuple(term for term, _ in terms.get(variant, ())),
            retired_terms=retired_among(terms.get(variant, ())),
        )
    return found


def _rows(connection: Connection, table: Table, snapshot_id: int) -> Iterator[Row[Any]]:
    query = select(table).where(table.c.snapshot_id == snapshot_id).order_by(*table.primary_key.columns)
    yield from connection.execute(query)


_LONGEST: Final = 1_024


@dataclass(frozen=True, slots=True)
class SourceRefusal:
    """Why the set `name` could not be read from `source`, an address for messages, at the last try."""

    name: str
    source: str
    refused: datetime
    reason: str


def source_of(configured: str) -> str:
    """The address of a setting as stored: without its query, and cut to the column."""
    return shown_source(configured)[:_LONGEST]


def refusals(connection: Connection) -> dict[str, SourceRefusal]:
    """The recorded refusals, by the name of the set; one counts only while the set has the same source."""
    found = connection.execute(select(REFUSAL))
    return {row.name: SourceRefusal(**row._mapping) for row in found}


def remember_refusal(connection: Connection, refusal: SourceRefusal) -> None:
    """Record a set's refusal, replacing an earlier one."""
    forget_refusal(connection, refusal.name)
    connection.execute(insert(REFUSAL).values(asdict(refusal)))


def forget_refusal(connection: Connection, name: str) -> None:
    """Delete a set's refusal."""
    connection.execute(delete(REFUSAL).where(REFUSAL.c.name == name))


_OLD_ONES_KEPT: Final = 3
_INTEGER_BITS: Final = 31


@dataclass(frozen=True, slots=True)
class ActiveReference:
    """The reference data that documents are judged by; ids and rows of their snapshots by the name of the set."""

    data: ReferenceData
    snapshot_ids: Mapping[str, int]
    stored: Mapping[str, StoredSnapshot] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """The row of a snapshot: `retrieved` is when this state of the set was retrieved first, `checked` when last.

    `refused_at` is the source of a later set that was refused or unreadable.
    """

    id: int
    name: str
    retrieved: datetime
    checked: datetime
    source: str
    checksum: str
    rows: int
    refused_at: str | None = None


_loaded: WeakKeyDictionary[Engine, dict[str, tuple[object, Snapshot]]] = WeakKeyDictionary()
_loading = threading.Lock()


def active_snapshots(connection: Connection) -> dict[str, StoredSnapshot]:
    """The rows of the active snapshots, by the name of the set."""
    # Two processes that save at once on MySQL or MariaDB leave two active ones: the later one counts.
    return {
        row.name: _made(StoredSnapshot, row, source=shown_source(row.source), rows=row.row_count)
        for row in connection.execute(_ACTIVE)
    }


_ACTIVE: Final = (
    select(SNAPSHOT, REFUSAL.c.source.label("refused_at"))
    .select_from(SNAPSHOT.outerjoin(REFUSAL, REFUSAL.c.name == SNAPSHOT.c.name))
    .where(SNAPSHOT.c.is_active)
    .order_by(SNAPSHOT.c.id)
)


def active_snapshot(name: str) -> ScalarSelect[int]:
    """The id of the active snapshot of a set, for queries; null without any."""
    return select(func.max(SNAPSHOT.c.id)).where(SNAPSHOT.c.name == name, SNAPSHOT.c.is_active).scalar_subquery()


def load_active(connection: Connection, imits_names: Mapping[str, str] | None = None) -> ActiveReference:
    """The active snapshots, with the names of centres; a set without one is missing.

    Earlier loaded ones of this process are reused.
    """
    stored = active_snapshots(connection)
    with _loading:
        kept = _loaded.setdefault(connection.engine, {})
        for name, snapshot in stored.items():
            # An id may be used again with other content, if the transaction that gave it was rolled back.
            is_of = (snapshot.id, snapshot.checksum, snapshot.retrieved)
            if name not in kept or kept[name][0] != is_of:
                provenance = Provenance(snapshot.source, snapshot.retrieved, snapshot.checksum)
                kept[name] = (is_of, load_snapshot(connection, name, snapshot.id, provenance))
        data: dict[str, Any] = {name: kept[name][1].with_source(stored[name].source) for name in stored}
    reference = ReferenceData(**data, imits_names=imits_names or {})
    return ActiveReference(reference, {name: snapshot.id for name, snapshot in stored.items()}, stored)


def save(connection: Connection, snapshot: Snapshot) -> int:
    """Make a snapshot the active one of its set, in the caller's write transaction; returns its id.

    If the active one has the same content, it stays, and the new time and source are recorded. Raises
    ReferenceDataError for a text that is too long for the database, or has characters that it cannot hold.
    """
    _fits(snapshot, SNAPSHOT.c.source, snapshot.source)
    active = active_snapshots(connection).get(snapshot.name)
    if active is not None and active.checksum == snapshot.checksum:
        seen = max(active.checked, snapshot.retrieved)
        connection.execute(
            update(SNAPSHOT).where(SNAPSHOT.c.id == active.id).values(checked=seen, source=snapshot.source)
        )
        return active.id
    connection.execute(update(SNAPSHOT).where(SNAPSHOT.c.name == snapshot.name).values(is_active=False))
    row = {
        "name": snapshot.name,
        "retrieved": snapshot.retrieved,
        "checked": snapshot.retrieved,
        "source": snapshot.source,
        "checksum": snapshot.checksum,
        "row_count": snapshot.rows,
        "is_active": True,
    }
    (snapshot_id,) = insert_rows(connection, SNAPSHOT, [row])
    for table, rows in rows_of(snapshot_id, snapshot).items():
        for place, column in enumerate(table.columns):
            for one in rows:
                _fits(snapshot, column, one[place])
        if rows:
            insert_bulk(connection, table, [column.name for column in table.columns], rows)
    _remove_old_ones(connection, snapshot.name)
    return snapshot_id


def _remove_old_ones(connection: Connection, name: str) -> None:
    columns = SNAPSHOT.c
    query = select(columns.id).where(columns.name == name, columns.is_active.is_(False)).order_by(columns.id.desc())
    old = connection.scalars(query).all()[_OLD_ONES_KEPT:]
    named = set(
        connection.scalars(select(FINDING.c.snapshot_id).where(FINDING.c.snapshot_id.in_(old)).distinct()).all()
    )
    gone = [snapshot_id for snapshot_id in old if snapshot_id not in named]
    if gone:
        connection.execute(delete(SNAPSHOT).where(columns.id.in_(gone)))


def _fits(snapshot: Snapshot, column: Any, value: Value) -> None:
    """Raise ReferenceDataError for a value that the column cannot hold; SQLite would accept it, others not."""
    if isinstance(value, str):
        limit = column.type.length if isinstance(column.type, String) else None
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise _unfit(snapshot, column, value, "has characters that are no text") from error
        if limit is not None and len(value) > limit:
            raise _unfit(snapshot, column, value, f"has {len(value):,} characters, of which {limit:,} fit")
        if limit is None and size > MESSAGE_BYTES:
            raise _unfit(snapshot, column, value, f"has {size:,} bytes, of which {MESSAGE_BYTES:,} fit")
    elif isinstance(value, int) and value.bit_length() > _INTEGER_BITS and column.name == "minimum":
        raise _unfit(snapshot, column, str(value), "is too large")


def _unfit(snapshot: Snapshot, column: Any, value: str, how: str) -> ReferenceDataError:
    return ReferenceDataError(
        f"{snapshot.source}: {column.name.replace('_', ' ')} {value[:60]!r} {how}. Correct it at the source and load "
        f"the {snapshot.name} again; what was loaded before stays in use."
    )
