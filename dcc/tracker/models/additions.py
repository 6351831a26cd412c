"""The tables that this platform adds to the `phenodcc_tracker` schema."""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import CHAR, Date, Index, Integer, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from dcc.databases.columns import (
    BIG,
    DOUBLE,
    INT,
    LONG_TEXT,
    PERSON,
    SIGNED_BIG,
    SMALL,
    CutText,
    LastUpdated,
    MessageText,
    ReceiptColumns,
    big_id,
    big_reference,
    small_reference,
    table_options,
)
from dcc.naming import Action
from dcc.phases import Phase, Status
from dcc.tracker.models.phenodcc import Base, action_reference, phase_reference, status_reference


class ZipActionLog(LastUpdated, Base):
    """Why a submission failed without a download, and when its archive was removed from staging."""

    id: Mapped[int] = big_id()
    za_id: Mapped[int] = big_reference("zip_action.id", "CASCADE")
    exception_id: Mapped[int] = small_reference("an_exception.id", "RESTRICT")
    message: Mapped[str | None] = mapped_column(MessageText)
    code: Mapped[str | None] = mapped_column(String(64))
    details: Mapped[str | None] = mapped_column(MessageText)


class Reopening(Base):
    """A submission set back to be processed again, by whom, why and from which state.

    `last_download_id` is its latest download at the time, null without any: the state of that and of earlier ones no
    longer counts for the submission. No foreign key, because it stays true when that download is deleted. `fell_back`
    is when the archive could not be fetched, so that the submission got back the state of its last attempt with bytes;
    such a re-opening does not count.
    """

    id: Mapped[int] = big_id()
    za_id: Mapped[int] = big_reference("zip_action.id", "CASCADE")
    requested_by: Mapped[str] = mapped_column(PERSON)
    reason: Mapped[str] = mapped_column(CutText(256))
    from_phase_id: Mapped[Phase] = phase_reference()
    from_status_id: Mapped[Status] = status_reference()
    last_download_id: Mapped[int | None] = mapped_column(BIG)
    created: Mapped[datetime]
    fell_back: Mapped[datetime | None] = mapped_column(index=True)


class BadCopy(Base):
    """A bad copy of an archive that a source delivered.

    `size_bytes` and `modified` are as listed when it was fetched: while the listing is the same, it is not fetched
    again. `md5` is that of the copy; `reason` is one of `dcc.tracker.hostings.hosting.CopyFault`.
    """

    id: Mapped[int] = big_id()
    hosting_id: Mapped[int] = big_reference("file_source_has_zip.id", "CASCADE", unique=True)
    size_bytes: Mapped[int | None] = mapped_column(BIG)
    modified: Mapped[int | None] = mapped_column(SIGNED_BIG)
    md5: Mapped[str] = mapped_column(CHAR(32))
    reason: Mapped[str] = mapped_column(String(16))
    created: Mapped[datetime]


class PublishedChecksum(Base):
    """The MD5 that a centre published beside an archive on its own source, as last read.

    `size_bytes` and `modified` are those of the archive as listed then.
    """

    id: Mapped[int] = big_id()
    hosting_id: Mapped[int] = big_reference("file_source_has_zip.id", "CASCADE", unique=True)
    size_bytes: Mapped[int | None] = mapped_column(BIG)
    modified: Mapped[int | None] = mapped_column(SIGNED_BIG)
    md5: Mapped[str] = mapped_column(CHAR(32))
    created: Mapped[datetime]


class DocumentReopening(Base):
    """A document set back to an earlier state, or away from a failure, by whom, why, from where to where."""

    id: Mapped[int] = big_id()
    xml_id: Mapped[int] = big_reference("xml_file.id", "CASCADE")
    requested_by: Mapped[str] = mapped_column(PERSON)
    reason: Mapped[str] = mapped_column(CutText(256))
    from_phase_id: Mapped[Phase] = phase_reference()
    from_status_id: Mapped[Status] = status_reference()
    to_phase_id: Mapped[Phase] = phase_reference()
    to_status_id: Mapped[Status] = status_reference()
    created: Mapped[datetime]


