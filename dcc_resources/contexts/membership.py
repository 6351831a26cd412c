"""Under which genotype and strain the measurements of procedure runs count, and what they come to.

An experiment counts once in each distinct genotype and strain that its specimens have; a line in that of its colony; a
housing, which has none, in the unknown one. What is not current, or not valid, counts in none. The strain is that of
the specimen, else that which reference data tell of the colony.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, case, delete, func, literal, select, union_all

from dcc_resources.contexts.touched import same_length
from dcc_resources.qc_database.bulk import insert_bulk
from dcc_resources.qc_database.models import (
    ContextMember,
    Experiment,
    ExperimentSpecimen,
    Housing,
    KnownColony,
    Line,
    Measurement,
    ProcedureRun,
    Specimen,
)
from dcc_resources.qc_database.vocabulary import EntityKind

BASELINE: Final = "baseline"
"""The genotype of baseline animals."""
UNKNOWN: Final = ""
"""A genotype or strain that is not known."""

_MEMBER: Final = ContextMember.__table__
_RUN: Final = ProcedureRun.__table__
_SPECIMEN: Final = Specimen.__table__
_NAMED: Final = ExperimentSpecimen.__table__
_COLONY: Final = KnownColony.__table__


class Member(NamedTuple):
    """A procedure run counted under a genotype and strain."""

    procedure_run_id: int
    genotype: str
    strain_id: str


class ContextKey(NamedTuple):
    """What names a data context."""

    centre: str
    pipeline: str
    genotype: str
    strain_id: str
    procedure_id: str
    parameter_id: str


class Share(NamedTuple):
    """What a document contributes to a context: how many measurements, and the sum of their fingerprints."""

    document_id: int
    key: ContextKey
    measurements: int
    fingerprints: int


def genotype_of(specimen: Any) -> ColumnElement[str]:
    """The genotype of a row of `specimen`, or of an alias."""
    return case((specimen.c.is_baseline, BASELINE), else_=_known(specimen.c.colony_id))


def strain_of(specimen: Any, colony: Any) -> ColumnElement[str]:
    """The strain of a row of `specimen` with what is known of its colony."""
    return func.coalesce(func.nullif(func.rtrim(specimen.c.strain_id), UNKNOWN), _known(colony.c.strain_id))


def of_snapshot(colony: Any, colony_id: ColumnElement[Any], colonies: int) -> ColumnElement[bool]:
    """The condition of a join with what the snapshot `colonies` knows of a colony, by its first production."""
    return and_(colony.c.snapshot_id == colonies, colony.c.colony_id == colony_id, colony.c.position == 1)


def _known(column: ColumnElement[Any]) -> ColumnElement[str]:
    return func.coalesce(func.rtrim(column), UNKNOWN)


def with_specimens(runs: Select[Any], experiment: Any, colonies: int) -> Select[Any]:
    """A query of runs and their experiments, with the current version of each specimen and what its colony carries."""
    there = and_(
        _SPECIMEN.c.centre == experiment.c.centre,
        _SPECIMEN.c.specimen_id == _NAMED.c.specimen_id,
        same_length(_SPECIMEN, _NAMED),
        _SPECIMEN.c.is_current,
    )
    named = runs.outerjoin(_NAMED, _NAMED.c.experiment_row == experiment.c.id).outerjoin(_SPECIMEN, there)
    return named.outerjoin(_COLONY, of_snapshot(_COLONY, _SPECIMEN.c.colony_id, colonies))


def present_members(connection: Connection, run_ids: Sequence[int], colonies: int) -> set[Member]:
    """What these runs are to be counted under; a few ids at once."""
    experiment, line, housing = Experiment.__table__, Line.__table__, Housing.__table__
    genotype, strain = genotype_of(_SPECIMEN).label("genotype"), strain_of(_SPECIMEN, _COLONY).label("strain_id")
    experiments = _counted(select(_RUN.c.id, genotype, strain), EntityKind.EXPERIMENT, experiment, run_ids)
    lines = _counted(
        select(_RUN.c.id, func.rtrim(line.c.colony_id), _known(_COLONY.c.strain_id)), EntityKind.LINE, line, run_ids
    )
    housings = _counted(select(_RUN.c.id, literal(UNKNOWN), literal(UNKNOWN)), EntityKind.HOUSING, housing, run_ids)
    statement = union_all(
        with_specimens(experiments, experiment, colonies).distinct(),
        lines.outerjoin(_COLONY, of_snapshot(_COLONY, line.c.colony_id, colonies)),
        housings,
    )
    return {Member(*row) for row in connection.execute(statement)}


def _counted(query: Select[Any], kind: EntityKind, owner: Any, run_ids: Sequence[int]) -> Select[Any]:
    owned = and_(_RUN.c.owner_kind == kind.value, _RUN.c.owner_id == owner.c.id)
    return (
        query.select_from(_RUN).join(owner, owned).where(_RUN.c.id.in_(run_ids), owner.c.is_current, owner.c.is_valid)
    )


def recorded_members(connection: Connection, run_ids: Sequence[int]) -> set[Member]:
    """What these runs are counted under by the contexts; a few ids at once."""
    return {Member(*row) for row in connection.execute(select(_MEMBER).where(_MEMBER.c.procedure_run_id.in_(run_ids)))}


def replace_members(connection: Connection, run_ids: Sequence[int], members: Collection[Member]) -> None:
    """Have runs counted under these genotypes and strains alone; a few ids at once."""
    connection.execute(delete(_MEMBER).where(_MEMBER.c.procedure_run_id.in_(run_ids)))
    if members:
        insert_bulk(connection, _MEMBER, sorted(members))


def shares(connection: Connection, run_ids: Sequence[int]) -> Iterator[Share]:
    """What runs contribute to contexts as they are counted, summed up by document and context; a few ids at once."""
    return _shares(connection, _MEMBER.c.procedure_run_id.in_(run_ids))


def shares_of_procedure(connection: Connection, centre: str, procedure_id: str) -> Iterator[Share]:
    """As `shares`, of all runs of a procedure at a centre."""
    measurement = Measurement.__table__.c
    # The range is for the index: names with blanks behind them are the same.
    of_centre = measurement.centre.between(centre, f"{centre}!") & (func.rtrim(measurement.centre) == centre)
    return _shares(connection, of_centre & (func.rtrim(measurement.procedure_id) == procedure_id))


def _shares(connection: Connection, condition: ColumnElement[bool]) -> Iterator[Share]:
    measurement = Measurement.__table__.c
    columns = (
        measurement.document_id,
        func.rtrim(measurement.centre),
        func.rtrim(measurement.pipeline),
        _MEMBER.c.genotype,
        _MEMBER.c.strain_id,
        func.rtrim(measurement.procedure_id),
        func.rtrim(measurement.parameter_id),
    )
    statement = (
        select(*columns, func.count(), func.sum(measurement.fingerprint))
        .select_from(_MEMBER)
        .join(Measurement.__table__, measurement.procedure_run_id == _MEMBER.c.procedure_run_id)
        .where(condition)
        .group_by(*columns)
    )
    for document_id, *key, measurements, fingerprints in connection.execute(statement):
        yield Share(document_id, ContextKey(*key), measurements, int(fingerprints))
