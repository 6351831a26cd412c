"""Tables of the QC database: findings of the integrity rules, waivers, and the reference data of judgements.

The rows of a snapshot of reference data are deleted with it; findings keep the snapshot that judged them from being
deleted.
"""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import Index, Integer
from sqlalchemy.orm import Mapped, MappedColumn, mapped_column

from dcc.databases.columns import BIG, DOUBLE, INT, LONG_TEXT, MessageText, big_id, big_reference, table_options
from dcc.qc.models.base import CENTRE_LENGTH, ID_LENGTH, KEY_LENGTH, NAME_LENGTH, QcBase, place, reference, text_of


def _of_snapshot() -> MappedColumn[int]:
    return big_reference("reference_snapshot.id", "CASCADE", primary_key=True, autoincrement=False)


def _key(length: int) -> MappedColumn[str]:
    return text_of(length, primary_key=True)


class ReferenceSnapshot(QcBase):
    """A set of reference data as retrieved at one time; of each `name` at most one is active.

    `retrieved` is when this state of it was retrieved first, `checked` when last. `source` is a path or URL, without
    the query of a URL.
    """

    __table_args__ = table_options(Index(None, "name", "is_active"))

    id: Mapped[int] = big_id()
    name: Mapped[str] = text_of(32)
    retrieved: Mapped[datetime]
    checked: Mapped[datetime]
    source: Mapped[str] = text_of(1_024)
    checksum: Mapped[str] = text_of(64)
    row_count: Mapped[int] = mapped_column(INT)
    is_active: Mapped[bool]


class ReferenceRefusal(QcBase):
    """Why the set `name` from the address `source`, shown without secrets, was refused at the last try."""

    name: Mapped[str] = _key(32)
    source: Mapped[str] = text_of(1_024)
    refused: Mapped[datetime]
    reason: Mapped[str] = mapped_column(MessageText)


class ImpressPipeline(QcBase):
    """A pipeline of IMPReSS."""

    snapshot_id: Mapped[int] = _of_snapshot()
    pipeline: Mapped[str] = _key(KEY_LENGTH)
    name: Mapped[str | None] = text_of(ID_LENGTH)


class ImpressProcedure(QcBase):
    """A procedure of a pipeline of IMPReSS; `variant` is 1 unless pipelines have different ones with this key.

    `level` is experiment, line or housing. The pipeline asks for it at an age of `weeks`, or of embryos at a `stage`.
    """

    snapshot_id: Mapped[int] = _of_snapshot()
    pipeline: Mapped[str] = _key(KEY_LENGTH)
    procedure_id: Mapped[str] = _key(KEY_LENGTH)
    variant: Mapped[int] = mapped_column(INT)
    name: Mapped[str | None] = text_of(ID_LENGTH)
    is_active: Mapped[bool]
    is_mandatory: Mapped[bool | None]
    level: Mapped[str | None] = text_of(16)
    weeks: Mapped[float | None] = mapped_column(DOUBLE)
    stage: Mapped[str | None] = text_of(ID_LENGTH)


class ImpressParameter(QcBase):
    """A parameter of a variant of a procedure of IMPReSS; `type` is the element it is submitted as, `value_type` TEXT.

    `variant` distinguishes its options from those of parameters with the same key: 1 except if they differ.
    `qc_minimum` and `qc_maximum` are null unless values must be compared with them.
    """

    snapshot_id: Mapped[int] = _of_snapshot()
    procedure_id: Mapped[str] = _key(KEY_LENGTH)
    procedure_variant: Mapped[int] = mapped_column(INT, primary_key=True, autoincrement=False)
    parameter_id: Mapped[str] = _key(KEY_LENGTH)
    variant: Mapped[int] = mapped_column(INT)
    name: Mapped[str | None] = text_of(ID_LENGTH)
    type: Mapped[str] = text_of(24)
    value_type: Mapped[str | None] = text_of(16)
    unit: Mapped[str | None] = text_of(ID_LENGTH)
    is_required: Mapped[bool]
    is_important: Mapped[bool]
    is_active: Mapped[bool]
    qc_minimum: Mapped[float | None] = mapped_column(DOUBLE)
    qc_maximum: Mapped[float | None] = mapped_column(DOUBLE)


class ImpressOption(QcBase):
    """A value that a parameter may have."""

    snapshot_id: Mapped[int] = _of_snapshot()
    parameter_id: Mapped[str] = _key(KEY_LENGTH)
    variant: Mapped[int] = mapped_column(INT, primary_key=True, autoincrement=False)
    position: Mapped[int] = place()
    name: Mapped[str] = text_of(1_024)
    is_active: Mapped[bool]


class ImpressIncrement(QcBase):
    """A permitted or required increment of a parameter's series; `kind` is repeat, float or datetime."""

    snapshot_id: Mapped[int] = _of_snapshot()
    parameter_id: Mapped[str] = _key(KEY_LENGTH)
    variant: Mapped[int] = mapped_column(INT, primary_key=True, autoincrement=False)
    position: Mapped[int] = place()
    value: Mapped[str] = text_of(ID_LENGTH)
    kind: Mapped[str | None] = text_of(16)
    unit: Mapped[str | None] = text_of(ID_LENGTH)
    minimum: Mapped[int] = mapped_column(Integer)
    is_active: Mapped[bool]


