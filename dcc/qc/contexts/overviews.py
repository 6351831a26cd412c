"""Updates overviews after changes by documents.

They show current, valid data: genotypes and strains of specimens, procedure runs with their animals, metadata groups.
Three views belong to them: `overview_strain`, which adds up the genotypes of all centres; `overview_measurement`; and
`overview_comparison`. The last lists with each run on a mutant the runs on baseline animals with the same centre,
pipeline, strain, procedure and metadata group.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, Table, delete, func, select

from dcc.data_outcomes import OverviewsBuilt
from dcc.databases.columns import utc_now
from dcc.databases.list_parameters import rows_with
from dcc.databases.transactions import run_reading, run_writing
from dcc.qc.apply.upload_lock import PATIENCE_SECONDS, lock_all
from dcc.qc.contexts.affected_runs import (
    ArchiveFilter,
    affected_runs,
    all_current_runs,
    due_documents,
    mark_built,
)
from dcc.qc.contexts.genotypes import (
    GenotypeKey,
    affected_genotypes,
    all_genotypes,
    renew_genotypes,
)
from dcc.qc.contexts.metadata_groups import ImportantMetadata, remove_unused_groups
from dcc.qc.contexts.procedure_animals import renew_animals
from dcc.qc.contexts.reference_basis import COLONIES, IMPRESS, STRAINS, Basis, Build, follow_basis, recorded_basis
from dcc.qc.models import OVERVIEW_ANIMAL, OVERVIEW_GENOTYPE

_COUNTED: Final[Mapping[Table, Mapping[str, ColumnElement[Any]]]] = {
    OVERVIEW_GENOTYPE: {
        "genotypes": OVERVIEW_GENOTYPE.c.genotype,
        "strains": func.nullif(OVERVIEW_GENOTYPE.c.strain_id, ""),
    },
    OVERVIEW_ANIMAL: {
        "procedure_runs": OVERVIEW_ANIMAL.c.procedure_run_id,
        "animals": OVERVIEW_ANIMAL.c.specimen_id,
        "metadata_groups": OVERVIEW_ANIMAL.c.metadata_group,
    },
}
_NAMES: Final = [name for columns in _COUNTED.values() for name in columns]
_FOLLOWED: Final = (COLONIES, IMPRESS, STRAINS)
"""The reference data that overviews depend on."""


def build_overviews(qc: Engine, *, is_own: ArchiveFilter = None) -> OverviewsBuilt:
    """Update the overviews with what the data contexts include; documents with `overviews_built` false.

    `is_own` restricts them to some archives.

    As many documents at once as fit into a transaction, which leaves the overviews consistent; the next build continues
    a killed one. If the reference data have changed (IMPReSS, colonies or strains), everything is rebuilt in one
    transaction. Raises the database's `unreachable` error if others were in the way, or the database away, for
    too long.
    """
    started = time.monotonic()

    def take(connection: Connection) -> set[str] | None:
        return _take_documents(connection, is_own)

    centres = run_writing(qc, _follow_reference_data, patience_seconds=PATIENCE_SECONDS)
    while (more := run_writing(qc, take, patience_seconds=PATIENCE_SECONDS)) is not None:
        centres |= more
    run_writing(qc, remove_unused_groups, patience_seconds=PATIENCE_SECONDS)
    found = run_reading(qc, lambda connection: count_overviews(connection, centres))
    counts = {centre: found.get(centre, dict.fromkeys(_NAMES, 0)) for centre in sorted(centres)}
    return OverviewsBuilt(counts, time.monotonic() - started, utc_now())


def rebuild_overviews(qc: Engine) -> None:
    """Rebuild the overviews, in one transaction, after `build_overviews`; raises as that."""
    build_overviews(qc)

    def rebuild(connection: Connection) -> None:
        lock_all(connection)
        for table in (OVERVIEW_ANIMAL, OVERVIEW_GENOTYPE):
            connection.execute(delete(table))
        basis = recorded_basis(connection, Build.OVERVIEWS)
        _renew(connection, all_current_runs(connection), all_genotypes(connection), basis)

    run_writing(qc, rebuild, patience_seconds=PATIENCE_SECONDS)
    run_writing(qc, remove_unused_groups, patience_seconds=PATIENCE_SECONDS)


def _follow_reference_data(connection: Connection) -> set[str]:
    """Rebuild all with the active reference data if they have changed; returns the centres."""
    centres: set[str] = set()

    def renew(basis: Basis) -> None:
        centres.update(_renew(connection, all_current_runs(connection), all_genotypes(connection), basis))

    follow_basis(connection, Build.OVERVIEWS, _FOLLOWED, renew)
    return centres


def _take_documents(connection: Connection, is_own: ArchiveFilter) -> set[str] | None:
    """Include the next documents; returns their centres, None without any."""
    documents = due_documents(connection, Build.OVERVIEWS, is_own)
    if not documents:
        return None
    runs = affected_runs(connection, documents, Build.OVERVIEWS)
    genotypes = affected_genotypes(connection, documents)
    centres = _renew(connection, runs, genotypes, recorded_basis(connection, Build.OVERVIEWS))
    mark_built(connection, documents, Build.OVERVIEWS)
    return centres


def _renew(connection: Connection, runs: Iterable[int], genotypes: Collection[GenotypeKey], basis: Basis) -> set[str]:
    centres = renew_animals(connection, runs, basis, ImportantMetadata(basis[IMPRESS]))
    renew_genotypes(connection, genotypes, basis)
    return centres | {centre for centre, _ in genotypes}


def count_overviews(connection: Connection, centres: Collection[str] | None = None) -> dict[str, dict[str, int]]:
    """What the overviews of all centres that have any hold, or those of `centres`, by centre."""
    counts: dict[str, dict[str, int]] = {}
    for overview, columns in _COUNTED.items():
        numbers = [func.count(func.distinct(expression)).label(name) for name, expression in columns.items()]
        statement = select(overview.c.centre, *numbers).group_by(overview.c.centre)
        for row in rows_with(connection, statement, overview.c.centre, centres):
            of_centre = counts.setdefault(row.centre, dict.fromkeys(_NAMES, 0))
            of_centre.update({name: getattr(row, name) for name in columns})
    return counts
