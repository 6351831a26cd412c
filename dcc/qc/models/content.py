"""Tables of the QC database: specimens, experiments, lines, housings, and results of procedures.

Of results, `position` is a parameter's position among all parameters of its procedure, from 1. `item` is that of a
value, term or file within its parameter, null in the one row of a parameter without any. `sequence_id` is the text of
an xs:integer.
"""

from __future__ import annotations

import datetime as dt
from datetime import date

from sqlalchemy import Index, Integer
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

    __table_args__ = table_options(
        Index(None, "centre", "specimen_id", "is_current"), Index(None, "block_id", "position"), counted=False
    )

    id: Mapped[int] = given_id()
    block_id: Mapped[int] = reference("centre_block.id", index=False)
    document_id: Mapped[int] = reference("document.id")
    position: Mapped[int] = mapped_column(INT)
    line: Mapped[int] = mapped_column(INT)
    centre: Mapped[str] = text_of(CENTRE_LENGTH)
    specimen_id: Mapped[str] = text_of(ID_LENGTH)
    kind: Mapped[str] = text_of(8)
    is_baseline: Mapped[bool]
    gender: Mapped[str] = text_of(16)
    zygosity: Mapped[str] = text_of(16)
    litter_id: Mapped[str] = text_of(ID_LENGTH)
    pipeline: Mapped[str] = text_of(KEY_LENGTH)
    phenotyping_centre: Mapped[str] = text_of(CENTRE_LENGTH)
    production_centre: Mapped[str | None] = text_of(CENTRE_LENGTH)
    project: Mapped[str] = text_of(NAME_LENGTH)
    colony_id: Mapped[str | None] = text_of(NAME_LENGTH, index=True)
    strain_id: Mapped[str | None] = text_of(NAME_LENGTH)
    dob: Mapped[date | None]
    stage: Mapped[str | None] = text_of(ID_LENGTH)
    stage_unit: Mapped[str | None] = text_of(16)
    status_code: Mapped[str | None] = text_of(STATUS_LENGTH)
    status_date: Mapped[date | None]
    lexical: Mapped[str | None] = lexical_text()
    is_current: Mapped[bool] = current_flag()
    validity: Mapped[int] = validity_flag()


class RelatedSpecimen(QcBase):
    """Another specimen of the same centre that a specimen is related to; `specimen_id` is that one's."""

    specimen_row: Mapped[int] = part_of("specimen.id")
    position: Mapped[int] = place()
    specimen_id: Mapped[str] = text_of(ID_LENGTH, index=True)
    relationship: Mapped[str] = text_of(32)
    line: Mapped[int] = mapped_column(INT)


class Genotype(QcBase):
    """An allele that a specimen carries."""

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

    specimen_row: Mapped[int] = part_of("specimen.id")
    position: Mapped[int] = place()
    line: Mapped[int] = mapped_column(INT)


class Chromosome(QcBase):
    """A region that a chromosomal alteration added or removed (`kind`); `alteration` is that one's position."""

    specimen_row: Mapped[int] = part_of("specimen.id")
    alteration: Mapped[int] = mapped_column(BIG, primary_key=True, autoincrement=False)
    position: Mapped[int] = place()
    kind: Mapped[str] = text_of(8)
    region_start: Mapped[str] = text_of(ID_LENGTH)
    region_end: Mapped[str] = text_of(ID_LENGTH)
    species: Mapped[str | None] = text_of(ID_LENGTH)
    line: Mapped[int] = mapped_column(INT)


class BlockColumns:
    """Common columns of experiments, lines and housings.

    `position` is that of the element in its block, `line` that of its tag; centre, pipeline and project are the
    block's, `procedure_id` is that of their procedure, as in `procedure_run`.
    """

    id: Mapped[int] = given_id()
    block_id: Mapped[int] = reference("centre_block.id", sort_order=-1, index=False)
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


class Experiment(BlockColumns, QcBase):
    """One version of an experiment; its identity is (centre, experiment_id, sequence_id), see rule E9."""

    __table_args__ = table_options(
        Index(None, "centre", "experiment_id", "sequence_id", "is_current"),
        Index(None, "block_id", "position"),
        counted=False,
    )

    experiment_id: Mapped[str] = text_of(ID_LENGTH)
    sequence_id: Mapped[str | None] = text_of(ID_LENGTH)
    date: Mapped[dt.date | None]


