"""Updates overviews after changes by documents.

They show current, valid data: genotypes and strains of specimens, procedure runs with their animals, metadata groups.
Three views belong to them: `overview_strain`, which adds up the genotypes of all centres; `overview_measurement`; and
`overview_comparison`. The last lists with each run on a mutant the runs on baseline animals with the same centre,
pipeline, strain, procedure and metadata group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Engine,
    FromClause,
    Integer,
    Select,
    String,
    Table,
    bindparam,
    cast,
    delete,
    func,
    literal,
    null,
    select,
    tuple_,
    type_coerce,
    union,
    union_all,
)

from dcc.data_outcomes import OverviewsBuilt
from dcc.databases.list_parameters import as_json, numbers_in, only_compared, rows_with, sorted_chunks, texts_in
from dcc.databases.transactions import run_reading, run_writing
from dcc.qc.apply.upload_lock import PATIENCE_SECONDS, lock_all
from dcc.qc.archive_scope import ALL_ARCHIVES, ArchiveScope
from dcc.qc.contexts.affected_runs import (
    affected_runs,
    all_current_runs,
    changed_by_documents,
    document_parameters,
    is_changed_version_of,
    withdrawals_among,
)
from dcc.qc.contexts.builds import (
    COLONIES,
    IMPRESS,
    STRAINS,
    Basis,
    Build,
    due_documents,
    follow_basis,
    mark_built,
    recorded_basis,
)
from dcc.qc.contexts.membership import (
    BASELINE,
    UNKNOWN,
    counted_runs,
    genotype_of,
    of_snapshot,
    or_unknown,
    strain_of,
    with_specimens,
)
from dcc.qc.contexts.metadata_groups import Circumstances, Names, groups_of, remove_unused_groups, save_groups
from dcc.qc.models import (
    COLONY,
    EXPERIMENT,
    LIFETIME,
    LINE,
    MEASUREMENT,
    NAMED,
    OVERVIEW_ANIMAL,
    OVERVIEW_GENOTYPE,
    RUN,
    SPECIMEN,
)
from dcc.qc.rows.bulk import insert_bulk
from dcc.runtime.clock import utc_now
from dcc.vocabulary import EntityKind, Validity

GenotypeKey = tuple[str, str]
"""A centre and a genotype there."""

_KEY: Final = (SPECIMEN.c.centre, genotype_of(SPECIMEN).label("genotype"))
_OF_GENOTYPE: Final = ("centre", "genotype", "strain_id", "gene_id", "gene_symbol", "allele_id", "specimens")


def affected_genotypes(connection: Connection, document_ids: Collection[int]) -> set[GenotypeKey]:
    """The genotypes of the specimens that documents brought, or of which they opened or ended a version."""
    found: set[GenotypeKey] = set()
    for chunk in sorted_chunks(document_ids):
        withdrawals = document_parameters("withdrawals", withdrawals_among(connection, chunk))
        given = document_parameters("documents", chunk) | withdrawals
        for statement in (_BROUGHT, _CHANGED):
            found.update((centre, genotype) for centre, genotype in connection.execute(statement, given))
    return found


def all_genotypes(connection: Connection) -> set[GenotypeKey]:
    """The genotypes of all specimens ever brought."""
    return {(row.centre, row.genotype) for row in connection.execute(select(*_KEY).distinct())}


def renew_genotypes(connection: Connection, keys: Collection[GenotypeKey], basis: Basis) -> None:
    """Update these genotypes in the overview.

    A few statements for `_KEYS_AT_ONCE` genotypes of a centre. Those of baseline animals, and of unknown colonies, read
    all specimens of their centre.
    """
    ordered = sorted(keys)
    for chunk in (ordered[start : start + _KEYS_AT_ONCE] for start in range(0, len(ordered), _KEYS_AT_ONCE)):
        # A deletion that finds nothing may read all rows, including those of other centres at work.
        if connection.scalar(_SHOWN_GENOTYPES, {"keys": chunk}) is not None:
            connection.execute(_FORGET_GENOTYPES, {"keys": chunk})
        rows = _present_genotypes(connection, chunk, basis[COLONIES])
        if rows:
            insert_bulk(connection, OVERVIEW_GENOTYPE, _OF_GENOTYPE, rows)


def _present_genotypes(connection: Connection, keys: Collection[GenotypeKey], colonies: int) -> list[tuple[Any, ...]]:
    """The overview's rows for genotypes, one for each strain, with the columns `_OF_GENOTYPE`."""
    of_centres: dict[str, list[str]] = {}
    for centre, genotype in keys:
        of_centres.setdefault(centre, []).append(genotype)
    rows: list[tuple[Any, ...]] = []
    for centre, genotypes in of_centres.items():
        of_colonies = _OF_COLONIES_IN_SQLITE if connection.dialect.name == "sqlite" else _OF_COLONIES
        statement = of_colonies if {BASELINE, UNKNOWN}.isdisjoint(genotypes) else _OF_ANY
        given = {"of_centre": centre, "genotypes": as_json(genotypes), "colonies": colonies}
        for *key, gene_id, gene_symbol, allele_id, specimens in connection.execute(statement, given):
            # Baseline animals have no common colony.
            carried = (None, None, None) if key[1] == BASELINE else (gene_id, gene_symbol, allele_id)
            rows.append((*key, *carried, int(specimens)))
    return rows


