"""Tables of the QC database: applied documents, and the lifetimes of their entities."""

from __future__ import annotations

import datetime as dt
from datetime import date, datetime

from sqlalchemy import CHAR, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from dcc.databases.columns import BIG, INT, SMALL, MessageText, ReceiptColumns, table_options
from dcc.qc.models.base import (
    CENTRE_LENGTH,
    KEY_LENGTH,
    NAME_LENGTH,
    STATUS_LENGTH,
    QcBase,
    given_id,
    lexical_text,
    reference,
    text_of,
)


class Document(QcBase):
    """One XML document as it was applied, refused or held; ids are in the order of application of its centre.

    `tracker_id` is the tracker's `xml_file.id`, null for a document that came without a tracker. Its index is not
    unique, because a server locks the gap beside a number that moves from a row to another, and so others' new
    documents. `zip_action` is the folder of the zip, `action` what was done (`DocumentAction`), `state` what became of
    it (`DocumentState`). `undoes` is the document that an undo withdrew. `judged_at` is when the integrity rules last
    judged it. `judged_by` has the ids of the snapshots of reference data that they went by, ascending, with blanks
    between. If centres have names in iMits, a digest of these follows. `contexts_built` says whether the data contexts
    take account of what it opened and ended, and of that judgement. `overviews_built` says whether the overviews take
    account of what the contexts do. `author` and `reason` are those of a person who confirmed or withdrew it.
    `content_digest` is the digest of what it says (`dcc.documents.content_digest`), null in rows of earlier versions.
    `origin` is the file that it was converted from (JSON), null where it was submitted as it is.
    """

    __table_args__ = table_options(
        Index(None, "zip_file", "zip_action"),
        Index(None, "centre", "created"),
        Index(None, "contexts_built", "overviews_built"),
        counted=False,
    )

    id: Mapped[int] = given_id()
    tracker_id: Mapped[int | None] = mapped_column(BIG, index=True)
    zip_action: Mapped[str] = text_of(8)
    zip_file: Mapped[str] = text_of(128)
    file_name: Mapped[str] = text_of(128)
    kind: Mapped[str] = text_of(16)
    centre: Mapped[str] = text_of(CENTRE_LENGTH)
    created: Mapped[date | None]
    inc: Mapped[int | None] = mapped_column(BIG)
    action: Mapped[str] = text_of(8)
    md5: Mapped[str | None] = mapped_column(CHAR(32))
    size_bytes: Mapped[int | None] = mapped_column(BIG)
    state: Mapped[str] = text_of(8, index=True)
    late: Mapped[bool] = mapped_column(default=False)
    applied_at: Mapped[datetime | None]
    judged_at: Mapped[datetime | None]
    judged_by: Mapped[str | None] = text_of(128)
    contexts_built: Mapped[bool] = mapped_column(default=False)
    overviews_built: Mapped[bool] = mapped_column(default=False)
    undoes: Mapped[int | None] = reference("document.id")
    author: Mapped[str | None] = text_of(64)
    reason: Mapped[str | None] = text_of(256)
    specimens: Mapped[int] = mapped_column(INT, default=0)
    experiments: Mapped[int] = mapped_column(INT, default=0)
    lines: Mapped[int] = mapped_column(INT, default=0)
    housings: Mapped[int] = mapped_column(INT, default=0)
    measurements: Mapped[int] = mapped_column(INT, default=0)
    content_digest: Mapped[str | None] = mapped_column(CHAR(32))
    origin: Mapped[str | None] = mapped_column(MessageText)


class CentreBlock(QcBase):
    """An element `centre` of a document; `pipeline` and `project` in experiment documents only."""

    __table_args__ = table_options(Index(None, "document_id", "position"), counted=False)

    id: Mapped[int] = given_id()
    document_id: Mapped[int] = reference("document.id", index=False)
    position: Mapped[int] = mapped_column(INT)
    centre: Mapped[str] = text_of(CENTRE_LENGTH)
    pipeline: Mapped[str | None] = text_of(KEY_LENGTH)
    project: Mapped[str | None] = text_of(NAME_LENGTH)
    line: Mapped[int] = mapped_column(INT)


class Lifetime(QcBase):
    """From which document on, and before which one, a version of an entity is current; null: to the present.

    A version has several if a document that ended it was undone. As of document N those are current with `opened_by <=
    N AND (ended_by IS NULL OR ended_by > N)`. `entity_id` is a row of the table `entity_kind`.
    """

    __table_args__ = table_options(Index(None, "entity_kind", "entity_id"), counted=False)

    id: Mapped[int] = given_id()
    entity_kind: Mapped[str] = text_of(16)
    entity_id: Mapped[int] = mapped_column(BIG)
    opened_by: Mapped[int] = reference("document.id")
    ended_by: Mapped[int | None] = reference("document.id")


class StatusCodeRow(QcBase):
    """A status code of an experiment or line, which is the row `owner_id` of the table `owner_kind`."""

    __table_args__ = table_options(Index(None, "owner_kind", "owner_id", "position"), counted=False)

    id: Mapped[int] = given_id()
    owner_kind: Mapped[str] = text_of(16)
    owner_id: Mapped[int] = mapped_column(BIG)
    position: Mapped[int] = mapped_column(INT)
    code: Mapped[str] = text_of(STATUS_LENGTH)
    date: Mapped[dt.date | None]
    lexical: Mapped[str | None] = lexical_text()
    line: Mapped[int] = mapped_column(INT)


class UploadLock(QcBase):
    """Locks for all centres: rows that are locked, with their last holder: see `qc.apply.upload_lock`."""

    id: Mapped[int] = mapped_column(SMALL, primary_key=True, autoincrement=False)
    holder: Mapped[str | None] = mapped_column(String(128))
    host: Mapped[str | None] = mapped_column(String(128))
    pid: Mapped[int | None] = mapped_column(Integer)
    acquired: Mapped[datetime | None]


class CentreLock(QcBase):
    """The lock of a centre on MySQL and MariaDB: a row that is locked, with its last holder."""

    centre: Mapped[str] = text_of(CENTRE_LENGTH, primary_key=True)
    host: Mapped[str] = text_of(128)
    pid: Mapped[int] = mapped_column(INT)
    acquired: Mapped[datetime]


class ReservedIds(QcBase):
    """The last id of the table `name` that the last transaction of a centre, the `owner`, may have used.

    On MySQL and MariaDB, for open transactions.
    """

    owner: Mapped[str] = text_of(CENTRE_LENGTH, primary_key=True)
    name: Mapped[str] = text_of(KEY_LENGTH, primary_key=True)
    last: Mapped[int] = mapped_column(BIG)


class WriteReceipt(ReceiptColumns, QcBase):
    """The last write transaction of each writer: see `dcc.databases.transactions.run_writing`."""