class ExperimentSpecimen(QcBase):
    """A specimen of an experiment, of the experiment's centre; it may not be uploaded yet (rule E4)."""

    experiment_row: Mapped[int] = part_of("experiment.id")
    position: Mapped[int] = place()
    specimen_id: Mapped[str] = text_of(ID_LENGTH, index=True)
    line: Mapped[int] = mapped_column(INT)


class Line(BlockColumns, QcBase):
    """One version of a procedure done on a colony; its identity is (centre, colony_id, sequence_id, procedure_id)."""

    __table_args__ = table_options(
        Index(None, "centre", "colony_id", "sequence_id", "is_current"),
        Index(None, "block_id", "position"),
        counted=False,
    )

    colony_id: Mapped[str] = text_of(NAME_LENGTH)
    sequence_id: Mapped[str | None] = text_of(ID_LENGTH)


class Housing(BlockColumns, QcBase):
    """One version of how a centre houses its animals."""

    __table_args__ = table_options(
        Index(None, "centre", "procedure_id", "is_current"),
        Index(None, "block_id", "position"),
        counted=False,
    )

    from_lims: Mapped[bool]
    last_updated: Mapped[date | None]


class ProcedureRun(QcBase):
    """One element `procedure`, of the experiment, line or housing `owner_id` (the table is `owner_kind`)."""

    __table_args__ = table_options(Index(None, "owner_kind", "owner_id"), counted=False)

    id: Mapped[int] = given_id()
    document_id: Mapped[int] = reference("document.id")
    owner_kind: Mapped[str] = text_of(16)
    owner_id: Mapped[int] = mapped_column(BIG)
    procedure_id: Mapped[str] = text_of(KEY_LENGTH, index=True)
    line: Mapped[int] = mapped_column(INT)


class Measurement(QcBase):
    """A value of a simple or series parameter, or a term of an ontology parameter (`type`: `MeasurementType`).

    `value` is the exact text, null if it has none; `number` is its value if all of it is a finite number in ASCII
    digits. `status` is the parameter's. `centre` and the columns after it repeat those of its experiment, line or
    housing; `specimen_id` is null if an experiment names several specimens. `fingerprint` is computed from the
    measured data (`qc.rows.measurements`): equal measurements have equal ones, and the sum of many shows whether any
    of them changed, or two were swapped. Never changed once written: the owner of its procedure determines whether it
    is current (see the view `current_measurement`).
    """

    __table_args__ = table_options(
        Index(None, "parameter_id", "centre"), Index(None, "specimen_id", "centre"), counted=False
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
    date: Mapped[dt.date | None]
    specimen_id: Mapped[str | None] = text_of(ID_LENGTH)
    fingerprint: Mapped[int] = mapped_column(INT, default=0)


class Media(QcBase):
    """A media file of a parameter (`type`: `MediaType`).

    Of a mediaSampleParameter: `sample_id`, `section_id` and `local_id` are the localId of the sample, the section and
    the file. `sample_position` is the sample's position in the parameter, `section_position` the section's in the
    sample. Of a seriesMediaParameter: `increment`.
    """

    id: Mapped[int] = given_id()
    procedure_run_id: Mapped[int] = reference("procedure_run.id")
    position: Mapped[int] = mapped_column(INT)
    item: Mapped[int | None] = mapped_column(INT)
    type: Mapped[str] = text_of(24)
    parameter_id: Mapped[str] = text_of(KEY_LENGTH, index=True)
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
    file, by its `media.id`; `series_media`, a whole seriesMediaParameter, by the `media.id` of its first row.
    `position` is its position among those of the same owner.
    """

    __table_args__ = table_options(Index(None, "procedure_run_id", "owner_kind", "owner_id"), counted=False)

    id: Mapped[int] = given_id()
    procedure_run_id: Mapped[int] = reference("procedure_run.id", index=False)
    owner_kind: Mapped[str] = text_of(16)
    owner_id: Mapped[int] = mapped_column(BIG)
    position: Mapped[int] = mapped_column(INT)
    parameter_id: Mapped[str] = text_of(KEY_LENGTH, index=True)
    sequence_id: Mapped[str | None] = text_of(ID_LENGTH)
    value: Mapped[str | None] = mapped_column(LONG_TEXT)
    status: Mapped[str | None] = text_of(STATUS_LENGTH)
    line: Mapped[int] = mapped_column(INT)