def _counted(specimens: FromClause, condition: ColumnElement[bool]) -> Select[Any]:
    """The number of these specimens that are current, valid and meet a condition, by genotype and strain.

    With the data of their colony.
    """
    # Counted before the join: data that many animals share are looked up once.
    columns = [SPECIMEN.c[name] for name in ("centre", "is_baseline", "colony_id", "strain_id")]
    query = select(*columns, func.count().label("number")).select_from(specimens)
    query = query.where(condition, SPECIMEN.c.is_current, SPECIMEN.c.validity == Validity.VALID).group_by(*columns)
    counted = query.subquery()
    genotype, strain = genotype_of(counted).label("genotype"), strain_of(counted).label("strain")
    carried = [func.max(column) for column in (COLONY.c.gene_id, COLONY.c.gene_symbol, COLONY.c.allele_id)]
    colony = of_snapshot(counted.c.colony_id, bindparam("colonies"))
    return (
        select(counted.c.centre, genotype, strain, *carried, func.sum(counted.c.number))
        .select_from(counted.outerjoin(COLONY, colony))
        .group_by(counted.c.centre, genotype, strain)
    )


def _of_colonies(same: Callable[[ColumnElement[Any]], ColumnElement[bool]]) -> Select[Any]:
    """Specimens of given colonies, looked up by these."""
    given = texts_in("genotypes").subquery()
    of_centre = only_compared(SPECIMEN.c.centre) == bindparam("of_centre")
    return _counted(given.join(SPECIMEN, same(given.c.value)), of_centre & SPECIMEN.c.is_baseline.is_(False))


def _same_in_sqlite(colony_id: ColumnElement[Any]) -> ColumnElement[bool]:
    # The range is for the index: a colony with trailing blanks is the same.
    behind = colony_id.concat("!")
    return SPECIMEN.c.colony_id.between(colony_id, behind) & (func.rtrim(SPECIMEN.c.colony_id) == colony_id)


def _changed() -> CompoundSelect[Any]:
    changed = select(*_KEY).select_from(LIFETIME).join(SPECIMEN, is_changed_version_of(EntityKind.SPECIMEN))
    return union(
        changed.where(changed_by_documents(LIFETIME.c.opened_by, "withdrawals")),
        changed.where(changed_by_documents(LIFETIME.c.ended_by, "documents")),
    )


_KEYS_AT_ONCE: Final = 500
_WANTED: Final = tuple_(OVERVIEW_GENOTYPE.c.centre, OVERVIEW_GENOTYPE.c.genotype).in_(bindparam("keys", expanding=True))
_BROUGHT: Final = select(*_KEY).where(SPECIMEN.c.document_id.in_(numbers_in("documents"))).distinct()
_CHANGED: Final = _changed()
_SHOWN_GENOTYPES: Final = select(OVERVIEW_GENOTYPE.c.centre).where(_WANTED).limit(1)
_FORGET_GENOTYPES: Final = delete(OVERVIEW_GENOTYPE).where(_WANTED)
_OF_ANY: Final = _counted(
    SPECIMEN, (SPECIMEN.c.centre == bindparam("of_centre")) & genotype_of(SPECIMEN).in_(texts_in("genotypes"))
)
_OF_COLONIES: Final = _of_colonies(lambda colony_id: SPECIMEN.c.colony_id == colony_id)
_OF_COLONIES_IN_SQLITE: Final = _of_colonies(_same_in_sqlite)


def renew_animals(connection: Connection, run_ids: Iterable[int], basis: Basis) -> set[str]:
    """Update these runs in the overview; returns their centres."""
    centres: set[str] = set()
    names: dict[tuple[str, str], Names] = {}
    for portion in sorted_chunks(run_ids):
        runs = as_json(portion)
        found = connection.execute(_PRESENT_ANIMALS, {"runs": runs, "colonies": basis[COLONIES]}).all()
        circumstances = [
            Circumstances(
                row.procedure_run_id, row.pipeline, row.procedure_id, row.production_centre, row.phenotyping_centre
            )
            for row in found
        ]
        groups = groups_of(connection, basis[IMPRESS], circumstances, names)
        shown = dict(connection.execute(_SHOWN_ANIMALS, {"runs": runs}).all())
        if shown:
            connection.execute(_FORGET_ANIMALS, {"runs": list(shown)})
        save_groups(connection, groups)
        if found:
            rows = [(*row[:-2], group.checksum) for row, group in zip(found, groups, strict=True)]
            insert_bulk(connection, OVERVIEW_ANIMAL, _OF_ANIMAL, rows)
        centres.update(shown.values(), (row.centre for row in found))
    return centres


