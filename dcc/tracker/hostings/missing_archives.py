"""Archives that their sources no longer list, and proposals to withdraw their data; a person decides each.

A crawl proposes and never withdraws. An archive is proposed once for each time that it disappears, but not while
another source hosts it; when a source lists it again, the proposal is closed. Functions that write expect the caller's
write transaction.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, bindparam, exists, func, or_, select, update

from dcc.databases.list_parameters import IDS, change_about, rows_with
from dcc.databases.transactions import insert_rows
from dcc.outcomes import SubmissionKey
from dcc.runtime.clock import utc_now
from dcc.sources.base import SourceAddress
from dcc.tracker.hostings.changed_archives import LOADED, is_loaded
from dcc.tracker.models import (
    Centre,
    FileSource,
    FileSourceHasZip,
    ProposedWithdrawal,
    XmlFile,
    ZipAction,
    ZipDownload,
    ZipFile,
)
from dcc.tracker.submission_rows import KEY, object_of, submission_key_of, with_archives
from dcc.vocabulary import SourceState, WithdrawalProposalState


@dataclass(frozen=True, slots=True)
class WithdrawalProposal:
    """A proposal to withdraw the data of an archive, which `source` has not listed since `since`.

    `centre` is that of its name; `documents` were applied when it was proposed.
    """

    za_id: int
    key: SubmissionKey
    centre: str | None
    source: int
    since: datetime
    documents: tuple[str, ...]
    state: WithdrawalProposalState
    created: datetime
    decided: datetime | None
    decided_by: str | None
    reason: str | None


_LISTED: Final = FileSourceHasZip.__table__.alias("other_hosting")


def _is_hosted(row: Any, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether a source, not removed, lists the archive of a row now; by a hosting that meets the `conditions`."""
    return (
        exists()
        .where(_LISTED.c.za_id == row.za_id, _LISTED.c.gone_since.is_(None), *conditions)
        .where(_LISTED.c.file_source_id == FileSource.id)
        .where(FileSource.state_id != SourceState.REMOVED)
        .correlate(row.__table__)
    )


_HOSTED_ELSEWHERE: Final = _is_hosted(FileSourceHasZip, _LISTED.c.file_source_id != FileSourceHasZip.file_source_id)
"""Condition on a hosting: another source lists its archive now."""
_CLOSURE: Final = (
    update(ProposedWithdrawal)
    .where(ProposedWithdrawal.state == WithdrawalProposalState.OPEN, _is_hosted(ProposedWithdrawal))
    .values(state=WithdrawalProposalState.CAME_BACK, decided=bindparam("now"))
)


def propose_withdrawals(connection: Connection, address: SourceAddress, now: datetime) -> list[SubmissionKey]:
    """Propose withdrawals for all archives that a source no longer lists; returns the new proposals.

    Call after a complete, believed listing. Archives that nobody hosts and that have applied documents are proposed,
    unless that was decided since they disappeared. The listing does not tell of those that lay where the source is no
    longer listed.
    """
    of_any = FileSourceHasZip.__table__.alias("any_hosting")
    known = exists().where(
        ProposedWithdrawal.za_id == FileSourceHasZip.za_id,
        or_(
            ProposedWithdrawal.state == WithdrawalProposalState.OPEN,
            and_(
                ProposedWithdrawal.created >= FileSourceHasZip.gone_since,
                ProposedWithdrawal.state != WithdrawalProposalState.CAME_BACK,
            ),
        ),
    )
    query = (
        select(ZipAction.id, *KEY, FileSourceHasZip.gone_since, FileSourceHasZip.folder, XmlFile.fname)
        .select_from(FileSourceHasZip)
        .join(ZipAction)
        .join(ZipFile)
        .join(of_any, of_any.c.za_id == ZipAction.id)
        .join(ZipDownload, ZipDownload.zf_id == of_any.c.id)
        .join(XmlFile)
        .where(FileSourceHasZip.file_source_id == address.id, FileSourceHasZip.gone_since.is_not(None), LOADED)
        .where(~_HOSTED_ELSEWHERE, ~known)
        .distinct()
        .order_by(ZipAction.id, XmlFile.fname)
    )
    found: dict[tuple[int, SubmissionKey, datetime | None], list[str]] = defaultdict(list)
    for row in connection.execute(query):
        key = submission_key_of(row)
        if address.extent.covers(row.folder, key.file_name):
            found[row.id, key, row.gone_since].append(row.fname)
    proposal = {"file_source_id": address.id, "state": WithdrawalProposalState.OPEN, "created": now}
    rows = [
        {"za_id": za_id, "since": since, "documents": json.dumps(documents)} | proposal
        for (za_id, _, since), documents in found.items()
    ]
    insert_rows(connection, ProposedWithdrawal, rows)
    return [key for _, key, _ in found]


