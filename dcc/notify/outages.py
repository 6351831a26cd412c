"""Outages: sources that cannot be crawled, sessions that broke off, an unreachable tracker; and recoveries.

The ledger is in the tracker, so it cannot record that the tracker is away. A file `tracker-away-<hash>.json` in
`DCC_HOME/notifications` does, one for each channel and recipient. It is created before the message is sent, and only
one process can create it. So each installation reports the outage once, and the recovery once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select

from dcc.errors import ListingShrunkError
from dcc.messages import Message, mark, message
from dcc.notify.messages import NewsItem, NewsKind
from dcc.outcomes import CrawlOutcome
from dcc.runtime.private_files import PRIVATE_FILE, make_directory
from dcc.session.leases import Lease, read_leases
from dcc.settings import Settings
from dcc.settings.centre_groups import CentreGroup
from dcc.store.copies import named_replicas
from dcc.tracker.crawls import CrawlEntry, latest_crawls, list_sessions
from dcc.tracker.models import CrawlingSession, SourceCrawlRow
from dcc.tracker.register.centres import centre_ids
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.stored_archives import lost_archives, submissions_of_archive

_NAME: Final = "tracker-away-{}.json"


def claim_tracker_outage(settings: Settings, channel: str, recipient: str) -> Path | None:
    """Create the file that records that a recipient is notified; None if it exists already. Raises OSError."""
    path = outage_claim_path(settings, channel, recipient)
    make_directory(path.parent)
    try:
        # An empty file: the disk may well be full when the tracker is away.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE))
    except FileExistsError:
        return None
    return path


def outage_claim_path(settings: Settings, channel: str, recipient: str) -> Path:
    """The file that records that a recipient was notified, by its name alone."""
    digest = hashlib.sha256(f"{channel}\0{recipient}".encode()).hexdigest()[:16]
    return _directory(settings) / _NAME.format(digest)


def outage_claims(settings: Settings) -> set[Path]:
    """All files that record that somebody was notified that the tracker is away. Raises OSError."""
    return set(_directory(settings).glob(_NAME.format("*")))


def _directory(settings: Settings) -> Path:
    return settings.home / "notifications"


SESSION: Final = mark("sessions")
"""The subject of outages in which sessions of all centres break off."""
TRACKER: Final = mark("tracker database")
ARCHIVES: Final = mark("archive store")
"""The subject of archives that have no good copy in the archive store."""
_OUTAGE: Final = mark("Outage: {thing}")
_SHRUNK: Final = mark("Listed in part: {thing}")
_LOST: Final = mark(
    "Archives without a good copy: {number}, such as {archives}. See `dcc archive status`; restore a copy, or ask the "
    "centre for it, then `dcc archive repair`."
)
_MOST: Final = 500
_MAX_LOST: Final = 5


class SubjectKind(StrEnum):
    """Kinds of things that have outages; the subject of an outage begins with its kind."""

    SOURCE = "file source "
    OVERDUE = "overdue: "


@dataclass(frozen=True, slots=True)
class OutageEntry:
    """An outage. `since` distinguishes it from earlier ones of the same subject; `label` names the subject for people.

    `reason` is the recorded message without its label. `over`: it has ended before anybody was notified. `reported`:
    the session report has it too. `headline` is the text for a catalogue that names it.
    """

    subject: str
    since: str
    label: Message | str
    reason: Message | str
    session: int | None = None
    centre: str | None = None
    centre_id: int | None = None
    over: bool = False
    reported: bool = True
    headline: str = _OUTAGE

    @property
    def item(self) -> NewsItem:
        """The outage, as an item of the ledger."""
        return NewsItem(NewsKind.OUTAGE, self.subject, self.since, self.session, self.centre_id)


@dataclass(frozen=True, slots=True)
class WatchedState:
    """The state of something that the tracker does not know: its `outage`, or None while it works."""

    subject: str
    label: Message | str
    outage: OutageEntry | None = None


class Recovery(NamedTuple):
    """What works again, and how many archives the last crawl of a source took for gone."""

    label: Message | str
    gone: int = 0


def unreachable_sources(connection: Connection, settings: Settings, session_id: int | None = None) -> list[OutageEntry]:
    """The sources that failed in a session (None: the last), and in as many before as the settings ask for.

    A source whose listing shrank is reported at once: the next crawl may take its archives for gone.
    """
    if session_id is None:
        session_id = connection.scalar(select(func.max(SourceCrawlRow.session_id))) or 0
    sessions = list_sessions(connection, ids=[session_id])
    failed = [crawl for session in sessions for crawl in session.crawls if _is_outage(crawl)][:_MOST]
    if not failed:
        return []
    addresses, ids = {address.id: address for address in load_addresses(connection)}, centre_ids(connection)
    troubles = []
    for crawl in failed:
        address = addresses.get(crawl.source)
        if address is None:
            continue
        since, has_failed = f"session {session_id}", crawl.outcome is CrawlOutcome.FAILED
        if has_failed:
            first, crawls = _streak(connection, crawl.source)
            if crawls < settings.notify_outage_crawls:
                continue
            since = str(first)
        troubles.append(
            OutageEntry(
                subject=f"{SubjectKind.SOURCE}{crawl.source}",
                since=since,
                label=address.label,
                reason="" if crawl.error is None else crawl.error.fact.problem,
                session=session_id,
                centre=address.centre,
                centre_id=ids[address.centre],
                headline=_OUTAGE if has_failed else _SHRUNK,
            )
        )
    return troubles


def _streak(connection: Connection, source_id: int) -> tuple[int | None, int]:
    """The first of a source's latest failed crawls in a row, and their number."""
    own = SourceCrawlRow.file_source_id == source_id
    good = select(func.max(SourceCrawlRow.id)).where(own, SourceCrawlRow.outcome != CrawlOutcome.FAILED)
    last_good = connection.scalar(good) or 0
    first, crawls = connection.execute(
        select(func.min(SourceCrawlRow.id), func.count()).where(own, SourceCrawlRow.id > last_good)
    ).one()
    return first, crawls


