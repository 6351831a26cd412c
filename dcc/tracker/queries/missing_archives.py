"""Archives that file sources listed before and do not now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, exists, func, select

from dcc.outcomes import ZipKey
from dcc.tracker.hostings.changed_archives import LOADED
from dcc.tracker.hostings.proposed_withdrawals import ProposalState, hosted_elsewhere
from dcc.tracker.lineage import KEY, key_of, object_of
from dcc.tracker.models import FileSourceHasZip, ProposedWithdrawal, XmlFile, ZipAction, ZipDownload, ZipFile


@dataclass(frozen=True, slots=True)
class MissingArchive:
    """An archive that a file source listed before and does not now.

    `believed`: it counts as gone; otherwise the next listing decides. `loaded`: documents of it stand. `elsewhere`:
    another source hosts it. `proposal` is the state of the latest proposal to withdraw it, if there is any.
    """

    source: int
    key: ZipKey
    since: datetime
    believed: bool
    loaded: bool
    elsewhere: bool
    proposal: ProposalState | None


def missing_archives(connection: Connection, source: int | None = None) -> list[MissingArchive]:
    """What the file sources, or one of them, listed before and do not now; by source, the longest missing first."""
    of_any = FileSourceHasZip.__table__.alias("any_hosting")
    loaded = exists(
        select(XmlFile.id)
        .join(ZipDownload)
        .join(of_any, of_any.c.id == ZipDownload.zf_id)
        .where(of_any.c.za_id == FileSourceHasZip.za_id, LOADED)
        .correlate(FileSourceHasZip)
    )
    latest = (
        select(func.max(ProposedWithdrawal.id))
        .where(ProposedWithdrawal.za_id == FileSourceHasZip.za_id)
        .correlate(FileSourceHasZip)
        .scalar_subquery()
    )
    proposal = select(ProposedWithdrawal.state).where(ProposedWithdrawal.id == latest).scalar_subquery()
    since = func.coalesce(FileSourceHasZip.gone_since, FileSourceHasZip.missed_since)
    query = (
        select(
            FileSourceHasZip.file_source_id.label("source"),
            *KEY,
            since.label("since"),
            FileSourceHasZip.gone_since.is_not(None).label("believed"),
            loaded.label("loaded"),
            hosted_elsewhere(FileSourceHasZip).label("elsewhere"),
            proposal.label("state"),
        )
        .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
        .join(ZipFile)
        .where(since.is_not(None))
        .order_by(FileSourceHasZip.file_source_id, since, FileSourceHasZip.id)
    )
    if source is not None:
        query = query.where(FileSourceHasZip.file_source_id == source)
    return [
        object_of(MissingArchive, row, key=key_of(row), proposal=row.state and ProposalState(row.state))
        for row in connection.execute(query)
    ]
