"""The seventeen tables of the `phenodcc_tracker` schema, with its names, types and keys, which other tools query.

Columns marked "additive" are this platform's own. The columns `zip_id` that hold a download are attributes
`download_id`.
"""

from __future__ import annotations

from datetime import date, datetime
from functools import partial
from typing import Any

from sqlalchemy import CHAR, Date, Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from dcc.databases.columns import (
    BIG,
    INT,
    PERSON,
    SIGNED_BIG,
    SIGNED_SMALL,
    SMALL,
    TINY,
    LastUpdated,
    MemberId,
    MessageText,
    TypedTable,
    big_id,
    big_reference,
    new_metadata,
    reference,
    small_id,
    small_reference,
    table_options,
)
from dcc.naming import Action
from dcc.phases import Phase, Status
from dcc.vocabulary import SourceState


class Base(TypedTable):
    """Base of all tables of the tracker; `Base.metadata` holds them."""

    __abstract__ = True
    __table_args__: Any = table_options()
    metadata = new_metadata()


phase_reference = partial(reference, MemberId(Phase), "phase.id", "RESTRICT")
status_reference = partial(reference, MemberId(Status), "a_status.id", "RESTRICT")
action_reference = partial(reference, MemberId(Action), "processing_type.id", "RESTRICT")
"""References that are members of these enumerations in Python, in conditions, new rows and results."""


class Centre(LastUpdated, Base):
    """A research centre; `short_name` is its ILAR code. Deactivated rather than deleted.

    Additive: `language` is the code of the language of its messages, null for the installation's.
    """

    id: Mapped[int] = small_id()
    short_name: Mapped[str] = mapped_column(String(32), unique=True)
    imits_name: Mapped[str | None] = mapped_column(String(32))
    full_name: Mapped[str] = mapped_column(String(128))
    email: Mapped[str] = mapped_column(String(128))
    phone: Mapped[str | None] = mapped_column(String(14))
    address: Mapped[str | None] = mapped_column(String(256))
    language: Mapped[str | None] = mapped_column(String(35))
    is_active: Mapped[bool] = mapped_column(default=True, server_default=text("1"))
    created: Mapped[datetime]


class ProtocolRow(LastUpdated, Base):
    """A protocol that file sources speak: a reference row, see `reference`."""

    __tablename__ = "source_protocol"

    id: Mapped[int] = small_id()
    short_name: Mapped[str] = mapped_column(String(8), index=True)
    description: Mapped[str | None] = mapped_column(Text)


class ResourceStateRow(LastUpdated, Base):
    """A state of a file source: a reference row."""

    id: Mapped[int] = small_id()
    short_name: Mapped[str] = mapped_column(String(32), index=True)
    description: Mapped[str | None] = mapped_column(Text)


class FileSource(LastUpdated, Base):
    """A server, or folder, from which archives are collected. `accesskey` may be a secret: never print it.

    Additive: `delta`, one of `dcc.sources.base.DeltaStrategy`; `listed_depth`, `listed_include` and `listed_exclude`,
    the parts of its `dcc.sources.base.Extent`, the latter two as JSON, null for none. `crawl_every`, in minutes,
    `crawl_windows` and `crawl_schedule` are those of its `dcc.sources.crawl_policy.CrawlPolicy`. `paused` is since when
    it is paused, null if it is not, `paused_until` null without an end, `paused_by` by whom.
    """

    id: Mapped[int] = small_id()
    centre_id: Mapped[int] = small_reference("centre.id", "CASCADE")
    protocol_id: Mapped[int] = small_reference("source_protocol.id", "CASCADE")
    hostname: Mapped[str] = mapped_column(String(512), index=True)
    username: Mapped[str] = mapped_column(String(128))
    accesskey: Mapped[str] = mapped_column(String(256))
    base_path: Mapped[str | None] = mapped_column(String(256))
    state_id: Mapped[SourceState] = reference(MemberId(SourceState), "resource_state.id", "CASCADE")
    created: Mapped[datetime]
    delta: Mapped[str] = mapped_column(String(16), default="additive", server_default="additive")
    listed_depth: Mapped[int] = mapped_column(SMALL, default=0, server_default=text("0"))
    listed_include: Mapped[str | None] = mapped_column(Text)
    listed_exclude: Mapped[str | None] = mapped_column(Text)
    crawl_every: Mapped[int | None] = mapped_column(INT)
    crawl_windows: Mapped[str | None] = mapped_column(String(255))
    crawl_schedule: Mapped[str | None] = mapped_column(String(255))
    paused: Mapped[datetime | None]
    paused_until: Mapped[datetime | None]
    paused_by: Mapped[str | None] = mapped_column(PERSON)
    pause_reason: Mapped[str | None] = mapped_column(String(256))