def label_of_sessions(group: str | None) -> Message:
    """Sessions of a group, or of all centres, that break off: in English, the subject of these outages."""
    return Message(SESSION) if group is None else message(mark("sessions of {group}"), group=group)


def broken_session(session_id: int, group: CentreGroup | None, reason: Message | str) -> OutageEntry:
    """The outage of a session that broke off."""
    subject = str(label_of_sessions(None if group is None else group.name))
    label = message(mark("session {number}"), number=str(session_id))
    return OutageEntry(subject, str(session_id), label, reason, session_id)


def session_of_dead_process(dead: Lease, *, taken_up: bool) -> OutageEntry:
    """The outage of a session whose process died; `taken_up`: the next session has finished its work."""
    trouble = broken_session(dead.session, dead.group, dead.reason)
    return replace(trouble, over=taken_up, reported=False)


def dead_sessions(connection: Connection, settings: Settings) -> list[OutageEntry]:
    """Sessions whose processes died and that no other session has followed yet."""
    dead = [lease for lease in read_leases(connection, settings) if lease.is_dead]
    return [session_of_dead_process(lease, taken_up=False) for lease in dead]


def lost_from_store(connection: Connection, settings: Settings) -> list[OutageEntry]:
    """The archives without a good copy in the archive store, as one outage; none if all have one."""
    urls = [replica.url for replica in named_replicas(settings)]
    lost = lost_archives(connection, urls)
    if not lost:
        return []
    keys = [key for copy in lost[:_MAX_LOST] for key in submissions_of_archive(connection, copy.sha256)]
    reason = message(_LOST, number=len(lost), archives=[str(key) for key in keys])
    return [OutageEntry(ARCHIVES, lost[-1].sha256, ARCHIVES, reason, reported=False)]


def ended_outages(
    connection: Connection, subjects: Iterable[str], away: Iterable[OutageEntry]
) -> dict[str, Recovery | None]:
    """The sources among the subjects that recovered.

    None instead: the outage ends without a message, as of a source that is not crawled any more.
    """
    kind, still = SubjectKind.SOURCE, {trouble.subject for trouble in away}
    wanted = {each: int(each.removeprefix(kind)) for each in subjects if each.startswith(kind) and each not in still}
    if not wanted:
        return {}
    addresses = {address.id: address for address in load_addresses(connection)}
    crawls = latest_crawls(connection, sources=[*wanted.values()])
    back: dict[str, Recovery | None] = {}
    for subject, source in wanted.items():
        crawl = crawls.get(source)
        if source not in addresses:
            back[subject] = None
        elif crawl is None or not _is_outage(crawl):
            back[subject] = Recovery(addresses[source].label, 0 if crawl is None else crawl.gone)
    return back


def _is_outage(crawl: CrawlEntry) -> bool:
    shrank = crawl.error is not None and crawl.error.kind == ListingShrunkError.short_name()
    return shrank or crawl.outcome is CrawlOutcome.FAILED


def sessions_after(connection: Connection, last: int, limit: int) -> list[int]:
    """Finished sessions after `last`, oldest first: at most the `limit` newest of them."""
    query = (
        select(CrawlingSession.id)
        .where(CrawlingSession.id > last, CrawlingSession.finish_time.is_not(None))
        .order_by(CrawlingSession.id.desc())
        .limit(limit)
    )
    return sorted(connection.scalars(query))


def oldest_under_way(connection: Connection) -> int | None:
    """The oldest session that has not ended; None if all have."""
    return connection.scalar(select(func.min(CrawlingSession.id)).where(CrawlingSession.finish_time.is_(None)))
