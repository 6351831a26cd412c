"""The overview of procedure runs with their animals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Integer,
    String,
    and_,
    bindparam,
    delete,
    func,
    literal,
    null,
    select,
    type_coerce,
    union_all,
)

from dcc.databases.list_parameters import as_json, numbers_in, only_compared, sorted_chunks
from dcc.qc.contexts.membership import genotype_of, of_snapshot, strain_of, with_specimens
from dcc.qc.contexts.metadata_groups import (
    Group,
    ImportantMetadata,
    groups_of,
    save_groups,
)
from dcc.qc.contexts.reference_basis import COLONIES, Basis
from dcc.qc.models import COLONY, EXPERIMENT, LINE, MEASUREMENT, NAMED, OVERVIEW_ANIMAL, RUN, SPECIMEN
from dcc.qc.rows.bulk import insert_bulk
from dcc.vocabulary import EntityKind, Validity


def renew_animals(
    connection: Connection, run_ids: Iterable[int], basis: Basis, important: ImportantMetadata
) -> set[str]:
    """Update these runs in the overview; returns their centres."""
    centres: set[str] = set()
    # New runs have higher ids than all shown ones, and need no query.
    newest = connection.scalar(_NEWEST) or 0
    for portion in sorted_chunks(run_ids):
        rows, groups = _look_at(connection, portion, basis[COLONIES], important)
        older = [run_id for run_id in portion if run_id <= newest]
        shown = connection.execute(_SHOWN, {"runs": as_json(older)}).all() if older else ()
        for chunk in sorted_chunks(older if shown else ()):
            connection.execute(_FORGET, {"runs": chunk})
        save_groups(connection, groups)
        if rows:
            insert_bulk(connection, OVERVIEW_ANIMAL, rows)
        centres |= {row[0] for row in shown} | {row[_CENTRE] for row in rows}
    return centres


def _look_at(
    connection: Connection, run_ids: list[int], colonies: int, important: ImportantMetadata
) -> tuple[list[tuple[Any, ...]], list[Group]]:
    """The overview's rows for the present state of runs, and their metadata groups."""
    found = connection.execute(_PRESENT, {"runs": as_json(run_ids), "colonies": colonies}).all()
    groups = groups_of(connection, important, [(row[0], row[3], row[5], row[-2], row[-1]) for row in found])
    return [_values(*pair) for pair in zip(found, groups, strict=True)], groups


def _present() -> CompoundSelect[Any]:
    """The overview's data on the current, valid ones of the parameter's runs, and the origin of their animals."""
    given = RUN.c.id.in_(numbers_in("runs"))
    animals = select(
        RUN.c.id.label("procedure_run_id"),
        func.coalesce(NAMED.c.position, 0).label("position"),
        EXPERIMENT.c.centre,
        EXPERIMENT.c.pipeline,
        EXPERIMENT.c.project,
        RUN.c.procedure_id,
        NAMED.c.specimen_id,
        genotype_of(SPECIMEN).label("genotype"),
        strain_of(SPECIMEN, COLONY).label("strain_id"),
        type_coerce(SPECIMEN.c.is_baseline, Integer),
        SPECIMEN.c.gender,
        SPECIMEN.c.zygosity,
        type_coerce(EXPERIMENT.c.date, String),
        _measured(),
        SPECIMEN.c.production_centre,
        SPECIMEN.c.phenotyping_centre,
    ).select_from(RUN)
    colonies: ColumnElement[Any] = bindparam("colonies")
    of_experiment = and_(
        only_compared(RUN.c.owner_kind) == EntityKind.EXPERIMENT.value, RUN.c.owner_id == EXPERIMENT.c.id
    )
    animals = animals.join(EXPERIMENT, of_experiment)
    animals = animals.where(given, EXPERIMENT.c.is_current, EXPERIMENT.c.validity == Validity.VALID)
    nothing = [null() for _ in range(4)]
    colonies_of_lines = select(
        RUN.c.id,
        literal(0),
        LINE.c.centre,
        LINE.c.pipeline,
        LINE.c.project,
        RUN.c.procedure_id,
        null(),
        func.rtrim(LINE.c.colony_id),
        func.coalesce(func.rtrim(COLONY.c.strain_id), ""),
        *nothing,
        _measured(),
        null(),
        null(),
    ).select_from(RUN)
    of_line = and_(only_compared(RUN.c.owner_kind) == EntityKind.LINE.value, RUN.c.owner_id == LINE.c.id)
    colonies_of_lines = colonies_of_lines.join(LINE, of_line)
    colonies_of_lines = colonies_of_lines.outerjoin(COLONY, of_snapshot(COLONY, LINE.c.colony_id, colonies))
    colonies_of_lines = colonies_of_lines.where(given, LINE.c.is_current, LINE.c.validity == Validity.VALID)
    return union_all(with_specimens(animals, EXPERIMENT, colonies), colonies_of_lines)


def _measured() -> ColumnElement[int]:
    """The number of a run's measurements."""
    return (
        select(func.count())
        .select_from(MEASUREMENT)
        .where(MEASUREMENT.c.procedure_run_id == RUN.c.id)
        .correlate(RUN)
        .scalar_subquery()
    )


def _values(row: Sequence[Any], group: Group) -> tuple[Any, ...]:
    """The row of the overview, with all its columns in their order."""
    day = None if row[_DAY] is None else str(row[_DAY])
    # MariaDB makes a decimal number of signed and unsigned ones together.
    return (row[0], int(row[1]), *row[_CENTRE:_DAY], day, row[_DAY + 1], group.checksum)


_CENTRE: Final = 2
_DAY: Final = 12
"""The indexes of `_present`'s columns."""
_GIVEN: Final = OVERVIEW_ANIMAL.c.procedure_run_id
_NEWEST: Final = select(func.max(_GIVEN))
_SHOWN: Final = select(OVERVIEW_ANIMAL.c.centre).where(_GIVEN.in_(numbers_in("runs"))).distinct()
_FORGET: Final = delete(OVERVIEW_ANIMAL).where(_GIVEN.in_(bindparam("runs", expanding=True)))
_PRESENT: Final = _present()
