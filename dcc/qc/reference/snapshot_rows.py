"""Reference data as rows of the QC database, and back, exactly: IMPReSS and the lookup tables.

Procedures and parameters are shared by many pipelines and written once; one that differs from another of the same key
is another variant of it, counted from 1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import date
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import Connection, Row, Table, select

from dcc.qc.models import (
    COLONY,
    INCREMENT,
    KNOWN_STATUS_CODE,
    ONTOLOGY_OPTION,
    OPTION,
    PARAMETER,
    PIPELINE,
    PROCEDURE,
    PROJECT,
    STRAIN,
)
from dcc.qc.rows.types import Row as NewRow
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
)
from dcc.reference.snapshots import Colonies, Colony, Projects, Provenance, Snapshot, StatusCodes, Strains

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
        given[column.name] if column.name in given else _stored(getattr(thing, column.name), column.nullable)
        for column in table.columns
    )


def _stored(value: Any, may_be_missing: bool | None) -> Any:
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
        variant, is_new = _number(choices[each.key], (each.options, each.increments, each.ontology_terms))
        of_procedure = {"procedure_id": procedure_key, "procedure_variant": procedure_variant}
        key = {"parameter_id": each.key, "variant": variant}
        add(PARAMETER, each, **key, **of_procedure)
        if is_new:
            for place, option in enumerate(each.options, start=1):
                add(OPTION, option, **key, position=place)
            for place, increment in enumerate(each.increments, start=1):
                add(INCREMENT, increment, **key, position=place, value=increment.text)
            for place, term in enumerate(each.ontology_terms, start=1):
                add(ONTOLOGY_OPTION, term, **key, position=place, ontology_id=term)

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
    terms = parts(ONTOLOGY_OPTION, lambda row: str(row.ontology_id))
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
            ontology_terms=terms.get(variant, ()),
        )
    return found


def _rows(connection: Connection, table: Table, snapshot_id: int) -> Iterator[Row[Any]]:
    query = select(table).where(table.c.snapshot_id == snapshot_id).order_by(*table.primary_key.columns)
    yield from connection.execute(query)