class SourceCrawlRow(LastUpdated, Base):
    """One crawl of one file source; counts are of archives (see `outcomes.CrawlCounts`)."""

    id: Mapped[int] = big_id()
    session_id: Mapped[int] = big_reference("crawling_session.id", "CASCADE")
    file_source_id: Mapped[int] = small_reference("file_source.id", "CASCADE")
    start_time: Mapped[datetime]
    finish_time: Mapped[datetime | None]
    outcome: Mapped[str] = mapped_column(String(16))
    exception_id: Mapped[int | None] = small_reference("an_exception.id", "RESTRICT")
    message: Mapped[str | None] = mapped_column(MessageText)
    listed: Mapped[int] = mapped_column(INT, default=0)
    new_zips: Mapped[int] = mapped_column(INT, default=0)
    known: Mapped[int] = mapped_column(INT, default=0)
    changed: Mapped[int] = mapped_column(INT, default=0)
    refused: Mapped[int] = mapped_column(INT, default=0)
    ignored: Mapped[int] = mapped_column(INT, default=0)
    gone: Mapped[int] = mapped_column(INT, default=0)
    code: Mapped[str | None] = mapped_column(String(64))
    details: Mapped[str | None] = mapped_column(MessageText)


class CrawlFinding(Base):
    """Something that a crawl noticed and a wrangler should know, such as a known archive changed."""

    id: Mapped[int] = big_id()
    session_id: Mapped[int] = big_reference("crawling_session.id", "CASCADE")
    file_source_id: Mapped[int] = small_reference("file_source.id", "CASCADE")
    za_id: Mapped[int | None] = big_reference("zip_action.id", "CASCADE")
    file_name: Mapped[str] = mapped_column(String(160))
    kind: Mapped[str] = mapped_column(String(32))
    message: Mapped[str] = mapped_column(MessageText)
    created: Mapped[datetime]
    details: Mapped[str | None] = mapped_column(MessageText)


class SessionStatistics(Base):
    """What a session did with a file source, written when the session ends.

    `listed` archives by its crawl, `fetched` ones with their `bytes`. Of all archives that the session had to do with,
    it counts their `documents`, the errors of these and the findings of the crawl (`findings`), and how many `failed`.
    `seconds` are those from its first request for an archive to the last arrival.
    """

    __table_args__ = table_options(UniqueConstraint("session_id", "file_source_id"))

    id: Mapped[int] = big_id()
    session_id: Mapped[int] = big_reference("crawling_session.id", "CASCADE", index=False)
    file_source_id: Mapped[int] = small_reference("file_source.id", "CASCADE")
    listed: Mapped[int] = mapped_column(INT, default=0)
    fetched: Mapped[int] = mapped_column(INT, default=0)
    bytes: Mapped[int] = mapped_column(BIG, default=0)
    documents: Mapped[int] = mapped_column(INT, default=0)
    findings: Mapped[int] = mapped_column(INT, default=0)
    failed: Mapped[int] = mapped_column(INT, default=0)
    seconds: Mapped[int] = mapped_column(INT, default=0, server_default=text("0"))


class SessionLock(Base):
    """Active sessions, and the last sign of life of each; row 1 is for all centres."""

    __table_args__ = table_options(counted=False)

    id: Mapped[int] = mapped_column(SMALL, primary_key=True, autoincrement=False)
    session_id: Mapped[int | None] = big_reference("crawling_session.id", "SET NULL")
    holder: Mapped[str | None] = mapped_column(String(128))
    host: Mapped[str | None] = mapped_column(String(128))
    pid: Mapped[int | None] = mapped_column(Integer)
    pid_started: Mapped[str | None] = mapped_column(String(32))
    acquired: Mapped[datetime | None]
    heartbeat: Mapped[datetime | None]


class ConnectionSlot(Base):
    """Connections to sources, existing or waiting, in order, with the last sign of life.

    At most `most` connections may go to the source. Other sources may be on the same `server`.
    """

    __tablename__ = "connection_place"

    id: Mapped[int] = big_id()
    file_source_id: Mapped[int] = small_reference("file_source.id", "CASCADE")
    server: Mapped[str] = mapped_column(String(255))
    most: Mapped[int] = mapped_column(Integer)
    host: Mapped[str] = mapped_column(String(128))
    pid: Mapped[int] = mapped_column(Integer)
    pid_started: Mapped[str] = mapped_column(String(32))
    heartbeat: Mapped[datetime]


class ServerTurn(Base):
    """Until when the requests that a server may be sent are taken, in seconds since 1970."""

    __table_args__ = table_options(counted=False)

    server: Mapped[str] = mapped_column(String(255), primary_key=True)
    taken_until: Mapped[float] = mapped_column(DOUBLE, default=0.0)


class UrgentArchive(Base):
    """A submission that a person wants before all others, by its action and the archive's name.

    It may not be listed yet. The request goes when the archive was fetched.
    """

    id: Mapped[int] = big_id()
    todo_id: Mapped[Action] = action_reference()
    file_name: Mapped[str] = mapped_column(String(128), index=True)
    requested_by: Mapped[str] = mapped_column(PERSON)
    created: Mapped[datetime]


