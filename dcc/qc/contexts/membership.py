"""The genotype and strain under which procedure runs are counted, and the sums of their measurements.

An experiment counts once in each distinct genotype and strain of its specimens; a line in that of its colony; a
housing, which has none, in the unknown one. Versions that are not current, or not valid, do not count. The strain is
that of the specimen, else that of its colony in the reference data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal,
    select,
    union,
    union_all,
)

from dcc.databases.list_parameters import as_json, numbers_in, only_compared, sorted_chunks
from dcc.qc.apply.versions import same_animal
from dcc.qc.models import COLONY, CONTEXT, ENTITY_TABLES, EXPERIMENT, LINE, MEASUREMENT, MEMBER, NAMED, RUN, SPECIMEN
from dcc.qc.rows.bulk import insert_bulk
from dcc.vocabulary import EntityKind, Validity

BASELINE: Final = "baseline"
"""The genotype of baseline animals."""
UNKNOWN: Final = ""
"""An unknown genotype or strain."""


class Member(NamedTuple):
    """A procedure run counted under a genotype and strain."""

    procedure_run_id: int
    genotype: str
    strain_id: str


class ContextKey(NamedTuple):
    """The key of a data context."""

    centre: str
    pipeline: str
    genotype: str
    strain_id: str
    procedure_id: str
    parameter_id: str


class RunContexts(NamedTuple):
    """Where the measurements of a run are counted: their document, and the contexts of which parameters."""

    document_id: int
    centre: str
    pipeline: str
    procedure_id: str
    genotype: str
    strain_id: str

    def context(self, parameter_id: str) -> ContextKey:
        """The key of a parameter's context."""
        return ContextKey(self.centre, self.pipeline, self.genotype, self.strain_id, self.procedure_id, parameter_id)


Places = Mapping[RunContexts, Set[int]]
"""Procedure runs by where their measurements are counted."""


class Share(NamedTuple):
    """A document's share of a context: the number of measurements, and the sum of their fingerprints."""

    document_id: int
    key: ContextKey
    measurements: int
    fingerprints: int


def genotype_of(specimen: Any) -> ColumnElement[str]:
    """The genotype of a row of `specimen`, or of an alias."""
    return case((specimen.c.is_baseline, BASELINE), else_=or_unknown(specimen.c.colony_id))


def own_strain(specimen: Any) -> ColumnElement[str | None]:
    """The strain that a specimen itself names; null if it is missing or blank."""
    return func.nullif(func.rtrim(specimen.c.strain_id), "")


def strain_of(specimen: Any) -> ColumnElement[str]:
    """The strain of a row of `specimen` joined with its colony."""
    return func.coalesce(own_strain(specimen), or_unknown(COLONY.c.strain_id))


def of_snapshot(colony_id: ColumnElement[Any], colonies: int | ColumnElement[Any]) -> ColumnElement[bool]:
    """The condition of a join with a colony in the snapshot `colonies`, by its first production."""
    return and_(COLONY.c.snapshot_id == colonies, COLONY.c.colony_id == colony_id, COLONY.c.position == 1)


def or_unknown(column: ColumnElement[Any]) -> ColumnElement[str]:
    """A text without trailing blanks; `UNKNOWN` for null."""
    return func.coalesce(func.rtrim(column), UNKNOWN)


def with_specimens(runs: Select[Any], colonies: int | ColumnElement[Any]) -> Select[Any]:
    """A query of runs and their experiments, with the current version of each specimen and its colony's data."""
    on_animal = same_animal(EXPERIMENT) & SPECIMEN.c.is_current
    named = runs.outerjoin(NAMED, NAMED.c.experiment_row == EXPERIMENT.c.id).outerjoin(SPECIMEN, on_animal)
    return named.outerjoin(COLONY, of_snapshot(SPECIMEN.c.colony_id, colonies))


def present_members(connection: Connection, run_ids: Collection[int], colonies: int) -> set[Member]:
    """The keys under which these runs must be counted; at most `AT_ONCE` ids."""
    return members_of(present_places(connection, run_ids, colonies))


def present_places(connection: Connection, run_ids: Collection[int], colonies: int) -> Places:
    """Where the measurements of these runs must be counted; at most `AT_ONCE` ids."""
    found: dict[RunContexts, set[int]] = {}
    for run_id, *values in connection.execute(_PRESENT, {"runs": as_json(run_ids), "colonies": colonies}):
        found.setdefault(RunContexts._make(_without_blanks(values)), set()).add(run_id)
    return found


def members_of(places: Places) -> set[Member]:
    """The keys of the runs in these places."""
    return {Member(run_id, place.genotype, place.strain_id) for place, runs in places.items() for run_id in runs}


def recorded_members(connection: Connection, run_ids: Collection[int]) -> set[Member]:
    """The keys under which contexts count these runs; a few thousand ids at once."""
    if not run_ids:
        return set()
    return {Member(*row) for row in connection.execute(_RECORDED, {"runs": as_json(run_ids)}).all()}


