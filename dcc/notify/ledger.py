"""The ledger of what was told to whom: the tracker's table `notification`.

A thing is told at most once. Who is about to tell it claims it first, by inserting a row under a unique key, so that
two processes cannot both; right before the message is handed over the row becomes `sending`. A process that dies before
that leaves a claim, which lapses. One that dies after it leaves a message of which nobody knows whether it arrived: it
becomes `unsure` and is not sent again by e-mail, since a person who gets everything twice stops reading; what repeats
without harm (a webhook whose receiver knows the message by its id, the log) is sent again. What certainly was not sent
is `failed`, and claimed anew by the next session.

A message that is sent again keeps its id, as long as it tells the same: all that is left of it, and nothing else. So a
claim is known by its message and the time at which it was made.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from dcc.databases.columns import utc_now
from dcc.notify.messages import Item, Kind
from dcc.tracker.database import insert_rows, run_writing
from dcc.tracker.models import NotificationRow

LAPSED: Final = timedelta(minutes=15)
"""Age at which nobody can be at a message any more: sending is bounded to ten minutes (DCC_NOTIFY_SECONDS)."""
MOST_ATTEMPTS: Final = 40
"""Attempts after which a message is given up, some days later: an address that refuses mail does so for good."""
AT_ONCE: Final = 5
"""Attempts that are made whenever somebody looks; the pauses before later ones double, up to `LONGEST_PAUSE`.

A sensor looks every minute, and a mail server may be down for a weekend.
"""
LONGEST_PAUSE: Final = timedelta(hours=3)

_LOT: Final = 500
_SUBJECT_LENGTH: Final = 255
_RECIPIENT_LENGTH: Final = 256
_PATIENCE_SECONDS: Final = 5.0

_MARK: Final = Item(Kind.SESSION, "sessions looked at")
T = TypeVar("T")


class Sending(StrEnum):
    """How far telling something is."""

    CLAIMED = "claimed"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    UNSURE = "unsure"


TOLD: Final = (Sending.SENT, Sending.UNSURE)
"""What counts as told."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a process alone may tell a recipient by a channel, in one message: `items` of those that it asked for."""

    message_id: str
    channel: str
    recipient: str
    items: tuple[Item, ...]
    since: datetime