def close_returned(connection: Connection, now: datetime) -> None:
    """Close the open proposals of archives that a source lists again."""
    connection.execute(_CLOSURE, {"now": now})


def decide_on_proposals(
    connection: Connection, za_ids: Collection[int], state: WithdrawalProposalState, *, author: str, reason: str
) -> None:
    """Record a person's decision on the open proposals of some submissions."""
    values = {"state": state, "decided": utc_now(), "decided_by": author, "reason": reason}
    those = ProposedWithdrawal.za_id.in_(IDS), ProposedWithdrawal.state == WithdrawalProposalState.OPEN
    change_about(connection, update(ProposedWithdrawal).where(*those).values(values), za_ids)


def list_proposals(
    connection: Connection,
    *,
    states: Collection[WithdrawalProposalState] = (WithdrawalProposalState.OPEN,),
    source: int | None = None,
    centre: str | None = None,
) -> list[WithdrawalProposal]:
    """The proposals in some states, the oldest archive first; with `source` or `centre`, of that source, or of that
    centre's archives.
    """
    proposed = select(ProposedWithdrawal, *KEY, Centre.short_name.label("centre"))
    query = with_archives(proposed.join(ZipAction, ZipAction.id == ProposedWithdrawal.za_id))
    query = query.where(ProposedWithdrawal.state.in_(states))
    query = query.order_by(ZipFile.created, ZipFile.inc, ProposedWithdrawal.id)
    if source is not None:
        query = query.where(ProposedWithdrawal.file_source_id == source)
    if centre is not None:
        query = query.where(Centre.short_name == centre)
    return [
        object_of(
            WithdrawalProposal,
            row,
            source=row.file_source_id,
            documents=tuple(json.loads(row.documents)),
            state=WithdrawalProposalState(row.state),
        )
        for row in connection.execute(query)
    ]


def listed_now(connection: Connection, keys: Collection[SubmissionKey]) -> set[SubmissionKey]:
    """Those of some submissions that a source, not removed, lists now."""
    hostings = select(*KEY).select_from(FileSourceHasZip).join(ZipAction).join(ZipFile).join(FileSource)
    query = hostings.where(FileSourceHasZip.gone_since.is_(None), FileSource.state_id != SourceState.REMOVED)
    rows = rows_with(connection, query, ZipFile.file_name, {key.file_name for key in keys})
    return {submission_key_of(row) for row in rows} & set(keys)


def count_open(connection: Connection) -> dict[str | None, int]:
    """The number of open proposals, by the centre of the archive's name."""
    counted = select(Centre.short_name, func.count()).select_from(ProposedWithdrawal).join(ZipAction)
    query = (
        with_archives(counted)
        .where(ProposedWithdrawal.state == WithdrawalProposalState.OPEN)
        .group_by(Centre.short_name)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


@dataclass(frozen=True, slots=True)
class MissingArchive:
    """An archive that a file source listed before and does not now.

    `believed`: it counts as gone; otherwise the next listing decides. `loaded`: documents of it stand. `elsewhere`:
    another source hosts it. `proposal` is the state of the latest proposal to withdraw it, if there is any.
    """

    source: int
    key: SubmissionKey
    since: datetime
    believed: bool
    loaded: bool
    elsewhere: bool
    proposal: WithdrawalProposalState | None


def missing_archives(connection: Connection, source: int | None = None) -> list[MissingArchive]:
    """What the file sources, or one of them, listed before and do not now; by source, the longest missing first."""
    proposal = (
        select(ProposedWithdrawal.state)
        .where(ProposedWithdrawal.za_id == FileSourceHasZip.za_id)
        .order_by(ProposedWithdrawal.id.desc())
        .limit(1)
        .correlate(FileSourceHasZip)
        .scalar_subquery()
    )
    loaded, elsewhere = is_loaded(FileSourceHasZip.za_id), _HOSTED_ELSEWHERE
    since = func.coalesce(FileSourceHasZip.gone_since, FileSourceHasZip.missed_since)
    believed = FileSourceHasZip.gone_since.is_not(None).label("believed")
    facts = believed, loaded.label("loaded"), elsewhere.label("elsewhere"), proposal.label("state")
    query = (
        select(FileSourceHasZip.file_source_id.label("source"), *KEY, since.label("since"), *facts)
        .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
        .join(ZipFile)
        .where(since.is_not(None))
        .order_by(FileSourceHasZip.file_source_id, since, FileSourceHasZip.id)
    )
    if source is not None:
        query = query.where(FileSourceHasZip.file_source_id == source)
    return [
        object_of(MissingArchive, row, proposal=row.state and WithdrawalProposalState(row.state))
        for row in connection.execute(query)
    ]
