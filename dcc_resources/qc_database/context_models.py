"""Tables of the QC database: data contexts with their states, and overviews (reference databases).

Genotype is the colony of a mutant and "baseline" for a baseline animal; what is not known is the empty text, so that
each context has one key.
"""

from __future__ import annotations

import datetime as dt
from datetime import datetime

from sqlalchemy import CHAR, Boolean, Date, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from dcc_resources.databases.columns import BIG, LONG_TEXT, big_id, big_reference, table_options
from dcc_resources.qc_database.base import (
    CENTRE_LENGTH,
    ID_LENGTH,
    KEY_LENGTH,
    NAME_LENGTH,
    QcBase,
    part_of,
    reference,
    text_of,
)


class DataContext(QcBase):
    """The current measurements of one parameter of a procedure on one genotype at a centre; state: `ContextState`.

    `checksum` is that of the measurements. `document_id` is the document that last changed it.
    """

    __tablename__ = "data_context"
    __table_args__ = table_options(
        UniqueConstraint(
            "centre", "pipeline", "genotype", "strain_id", "procedure_id", "parameter_id", name="uq_data_context_key"
        ),
        Index(None, "state"),
        Index(None, "parameter_id"),
        Index(None, "document_id"),
    )

    id: Mapped[int] = big_id()
    centre: Mapped[str] = text_of(CENTRE_LENGTH)
    pipeline: Mapped[str] = text_of(KEY_LENGTH)
    genotype: Mapped[str] = text_of(NAME_LENGTH)
    strain_id: Mapped[str] = text_of(NAME_LENGTH)
    procedure_id: Mapped[str] = text_of(KEY_LENGTH)
    parameter_id: Mapped[str] = text_of(KEY_LENGTH)
    measurements: Mapped[int] = mapped_column(BIG)
    checksum: Mapped[str] = mapped_column(CHAR(32))
    state: Mapped[str] = text_of(16)
    document_id: Mapped[int | None] = reference("document.id")
    created: Mapped[datetime]
    changed: Mapped[datetime]


class ContextHistory(QcBase):
    """A state that a data context came into: by a document, or by a person with a reason."""

    __tablename__ = "context_history"
    __table_args__ = table_options(Index(None, "context_id"), Index(None, "document_id"))

    id: Mapped[int] = big_id()
    context_id: Mapped[int] = reference("data_context.id")
    state: Mapped[str] = text_of(16)
    measurements: Mapped[int] = mapped_column(BIG)
    checksum: Mapped[str] = mapped_column(CHAR(32))
    document_id: Mapped[int | None] = reference("document.id")
    author: Mapped[str | None] = text_of(64)
    reason: Mapped[str | None] = text_of(256)
    created: Mapped[datetime]


class DocumentContext(QcBase):
    """A data context that a document has current, valid measurements in."""

    __tablename__ = "document_context"
    __table_args__ = table_options(Index(None, "context_id"), counted=False)

    document_id: Mapped[int] = part_of("document.id")
    context_id: Mapped[int] = big_reference("data_context.id", "RESTRICT", primary_key=True, autoincrement=False)


class MetadataGroup(QcBase):
    """The circumstances under which procedures were done alike; `content` is a JSON object of parameter to value."""

    __tablename__ = "metadata_group"
    __table_args__ = table_options(counted=False)

    checksum: Mapped[str] = mapped_column(CHAR(32), primary_key=True)
    content: Mapped[str] = mapped_column(LONG_TEXT)


class OverviewStrain(QcBase):
    """A strain that current specimens have, and how many."""

    __tablename__ = "overview_strain"
    __table_args__ = table_options(counted=False)

    strain_id: Mapped[str] = text_of(NAME_LENGTH, primary_key=True)
    name: Mapped[str | None] = text_of(ID_LENGTH)
    specimens: Mapped[int] = mapped_column(BIG)


class OverviewGenotype(QcBase):
    """A genotype that current specimens of a centre have, and how many."""

    __tablename__ = "overview_genotype"
    __table_args__ = table_options(counted=False)

    centre: Mapped[str] = text_of(CENTRE_LENGTH, primary_key=True)
    genotype: Mapped[str] = text_of(NAME_LENGTH, primary_key=True)
    strain_id: Mapped[str] = text_of(NAME_LENGTH, primary_key=True)
    gene_id: Mapped[str | None] = text_of(NAME_LENGTH)
    gene_symbol: Mapped[str | None] = text_of(NAME_LENGTH)
    allele_id: Mapped[str | None] = text_of(NAME_LENGTH)
    specimens: Mapped[int] = mapped_column(BIG)


class OverviewAnimalProcedure(QcBase):
    """A current procedure run with the animal it was done on, how many measurements it has and its metadata group."""

    __tablename__ = "overview_animal_procedure"
    __table_args__ = table_options(
        Index(None, "centre", "procedure_id", "genotype"),
        Index(None, "centre", "specimen_id"),
        Index(None, "metadata_group"),
        counted=False,
    )

    procedure_run_id: Mapped[int] = part_of("procedure_run.id")
    centre: Mapped[str] = text_of(CENTRE_LENGTH)
    pipeline: Mapped[str] = text_of(KEY_LENGTH)
    project: Mapped[str] = text_of(NAME_LENGTH)
    procedure_id: Mapped[str] = text_of(KEY_LENGTH)
    specimen_id: Mapped[str | None] = text_of(ID_LENGTH)
    genotype: Mapped[str] = text_of(NAME_LENGTH)
    strain_id: Mapped[str] = text_of(NAME_LENGTH)
    is_baseline: Mapped[bool | None] = mapped_column(Boolean(create_constraint=False))
    gender: Mapped[str | None] = text_of(16)
    zygosity: Mapped[str | None] = text_of(16)
    date: Mapped[dt.date | None] = mapped_column(Date)
    measurements: Mapped[int] = mapped_column(BIG)
    metadata_group: Mapped[str] = mapped_column(CHAR(32))
