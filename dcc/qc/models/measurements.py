"""Tables of the QC database: results of procedures.

`position` is a parameter's position among all parameters of its procedure, from 1; `item` that of a value, term or file
within its parameter, null in the one row of a parameter without any. `sequence_id` is the text of an xs:integer.
"""

from __future__ import annotations

import datetime as dt

from sqlalchemy import Date, Index
from sqlalchemy.orm import Mapped, mapped_column

from dcc.databases.columns import BIG, DOUBLE, INT, LONG_TEXT, table_options
from dcc.qc.models.base import (
    CENTRE_LENGTH,
    ID_LENGTH,
    KEY_LENGTH,
    NAME_LENGTH,
    STATUS_LENGTH,
    URI_LENGTH,
    QcBase,
    given_id,
    part_of,
    place,
    reference,
    text_of,
)


class Measurement(QcBase):
    """A value of a simple or series parameter, or a term of an ontology parameter (`type`: `MeasurementType`).

    `value` is the exact text, null without one; `number` is its value if all of it is a finite number in ASCII digits.
    `status` is the parameter's. From `centre` on, the columns repeat its experiment, line or housing; `specimen_id` is
    null if an experiment names several specimens. `fingerprint` is computed from the measured data
    (`qc.rows.measurements`): equal measurements have equal ones, and the sum of many shows whether any of them changed,
    or two were swapped. Never changed once written: the owner of its procedure determines whether it is current (see
    the view `current_measurement`).
    """

    __tablename__ = "measurement"
    __table_args__ = table_options(
        Index(None, "procedure_run_id"),
        Index(None, "parameter_id", "centre"),
        Index(None, "specimen_id", "centre"),
        counted=False,
    )

    id: Mapped[int] = given_id()
    procedure_run_id: Mapped[int] = reference("procedure_run.id")
    document_id: Mapped[int] = mapped_column(BIG)
    position: Mapped[int] = mapped_column(INT)
    item: Mapped[int | None] = mapped_column(INT)
    type: Mapped[str] = text_of(24)
    parameter_id: Mapped[str] = text_of(KEY_LENGTH)
    sequence_id: Mapped[str | None] = text_of(ID_LENGTH)
    increment: Mapped[str | None] = text_of(ID_LENGTH)
    increment_status: Mapped[str | None] = text_of(STATUS_LENGTH)
    value: Mapped[str | None] = mapped_column(LONG_TEXT)
    number: Mapped[float | None] = mapped_column(DOUBLE)
    unit: Mapped[str | None] = text_of(ID_LENGTH)
    status: Mapped[str | None] = text_of(STATUS_LENGTH)
    line: Mapped[int] = mapped_column(INT)
    centre: Mapped[str] = text_of(CENTRE_LENGTH)
    pipeline: Mapped[str] = text_of(KEY_LENGTH)
    project: Mapped[str] = text_of(NAME_LENGTH)
    procedure_id: Mapped[str] = text_of(KEY_LENGTH)
    experiment_id: Mapped[str | None] = text_of(ID_LENGTH)
    date: Mapped[dt.date | None] = mapped_column(Date)
    specimen_id: Mapped[str | None] = text_of(ID_LENGTH)
    fingerprint: Mapped[int] = mapped_column(INT, default=0)


class Media(QcBase):
    """A media file of a parameter (`type`: `MediaType`).

    Of a mediaSampleParameter: `sample_id`, `section_id` and `local_id` are the localId of the sample, the section and
    the file; `sample_position` is the sample's position in the parameter, `section_position` the section's in the
    sample. Of a seriesMediaParameter: `increment`.
    """

    __tablename__ = "media"
    __table_args__ = table_options(Index(None, "procedure_run_id"), Index(None, "parameter_id"), counted=False)

    id: Mapped[int] = given_id()
    procedure_run_id: Mapped[int] = reference("procedure_run.id")
    position: Mapped[int] = mapped_column(INT)
    item: Mapped[int | None] = mapped_column(INT)
    type: Mapped[str] = text_of(24)
    parameter_id: Mapped[str] = text_of(KEY_LENGTH)
    sample_position: Mapped[int | None] = mapped_column(INT)
    sample_id: Mapped[str | None] = text_of(ID_LENGTH)
    section_position: Mapped[int | None] = mapped_column(INT)
    section_id: Mapped[str | None] = text_of(ID_LENGTH)
    local_id: Mapped[str | None] = text_of(ID_LENGTH)
    increment: Mapped[str | None] = text_of(ID_LENGTH)
    uri: Mapped[str | None] = text_of(URI_LENGTH)
    file_type: Mapped[str | None] = text_of(ID_LENGTH)
    link: Mapped[str | None] = text_of(URI_LENGTH)
    status: Mapped[str | None] = text_of(STATUS_LENGTH)
    line: Mapped[int] = mapped_column(INT)


class MediaAssociation(QcBase):
    """A parameter of the same procedure that a media file shows (parameterAssociation)."""

    __tablename__ = "media_association"
    __table_args__ = table_options(counted=False)

    media_id: Mapped[int] = part_of("media.id")
    position: Mapped[int] = place()
    parameter_id: Mapped[str] = text_of(KEY_LENGTH)
    sequence_id: Mapped[str | None] = text_of(ID_LENGTH)
    link: Mapped[str | None] = text_of(URI_LENGTH)
    line: Mapped[int] = mapped_column(INT)


class Dimension(QcBase):
    """Where an associated parameter is seen in a media file, along one dimension; `association` is its position.

    `value` is the text of the xs:decimal, `number` the nearest double.
    """

    __tablename__ = "dimension"
    __table_args__ = table_options(counted=False)

    media_id: Mapped[int] = part_of("media.id")
    association: Mapped[int] = mapped_column(BIG, primary_key=True, autoincrement=False)
    position: Mapped[int] = place()
    dimension_id: Mapped[str] = text_of(ID_LENGTH)
    origin: Mapped[str] = text_of(ID_LENGTH)
    unit: Mapped[str | None] = text_of(ID_LENGTH)
    value: Mapped[str] = text_of(ID_LENGTH)
    number: Mapped[float | None] = mapped_column(DOUBLE)
    line: Mapped[int] = mapped_column(INT)


class Metadata(QcBase):
    """A procedureMetadata element: the circumstances of a procedure or a media file.

    Its owner (`owner_kind`: `MetadataOwner`), with `owner_id`: `procedure`, the procedure run itself; `media`, a media
    file, by its `media.id`; `series_media`, a seriesMediaParameter as a whole, by the `media.id` of its first row.
    `position` is its position among those of the same owner.
    """

    __tablename__ = "metadata"
    __table_args__ = table_options(
        Index(None, "procedure_run_id", "owner_kind", "owner_id"), Index(None, "parameter_id"), counted=False
    )

    id: Mapped[int] = given_id()
    procedure_run_id: Mapped[int] = reference("procedure_run.id")
    owner_kind: Mapped[str] = text_of(16)
    owner_id: Mapped[int] = mapped_column(BIG)
    position: Mapped[int] = mapped_column(INT)
    parameter_id: Mapped[str] = text_of(KEY_LENGTH)
    sequence_id: Mapped[str | None] = text_of(ID_LENGTH)
    value: Mapped[str | None] = mapped_column(LONG_TEXT)
    status: Mapped[str | None] = text_of(STATUS_LENGTH)
    line: Mapped[int] = mapped_column(INT)
