"""Archives on the source of another centre than that of their name: which are fetched, and which are not.

Such an archive is fetched if a source of its own centre lists it too, or if its centre has delegated to that of the
source. If the own copy has another size it wins, unless it proved bad. Any other archive is not fetched: it
waits, and every session decides again, unless a person declined it: then it stops waiting, even if its centre
delegates. A hosting on a source of its own centre overrides the decline. Functions that write expect the caller's write
transaction. Nothing is deleted: a revoked decline stays on record.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, exists, or_, select, update
from sqlalchemy.orm import aliased

from dcc.databases.columns import require_text
from dcc.databases.list_parameters import rows_with
from dcc.databases.transactions import insert_rows
from dcc.errors import ConfigurationError, NotFoundError
from dcc.messages import Message, mark
from dcc.outcomes import DECLINED, HELD, SubmissionKey
from dcc.runtime.clock import utc_now
from dcc.tracker.hostings.copies import is_as_listed
from dcc.tracker.hostings.owner_notices import NewNotice, NoticeOutcome, add_notices
from dcc.tracker.models import (
    ArchiveDecline,
    BadCopy,
    Centre,
    Delegation,
    FileSource,
    FileSourceHasZip,
    ZipAction,
    ZipFile,
)
from dcc.tracker.register.centres import delegation_holds
from dcc.tracker.states import WAITING
from dcc.tracker.submission_rows import (
    KEY,
    group_pairs,
    is_at,
    is_named,
    object_of,
    require_submission,
    submission_key_of,
    with_archives,
)

_OwnHosting = aliased(FileSourceHasZip)
_OwnBadCopy = aliased(BadCopy)
_OwnSource = aliased(FileSource)
_Host = aliased(Centre)


@dataclass(frozen=True, slots=True)
class Decline:
    """A declined archive: by whom, why, when; `owner` is the centre of its name."""

    za_id: int
    key: SubmissionKey
    owner: str | None
    declined_by: str
    reason: str
    created: datetime
    revoked: datetime | None
    revoked_by: str | None


def is_declined() -> ColumnElement[bool]:
    """Whether an archive is declined, as a condition for a query with its hostings."""
    return (
        exists(select(ArchiveDecline.id))
        .where(ArchiveDecline.za_id == FileSourceHasZip.za_id, ArchiveDecline.revoked.is_(None))
        .correlate(FileSourceHasZip)
    )


def declines_of(connection: Connection, za_ids: Sequence[int]) -> dict[int, Decline]:
    """The declines in force of these submissions, by their ids; a statement for every 500."""
    query = _DECLINES.where(ArchiveDecline.revoked.is_(None))
    return {row.za_id: object_of(Decline, row) for row in rows_with(connection, query, ArchiveDecline.za_id, za_ids)}


def list_declines(connection: Connection, *, everything: bool = False) -> list[Decline]:
    """The declines in force; with `everything`, revoked ones too. Oldest first."""
    query = _DECLINES if everything else _DECLINES.where(ArchiveDecline.revoked.is_(None))
    return [object_of(Decline, row) for row in connection.execute(query)]


_DECLINES: Final = with_archives(
    select(ArchiveDecline, *KEY, Centre.short_name.label("owner")).join(ZipAction, ZipAction.id == ArchiveDecline.za_id)
).order_by(ArchiveDecline.id)


@dataclass(frozen=True, slots=True)
class UnfetchedArchive:
    """A submission that is not fetched; `owner` is the centre of its name, `hosts` those of its sources.

    `declined`: a person declined it.
    """

    za_id: int
    key: SubmissionKey
    owner: str
    hosts: tuple[str, ...]
    declined: Decline | None = None

    @property
    def kind(self) -> str:
        """Its kind as a problem: `HELD`, or declined by a person."""
        return HELD if self.declined is None else DECLINED

    @property
    def details(self) -> dict[str, Any]:
        """Details for messages and causes."""
        known: dict[str, Any] = {
            "archive": str(self.key),
            "owner": self.owner,
            "hosts": list(self.hosts),
            "host": self.hosts[0],
        }
        if self.declined is not None:
            decline = self.declined
            known |= {"reason": decline.reason, "person": decline.declined_by, "date": f"{decline.created:%Y-%m-%d}"}
        return {**known, **self.commands}

    @property
    def public_message(self) -> Message:
        """The message for anybody."""
        return Message(_UNFETCHED if self.declined is None else _DECLINED, self.details)

    @property
    def commands(self) -> dict[str, str]:
        """The commands for a wrangler: `delegate` and `decline`, or `revoke` if it was declined."""
        decline = f"dcc archive decline {shlex.quote(str(self.key))}"
        if self.declined is not None:
            return {"revoke": f"{decline} --revoke"}
        return {
            "delegate": f"dcc centre delegate {self.owner} --to {self.hosts[0]}",
            "decline": f"{decline} --reason ...",
        }

    @property
    def translatable(self) -> Message:
        """The message for a wrangler."""
        return Message(_UNFETCHED_AND_WHAT_TO_DO if self.declined is None else _DECLINED_BY, self.details)


_UNFETCHED: Final = mark(
    "{archive} is named for centre {owner} and lies on a source of {hosts}. It is not taken until a source of {owner} "
    "lists the same archive, or {owner} delegates to {host}."
)
_UNFETCHED_AND_WHAT_TO_DO: Final = mark(
    "{archive} is named for centre {owner} and lies on a source of {hosts}. It is not taken until a source of {owner} "
    "lists the same archive, or {owner} delegates to {host}. When {owner} agrees: {delegate}. To turn it down: "
    "{decline}"
)
_DECLINED: Final = mark(
    "{archive} is named for centre {owner} and lies on a source of {hosts}. It was turned down: {reason}"
)
_DECLINED_BY: Final = mark(
    "{archive} is named for centre {owner} and lies on a source of {hosts}. It was turned down: {reason}. That was "
    "decided by {person} on {date}. To take it back: {revoke}"
)


def may_be_taken() -> ColumnElement[bool]:
    """Whether an archive may be fetched from a hosting, as a condition with `zip_file`, the hosting and its source.

    A copy of another size than the own one is another file, unless the own copy is known to be bad. An archive of a
    centre that is not registered any more has no own source: its documents are judged one by one.
    """
    same_size = or_(
        _OwnHosting.size_bytes.is_(None),
        FileSourceHasZip.size_bytes.is_(None),
        _OwnHosting.size_bytes == FileSourceHasZip.size_bytes,
    )
    listed = (
        exists(select(_OwnHosting.id).join(_OwnSource).outerjoin(_OwnBadCopy, is_as_listed(_OwnBadCopy, _OwnHosting)))
        .where(
            _OwnHosting.za_id == FileSourceHasZip.za_id,
            _OwnHosting.gone_since.is_(None),
            _OwnSource.centre_id == ZipFile.centre_id,
            or_(same_size, _OwnBadCopy.id.is_not(None)),
        )
        .correlate(FileSourceHasZip, ZipFile)
    )
    return or_(FileSource.centre_id == ZipFile.centre_id, ZipFile.centre_id.is_(None), listed, is_delegated())


def is_delegated() -> ColumnElement[bool]:
    """Whether the centre of an archive has delegated to that of a source that hosts it; as `may_be_taken`.

    A delegation does not revoke a decline.
    """
    delegated = (
        exists(select(Delegation.id))
        .where(
            Delegation.owner_id == ZipFile.centre_id, Delegation.delegate_id == FileSource.centre_id, delegation_holds()
        )
        .correlate(FileSource, ZipFile)
    )
    return and_(delegated, ~is_declined())


def unfetched_archives(
    connection: Connection, za_ids: Any = None, *, source_id: int | None = None, key: SubmissionKey | None = None
) -> list[UnfetchedArchive]:
    """The submissions that are not fetched, oldest first, including declined ones; in one statement, two if there are
    any.

    Only those of `za_ids` (ids, or a query of them), those that a source hosts, or those on one source, if given.
    """
    centre, host = Centre.short_name.label("centre"), _Host.short_name.label("host")
    columns = select(ZipAction.id, *KEY, centre, host, may_be_taken().label("may_be_taken"))
    query = (
        with_archives(columns.select_from(ZipAction))
        .join(FileSourceHasZip, FileSourceHasZip.za_id == ZipAction.id)
        .join(FileSource)
        .join(_Host, _Host.id == FileSource.centre_id)
        .where(is_at(ZipAction, WAITING), FileSourceHasZip.gone_since.is_(None))
        .order_by(ZipFile.created, ZipFile.inc, ZipAction.id, FileSource.id)
    )
    if za_ids is not None:
        query = query.where(ZipAction.id.in_(za_ids))
    if source_id is not None:
        own = select(_OwnHosting.za_id).where(_OwnHosting.file_source_id == source_id, _OwnHosting.gone_since.is_(None))
        query = query.where(ZipAction.id.in_(own))
    if key is not None:
        query = query.where(is_named(key))
    unfetched = unfetched_of(by_archive(connection.execute(query)))
    declined = declines_of(connection, [archive.za_id for archive in unfetched])
    return [replace(archive, declined=declined.get(archive.za_id)) for archive in unfetched]


def not_fetched(connection: Connection, key: SubmissionKey) -> NotFoundError | None:
    """The error that an archive's documents are missing because it is not fetched; None if it may be."""
    for archive in unfetched_archives(connection, key=key):
        return NotFoundError(f"{key} was not fetched, so it has no documents. {archive.translatable}")
    return None


