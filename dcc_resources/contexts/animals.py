"""The overview of procedure runs with the animals that they were done on (reference databases, phenodcc_overviews)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, and_, delete, func, literal, null, select, union_all

from dcc_resources.contexts.basis import COLONIES, Basis
from dcc_resources.contexts.membership import genotype_of, of_snapshot, strain_of, with_specimens
from dcc_resources.contexts.metadata_groups import ImportantMetadata, groups_of, keep_groups, remove_unused_groups
from dcc_resources.qc_database.bulk import insert_bulk
from dcc_resources.qc_database.models import (
    Experiment,
    ExperimentSpecimen,
    KnownColony,
    Line,
    Measurement,
    OverviewAnimalProcedure,
    ProcedureRun,
    Specimen,
)
from dcc_resources.qc_database.versions import in_chunks
from dcc_resources.qc_database.vocabulary import EntityKind

_ANIMAL: Final = OverviewAnimalProcedure.__table__
_RUN: Final = ProcedureRun.__table__
_SPECIMEN: Final = Specimen.__table__
_NAMED: Final = ExperimentSpecimen.__table__
_COLONY: Final = KnownColony.__table__


def renew_animals(
    connection: Connection, run_ids: Sequence[int], basis: Basis, important: ImportantMetadata
) -> set[str]:
    """Have the overview show these runs as they are at present; the centres that it concerns."""
    centres: set[str] = set()
    left: set[str] = set()
    for chunk in in_chunks(run_ids):
        of_chunk = _ANIMAL.c.procedure_run_id.in_(chunk)
        shown = connection.execute(select(_ANIMAL.c.centre, _ANIMAL.c.metadata_group).distinct().where(of_chunk)).all()
        connection.execute(delete(_ANIMAL).where(of_chunk))
        rows = connection.execute(_present(chunk, basis[COLONIES])).all()
        groups = groups_of(connection, important, rows)
        keep_groups(connection, groups)
        measured = _measured(connection, chunk)
        if rows:
            insert_bulk(
                connection,
                _ANIMAL,
                [_values(row, measured, group.checksum) for row, group in zip(rows, groups, strict=True)],
            )
        centres |= {row.centre for row in (*shown, *rows)}
        left |= {row.metadata_group for row in shown}
    remove_unused_groups(connection, left)
    return centres


def _present(run_ids: Sequence[int], colonies: int) -> Select[Any] | Any:
    experiment, line = Experiment.__table__, Line.__table__
    animals = select(
        _RUN.c.id.label("procedure_run_id"),
        func.coalesce(_NAMED.c.position, 0).label("position"),
        experiment.c.centre,
        experiment.c.pipeline,
        experiment.c.project,
        _RUN.c.procedure_id,
        _NAMED.c.specimen_id,
        genotype_of(_SPECIMEN).label("genotype"),
        strain_of(_SPECIMEN, _COLONY).label("strain_id"),
        _SPECIMEN.c.is_baseline,
        _SPECIMEN.c.gender,
        _SPECIMEN.c.zygosity,
        experiment.c.date,
        _SPECIMEN.c.production_centre,
        _SPECIMEN.c.phenotyping_centre,
    ).select_from(_RUN)
    of_experiment = and_(_RUN.c.owner_kind == EntityKind.EXPERIMENT.value, _RUN.c.owner_id == experiment.c.id)
    animals = animals.join(experiment, of_experiment)
    animals = animals.where(_RUN.c.id.in_(run_ids), experiment.c.is_current, experiment.c.is_valid)
    nothing = [null() for _ in range(6)]
    colonies_of_lines = select(
        _RUN.c.id,
        literal(0),
        line.c.centre,
        line.c.pipeline,
        line.c.project,
        _RUN.c.procedure_id,
        null(),
        func.rtrim(line.c.colony_id),
        func.coalesce(func.rtrim(_COLONY.c.strain_id), ""),
        *nothing,
    ).select_from(_RUN)
    of_line = and_(_RUN.c.owner_kind == EntityKind.LINE.value, _RUN.c.owner_id == line.c.id)
    colonies_of_lines = colonies_of_lines.join(line, of_line)
    colonies_of_lines = colonies_of_lines.outerjoin(_COLONY, of_snapshot(_COLONY, line.c.colony_id, colonies))
    colonies_of_lines = colonies_of_lines.where(_RUN.c.id.in_(run_ids), line.c.is_current, line.c.is_valid)
    return union_all(with_specimens(animals, experiment, colonies), colonies_of_lines)


def _measured(connection: Connection, run_ids: Sequence[int]) -> Mapping[int, int]:
    measurement = Measurement.__table__.c
    statement = select(measurement.procedure_run_id, func.count()).group_by(measurement.procedure_run_id)
    return dict(connection.execute(statement.where(measurement.procedure_run_id.in_(run_ids))).all())


def _values(row: Row[Any], measured: Mapping[int, int], checksum: str) -> tuple[Any, ...]:
    """The row of the overview, with all its columns in their order."""
    day = None if row.date is None else row.date.isoformat()
    is_baseline = None if row.is_baseline is None else int(row.is_baseline)
    # Of signed and unsigned numbers together, MariaDB makes a decimal one.
    shown = (row.procedure_run_id, int(row.position), *row[2:9], is_baseline, row.gender, row.zygosity, day)
    return (*shown, measured.get(row.procedure_run_id, 0), checksum)
