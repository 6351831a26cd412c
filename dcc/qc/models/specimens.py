"""Tables of the QC database: specimens and their ancestry."""

from __future__ import annotations

from datetime import date

from sqlalchemy import Boolean, Date, Index, Integer
from sqlalchemy.orm import Mapped, mapped_column

from dcc.databases.columns import BIG, DOUBLE, INT, table_options
from dcc.qc.models.base import (
    CENTRE_LENGTH,
    ID_LENGTH,
    KEY_LENGTH,
    NAME_LENGTH,
    STATUS_LENGTH,
    QcBase,
    current_flag,
    given_id,
    lexical_text,
    part_of,
    place,
    reference,
    text_of,
    validity_flag,
)


class Specimen(QcBase):
    """One version of a mouse or embryo in the document `document_id`; its identity is (centre, specimen_id).

    `position` is that of the element in its block, `line` that of its tag. `dob` is a mouse's, `stage` and `stage_unit`
    an embryo's. `status_code` is null without such an element.
    """

    __tablename__ = "specimen"
    __table_args__ = table_options(
        Index(None, "centre", "specimen_id", "is_current"),
        Index(None, "colony_id"),
        Index(None, "block_id", "position"),
        Index(None, "document_id"),
        counted=False,
    )

    id: Mapped[int] = given_id()
    block_id: Mapped[int] = reference("centre_block.id")
    document_id: Mapped[int] = reference("document.id")
    position: Mapped[int] = mapped_column(INT)
    line: Mapped[int] = mapped_column(INT)
    centre: Mapped[str] = text_of(CENTRE_LENGTH)
    specimen_id: Mapped[str] = text_of(ID_LENGTH)
    kind: Mapped[str] = text_of(8)
    is_baseline: Mapped[bool] = mapped_column(Boolean(create_constraint=False))
    gender: Mapped[str] = text_of(16)
    zygosity: Mapped[str] = text_of(16)
    litter_id: Mapped[str] = text_of(ID_LENGTH)
    pipeline: Mapped[str] = text_of(KEY_LENGTH)
    phenotyping_centre: Mapped[str] = text_of(CENTRE_LENGTH)
    production_centre: Mapped[str | None] = text_of(CENTRE_LENGTH)
    project: Mapped[str] = text_of(NAME_LENGTH)
    colony_id: Mapped[str | None] = text_of(NAME_LENGTH)
    strain_id: Mapped[str | None] = text_of(NAME_LENGTH)
    dob: Mapped[date | None] = mapped_column(Date)
    stage: Mapped[str | None] = text_of(ID_LENGTH)
    stage_unit: Mapped[str | None] = text_of(16)
    status_code: Mapped[str | None] = text_of(STATUS_LENGTH)
    status_date: Mapped[date | None] = mapped_column(Date)
    lexical: Mapped[str | None] = lexical_text()
    is_current: Mapped[bool] = current_flag()
    validity: Mapped[int] = validity_flag()


class RelatedSpecimen(QcBase):
    """Another specimen of the same centre that a specimen is related to; `specimen_id` is that one's."""

    __tablename__ = "related_specimen"
    __table_args__ = table_options(Index(None, "specimen_id"), counted=False)

    specimen_row: Mapped[int] = part_of("specimen.id")
    position: Mapped[int] = place()
    specimen_id: Mapped[str] = text_of(ID_LENGTH)
    relationship: Mapped[str] = text_of(32)
    line: Mapped[int] = mapped_column(INT)


class Genotype(QcBase):
    """An allele that a specimen carries."""

    __tablename__ = "genotype"
    __table_args__ = table_options(counted=False)

    specimen_row: Mapped[int] = part_of("specimen.id")
    position: Mapped[int] = place()
    mgi_gene_id: Mapped[str] = text_of(NAME_LENGTH)
    gene_symbol: Mapped[str] = text_of(NAME_LENGTH)
    mgi_allele_id: Mapped[str] = text_of(NAME_LENGTH)
    father_zygosity: Mapped[str | None] = text_of(16)
    mother_zygosity: Mapped[str | None] = text_of(16)
    line: Mapped[int] = mapped_column(INT)


class ParentalStrain(QcBase):
    """A strain that a specimen descends from, with its share; not a number where `percentage` is null."""

    __tablename__ = "parental_strain"
    __table_args__ = table_options(counted=False)

    specimen_row: Mapped[int] = part_of("specimen.id")
    position: Mapped[int] = place()
    percentage: Mapped[float | None] = mapped_column(DOUBLE)
    mgi_strain_id: Mapped[str] = text_of(NAME_LENGTH)
    gender: Mapped[str] = text_of(16)
    level: Mapped[int] = mapped_column(Integer)
    lexical: Mapped[str | None] = lexical_text()
    line: Mapped[int] = mapped_column(INT)


class ChromosomalAlteration(QcBase):
    """A change of a specimen's chromosomes, whose regions are rows of `chromosome`."""

    __tablename__ = "chromosomal_alteration"
    __table_args__ = table_options(counted=False)

    specimen_row: Mapped[int] = part_of("specimen.id")
    position: Mapped[int] = place()
    line: Mapped[int] = mapped_column(INT)


class Chromosome(QcBase):
    """A region that a chromosomal alteration added or removed (`kind`); `alteration` is that one's position."""

    __tablename__ = "chromosome"
    __table_args__ = table_options(counted=False)

    specimen_row: Mapped[int] = part_of("specimen.id")
    alteration: Mapped[int] = mapped_column(BIG, primary_key=True, autoincrement=False)
    position: Mapped[int] = place()
    kind: Mapped[str] = text_of(8)
    region_start: Mapped[str] = text_of(ID_LENGTH)
    region_end: Mapped[str] = text_of(ID_LENGTH)
    species: Mapped[str | None] = text_of(ID_LENGTH)
    line: Mapped[int] = mapped_column(INT)