def recorded_places(connection: Connection, members: Iterable[Member]) -> Places:
    """Where the measurements of counted runs are counted; a few thousand at once."""
    of_runs: dict[int, list[Member]] = {}
    for member in members:
        of_runs.setdefault(member.procedure_run_id, []).append(member)
    found: dict[RunContexts, set[int]] = {}
    if of_runs:
        for run_id, *described in connection.execute(_DESCRIBED, {"runs": as_json(of_runs)}):
            for member in of_runs[run_id]:
                place = RunContexts._make((*_without_blanks(described), member.genotype, member.strain_id))
                found.setdefault(place, set()).add(run_id)
    return found


def _without_blanks(values: Sequence[Any]) -> list[Any]:
    """The id of a document, and the texts after it without trailing blanks."""
    return [values[0], *(text.rstrip(" ") for text in values[1:])]


def correct_members(
    connection: Connection, run_ids: Collection[int], present: Set[Member]
) -> tuple[set[Member], set[Member]]:
    """Count runs under their `present` keys only; returns the former and the present keys of runs that changed."""
    recorded = recorded_members(connection, run_ids)
    changed = {member.procedure_run_id for member in recorded ^ present}
    before = {member for member in recorded if member.procedure_run_id in changed}
    now = {member for member in present if member.procedure_run_id in changed}
    for chunk in sorted_chunks({member.procedure_run_id for member in before}):
        connection.execute(_FORGET, {"runs": chunk})
    if now:
        insert_bulk(connection, MEMBER, Member._fields, sorted(now))
    return before, now


def measured_procedures(connection: Connection) -> list[tuple[str, str]]:
    """The centres and procedures with measurements or contexts, in their order."""
    measured = select(func.rtrim(MEASUREMENT.c.centre), func.rtrim(MEASUREMENT.c.procedure_id))
    found = connection.execute(union(measured, select(CONTEXT.c.centre, CONTEXT.c.procedure_id)))
    return sorted({(row[0], row[1]) for row in found})


def shares_of_procedure(connection: Connection, centre: str, procedure_id: str) -> Iterator[Share]:
    """The shares of the runs of a procedure at a centre as they are counted, by document and context."""
    measurement = MEASUREMENT.c
    # The range is for the index: names with trailing blanks are the same.
    of_centre = measurement.centre.between(centre, f"{centre}!") & (func.rtrim(measurement.centre) == centre)
    columns = (
        measurement.document_id,
        func.rtrim(measurement.centre),
        func.rtrim(measurement.pipeline),
        MEMBER.c.genotype,
        MEMBER.c.strain_id,
        func.rtrim(measurement.procedure_id),
        func.rtrim(measurement.parameter_id),
    )
    statement = (
        select(*columns, func.count(), func.sum(measurement.fingerprint))
        .select_from(MEMBER)
        .join(MEASUREMENT, measurement.procedure_run_id == MEMBER.c.procedure_run_id)
        .where(of_centre & (func.rtrim(measurement.procedure_id) == procedure_id))
        .group_by(*columns)
    )
    for document_id, *key, measurements, fingerprints in connection.execute(statement):
        yield Share(document_id, ContextKey(*key), measurements, int(fingerprints))


def counted_runs(kind: EntityKind, *columns: ColumnElement[Any]) -> Select[Any]:
    """A query of the runs `runs` whose owner of a kind is current and valid."""
    owner = ENTITY_TABLES[kind]
    owned = and_(only_compared(RUN.c.owner_kind) == kind.value, RUN.c.owner_id == owner.c.id)
    counted = select(*columns).select_from(RUN).join(owner, owned)
    return counted.where(RUN.c.id.in_(numbers_in("runs")), owner.c.is_current, owner.c.validity == Validity.VALID)


def _present() -> CompoundSelect[Any]:
    def counted(kind: EntityKind, genotype: ColumnElement[str], strain: ColumnElement[str]) -> Select[Any]:
        owner = ENTITY_TABLES[kind].c
        place = (RUN.c.document_id, owner.centre, owner.pipeline, RUN.c.procedure_id)
        return counted_runs(kind, RUN.c.id, *place, genotype.label("genotype"), strain.label("strain_id"))

    colonies: ColumnElement[Any] = bindparam("colonies")
    lines = counted(EntityKind.LINE, func.rtrim(LINE.c.colony_id), or_unknown(COLONY.c.strain_id))
    experiments = counted(EntityKind.EXPERIMENT, genotype_of(SPECIMEN), strain_of(SPECIMEN))
    return union_all(
        with_specimens(experiments, colonies),
        lines.outerjoin(COLONY, of_snapshot(LINE.c.colony_id, colonies)),
        counted(EntityKind.HOUSING, literal(UNKNOWN), literal(UNKNOWN)),
    )


_PRESENT: Final = _present()
# Joined, because MariaDB reads all members for a list of numbers.
_GIVEN: Final = numbers_in("runs").subquery()
_RECORDED: Final = select(MEMBER).select_from(_GIVEN).join(MEMBER, MEMBER.c.procedure_run_id == _GIVEN.c.value)
_FORGET: Final = delete(MEMBER).where(MEMBER.c.procedure_run_id.in_(bindparam("runs", expanding=True)))
_DESCRIBED: Final = (
    select(*(MEASUREMENT.c[name] for name in ("procedure_run_id", "document_id", "centre", "pipeline", "procedure_id")))
    .where(MEASUREMENT.c.procedure_run_id.in_(numbers_in("runs")))
    .distinct()
)