class ImpressOntologyOption(QcBase):
    """An ontology term that a parameter may have; `is_active` is null, active, in rows of earlier versions."""

    snapshot_id: Mapped[int] = _of_snapshot()
    parameter_id: Mapped[str] = _key(KEY_LENGTH)
    variant: Mapped[int] = mapped_column(INT, primary_key=True, autoincrement=False)
    position: Mapped[int] = place()
    ontology_id: Mapped[str] = text_of(KEY_LENGTH)
    is_active: Mapped[bool | None]


class KnownStatusCode(QcBase):
    """A status code and its meaning."""

    snapshot_id: Mapped[int] = _of_snapshot()
    code: Mapped[str] = _key(KEY_LENGTH)
    description: Mapped[str] = mapped_column(MessageText)


class KnownProject(QcBase):
    """A project that centres submit data for."""

    snapshot_id: Mapped[int] = _of_snapshot()
    name: Mapped[str] = _key(NAME_LENGTH)


class KnownColony(QcBase):
    """A production of a registered colony: centre, status, day, and its strain and allele."""

    snapshot_id: Mapped[int] = _of_snapshot()
    colony_id: Mapped[str] = _key(NAME_LENGTH)
    position: Mapped[int] = place()
    production_centre: Mapped[str] = text_of(CENTRE_LENGTH)
    status: Mapped[str] = text_of(NAME_LENGTH)
    created: Mapped[date | None]
    strain_id: Mapped[str | None] = text_of(NAME_LENGTH)
    gene_id: Mapped[str | None] = text_of(NAME_LENGTH)
    gene_symbol: Mapped[str | None] = text_of(NAME_LENGTH)
    allele_id: Mapped[str | None] = text_of(NAME_LENGTH)
    allele_symbol: Mapped[str | None] = text_of(ID_LENGTH)


class KnownStrain(QcBase):
    """A strain that MGI knows."""

    snapshot_id: Mapped[int] = _of_snapshot()
    strain_id: Mapped[str] = _key(NAME_LENGTH)
    name: Mapped[str] = text_of(1_024)


class Waiver(QcBase):
    """A rule that is waived, or lowered to a warning (`effect`); null centre and procedure mean all of them.

    It holds from the day `valid_from` to the day `valid_until`, both included; null: without end. A revoked one stays
    on record, and no longer holds.
    """

    __table_args__ = table_options()

    id: Mapped[int] = big_id()
    rule: Mapped[str] = text_of(16, index=True)
    centre: Mapped[str | None] = text_of(CENTRE_LENGTH)
    procedure_id: Mapped[str | None] = text_of(KEY_LENGTH)
    valid_from: Mapped[date]
    valid_until: Mapped[date | None]
    effect: Mapped[str] = text_of(8)
    reason: Mapped[str] = text_of(256)
    author: Mapped[str] = text_of(64)
    created: Mapped[datetime]
    revoked: Mapped[datetime | None]
    revoked_by: Mapped[str | None] = text_of(64)
    revoked_reason: Mapped[str | None] = text_of(256)


class Finding(QcBase):
    """A finding of a rule in a document (`severity`: `Severity`), at a line and path, with the offending value.

    It concerns the row `entity_id` of the table `entity_kind` (an entity's, or `centre_block`), if it was written.
    `code` and `details` (JSON by name, null if only the message is known) are the facts, of which `message` is the
    English rendering. Findings of one cause share the number `cause`. `snapshot_id` is what judged it, `waiver_id` the
    waiver that lowered or waived it; `severity` is the one after that. It is active while it counts or warns, so that a
    waived one is not. It is kept after its cause is gone: inactive then, since `closed`, by the document `closed_by` if
    one did it.
    """

    __table_args__ = table_options(
        Index("ix_finding_cause", "document_id", "is_active", "code", "cause", "severity", "entity_kind", "entity_id"),
        Index(None, "rule", "is_active"),
        Index(None, "severity", "is_active"),
        Index(None, "entity_kind", "entity_id"),
    )

    id: Mapped[int] = big_id()
    document_id: Mapped[int | None] = reference("document.id", index=False)
    tracker_id: Mapped[int | None] = mapped_column(BIG, index=True)
    rule: Mapped[str] = text_of(16)
    severity: Mapped[str] = text_of(16)
    message: Mapped[str] = mapped_column(MessageText)
    line: Mapped[int | None] = mapped_column(INT)
    path: Mapped[str | None] = mapped_column(MessageText)
    value: Mapped[str | None] = mapped_column(MessageText)
    entity_kind: Mapped[str | None] = text_of(16)
    entity_id: Mapped[int | None] = mapped_column(BIG)
    snapshot_id: Mapped[int | None] = reference("reference_snapshot.id")
    waiver_id: Mapped[int | None] = reference("waiver.id")
    is_active: Mapped[bool] = mapped_column(default=True)
    created: Mapped[datetime]
    closed: Mapped[datetime | None]
    closed_by: Mapped[int | None] = reference("document.id")
    code: Mapped[str] = text_of(64, server_default="")
    details: Mapped[str | None] = mapped_column(MessageText)
    cause: Mapped[int] = mapped_column(BIG, server_default="0")


class FetchedPage(QcBase):
    """A server's last answer at an address, for conditional requests.

    The address is without its query, such as a token; a fingerprint replaces that.
    """

    __table_args__ = table_options()

    id: Mapped[int] = big_id()
    address_md5: Mapped[str] = text_of(32, unique=True)
    address: Mapped[str] = text_of(2_000)
    entity_tag: Mapped[str | None] = text_of(ID_LENGTH)
    last_modified: Mapped[str | None] = text_of(64)
    retrieved: Mapped[datetime]
    content: Mapped[str] = mapped_column(LONG_TEXT)