class PhaseRow(LastUpdated, Base):
    """A processing phase: a reference row; ids follow the pipeline's order."""

    id: Mapped[int] = small_id()
    short_name: Mapped[str] = mapped_column(String(64), unique=True)
    description: Mapped[str | None] = mapped_column(Text)


class StatusRow(LastUpdated, Base):
    """A status of a phase, with its colour: a reference row; ids follow the order of severity."""

    __tablename__ = "a_status"

    id: Mapped[int] = small_id()
    short_name: Mapped[str] = mapped_column(String(64), unique=True)
    description: Mapped[str | None] = mapped_column(Text)
    rgba: Mapped[str] = mapped_column(CHAR(8))


class ZipFile(LastUpdated, Base):
    """An archive, identified by its name. Centre, date and increment are the name's; null if it does not conform."""

    id: Mapped[int] = big_id()
    file_name: Mapped[str] = mapped_column(String(128), unique=True)
    centre_id: Mapped[int | None] = small_reference("centre.id", "SET NULL")
    created: Mapped[date | None] = mapped_column(Date)
    inc: Mapped[int | None] = mapped_column(BIG)
    size_bytes: Mapped[int | None] = mapped_column(BIG)
    content_md5: Mapped[str | None] = mapped_column(CHAR(32))


class ProcessingTypeRow(LastUpdated, Base):
    """What DCC must do with an archive (add, edit, delete): a reference row."""

    id: Mapped[int] = small_id()
    short_name: Mapped[str] = mapped_column(String(32), index=True)
    description: Mapped[str | None] = mapped_column(Text)


class ZipAction(LastUpdated, Base):
    """A submission: an archive together with its action, the unit of work."""

    __table_args__ = table_options(UniqueConstraint("zip_id", "todo_id"), Index(None, "phase_id", "status_id"))

    id: Mapped[int] = big_id()
    zip_id: Mapped[int] = big_reference("zip_file.id", "CASCADE", index=False)
    todo_id: Mapped[Action] = action_reference()
    phase_id: Mapped[Phase] = phase_reference(index=False)
    status_id: Mapped[Status] = status_reference()


class FileSourceHasZip(LastUpdated, Base):
    """A submission that a file source hosts.

    Additive: `size_bytes` and `modified` (seconds since 1970, UTC) as last listed, `has_md5` whether a checksum lies
    beside it, `gone_since` when a crawl first missed it (null while it is there). `missed_since`: since when a listing
    that had shrunk too much to be believed misses it. `uploading_since`: since when it is still being uploaded.
    `folder`: where below the action directory it lies. `manifest`: the format of the manifest beside it, empty if none,
    and `manifest_version` that one's size and time. `first_listed`: when the source listed it first, null in rows of
    earlier versions.
    """

    __table_args__ = table_options(UniqueConstraint("za_id", "file_source_id"))

    id: Mapped[int] = big_id()
    za_id: Mapped[int] = big_reference("zip_action.id", "CASCADE", index=False)
    file_source_id: Mapped[int] = small_reference("file_source.id", "CASCADE")
    num_retries: Mapped[int] = mapped_column(TINY, default=0)
    size_bytes: Mapped[int | None] = mapped_column(BIG)
    modified: Mapped[int | None] = mapped_column(SIGNED_BIG)
    has_md5: Mapped[bool] = mapped_column(default=False, server_default=text("0"))
    folder: Mapped[str] = mapped_column(String(1000), default="", server_default="")
    manifest: Mapped[str] = mapped_column(String(4), default="", server_default="")
    manifest_version: Mapped[str] = mapped_column(String(48), default="", server_default="")
    gone_since: Mapped[datetime | None]
    missed_since: Mapped[datetime | None]
    uploading_since: Mapped[datetime | None]
    first_listed: Mapped[datetime | None]


class ZipDownload(LastUpdated, Base):
    """One attempt to download an archive from one source, and the result of processing it.

    Additive: `listed_size_bytes` and `listed_modified` as the archive was listed at the request. `outcome` is one of
    `dcc.outcomes.AttemptOutcome`, null while it is running; `session_id` the session that made it. `content_size_bytes`
    and `content_md5` are of its archive, even if nothing was sent; `etag` and `last_modified` are an HTTP server's.
    `sha256` is that of its archive in the archive store. All are null in rows of earlier versions.
    """

    __table_args__ = table_options(Index(None, "phase_id", "status_id"))

    id: Mapped[int] = big_id()
    zf_id: Mapped[int] = big_reference("file_source_has_zip.id", "CASCADE")
    request: Mapped[datetime]
    received: Mapped[datetime]
    downloaded_size_bytes: Mapped[int] = mapped_column(BIG, default=0, server_default=text("0"))
    phase_id: Mapped[Phase] = phase_reference(index=False)
    status_id: Mapped[Status] = status_reference()
    listed_size_bytes: Mapped[int | None] = mapped_column(BIG)
    listed_modified: Mapped[int | None] = mapped_column(SIGNED_BIG)
    outcome: Mapped[str | None] = mapped_column(String(16))
    session_id: Mapped[int | None] = mapped_column(BIG, index=True)
    content_size_bytes: Mapped[int | None] = mapped_column(BIG)
    content_md5: Mapped[str | None] = mapped_column(CHAR(32))
    etag: Mapped[str | None] = mapped_column(String(255))
    last_modified: Mapped[str | None] = mapped_column(String(32))
    sha256: Mapped[str | None] = mapped_column(CHAR(64), index=True)


