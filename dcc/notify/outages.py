"""Outages: sources that cannot be crawled, sessions that broke off, a tracker that is away; and what is back.

The ledger is in the tracker and cannot record that the tracker is away. A file `tracker-away-<hash>.json` in
`DCC_HOME/notifications` does, one for each channel and recipient. It is made before the message is sent, and only one
process can make it, so each installation tells it once, and once more when the tracker is back.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, func, or_, select

from dcc.errors import ListingShrunkError
from dcc.messages import Message, message_from_json
from dcc.notify.messages import Item, Kind
from dcc.runtime.private_files import PRIVATE_FILE, create_file, make_directory
from dcc.session.leases import DeadSession, read_leases
from dcc.settings import Settings
from dcc.settings.centre_groups import CentreGroup
from dcc.tracker.models import AnException, Centre, CrawlingSession, FileSource, SourceCrawlRow
from dcc.tracker.register.source_addresses import load_addresses

_NAME: Final = "tracker-away-{}.json"


def claim_tracker_outage(settings: Settings, channel: str, recipient: str) -> Path | None:
    """Mark that a recipient is told that the tracker is away; None when that was done before. Raises OSError."""
    directory = _directory(settings)
    make_directory(directory)
    digest = hashlib.sha256(f"{channel}\0{recipient}".encode()).hexdigest()[:16]
    path = directory / _NAME.format(digest)
    if _said(path) is not None:
        return None
    part = directory / f".{path.name}.{uuid.uuid4().hex}.part"
    try:
        with os.fdopen(create_file(part, PRIVATE_FILE), "w", encoding="utf-8") as file:
            json.dump({"channel": channel, "recipient": recipient}, file)
        # A mark is whole or not there: the disk may well be full when the tracker is away.
        os.link(part, path)
    except FileExistsError:
        return None
    finally:
        part.unlink(missing_ok=True)
    return path


def told_tracker_outages(settings: Settings) -> Iterator[tuple[str, str, Path]]:
    """Who was told that the tracker is away: channel, recipient, and the file that says so. Raises OSError."""
    for path in sorted(_directory(settings).glob(_NAME.format("*"))):
        said = _said(path)
        if said is not None:
            yield *said, path


def _said(path: Path) -> tuple[str, str] | None:
    """Channel and recipient of a mark. One that cannot be read is removed: nobody would be told anything by it."""
    try:
        said = json.loads(path.read_text("utf-8"))
        return str(said["channel"]), str(said["recipient"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        path.unlink(missing_ok=True)
        return None


def _directory(settings: Settings) -> Path:
    return settings.home / "notifications"


SESSION: Final = "sessions"
"""The subject of the outage that sessions of all centres break off."""
TRACKER: Final = "tracker database"
_SOURCE: Final = "file source "
_FAILED: Final = "failed"
_MOST: Final = 500


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is away. `since` tells this outage apart from earlier ones of the same; `label` names it.

    `reason` is what was recorded, without its label. `over`: it is back already, though nobody was told that it was
    away. `reported`: the session report says it too.
    """

    subject: str
    since: str
    label: str
    reason: Message | str
    session: int | None = None
    centre: str | None = None
    centre_id: int | None = None
    over: bool = False
    reported: bool = True

    @property
    def item(self) -> Item:
        """The outage, as a thing to tell."""
        return Item(Kind.OUTAGE, self.subject, self.since, self.session, self.centre_id)