class HostKeyRow(Base):
    """An SSH host key that was accepted for a file source."""

    id: Mapped[int] = big_id()
    file_source_id: Mapped[int] = small_reference("file_source.id", "CASCADE")
    key_type: Mapped[str] = mapped_column(String(64))
    key_base64: Mapped[str] = mapped_column(Text)
    fingerprint: Mapped[str] = mapped_column(String(128))
    created: Mapped[datetime]


class TlsCertificate(Base):
    """A TLS certificate that is trusted for a source.

    With `authority_pem` it is that of an authority which signs the server's; without, the server's own, of which only
    the fingerprint is kept.
    """

    id: Mapped[int] = big_id()
    file_source_id: Mapped[int] = small_reference("file_source.id", "CASCADE")
    fingerprint: Mapped[str] = mapped_column(String(128))
    authority_pem: Mapped[str | None] = mapped_column(Text)
    created: Mapped[datetime]


class FileSourceStatistics(Base):
    """A source's performance so far, which orders sources; times in seconds."""

    __table_args__ = table_options(counted=False)

    file_source_id: Mapped[int] = small_reference("file_source.id", "CASCADE", primary_key=True, autoincrement=False)
    failures: Mapped[int] = mapped_column(BIG, default=0)
    bytes: Mapped[int] = mapped_column(BIG, default=0)
    seconds: Mapped[float] = mapped_column(DOUBLE, default=0.0)


class NotificationRow(Base):
    """One item of news for one recipient by one channel.

    `told` is the SHA-256 of the item, channel and recipient, so that nothing is sent twice. Rows of one message share
    `message_id`. `state` is one of `dcc.notify.ledger.SendState`, `changed` the time since when; `reason` says why the
    last of `attempts` failed. Of an outage, `ended` is when it was over, null while it lasts.
    """

    __table_args__ = table_options(Index(None, "kind", "ended"))

    id: Mapped[int] = big_id()
    told: Mapped[str] = mapped_column(CHAR(64), unique=True)
    message_id: Mapped[str] = mapped_column(CHAR(32), index=True)
    kind: Mapped[str] = mapped_column(String(16))
    subject: Mapped[str] = mapped_column(String(255), index=True)
    channel: Mapped[str] = mapped_column(String(16))
    recipient: Mapped[str] = mapped_column(String(256))
    session_id: Mapped[int | None] = big_reference("crawling_session.id", "CASCADE")
    centre_id: Mapped[int | None] = small_reference("centre.id", "CASCADE")
    state: Mapped[str] = mapped_column(String(16), index=True)
    attempts: Mapped[int] = mapped_column(SMALL, default=0)
    reason: Mapped[str | None] = mapped_column(MessageText)
    changed: Mapped[datetime]
    ended: Mapped[datetime | None]
    created: Mapped[datetime]


class Delegation(Base):
    """A centre, the owner, permits another one, the delegate, to submit its data.

    It is in force until it is revoked, or the day `until` is over. `recorded_by` and `revoked_by` are who did so here.
    """

    __table_args__ = table_options(Index(None, "owner_id", "delegate_id"))

    id: Mapped[int] = big_id()
    owner_id: Mapped[int] = small_reference("centre.id", "CASCADE", index=False)
    delegate_id: Mapped[int] = small_reference("centre.id", "CASCADE")
    recorded_by: Mapped[str] = mapped_column(PERSON)
    created: Mapped[datetime]
    until: Mapped[date | None] = mapped_column(Date)
    revoked: Mapped[datetime | None]
    revoked_by: Mapped[str | None] = mapped_column(PERSON)


class OwnerNotice(Base):
    """What another centre's archive did, or tried to do, with data of a centre, its owner, who gets a notice.

    `outcome` is one of `dcc.tracker.hostings.foreign_archives.NoticeOutcome`. `file_name` is the document's, empty
    for the archive; `counts` are the numbers of entities, as JSON by kind. `xml_id` is the document's `xml_file.id`,
    null for the archive; no foreign key, because it stays true when that is deleted. `done_by` is the person who
    confirmed, withdrew or declined it, null for a session, and `reason` why.
    """

    id: Mapped[int] = big_id()
    owner_id: Mapped[int] = small_reference("centre.id", "CASCADE")
    za_id: Mapped[int] = big_reference("zip_action.id", "CASCADE")
    xml_id: Mapped[int | None] = mapped_column(BIG)
    file_name: Mapped[str] = mapped_column(String(128))
    outcome: Mapped[str] = mapped_column(String(16))
    counts: Mapped[str] = mapped_column(String(255))
    done_by: Mapped[str | None] = mapped_column(PERSON)
    created: Mapped[datetime] = mapped_column(index=True)
    reason: Mapped[str | None] = mapped_column(CutText(255))