class XmlFile(LastUpdated, Base):
    """An XML document of a downloaded archive. Its id is the tracker id under which its data are kept."""

    __table_args__ = table_options(Index(None, "zip_id", "phase_id", "status_id"), Index(None, "phase_id", "status_id"))

    id: Mapped[int] = big_id()
    download_id: Mapped[int] = big_reference("zip_download.id", "CASCADE", index=False, name="zip_id")
    fname: Mapped[str] = mapped_column(String(128), index=True)
    centre_id: Mapped[int | None] = small_reference("centre.id", "SET NULL")
    created: Mapped[date | None] = mapped_column(Date, index=True)
    inc: Mapped[int | None] = mapped_column(BIG)
    size_bytes: Mapped[int | None] = mapped_column(BIG)
    content_md5: Mapped[str | None] = mapped_column(CHAR(32))
    phase_id: Mapped[Phase] = phase_reference(index=False)
    status_id: Mapped[Status] = status_reference()


class AnException(LastUpdated, Base):
    """A kind of error: the name and summary of a class in `dcc.errors`."""

    id: Mapped[int] = small_id()
    short_name: Mapped[str] = mapped_column(String(64), unique=True)
    description: Mapped[str | None] = mapped_column(Text)


class ZipLog(LastUpdated, Base):
    """Why a download attempt, or the archive it brought, was refused or failed.

    Additive: `code` and `details` are the fact that `message` says in English.
    """

    id: Mapped[int] = big_id()
    download_id: Mapped[int] = big_reference("zip_download.id", "CASCADE", name="zip_id")
    exception_id: Mapped[int] = small_reference("an_exception.id", "RESTRICT")
    message: Mapped[str | None] = mapped_column(MessageText)
    code: Mapped[str | None] = mapped_column(String(64))
    details: Mapped[str | None] = mapped_column(MessageText)


class XmlLog(LastUpdated, Base):
    """One problem of a document; line and column count from 1.

    Additive: `cleared` is when it ceased to hold, null while it does; `code` and `details` are the fact that `message`
    states in English; `severity` null means an error.
    """

    id: Mapped[int] = big_id()
    xml_id: Mapped[int] = big_reference("xml_file.id", "CASCADE")
    exception_id: Mapped[int] = small_reference("an_exception.id", "RESTRICT")
    message: Mapped[str | None] = mapped_column(MessageText)
    line: Mapped[int | None] = mapped_column(INT)
    col: Mapped[int | None] = mapped_column(INT)
    cleared: Mapped[datetime | None]
    code: Mapped[str | None] = mapped_column(String(64))
    details: Mapped[str | None] = mapped_column(MessageText)
    severity: Mapped[str | None] = mapped_column(String(16))


class CrawlingSession(LastUpdated, Base):
    """One session of crawling and processing. `status`: 0 success, else the phase of the first task that failed.

    Additive: `end_reason` is one of `dcc.outcomes.EndReason`, null until then; `status` is -2 where it was cut short.

    Additive: `centre_group` and `centres`, the group of centres that it was for, and their codes between commas; null
    for all centres.
    """

    id: Mapped[int] = big_id()
    start_time: Mapped[datetime]
    finish_time: Mapped[datetime | None]
    status: Mapped[int] = mapped_column(SIGNED_SMALL)
    created: Mapped[datetime]
    centre_group: Mapped[str | None] = mapped_column(String(32))
    centres: Mapped[str | None] = mapped_column(Text)
    end_reason: Mapped[str | None] = mapped_column(String(16))


class SessionTask(LastUpdated, Base):
    """One task of a crawling session. `status`: 0 success, 1 failure; additive: 2 cut short, 3 a full disk."""

    id: Mapped[int] = big_id()
    session_id: Mapped[int] = big_reference("crawling_session.id", "CASCADE")
    phase_id: Mapped[Phase] = phase_reference()
    comment: Mapped[str | None] = mapped_column(String(256))
    start_time: Mapped[datetime]
    finish_time: Mapped[datetime | None]
    status: Mapped[int] = mapped_column(SIGNED_SMALL)
    created: Mapped[datetime]
