"""The overviews of genotypes and strains that current, valid specimens have (reference databases)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, delete, func, insert, literal, null, select, union

from dcc_resources.contexts.basis import COLONIES, STRAINS, Basis
from dcc_resources.contexts.membership import BASELINE, UNKNOWN, genotype_of, of_snapshot, strain_of
from dcc_resources.qc_database.models import (
    KnownColony,
    KnownStrain,
    Lifetime,
    OverviewGenotype,
    OverviewStrain,
    Specimen,
)
from dcc_resources.qc_database.versions import in_chunks
from dcc_resources.qc_database.vocabulary import EntityKind

GenotypeKey = tuple[str, str]
"""A centre and a genotype there."""

_SPECIMEN: Final = Specimen.__table__
_LIFETIME: Final = Lifetime.__table__
_COLONY: Final = KnownColony.__table__
_STRAIN: Final = KnownStrain.__table__
_GENOTYPE: Final = OverviewGenotype.__table__
_OVERVIEW_STRAIN: Final = OverviewStrain.__table__
_KEY: Final = (_SPECIMEN.c.centre, genotype_of(_SPECIMEN).label("genotype"))


def touched_genotypes(connection: Connection, document_ids: Iterable[int]) -> set[GenotypeKey]:
    """The genotypes of the specimens that documents brought, or of which they opened or ended a version."""
    found: set[GenotypeKey] = set()
    of_specimen = and_(_LIFETIME.c.entity_kind == EntityKind.SPECIMEN.value, _LIFETIME.c.entity_id == _SPECIMEN.c.id)
    changed = select(*_KEY).select_from(_LIFETIME).join(_SPECIMEN, of_specimen)
    for chunk in in_chunks(sorted(document_ids)):
        statement = union(
            select(*_KEY).where(_SPECIMEN.c.document_id.in_(chunk)),
            changed.where(_LIFETIME.c.opened_by.in_(chunk)),
            changed.where(_LIFETIME.c.ended_by.in_(chunk)),
        )
        found |= {(row.centre, row.genotype) for row in connection.execute(statement)}
    return found


def all_genotypes(connection: Connection) -> set[GenotypeKey]:
    """The genotypes of all specimens that were ever brought."""
    return {(row.centre, row.genotype) for row in connection.execute(select(*_KEY).distinct())}


def renew_genotypes(connection: Connection, keys: Collection[GenotypeKey], basis: Basis) -> set[str]:
    """Have the overview show these genotypes as they are at present; the strains that it concerns."""
    strains: set[str] = set()
    for key in sorted(keys):
        of_key = (_GENOTYPE.c.centre == key[0]) & (_GENOTYPE.c.genotype == key[1])
        strains |= set(connection.scalars(select(_GENOTYPE.c.strain_id).where(of_key)))
        connection.execute(delete(_GENOTYPE).where(of_key))
        columns = [column.name for column in _GENOTYPE.columns]
        connection.execute(insert(_GENOTYPE).from_select(columns, _present(key, basis[COLONIES])))
        strains |= set(connection.scalars(select(_GENOTYPE.c.strain_id).where(of_key)))
    return strains


def _present(key: GenotypeKey, colonies: int) -> Select[Any]:
    """A genotype's rows of the overview, one a strain, with all columns in their order."""
    strain = strain_of(_SPECIMEN, _COLONY)
    carried: list[ColumnElement[Any]] = [null()] * 3
    if key[1] != BASELINE:
        carried = [func.max(column) for column in (_COLONY.c.gene_id, _COLONY.c.gene_symbol, _COLONY.c.allele_id)]
    return (
        select(_SPECIMEN.c.centre, literal(key[1]), strain, *carried, func.count())
        .select_from(_SPECIMEN)
        .outerjoin(_COLONY, of_snapshot(_COLONY, _SPECIMEN.c.colony_id, colonies))
        .where(_SPECIMEN.c.centre == key[0], _SPECIMEN.c.is_current, _SPECIMEN.c.is_valid, _has_genotype(key[1]))
        .group_by(_SPECIMEN.c.centre, strain)
    )


def _has_genotype(genotype: str) -> ColumnElement[bool]:
    if genotype in (BASELINE, UNKNOWN):
        return genotype_of(_SPECIMEN) == genotype
    colony = _SPECIMEN.c.colony_id
    # The range is for the index: a colony with blanks behind it is the same.
    return (
        _SPECIMEN.c.is_baseline.is_(False) & colony.between(genotype, f"{genotype}!") & (func.rtrim(colony) == genotype)
    )


def renew_strains(connection: Connection, strains: Collection[str], basis: Basis) -> None:
    """Have the overview show these strains as they are at present, by the overview of genotypes."""
    for chunk in in_chunks(sorted(set(strains) - {UNKNOWN})):
        connection.execute(delete(_OVERVIEW_STRAIN).where(_OVERVIEW_STRAIN.c.strain_id.in_(chunk)))
        known = and_(_STRAIN.c.snapshot_id == basis[STRAINS], _STRAIN.c.strain_id == _GENOTYPE.c.strain_id)
        present = (
            select(_GENOTYPE.c.strain_id, func.max(_STRAIN.c.name), func.sum(_GENOTYPE.c.specimens))
            .select_from(_GENOTYPE)
            .outerjoin(_STRAIN, known)
            .where(_GENOTYPE.c.strain_id.in_(chunk))
            .group_by(_GENOTYPE.c.strain_id)
        )
        columns = [column.name for column in _OVERVIEW_STRAIN.columns]
        connection.execute(insert(_OVERVIEW_STRAIN).from_select(columns, present))