def by_archive(rows: Iterable[Any]) -> dict[int, list[Any]]:
    """Rows of submissions with sources that host them, by the ids of the submissions, in the order of the rows.

    They have the columns `id`, those of `KEY`, the `centre` of the name, the `host`, `may_be_taken`, `is_delegated`.
    """
    return group_pairs((row.id, row) for row in rows)


def unfetched_of(hostings: Mapping[int, Sequence[Any]]) -> list[UnfetchedArchive]:
    """The submissions of `by_archive` that may be fetched from none of their sources."""
    unfetched = []
    for za_id, rows in hostings.items():
        if not any(row.may_be_taken for row in rows):
            hosts = tuple(dict.fromkeys(row.host for row in rows))
            unfetched.append(UnfetchedArchive(za_id, submission_key_of(rows[0]), rows[0].centre or "", hosts))
    return unfetched


def delegated_of(hostings: Mapping[int, Sequence[Any]]) -> list[NewNotice]:
    """Notices for owners about their archives, of `by_archive`, that are only on delegates' sources."""
    notices = []
    for za_id, rows in hostings.items():
        owner = rows[0].centre
        is_delegated = any(row.is_delegated for row in rows)
        if owner and is_delegated and all(row.host != owner for row in rows):
            notices.append(NewNotice(owner, za_id, NoticeOutcome.DONE))
    return notices