class Ledger:
    """The ledger of one tracker. Every method is a transaction, and raises TrackerUnreachableError."""

    def __init__(self, tracker: Engine) -> None:
        self._tracker = tracker

    def not_told(self, items: Sequence[Item], channel: str, recipient: str) -> list[Item]:
        """Those that the recipient still has to be told, as far as can be seen without claiming them."""
        with self._tracker.connect() as connection:
            known = _known(connection, [item.told(channel, recipient) for item in items])
        return [item for item in items if _is_free(known.get(item.told(channel, recipient)))]

    def claim(self, items: Sequence[Item], channel: str, recipient: str) -> Claim:
        """Claim what the recipient was not told yet and nobody else is telling. `items` of the claim may be empty."""
        wanted = {item.told(channel, recipient): item for item in items}

        def work(connection: Connection) -> Claim:
            known = _known(connection, list(wanted))
            free = {told: item for told, item in wanted.items() if _is_free(known.get(told))}
            message_id, now = uuid.uuid4().hex, utc_now()
            new = [told for told in free if told not in known]
            if new:
                rows = [_row(free[told], told, message_id, channel, recipient, now) for told in new]
                connection.execute(insert(NotificationRow), rows)
            taken = [told for told in free if told in known and _take(connection, known[told], message_id, now)]
            if not new:
                message_id = _keep_id(connection, [known[told] for told in taken], message_id)
            return Claim(message_id, channel, recipient, tuple(free[told] for told in [*new, *taken]), now)

        for _ in range(3):
            # Another process may have inserted one of them in between: it is there to be seen the next time.
            with suppress(IntegrityError):
                return self._write(work)
        return Claim(uuid.uuid4().hex, channel, recipient, (), utc_now())

    def begin(self, claim: Claim) -> bool:
        """Say that the message of a claim is handed over now; False when the claim has lapsed and is another's."""

        def work(connection: Connection) -> bool:
            held = update(NotificationRow).where(*_held(claim))
            values = {"state": Sending.SENDING, "attempts": NotificationRow.attempts + 1, "changed": utc_now()}
            begun = connection.execute(held.values(values)).rowcount
            if begun == len(claim.items):
                return True
            if begun:
                # Another message tells some of them; what is left of this one is due again.
                mine = NotificationRow.message_id == claim.message_id, NotificationRow.state == Sending.SENDING
                left = update(NotificationRow).where(*mine)
                connection.execute(left.values(state=Sending.FAILED, attempts=NotificationRow.attempts - 1))
            return False

        return self._write(work)

    def settle(self, claim: Claim, state: Sending, reason: str | None = None) -> None:
        """Say what became of the message of a claim. What it tells replaces what was told of the same zip actions."""

        def work(connection: Connection) -> None:
            settled = update(NotificationRow).where(NotificationRow.message_id == claim.message_id)
            if state is not Sending.SENT:
                # Whoever sent it again meanwhile knows better.
                settled = settled.where(NotificationRow.state != Sending.SENT)
            connection.execute(settled.values(state=state, reason=reason, changed=utc_now()))
            if state in TOLD:
                _forget_older_outcomes(connection, claim)

        self._write(work)

    def release(self, claim: Claim) -> None:
        """Give back a claim of which nothing was handed over."""

        def work(connection: Connection) -> None:
            held = _held(claim)
            connection.execute(delete(NotificationRow).where(*held, NotificationRow.attempts == 0))
            connection.execute(update(NotificationRow).where(*held).values(state=Sending.FAILED, changed=utc_now()))

        self._write(work)

    def settle_interrupted(self, repeatable: Sequence[str]) -> list[tuple[str, str]]:
        """See to messages whose process died while handing them over; channel and recipient of those now unsure.

        `repeatable` are the channels by which they are sent again.
        """

        def work(connection: Connection) -> list[tuple[str, str]]:
            old = and_(NotificationRow.state == Sending.SENDING, NotificationRow.changed < utc_now() - LAPSED)
            again = NotificationRow.channel.in_(repeatable)
            values: dict[str, Any] = {"changed": utc_now(), "reason": "The process that sent it died."}
            if connection.scalar(select(func.count()).select_from(NotificationRow).where(old)) == 0:
                return []
            connection.execute(update(NotificationRow).where(old, again).values(state=Sending.FAILED, **values))
            lost = connection.execute(
                select(NotificationRow.channel, NotificationRow.recipient).where(old).distinct()
            ).all()
            connection.execute(update(NotificationRow).where(old).values(state=Sending.UNSURE, **values))
            return [(row.channel, row.recipient) for row in lost]

        return self._write(work)

    def sessions_to_tell(self) -> list[int]:
        """Sessions of which something could not be told before, and is to be tried again; newest first."""
        columns = NotificationRow.session_id, NotificationRow.state, NotificationRow.attempts, NotificationRow.changed
        query = (
            select(*columns)
            .where(
                NotificationRow.state.in_([Sending.FAILED, Sending.CLAIMED]),
                NotificationRow.kind.in_([Kind.DIGEST, Kind.SESSION]),
                NotificationRow.attempts < MOST_ATTEMPTS,
                NotificationRow.session_id.is_not(None),
            )
            .order_by(NotificationRow.session_id.desc())
        )
        now = utc_now()
        with self._tracker.connect() as connection:
            rows = connection.execute(query).all()
        due = (row.session_id for row in rows if row.state == Sending.CLAIMED or _is_due(row, now))
        return [number for number in dict.fromkeys(due) if number is not None]

    def drop_failed(self, session: int, *, before: datetime) -> None:
        """Forget what of a session could not be told, was due `before` and was not tried since."""
        left = (
            NotificationRow.session_id == session,
            NotificationRow.state == Sending.FAILED,
            NotificationRow.kind.in_([Kind.DIGEST, Kind.SESSION, Kind.ZIP]),
            NotificationRow.changed < before,
        )
        columns = NotificationRow.id, NotificationRow.attempts, NotificationRow.changed
        with self._tracker.connect() as connection:
            found = [row.id for row in connection.execute(select(*columns).where(*left)) if _is_due(row, before)]
        if found:
            self._write(lambda connection: _forget(connection, found))

    def settled(self, items: Sequence[Item], channel: str, recipient: str) -> list[Item]:
        """Those that the recipient is not told any more: it was, or may have been, or that was given up."""
        with self._tracker.connect() as connection:
            known = _known(connection, [item.told(channel, recipient) for item in items])
        rows = ((item, known.get(item.told(channel, recipient))) for item in items)
        return [
            item
            for item, row in rows
            if row is not None
            and (row.state in TOLD or (row.state == Sending.FAILED and row.attempts >= MOST_ATTEMPTS))
        ]

    def open_outages(self, channel: str, recipient: str) -> dict[str, str]:
        """What the recipient was told to be away and has not been told to be back: subject, and the row's `told`."""
        with self._tracker.connect() as connection:
            return {row.subject: row.told for row in connection.execute(_open_outages(channel, recipient))}

    def end_outage(self, told: str) -> None:
        """Say that an outage is over."""
        ended = update(NotificationRow).where(NotificationRow.told == told).values(ended=utc_now())
        self._write(lambda connection: connection.execute(ended) and None)

    def entries(self, *, session: int | None = None, most: int = 100) -> list[NotificationRow | Any]:
        """What was, is and is to be told, newest first, without the zip actions that digests consist of."""
        query = select(NotificationRow.__table__).where(NotificationRow.kind != Kind.ZIP, NotificationRow.channel != "")
        if session is not None:
            query = query.where(NotificationRow.session_id == session)
        with self._tracker.connect() as connection:
            return list(connection.execute(query.order_by(NotificationRow.id.desc()).limit(most)))

    def forget(self, kind: Kind, subjects: Sequence[str], channel: str, recipient: str) -> None:
        """Forget what the recipient was told of these: when it happens again, it is news."""
        with self._tracker.connect() as connection:
            known = _told_of(connection, kind, subjects, channel, recipient)
        if known:
            self._write(lambda connection: _forget(connection, known))

    def looked_at(self) -> int:
        """The last session that was looked at for what to tell; 0 for none."""
        with self._tracker.connect() as connection:
            found = connection.scalar(
                select(NotificationRow.session_id).where(NotificationRow.told == _MARK.told("", ""))
            )
        return found or 0

    def look_at(self, session: int) -> None:
        """Say that all sessions up to this one have been looked at."""
        mark = _MARK.told("", "")

        def work(connection: Connection) -> None:
            known = _known(connection, [mark])
            if not known:
                row = _row(_MARK, mark, "", "", "", utc_now()) | {"state": Sending.SENT, "session_id": session}
                insert_rows(connection, NotificationRow.__table__, [row])
            older = NotificationRow.session_id < session
            connection.execute(
                update(NotificationRow)
                .where(NotificationRow.told == mark, or_(older, NotificationRow.session_id.is_(None)))
                .values(session_id=session, changed=utc_now())
            )

        # Another process that inserts it in between has looked at the same.
        with suppress(IntegrityError):
            self._write(work)

    def _write(self, work: Callable[[Connection], T]) -> T:
        return run_writing(self._tracker, work, patience_seconds=_PATIENCE_SECONDS)


