"""Tables of the QC database: experiments, lines, housings and their procedures."""

from __future__ import annotations

import datetime as dt
from datetime import date

from sqlalchemy import Boolean, Date, Index
from sqlalchemy.orm import Mapped, mapped_column

from dcc.databases.columns import BIG, INT, table_options
from dcc.qc.models.base import (
    CENTRE_LENGTH,
    ID_LENGTH,
    KEY_LENGTH,
    NAME_LENGTH,
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


class OfBlock:
    """Common columns of experiments, lines and housings.

    `position` is that of the element in its block, `line` that of its tag; centre, pipeline and project are the
    block's, `procedure_id` is that of their procedure, as in `procedure_run`.
    """

    id: Mapped[int] = given_id()
    block_id: Mapped[int] = reference("centre_block.id", sort_order=-1)
    document_id: Mapped[int] = reference("document.id", sort_order=-1)
    position: Mapped[int] = mapped_column(INT, sort_order=-1)
    line: Mapped[int] = mapped_column(INT, sort_order=-1)
    centre: Mapped[str] = text_of(CENTRE_LENGTH, sort_order=-1)
    pipeline: Mapped[str] = text_of(KEY_LENGTH, sort_order=-1)
    project: Mapped[str] = text_of(NAME_LENGTH, sort_order=-1)
    procedure_id: Mapped[str | None] = text_of(KEY_LENGTH, sort_order=-1)
    lexical: Mapped[str | None] = lexical_text()
    is_current: Mapped[bool] = current_flag()
    validity: Mapped[int] = validity_flag()


class Experiment(OfBlock, QcBase):
    """One version of an experiment; its identity is (centre, experiment_id, sequence_id), see rule E9."""

    __tablename__ = "experiment"
    __table_args__ = table_options(
        Index(None, "centre", "experiment_id", "sequence_id", "is_current"),
        Index(None, "block_id", "position"),
        Index(None, "document_id"),
        counted=False,
    )

    experiment_id: Mapped[str] = text_of(ID_LENGTH)
    sequence_id: Mapped[str | None] = text_of(ID_LENGTH)
    date: Mapped[dt.date | None] = mapped_column(Date)


class ExperimentSpecimen(QcBase):
    """A specimen of an experiment, of the experiment's centre; it may not be uploaded yet (rule E4)."""

    __tablename__ = "experiment_specimen"
    __table_args__ = table_options(Index(None, "specimen_id"), counted=False)

    experiment_row: Mapped[int] = part_of("experiment.id")
    position: Mapped[int] = place()
    specimen_id: Mapped[str] = text_of(ID_LENGTH)
    line: Mapped[int] = mapped_column(INT)


class Line(OfBlock, QcBase):
    """One version of a procedure done on a colony; its identity is (centre, colony_id, sequence_id, procedure_id)."""

    __tablename__ = "line"
    __table_args__ = table_options(
        Index(None, "centre", "colony_id", "sequence_id", "is_current"),
        Index(None, "block_id", "position"),
        Index(None, "document_id"),
        counted=False,
    )

    colony_id: Mapped[str] = text_of(NAME_LENGTH)
    sequence_id: Mapped[str | None] = text_of(ID_LENGTH)


class Housing(OfBlock, QcBase):
    """One version of how a centre houses its animals."""

    __tablename__ = "housing"
    __table_args__ = table_options(
        Index(None, "centre", "procedure_id", "is_current"),
        Index(None, "block_id", "position"),
        Index(None, "document_id"),
        counted=False,
    )

    from_lims: Mapped[bool] = mapped_column(Boolean(create_constraint=False))
    last_updated: Mapped[date | None] = mapped_column(Date)


class ProcedureRun(QcBase):
    """One element `procedure`, of the experiment, line or housing `owner_id` (the table is `owner_kind`)."""

    __tablename__ = "procedure_run"
    __table_args__ = table_options(
        Index(None, "owner_kind", "owner_id"), Index(None, "document_id"), Index(None, "procedure_id"), counted=False
    )

    id: Mapped[int] = given_id()
    document_id: Mapped[int] = reference("document.id")
    owner_kind: Mapped[str] = text_of(16)
    owner_id: Mapped[int] = mapped_column(BIG)
    procedure_id: Mapped[str] = text_of(KEY_LENGTH)
    line: Mapped[int] = mapped_column(INT)
