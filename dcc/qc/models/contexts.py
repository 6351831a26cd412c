"""Tables of the QC database: data contexts with their states, and overviews.

Genotype is the colony of a mutant and "baseline" for a baseline animal; unknown values are the empty text, so that each
context has one key. Trailing blanks do not count in keys. All of this follows from the other tables, except for
people's decisions: the states that they gave, and their issues.
"""

from __future__ import annotations

import datetime as dt
from datetime import datetime

from sqlalchemy import CHAR, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from dcc.databases.columns import BIG, LONG_TEXT, big_id, big_reference, table_options
from dcc.qc.models.base import (
    CENTRE_LENGTH,
    ID_LENGTH,
    KEY_LENGTH,
    NAME_LENGTH,
    QcBase,
    part_of,
    place,
    reference,
    text_of,
)


class DataContext(QcBase):
    """The current, valid measurements of one parameter of a procedure on one genotype at a centre.

    `checksum` is the sum of their fingerprints in hexadecimal. `data_state` is the change of the data since somebody
    marked them as done (`ContextState`), `issues` the number of open issues. `state` combines both: hasissues if there
    is an open issue, else the other. `document_id` is the document that last changed it.
    """

    __table_args__ = table_options(
        UniqueConstraint(
            "centre", "pipeline", "genotype", "strain_id", "procedure_id", "parameter_id", name="uq_data_context_key"
        )
    )

    id: Mapped[int] = big_id()
    centre: Mapped[str] = text_of(CENTRE_LENGTH)
    pipeline: Mapped[str] = text_of(KEY_LENGTH)
    genotype: Mapped[str] = text_of(NAME_LENGTH)
    strain_id: Mapped[str] = text_of(NAME_LENGTH)
    procedure_id: Mapped[str] = text_of(KEY_LENGTH)
    parameter_id: Mapped[str] = text_of(KEY_LENGTH, index=True)
    measurements: Mapped[int] = mapped_column(BIG)
    checksum: Mapped[str] = mapped_column(CHAR(32))
    state: Mapped[str] = text_of(16, index=True)
    data_state: Mapped[str] = text_of(16)
    issues: Mapped[int] = mapped_column(BIG, default=0)
    document_id: Mapped[int | None] = reference("document.id")
    created: Mapped[datetime]
    changed: Mapped[datetime]


class ContextHistory(QcBase):
    """An event of a data context (`ContextEvent`), by a document or by a person, and the state after it."""

    __table_args__ = table_options()

    id: Mapped[int] = big_id()
    context_id: Mapped[int] = reference("data_context.id")
    event: Mapped[str] = text_of(16)
    state: Mapped[str] = text_of(16)
    measurements: Mapped[int] = mapped_column(BIG)
    checksum: Mapped[str] = mapped_column(CHAR(32))
    document_id: Mapped[int | None] = reference("document.id")
    author: Mapped[str | None] = text_of(64)
    reason: Mapped[str | None] = text_of(256)
    created: Mapped[datetime]


class DocumentContext(QcBase):
    """A data context in which a document has current, valid measurements, and their number."""

    document_id: Mapped[int] = part_of("document.id")
    context_id: Mapped[int] = big_reference(
        "data_context.id", "RESTRICT", primary_key=True, autoincrement=False, index=True
    )
    measurements: Mapped[int] = mapped_column(BIG)


class ContextMember(QcBase):
    """The genotype and strain under which the measurements of a procedure run are counted in data contexts now."""

    procedure_run_id: Mapped[int] = part_of("procedure_run.id")
    genotype: Mapped[str] = text_of(NAME_LENGTH, primary_key=True)
    strain_id: Mapped[str] = text_of(NAME_LENGTH, primary_key=True)


class ContextIssue(QcBase):
    """An issue that somebody raised on the data of a context; open until `resolved`."""

    __table_args__ = table_options()

    id: Mapped[int] = big_id()
    context_id: Mapped[int] = reference("data_context.id")
    reason: Mapped[str] = text_of(256)
    raised_by: Mapped[str] = text_of(64)
    created: Mapped[datetime]
    resolved: Mapped[datetime | None]
    resolved_by: Mapped[str | None] = text_of(64)
    resolution: Mapped[str | None] = text_of(256)


class BuildBasis(QcBase):
    """The snapshot of a reference set (`name`) with which the contexts or overviews (`build`) were last built."""

    build: Mapped[str] = text_of(16, primary_key=True)
    name: Mapped[str] = text_of(32, primary_key=True)
    snapshot_id: Mapped[int] = mapped_column(BIG)


class MetadataGroup(QcBase):
    """The circumstances of comparable procedures; `content` is a JSON object of parameter to value."""

    checksum: Mapped[str] = mapped_column(CHAR(32), primary_key=True)
    content: Mapped[str] = mapped_column(LONG_TEXT)


class OverviewGenotype(QcBase):
    """A genotype of current, valid specimens of a centre, and their number; with its colony's data, if known."""

    centre: Mapped[str] = text_of(CENTRE_LENGTH, primary_key=True)
    genotype: Mapped[str] = text_of(NAME_LENGTH, primary_key=True)
    strain_id: Mapped[str] = text_of(NAME_LENGTH, primary_key=True)
    gene_id: Mapped[str | None] = text_of(NAME_LENGTH)
    gene_symbol: Mapped[str | None] = text_of(NAME_LENGTH)
    allele_id: Mapped[str | None] = text_of(NAME_LENGTH)
    specimens: Mapped[int] = mapped_column(BIG)


class OverviewAnimalProcedure(QcBase):
    """A current, valid run with one of its animals, its measurements' number and metadata group.

    `position` is the animal's position in the experiment; a line has one row, without an animal.
    """

    __table_args__ = table_options(
        Index(None, "centre", "procedure_id", "strain_id", "metadata_group"),
        Index(None, "centre", "specimen_id"),
        counted=False,
    )

    procedure_run_id: Mapped[int] = part_of("procedure_run.id")
    position: Mapped[int] = place()
    centre: Mapped[str] = text_of(CENTRE_LENGTH)
    pipeline: Mapped[str] = text_of(KEY_LENGTH)
    project: Mapped[str] = text_of(NAME_LENGTH)
    procedure_id: Mapped[str] = text_of(KEY_LENGTH)
    specimen_id: Mapped[str | None] = text_of(ID_LENGTH)
    genotype: Mapped[str] = text_of(NAME_LENGTH)
    strain_id: Mapped[str] = text_of(NAME_LENGTH)
    is_baseline: Mapped[bool | None]
    gender: Mapped[str | None] = text_of(16)
    zygosity: Mapped[str | None] = text_of(16)
    date: Mapped[dt.date | None]
    measurements: Mapped[int] = mapped_column(BIG)
    metadata_group: Mapped[str] = mapped_column(CHAR(32), index=True)