def note_unfetched(connection: Connection, unfetched: Sequence[UnfetchedArchive]) -> list[UnfetchedArchive]:
    """Add notices for the owners of archives that are not fetched; returns the new ones.

    Declined archives are left out.
    """
    declined = declines_of(connection, [archive.za_id for archive in unfetched])
    undecided = [archive for archive in unfetched if archive.za_id not in declined]
    notices = [NewNotice(archive.owner, archive.za_id, NoticeOutcome.HELD) for archive in undecided]
    new = {notice.za_id for notice in add_notices(connection, notices)}
    return [archive for archive in undecided if archive.za_id in new]


def decline_archive(connection: Connection, key: SubmissionKey, *, declined_by: str, reason: str) -> Decline:
    """Decline an archive that is not fetched; the centre of its name and those of its sources get a notice.

    Raises NotFoundError if it may be fetched, ConfigurationError if it is declined already, and for a reason that is
    blank or too long.
    """
    require_submission(connection, key)
    found = unfetched_archives(connection, key=key)
    if not found:
        raise NotFoundError(
            f"{key} is not held as an archive: see how far it is with `dcc show {key}`. Documents of it that are held "
            f"are turned down with `dcc data undo {key} --reason ...`."
        )
    (archive,) = found
    if archive.declined is not None:
        raise ConfigurationError(str(archive.translatable))
    values = {
        "za_id": archive.za_id,
        "declined_by": declined_by,
        "reason": require_text("reason", reason.strip(), ArchiveDecline.reason, "the centres concerned are told"),
        "created": utc_now(),
    }
    insert_rows(connection, ArchiveDecline, [values])
    decline = declines_of(connection, [archive.za_id])[archive.za_id]
    _tell(
        connection,
        archive,
        NewNotice("", archive.za_id, NoticeOutcome.DECLINED, done_by=declined_by, reason=decline.reason),
    )
    return decline


def accept_archive(connection: Connection, key: SubmissionKey, *, revoked_by: str) -> Decline:
    """Let a declined archive wait again. Raises NotFoundError if it is not declined."""
    require_submission(connection, key)
    za_ids = [decline.za_id for decline in list_declines(connection) if decline.key == key]
    if not za_ids:
        raise NotFoundError(f"{key} is not turned down at present. See: dcc archive declined --all")
    declined = ArchiveDecline.za_id.in_(za_ids), ArchiveDecline.revoked.is_(None)
    ended = {"revoked": utc_now(), "revoked_by": revoked_by}
    connection.execute(update(ArchiveDecline).where(*declined).values(ended))
    for archive in unfetched_archives(connection, key=key):
        _tell(connection, archive, NewNotice("", archive.za_id, NoticeOutcome.HELD, done_by=revoked_by))
    return [decline for decline in list_declines(connection, everything=True) if decline.key == key][-1]


def _tell(connection: Connection, archive: UnfetchedArchive, notice: NewNotice) -> None:
    """Add notices for the archive's centre and those of its sources, even if they got the same before."""
    add_notices(connection, [replace(notice, owner=centre) for centre in (archive.owner, *archive.hosts)], repeat=True)
