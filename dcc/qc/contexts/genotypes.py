"""The overview of genotypes and strains of current, valid specimens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    FromClause,
    Select,
    and_,
    bindparam,
    delete,
    func,
    select,
    tuple_,
    union,
)

from dcc.databases.list_parameters import as_json, numbers_in, only_compared, sorted_chunks, texts_in
from dcc.qc.contexts.affected_runs import changed_by_documents, document_parameters, withdrawals_among
from dcc.qc.contexts.membership import BASELINE, UNKNOWN, genotype_of, of_snapshot, strain_of
from dcc.qc.contexts.reference_basis import COLONIES, Basis
from dcc.qc.models import COLONY, LIFETIME, OVERVIEW_GENOTYPE, SPECIMEN
from dcc.qc.rows.bulk import insert_bulk
from dcc.vocabulary import EntityKind, Validity

GenotypeKey = tuple[str, str]
"""A centre and a genotype there."""

_KEY: Final = (SPECIMEN.c.centre, genotype_of(SPECIMEN).label("genotype"))


def affected_genotypes(connection: Connection, document_ids: Collection[int]) -> set[GenotypeKey]:
    """The genotypes of the specimens that documents brought, or of which they opened or ended a version."""
    answers = (_touched_by(connection, chunk) for chunk in sorted_chunks(document_ids))
    return set[GenotypeKey]().union(*answers)


def _touched_by(connection: Connection, ordered: Sequence[int]) -> set[GenotypeKey]:
    withdrawals = document_parameters("withdrawals", withdrawals_among(connection, ordered))
    given = document_parameters("documents", ordered) | withdrawals
    changed = connection.execute(_CHANGED, given).all()
    brought = connection.execute(_BROUGHT, given).all()
    return {(centre, genotype) for centre, genotype in [*brought, *changed]}


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
        if connection.scalar(_SHOWN, {"keys": chunk}) is not None:
            connection.execute(_FORGET, {"keys": chunk})
        rows = _present(connection, chunk, basis[COLONIES])
        if rows:
            insert_bulk(connection, OVERVIEW_GENOTYPE, rows)


def _present(connection: Connection, keys: Collection[GenotypeKey], colonies: int) -> list[tuple[Any, ...]]:
    """The overview's rows for genotypes, one for each strain, with all columns in their order."""
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
    genotype, strain = genotype_of(counted).label("genotype"), strain_of(counted, COLONY).label("strain")
    carried = [func.max(column) for column in (COLONY.c.gene_id, COLONY.c.gene_symbol, COLONY.c.allele_id)]
    colony = of_snapshot(COLONY, counted.c.colony_id, bindparam("colonies"))
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


def _genotypes_of_documents() -> Select[Any]:
    """The centres and genotypes of the specimens that documents brought."""
    query = select(SPECIMEN.c.centre, SPECIMEN.c.is_baseline, SPECIMEN.c.colony_id)
    brought = query.where(SPECIMEN.c.document_id.in_(numbers_in("documents"))).distinct().subquery()
    return select(brought.c.centre, genotype_of(brought))


def _changed() -> CompoundSelect[Any]:
    is_specimen = only_compared(LIFETIME.c.entity_kind) == EntityKind.SPECIMEN.value
    of_specimen = and_(is_specimen, LIFETIME.c.entity_id == SPECIMEN.c.id)
    changed = select(*_KEY).select_from(LIFETIME).join(SPECIMEN, of_specimen)
    return union(
        changed.where(changed_by_documents(LIFETIME.c.opened_by, "withdrawals")),
        changed.where(changed_by_documents(LIFETIME.c.ended_by, "documents")),
    )


_KEYS_AT_ONCE: Final = 500
_WANTED: Final = tuple_(OVERVIEW_GENOTYPE.c.centre, OVERVIEW_GENOTYPE.c.genotype).in_(bindparam("keys", expanding=True))
_BROUGHT: Final = _genotypes_of_documents()
_CHANGED: Final = _changed()
_SHOWN: Final = select(OVERVIEW_GENOTYPE.c.centre).where(_WANTED).limit(1)
_FORGET: Final = delete(OVERVIEW_GENOTYPE).where(_WANTED)
_OF_ANY: Final = _counted(
    SPECIMEN, (SPECIMEN.c.centre == bindparam("of_centre")) & genotype_of(SPECIMEN).in_(texts_in("genotypes"))
)
_OF_COLONIES: Final = _of_colonies(lambda colony_id: SPECIMEN.c.colony_id == colony_id)
_OF_COLONIES_IN_SQLITE: Final = _of_colonies(_same_in_sqlite)