def sources_away(connection: Connection, settings: Settings, session_id: int | None = None) -> list[Trouble]:
    """The file sources that failed in a session, and in as many before as the settings ask for; None: the last one.

    One whose listing shrank is among them at once: the next crawl may take its archives for gone.
    """
    if session_id is None:
        session_id = connection.scalar(select(func.max(SourceCrawlRow.session_id)))
    failed = connection.execute(
        select(
            SourceCrawlRow.id,
            SourceCrawlRow.file_source_id,
            SourceCrawlRow.message,
            SourceCrawlRow.details,
            SourceCrawlRow.outcome,
            FileSource.centre_id,
        )
        .join(FileSource, FileSource.id == SourceCrawlRow.file_source_id)
        .outerjoin(AnException, AnException.id == SourceCrawlRow.exception_id)
        .where(
            SourceCrawlRow.session_id == session_id,
            or_(SourceCrawlRow.outcome == _FAILED, AnException.short_name == ListingShrunkError.short_name()),
        )
        .order_by(SourceCrawlRow.file_source_id)
        .limit(_MOST)
    ).all()
    if not failed:
        return []
    addresses = {address.id: address for address in load_addresses(connection)}
    troubles = []
    for row in failed:
        address = addresses.get(row.file_source_id)
        if address is None:
            continue
        if row.outcome == _FAILED:
            first, crawls = _streak(connection, row.file_source_id)
            if crawls < settings.notify_outage_crawls or first is None:
                continue
        else:
            first = row.id
        troubles.append(
            Trouble(
                subject=f"{_SOURCE}{row.file_source_id}",
                since=str(first),
                label=address.label,
                reason=message_from_json(row.details, row.message or "").problem,
                session=session_id,
                centre=address.centre,
                centre_id=row.centre_id,
            )
        )
    return troubles


def _streak(connection: Connection, source_id: int) -> tuple[int | None, int]:
    """The first of the crawls of a source that failed in a row up to the last one, and how many they are."""
    own = SourceCrawlRow.file_source_id == source_id
    good = select(func.max(SourceCrawlRow.id)).where(own, SourceCrawlRow.outcome != _FAILED)
    last_good = connection.scalar(good) or 0
    first, crawls = connection.execute(
        select(func.min(SourceCrawlRow.id), func.count()).where(own, SourceCrawlRow.id > last_good)
    ).one()
    return first, crawls


def sessions_of(group: str | None) -> str:
    """The subject of the outage that sessions of a group of centres, or of all, break off."""
    return SESSION if group is None else f"{SESSION} of {group}"


def broken_session(session_id: int, group: CentreGroup | None, reason: str) -> Trouble:
    """A session of a group of centres, or of all, that broke off."""
    subject = sessions_of(None if group is None else group.name)
    return Trouble(subject, str(session_id), f"session {session_id}", reason, session_id)


def session_of_dead_process(dead: DeadSession, *, taken_up: bool) -> Trouble:
    """A session whose process died; `taken_up`: the next one has ended well, and did what it had left."""
    trouble = broken_session(dead.session, dead.group, dead.said)
    return replace(trouble, over=taken_up, reported=False)


def dead_sessions(connection: Connection, settings: Settings) -> list[Trouble]:
    """The sessions whose processes have died without another one having followed yet."""
    dead = [lease.died for lease in read_leases(connection, settings) if lease.is_dead]
    return [session_of_dead_process(one, taken_up=False) for one in dead]


def ended_outages(connection: Connection, subjects: Iterable[str], away: Iterable[Trouble]) -> dict[str, str | None]:
    """Those of the subjects of outages that are no longer away, each with what it is called.

    None instead of that: nobody expects it back, such as a file source that is not crawled any more. Sessions are not
    looked at.
    """
    still = {trouble.subject for trouble in away}
    wanted = [subject for subject in subjects if subject.startswith(_SOURCE) and subject not in still]
    if not wanted:
        return {}
    addresses = {address.id: address for address in load_addresses(connection)}
    back: dict[str, str | None] = {}
    for subject in wanted:
        number = int(subject.removeprefix(_SOURCE))
        if number not in addresses:
            back[subject] = None
        elif _streak(connection, number)[1] == 0:
            back[subject] = addresses[number].label
    return back


def sessions_after(connection: Connection, last: int, most: int) -> list[int]:
    """Sessions that are over and came after one, oldest first: at most the `most` last of them."""
    query = (
        select(CrawlingSession.id)
        .where(CrawlingSession.id > last, CrawlingSession.finish_time.is_not(None))
        .order_by(CrawlingSession.id.desc())
        .limit(most)
    )
    return sorted(connection.scalars(query))


def oldest_under_way(connection: Connection) -> int | None:
    """The oldest session that is not over; None where all are."""
    return connection.scalar(select(func.min(CrawlingSession.id)).where(CrawlingSession.finish_time.is_(None)))


def centre_ids(connection: Connection) -> dict[str, int]:
    """The ids of all centres, by code."""
    return {row.short_name: row.id for row in connection.execute(select(Centre.short_name, Centre.id))}