class ZipDecision(Base):
    """A person's decision about a submission; in force until it is revoked.

    `kind` is one of `dcc.tracker.decisions.DecisionKind`.
    """

    __table_args__ = table_options(Index(None, "za_id", "kind"))

    id: Mapped[int] = big_id()
    za_id: Mapped[int] = big_reference("zip_action.id", "CASCADE", index=False)
    kind: Mapped[str] = mapped_column(String(16))
    decided_by: Mapped[str] = mapped_column(PERSON)
    reason: Mapped[str] = mapped_column(String(255))
    created: Mapped[datetime]
    revoked: Mapped[datetime | None]
    revoked_by: Mapped[str | None] = mapped_column(PERSON)


class ArchiveDecline(Base):
    """An archive on another centre's source that a person declined; in force until it is revoked."""

    id: Mapped[int] = big_id()
    za_id: Mapped[int] = big_reference("zip_action.id", "CASCADE")
    declined_by: Mapped[str] = mapped_column(PERSON)
    reason: Mapped[str] = mapped_column(String(255))
    created: Mapped[datetime]
    revoked: Mapped[datetime | None]
    revoked_by: Mapped[str | None] = mapped_column(PERSON)


class ProposedWithdrawal(Base):
    """A proposal to withdraw the data of an archive that a source no longer lists.

    `since` is when its listing first missed the archive, `documents` the names of the documents applied then, as JSON.
    `state` is one of `dcc.tracker.hostings.missing_archives.WithdrawalProposalState`; `decided_by` is null if the
    archive came back.
    """

    id: Mapped[int] = big_id()
    za_id: Mapped[int] = big_reference("zip_action.id", "CASCADE")
    file_source_id: Mapped[int] = small_reference("file_source.id", "CASCADE")
    since: Mapped[datetime]
    documents: Mapped[str] = mapped_column(LONG_TEXT)
    state: Mapped[str] = mapped_column(String(16), index=True)
    created: Mapped[datetime]
    decided: Mapped[datetime | None]
    decided_by: Mapped[str | None] = mapped_column(PERSON)
    reason: Mapped[str | None] = mapped_column(CutText(255))


class DocumentPlace(Base):
    """The place in its archive of a document that was not at the top level.

    `place` is its path from the archive on, also through archives inside it; `archives` has these, outermost first, as
    JSON: `[[path, MD5], ...]`, null without any.
    """

    id: Mapped[int] = big_id()
    xml_id: Mapped[int] = big_reference("xml_file.id", "CASCADE", unique=True)
    place: Mapped[str] = mapped_column(MessageText)
    archives: Mapped[str | None] = mapped_column(MessageText)


class StoredArchive(Base):
    """An archive in the archive store, by the SHA-256 of its bytes.

    `stored` is when every required replica first had it, null until then.
    """

    id: Mapped[int] = big_id()
    sha256: Mapped[str] = mapped_column(CHAR(64), unique=True)
    size_bytes: Mapped[int] = mapped_column(BIG)
    created: Mapped[datetime]
    stored: Mapped[datetime | None]


class ArchiveCopy(Base):
    """A copy of a stored archive in a replica (a URL or directory).

    `state` is one of `dcc.store.copies.CopyState`, `checked` when the copy was last read, null until then, and
    `reason` why it is not good.
    """

    __table_args__ = table_options(UniqueConstraint("archive_id", "replica"), Index(None, "replica", "checked"))

    id: Mapped[int] = big_id()
    archive_id: Mapped[int] = big_reference("stored_archive.id", "CASCADE", index=False)
    replica: Mapped[str] = mapped_column(String(255))
    state: Mapped[str] = mapped_column(String(16), index=True)
    checked: Mapped[datetime | None]
    reason: Mapped[str | None] = mapped_column(MessageText)


class ArchiveAudit(Base):
    """One audit of a replica of the archive store: how many copies it read, and what it found.

    `repaired` of the `bad` and `missing` ones are good again. `message` is why it ended early, null if it did not.
    """

    id: Mapped[int] = big_id()
    replica: Mapped[str] = mapped_column(String(255), index=True)
    started: Mapped[datetime]
    finished: Mapped[datetime]
    requested_by: Mapped[str] = mapped_column(PERSON)
    copies: Mapped[int] = mapped_column(INT)
    bad: Mapped[int] = mapped_column(INT)
    missing: Mapped[int] = mapped_column(INT)
    repaired: Mapped[int] = mapped_column(INT)
    message: Mapped[str | None] = mapped_column(MessageText)


class WriteReceipt(ReceiptColumns, Base):
    """The last write transaction of each writer, which shows whether a commit whose answer was lost took
    place.

    Used on MySQL and MariaDB only (see `dcc.databases.transactions.run_writing`).
    """

    __table_args__ = table_options(counted=False)
