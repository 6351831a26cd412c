"""Reference data as rows of the QC database, and back, exactly: IMPReSS and the lookup tables.

Procedures and parameters are shared by many pipelines and written once; one that differs from another of the same key
is another variant of it, counted from 1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

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
from dcc.qc.rows.bulk import Row as NewRow
from dcc.reference.impress import (
    Due,
    Impress,
    Increment,
    Option,
    Parameter,
    ParameterType,
    Pipeline,
    Procedure,
    required_of,
)
from dcc.reference.snapshots import Colonies, Colony, Projects, Provenance, StatusCodes, Strains

Thing = TypeVar("Thing")
Part = TypeVar("Part")
_Variant = tuple[str, int]


def impress_rows(snapshot_id: int, impress: Impress) -> dict[Table, list[NewRow]]:
    """The rows of a snapshot by table, with all columns in their order."""
    writing = _Writing(snapshot_id)
    for pipeline in impress.pipelines.values():
        writing.pipeline(pipeline)
    return writing.rows


def load_impress(connection: Connection, snapshot_id: int, provenance: Provenance) -> Impress:
    """The snapshot with an id, from its rows."""
    procedures = _load_procedures(connection, snapshot_id)
    pipelines = {
        row.pipeline: Pipeline(row.pipeline, {}, row.name or "") for row in _rows(connection, PIPELINE, snapshot_id)
    }
    members: dict[str, dict[str, Procedure]] = {key: {} for key in pipelines}
    due: dict[str, dict[str, Due]] = {key: {} for key in pipelines}
    # The rows of one variant are equal except for the pipeline, so that pipelines share them.
    shared: dict[_Variant, Procedure] = {}
    for row in _rows(connection, PROCEDURE, snapshot_id):
        variant = (row.procedure_id, row.variant)
        if variant not in shared:
            parameters = procedures.get(variant, {})
            shared[variant] = Procedure(
                row.procedure_id,
                row.is_active,
                parameters,
                required_of(parameters),
                row.name or "",
                bool(row.is_mandatory),
                row.level or "",
            )
        members[row.pipeline][row.procedure_id] = shared[variant]
        if (asked := Due(row.weeks, row.stage or "")) != Due():
            due[row.pipeline][row.procedure_id] = asked
    made = {key: Pipeline(key, members[key], pipeline.name, due[key]) for key, pipeline in pipelines.items()}
    return Impress(provenance, made)


@dataclass
class _Variants(Generic[Thing]):
    """The variants under each key so far; `number` returns that of one and whether it is new."""

    found: defaultdict[str, list[Thing]] = field(default_factory=lambda: defaultdict(list))

    def number(self, key: str, thing: Thing) -> tuple[int, bool]:
        variants = self.found[key]
        for place, known in enumerate(variants, start=1):
            if known is thing or known == thing:
                return place, False
        variants.append(thing)
        return len(variants), True


@dataclass
class _Writing:
    snapshot_id: int
    rows: dict[Table, list[NewRow]] = field(default_factory=lambda: defaultdict(list))
    procedures: _Variants[Procedure] = field(default_factory=_Variants)
    choices: _Variants[Hashable] = field(default_factory=_Variants)

    def pipeline(self, pipeline: Pipeline) -> None:
        self.rows[PIPELINE].append((self.snapshot_id, pipeline.key, pipeline.name or None))
        for procedure in pipeline.procedures.values():
            variant, is_new = self.procedures.number(procedure.key, procedure)
            due = pipeline.due.get(procedure.key, Due())
            self.rows[PROCEDURE].append(
                (
                    self.snapshot_id,
                    pipeline.key,
                    procedure.key,
                    variant,
                    procedure.name or None,
                    int(procedure.is_active),
                    int(procedure.is_mandatory),
                    procedure.level or None,
                    due.weeks,
                    due.stage or None,
                )
            )
            if is_new:
                for parameter in procedure.parameters.values():
                    self.parameter(procedure.key, variant, parameter)

    def parameter(self, procedure_id: str, procedure_variant: int, parameter: Parameter) -> None:
        choices = (parameter.options, parameter.increments, parameter.ontology_terms)
        variant, is_new = self.choices.number(parameter.key, choices)
        self.rows[PARAMETER].append(
            (
                self.snapshot_id,
                procedure_id,
                procedure_variant,
                parameter.key,
                variant,
                parameter.name or None,
                parameter.type.value,
                parameter.value_type or None,
                parameter.unit or None,
                int(parameter.is_required),
                int(parameter.is_important),
                int(parameter.is_active),
                parameter.qc_minimum,
                parameter.qc_maximum,
            )
        )
        if is_new:
            self.options(parameter, (self.snapshot_id, parameter.key, variant))

    def options(self, parameter: Parameter, key: tuple[int, str, int]) -> None:
        self.rows[OPTION] += [
            (*key, place, option.name, int(option.is_active)) for place, option in enumerate(parameter.options, start=1)
        ]
        self.rows[INCREMENT] += [
            (*key, place, each.text, each.kind or None, each.unit or None, each.minimum, int(each.is_active))
            for place, each in enumerate(parameter.increments, start=1)
        ]
        self.rows[ONTOLOGY_OPTION] += [
            (*key, place, term) for place, term in enumerate(parameter.ontology_terms, start=1)
        ]


def _load_procedures(connection: Connection, snapshot_id: int) -> dict[_Variant, dict[str, Parameter]]:
    options = _load_parts(connection, OPTION, snapshot_id, lambda row: Option(row.name, row.is_active))
    increments = _load_parts(
        connection,
        INCREMENT,
        snapshot_id,
        lambda row: Increment(row.value, row.kind or "", row.unit or "", row.minimum, row.is_active),
    )
    terms = _load_parts(connection, ONTOLOGY_OPTION, snapshot_id, lambda row: str(row.ontology_id))
    found: dict[_Variant, dict[str, Parameter]] = {}
    for row in _rows(connection, PARAMETER, snapshot_id):
        variant = (row.parameter_id, row.variant)
        found.setdefault((row.procedure_id, row.procedure_variant), {})[row.parameter_id] = Parameter(
            key=row.parameter_id,
            type=ParameterType(row.type),
            value_type=row.value_type or "",
            unit=row.unit or "",
            is_required=row.is_required,
            is_active=row.is_active,
            options=options.get(variant, ()),
            increments=increments.get(variant, ()),
            ontology_terms=terms.get(variant, ()),
            qc_minimum=row.qc_minimum,
            qc_maximum=row.qc_maximum,
            name=row.name or "",
            is_important=row.is_important,
        )
    return found


def _load_parts(
    connection: Connection, table: Table, snapshot_id: int, build: Callable[[Row[tuple[object, ...]]], Part]
) -> dict[_Variant, tuple[Part, ...]]:
    parts: dict[_Variant, list[Part]] = {}
    for row in _rows(connection, table, snapshot_id):
        parts.setdefault((row.parameter_id, row.variant), []).append(build(row))
    return {variant: tuple(found) for variant, found in parts.items()}


def _rows(connection: Connection, table: Table, snapshot_id: int) -> Iterator[Row[tuple[object, ...]]]:
    query = select(table).where(table.c.snapshot_id == snapshot_id).order_by(*table.primary_key.columns)
    yield from connection.execute(query)


def status_code_rows(snapshot_id: int, codes: StatusCodes) -> dict[Table, list[NewRow]]:
    """The rows of a snapshot, with all columns in their order; likewise the others."""
    return {KNOWN_STATUS_CODE: [(snapshot_id, code, meaning) for code, meaning in codes.meanings.items()]}


def load_status_codes(connection: Connection, snapshot_id: int, provenance: Provenance) -> StatusCodes:
    """The snapshot with an id, from its rows; likewise the others."""
    query = select(KNOWN_STATUS_CODE.c.code, KNOWN_STATUS_CODE.c.description).where(
        KNOWN_STATUS_CODE.c.snapshot_id == snapshot_id
    )
    return StatusCodes(provenance, {row.code: row.description for row in connection.execute(query)})


def project_rows(snapshot_id: int, projects: Projects) -> dict[Table, list[NewRow]]:
    """See `status_code_rows`."""
    return {PROJECT: [(snapshot_id, name) for name in sorted(projects.names)]}


def load_projects(connection: Connection, snapshot_id: int, provenance: Provenance) -> Projects:
    """See `load_status_codes`."""
    query = select(PROJECT.c.name).where(PROJECT.c.snapshot_id == snapshot_id)
    return Projects(provenance, frozenset(connection.scalars(query)))


def colony_rows(snapshot_id: int, colonies: Colonies) -> dict[Table, list[NewRow]]:
    """See `status_code_rows`."""
    rows: list[NewRow] = [
        (
            snapshot_id,
            colony_id,
            place,
            colony.production_centre,
            colony.status,
            None if colony.created is None else colony.created.isoformat(),
            colony.strain_id,
            colony.gene_id,
            colony.gene_symbol,
            colony.allele_id,
            colony.allele_symbol,
        )
        for colony_id, productions in colonies.productions.items()
        for place, colony in enumerate(productions, start=1)
    ]
    return {COLONY: rows}


def load_colonies(connection: Connection, snapshot_id: int, provenance: Provenance) -> Colonies:
    """See `load_status_codes`."""
    productions: dict[str, list[Colony]] = {}
    columns = [column for column in COLONY.c if column.name not in ("snapshot_id", "position")]
    query = select(*columns).where(COLONY.c.snapshot_id == snapshot_id).order_by(COLONY.c.colony_id, COLONY.c.position)
    for row in connection.execute(query):
        productions.setdefault(row.colony_id, []).append(Colony(**row._mapping))
    return Colonies(provenance, {colony_id: tuple(found) for colony_id, found in productions.items()})


def strain_rows(snapshot_id: int, strains: Strains) -> dict[Table, list[NewRow]]:
    """See `status_code_rows`."""
    return {STRAIN: [(snapshot_id, strain_id, name) for strain_id, name in strains.names.items()]}


def load_strains(connection: Connection, snapshot_id: int, provenance: Provenance) -> Strains:
    """See `load_status_codes`."""
    query = select(STRAIN.c.strain_id, STRAIN.c.name).where(STRAIN.c.snapshot_id == snapshot_id)
    return Strains(provenance, {row.strain_id: row.name for row in connection.execute(query)})