def _present_animals() -> CompoundSelect[Any]:
    """The overview's data on the current, valid ones of the parameter's runs, and the origin of their animals.

    They have the columns `_OF_ANIMAL`, with where the animal was produced and phenotyped instead of the metadata group.
    """
    animals = counted_runs(
        EntityKind.EXPERIMENT,
        RUN.c.id.label("procedure_run_id"),
        # MariaDB makes a decimal number of signed and unsigned ones together.
        cast(func.coalesce(NAMED.c.position, 0), Integer).label("position"),
        EXPERIMENT.c.centre,
        EXPERIMENT.c.pipeline,
        EXPERIMENT.c.project,
        RUN.c.procedure_id,
        NAMED.c.specimen_id,
        genotype_of(SPECIMEN).label("genotype"),
        strain_of(SPECIMEN).label("strain_id"),
        type_coerce(SPECIMEN.c.is_baseline, Integer).label("is_baseline"),
        SPECIMEN.c.gender,
        SPECIMEN.c.zygosity,
        cast(EXPERIMENT.c.date, String).label("date"),
        _MEASURED.label("measurements"),
        SPECIMEN.c.production_centre,
        SPECIMEN.c.phenotyping_centre,
    )
    colonies_of_lines = counted_runs(
        EntityKind.LINE,
        RUN.c.id,
        literal(0),
        LINE.c.centre,
        LINE.c.pipeline,
        LINE.c.project,
        RUN.c.procedure_id,
        null(),
        func.rtrim(LINE.c.colony_id),
        or_unknown(COLONY.c.strain_id),
        *(null() for _ in range(4)),
        _MEASURED,
        null(),
        null(),
    )
    colonies: ColumnElement[Any] = bindparam("colonies")
    return union_all(
        with_specimens(animals, colonies),
        colonies_of_lines.outerjoin(COLONY, of_snapshot(LINE.c.colony_id, colonies)),
    )


_GIVEN: Final = OVERVIEW_ANIMAL.c.procedure_run_id
_MEASURED: Final = (
    select(func.count())
    .select_from(MEASUREMENT)
    .where(MEASUREMENT.c.procedure_run_id == RUN.c.id)
    .correlate(RUN)
    .scalar_subquery()
)
"""The number of a run's measurements."""
_SHOWN_ANIMALS: Final = select(_GIVEN, OVERVIEW_ANIMAL.c.centre).where(_GIVEN.in_(numbers_in("runs"))).distinct()
_FORGET_ANIMALS: Final = delete(OVERVIEW_ANIMAL).where(_GIVEN.in_(bindparam("runs", expanding=True)))
_PRESENT_ANIMALS: Final = _present_animals()
_OF_ANIMAL: Final = (*_PRESENT_ANIMALS.selected_columns.keys()[:-2], "metadata_group")

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
_STORED: Final = (COLONIES, IMPRESS)
"""The reference data that the overviews' tables depend on."""
_FOLLOWED: Final = (*_STORED, STRAINS)
"""Those, and the names of strains, which a view reads."""


def build_overviews(qc: Engine, *, scope: ArchiveScope = ALL_ARCHIVES) -> OverviewsBuilt:
    """Update the overviews with what the data contexts include; documents with `overviews_built` false.

    `scope` restricts them to some archives.

    As many documents at once as fit into a transaction, which leaves the overviews consistent; the next build continues
    a killed one. If the reference data have changed (IMPReSS or colonies), everything is rebuilt in one transaction.
    Raises the database's `unreachable` error if others were in the way, or the database away, for too long.
    """
    started = time.monotonic()

    def take(connection: Connection) -> set[str] | None:
        return _take_documents(connection, scope)

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
        recorded = recorded_basis(connection, Build.OVERVIEWS)
        if all(basis[name] == recorded.get(name) for name in _STORED):
            return
        centres.update(_renew(connection, all_current_runs(connection), all_genotypes(connection), basis))

    follow_basis(connection, Build.OVERVIEWS, _FOLLOWED, renew)
    return centres


def _take_documents(connection: Connection, scope: ArchiveScope) -> set[str] | None:
    """Include the next documents; returns their centres, None without any."""
    documents = due_documents(connection, Build.OVERVIEWS, scope)
    if not documents:
        return None
    runs = affected_runs(connection, documents, Build.OVERVIEWS)
    genotypes = affected_genotypes(connection, documents)
    centres = _renew(connection, runs, genotypes, recorded_basis(connection, Build.OVERVIEWS))
    mark_built(connection, documents, Build.OVERVIEWS)
    return centres


def _renew(connection: Connection, runs: Iterable[int], genotypes: Collection[GenotypeKey], basis: Basis) -> set[str]:
    centres = renew_animals(connection, runs, basis)
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