def _known(connection: Connection, told: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    columns = (
        NotificationRow.told,
        NotificationRow.state,
        NotificationRow.message_id,
        NotificationRow.changed,
        NotificationRow.attempts,
    )
    for start in range(0, len(told), _LOT):
        query = select(*columns).where(NotificationRow.told.in_(told[start : start + _LOT]))
        found |= {row.told: row for row in connection.execute(query)}
    return found


def _is_free(row: Any) -> bool:
    if row is None:
        return True
    if row.state == Sending.FAILED:
        return _is_due(row, utc_now())
    return bool(row.state == Sending.CLAIMED and row.changed < utc_now() - LAPSED)


def _is_due(row: Any, now: datetime) -> bool:
    """Whether what failed is to be tried again: not while its pause lasts, and not when it was given up."""
    if row.attempts >= MOST_ATTEMPTS:
        return False
    doubled = row.attempts - AT_ONCE
    pause = timedelta() if doubled < 0 else min(timedelta(minutes=2**doubled), LONGEST_PAUSE)
    return bool(row.changed <= now - pause)


def _held(claim: Claim) -> tuple[ColumnElement[bool], ...]:
    """What the rows of a claim have in common, unless it has lapsed and they are another's."""
    return (
        NotificationRow.message_id == claim.message_id,
        NotificationRow.state == Sending.CLAIMED,
        NotificationRow.changed == claim.since,
    )


def _take(connection: Connection, row: Any, message_id: str, now: datetime) -> bool:
    """Claim a row, but only from the state that was seen: another process may have been faster."""
    mine = update(NotificationRow).where(
        NotificationRow.told == row.told,
        NotificationRow.state == row.state,
        NotificationRow.message_id == row.message_id,
        NotificationRow.changed == row.changed,
    )
    values = {"state": Sending.CLAIMED, "message_id": message_id, "changed": now}
    return bool(connection.execute(mine.values(values)).rowcount)


def _keep_id(connection: Connection, rows: Sequence[Any], message_id: str) -> str:
    """Give rows that were taken back the id of the message that they were in, if they are all that is left of it.

    With fewer or more, whoever has got that message would take news for a repeat. Returns the id that they have then.
    """
    before = {row.message_id if row.attempts else "" for row in rows}
    old = before.pop() if len(before) == 1 else ""
    left = select(func.count()).select_from(NotificationRow).where(NotificationRow.message_id == old)
    if not old or connection.scalar(left):
        return message_id
    connection.execute(update(NotificationRow).where(NotificationRow.message_id == message_id).values(message_id=old))
    return str(old)


def _row(item: Item, told: str, message_id: str, channel: str, recipient: str, now: datetime) -> dict[str, object]:
    return {
        "told": told,
        "message_id": message_id,
        "kind": item.kind,
        "subject": item.subject[:_SUBJECT_LENGTH],
        "channel": channel,
        "recipient": recipient[:_RECIPIENT_LENGTH],
        "session_id": item.session,
        "centre_id": item.centre_id,
        "state": Sending.CLAIMED,
        "attempts": 0,
        "reason": None,
        "changed": now,
        "ended": None,
        "created": now,
    }


def _forget_older_outcomes(connection: Connection, claim: Claim) -> None:
    """A zip action that failed, came right and fails in the same way again is news: only the last outcome counts."""
    subjects = [item.subject for item in claim.items if item.kind is Kind.ZIP]
    known = _told_of(connection, Kind.ZIP, subjects, claim.channel, claim.recipient)
    _forget(connection, [row_id for row_id, message_id in known.items() if message_id != claim.message_id])


def _told_of(
    connection: Connection, kind: Kind, subjects: Sequence[str], channel: str, recipient: str
) -> dict[int, str]:
    """The rows of what was told of these, and their messages."""
    found: dict[int, str] = {}
    for start in range(0, len(subjects), _LOT):
        lot = [subject[:_SUBJECT_LENGTH] for subject in subjects[start : start + _LOT]]
        query = select(NotificationRow.id, NotificationRow.message_id).where(
            NotificationRow.kind == kind,
            NotificationRow.channel == channel,
            NotificationRow.recipient == recipient[:_RECIPIENT_LENGTH],
            NotificationRow.subject.in_(lot),
        )
        found |= {row.id: row.message_id for row in connection.execute(query)}
    return found


def _forget(connection: Connection, rows: Iterable[int]) -> None:
    ids = list(rows)
    for start in range(0, len(ids), _LOT):
        connection.execute(delete(NotificationRow).where(NotificationRow.id.in_(ids[start : start + _LOT])))


def _open_outages(channel: str, recipient: str) -> Any:
    return select(NotificationRow.subject, NotificationRow.told).where(
        NotificationRow.kind == Kind.OUTAGE,
        NotificationRow.ended.is_(None),
        NotificationRow.channel == channel,
        NotificationRow.recipient == recipient[:_RECIPIENT_LENGTH],
        NotificationRow.state.in_(TOLD),
    )
