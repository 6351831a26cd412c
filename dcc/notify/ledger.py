"""Who was notified of what: the tracker's table `notification`.

Each recipient gets each item once. A process that is about to send first claims the items by inserting rows under a
unique key, so that two processes cannot send the same. Right before the message leaves, the rows become `sending`. If a
process dies before that, its claim lapses. If it dies later, nobody knows whether the message arrived: the rows become
`unsure`. An e-mail is then not sent again, because people who get everything twice stop reading. A webhook, whose
receiver knows messages by their ids, and the log are sent again. A message that was certainly not sent is `failed`, and
the next session claims it again.

A message keeps its id when it is sent again with exactly the same items. So a claim is known by its message id and its
time.
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

from dcc.databases.list_parameters import rows_with, sorted_chunks
from dcc.databases.transactions import RollBackError, insert_rows, run_writing
from dcc.notify.messages import NewsItem, NewsKind
from dcc.runtime.clock import utc_now
from dcc.tracker.models import NotificationRow

LAPSED: Final = timedelta(minutes=15)
"""Age at which no process can still be sending a message: sending is bounded to ten minutes (DCC_NOTIFY_SECONDS)."""
MAX_ATTEMPTS: Final = 40
"""Attempts after which a message is given up, after some days: an address that still refuses mail is wrong."""
AT_ONCE: Final = 5
"""Attempts without a pause. The pauses before later ones double, up to `LONGEST_PAUSE`.

A sensor tries every minute, and a mail server may be down for a weekend.
"""
LONGEST_PAUSE: Final = timedelta(hours=3)

_LISTED: Final = 100
_SUBJECT_LENGTH: Final = 255
_RECIPIENT_LENGTH: Final = 256
_PATIENCE_SECONDS: Final = 5.0

_LAST_SESSION: Final = NewsItem(NewsKind.SESSION, "sessions looked at")
T = TypeVar("T")


class SendState(StrEnum):
    """How far the sending of an item is."""

    CLAIMED = "claimed"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    UNSURE = "unsure"


NOTIFIED: Final = (SendState.SENT, SendState.UNSURE)
"""States in which the recipient counts as notified."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The items of a request that this process alone may send to a recipient by a channel, in one message."""

    message_id: str
    channel: str
    recipient: str
    items: tuple[NewsItem, ...]
    since: datetime


class Ledger:
    """The ledger of one tracker. Every method is a transaction, and raises TrackerUnreachableError."""

    def __init__(self, tracker: Engine) -> None:
        self._tracker = tracker

    def unsent(self, items: Sequence[NewsItem], channel: str, recipient: str) -> list[NewsItem]:
        """The items that the recipient has not received, read without claiming them."""
        return [item for item, row in self._rows_of(items, channel, recipient) if _is_free(row)]

    def claim(self, items: Sequence[NewsItem], channel: str, recipient: str) -> Claim:
        """Claim the items that the recipient has not received and no other process is sending. They may be none."""
        wanted = {item.ledger_key(channel, recipient): item for item in items}

        def work(connection: Connection) -> Claim:
            known = _rows_by_key(connection, wanted, locked=True)
            free = {key: item for key, item in wanted.items() if _is_free(known.get(key))}
            new, now = [key for key in free if key not in known], utc_now()
            taken = [known[key] for key in free if key in known]
            message_id = (None if new else _same_message(connection, taken)) or uuid.uuid4().hex
            if new:
                rows = [_row(free[key], key, message_id, channel, recipient, now) for key in new]
                connection.execute(insert(NotificationRow), rows)
            claimed = {"state": SendState.CLAIMED, "message_id": message_id, "changed": now}
            for portion in sorted_chunks(row.id for row in taken):
                connection.execute(update(NotificationRow).where(NotificationRow.id.in_(portion)).values(claimed))
            keys = [*new, *(row.told for row in taken)]
            return Claim(message_id, channel, recipient, tuple(free[key] for key in keys), now)

        for _ in range(3):
            # Another process may have inserted one of the rows meanwhile: the next attempt reads it.
            with suppress(IntegrityError):
                return self._write(work)
        return Claim(uuid.uuid4().hex, channel, recipient, (), utc_now())

    def begin(self, claim: Claim) -> bool:
        """Record that the message of a claim leaves now; False if the claim lapsed and is another process's."""

        def work(connection: Connection) -> bool:
            values = {"state": SendState.SENDING, "attempts": NotificationRow.attempts + 1, "changed": utc_now()}
            begun = connection.execute(update(NotificationRow).where(*_of_claim(claim)).values(values)).rowcount
            if begun != len(claim.items):
                # Another message has some of the items; the others' claim has lapsed too, so they are due again.
                raise RollBackError(False)
            return True

        return self._write(work)

    def record_result(self, claim: Claim, state: SendState, reason: str | None = None) -> None:
        """Record the result of sending a claim's message. Its items replace earlier ones of the same submissions."""

        def work(connection: Connection) -> None:
            change = update(NotificationRow).where(NotificationRow.message_id == claim.message_id)
            if state is not SendState.SENT:
                # A process that sent it again meanwhile knows better.
                change = change.where(NotificationRow.state != SendState.SENT)
            connection.execute(change.values(state=state, reason=reason, changed=utc_now()))
            if state in NOTIFIED:
                # Only the last outcome counts, so that the same failure is news again after a success.
                subjects = [item.subject for item in claim.items if item.kind is NewsKind.ZIP]
                _forget(connection, subjects, claim.channel, claim.recipient, but=claim.message_id)

        self._write(work)

    def release(self, claim: Claim) -> None:
        """Give back a claim whose message never left."""

        def work(connection: Connection) -> None:
            held = _of_claim(claim)
            connection.execute(delete(NotificationRow).where(*held, NotificationRow.attempts == 0))
            connection.execute(update(NotificationRow).where(*held).values(state=SendState.FAILED, changed=utc_now()))

        self._write(work)

    def record_interrupted(self, repeatable: Sequence[str]) -> list[tuple[str, str]]:
        """Settle messages whose process died while sending; returns channel and recipient of those now unsure.

        Messages of the channels in `repeatable` are sent again.
        """

        def work(connection: Connection) -> list[tuple[str, str]]:
            old = and_(NotificationRow.state == SendState.SENDING, NotificationRow.changed < utc_now() - LAPSED)
            again = NotificationRow.channel.in_(repeatable)
            values: dict[str, Any] = {"changed": utc_now(), "reason": "The process that sent it died."}
            if connection.scalar(select(func.count()).select_from(NotificationRow).where(old)) == 0:
                return []
            connection.execute(update(NotificationRow).where(old, again).values(state=SendState.FAILED, **values))
            lost = connection.execute(
                select(NotificationRow.channel, NotificationRow.recipient).where(old).distinct()
            ).all()
            connection.execute(update(NotificationRow).where(old).values(state=SendState.UNSURE, **values))
            return [(row.channel, row.recipient) for row in lost]

        return self._write(work)

    def sessions_due(self) -> list[int]:
        """Sessions with messages that failed before and are due again, newest first."""
        columns = NotificationRow.session_id, NotificationRow.state, NotificationRow.attempts, NotificationRow.changed
        query = (
            select(*columns)
            .where(
                NotificationRow.state.in_([SendState.FAILED, SendState.CLAIMED]),
                NotificationRow.kind.in_([NewsKind.DIGEST, NewsKind.SESSION]),
            )
            .order_by(NotificationRow.session_id.desc())
        )
        now = utc_now()
        with self._tracker.connect() as connection:
            rows = connection.execute(query).all()
        due = (row.session_id for row in rows if row.state == SendState.CLAIMED or _is_due(row, now))
        return [number for number in dict.fromkeys(due) if number is not None]

    def drop_failed(self, session: int, *, before: datetime) -> None:
        """Remove a session's failed messages that were due `before` and were not tried since."""
        left = (
            NotificationRow.session_id == session,
            NotificationRow.state == SendState.FAILED,
            NotificationRow.kind.in_([NewsKind.DIGEST, NewsKind.SESSION, NewsKind.ZIP]),
            NotificationRow.changed < before,
        )
        columns = NotificationRow.id, NotificationRow.attempts, NotificationRow.changed
        with self._tracker.connect() as connection:
            found = [row.id for row in connection.execute(select(*columns).where(*left)) if _is_due(row, before)]
        if found:
            self._write(lambda connection: _delete(connection, found))

    def closed_items(self, items: Sequence[NewsItem], channel: str, recipient: str) -> list[NewsItem]:
        """The items that are closed for the recipient: sent, perhaps sent, or given up."""
        return [
            item
            for item, row in self._rows_of(items, channel, recipient)
            if row is not None
            and (row.state in NOTIFIED or (row.state == SendState.FAILED and row.attempts >= MAX_ATTEMPTS))
        ]

    def open_outages(self, channel: str, recipient: str) -> dict[str, str]:
        """Outages that the recipient knows of without a recovery: by subject, the key of the row."""
        query = select(NotificationRow.subject, NotificationRow.told).where(
            NotificationRow.kind == NewsKind.OUTAGE,
            NotificationRow.ended.is_(None),
            NotificationRow.channel == channel,
            NotificationRow.recipient == recipient[:_RECIPIENT_LENGTH],
            NotificationRow.state.in_(NOTIFIED),
        )
        with self._tracker.connect() as connection:
            return {row.subject: row.told for row in connection.execute(query)}

    def end_outage(self, key: str) -> None:
        """Record that an outage is over."""
        ended = update(NotificationRow).where(NotificationRow.told == key).values(ended=utc_now())
        self._write(lambda connection: connection.execute(ended) and None)

    def entries(self, *, session: int | None = None) -> list[NotificationRow | Any]:
        """Rows of the ledger, newest first, without the submissions that digests consist of."""
        query = select(NotificationRow.__table__).where(
            NotificationRow.kind != NewsKind.ZIP, NotificationRow.channel != ""
        )
        if session is not None:
            query = query.where(NotificationRow.session_id == session)
        with self._tracker.connect() as connection:
            return list(connection.execute(query.order_by(NotificationRow.id.desc()).limit(_LISTED)))

    def forget(self, submissions: Sequence[str], channel: str, recipient: str) -> None:
        """Remove what the recipient received of submissions: if it happens again, it is news."""
        self._write(lambda connection: _forget(connection, submissions, channel, recipient))

    def last_session(self) -> int:
        """The last session whose news were sent; 0 for none."""
        with self._tracker.connect() as connection:
            found = connection.scalar(
                select(NotificationRow.session_id).where(NotificationRow.told == _LAST_SESSION.ledger_key("", ""))
            )
        return found or 0

    def record_session(self, session: int) -> None:
        """Record that the news of all sessions up to this one were sent."""
        key = _LAST_SESSION.ledger_key("", "")

        def work(connection: Connection) -> None:
            if not _rows_by_key(connection, [key]):
                row = _row(_LAST_SESSION, key, "", "", "", utc_now()) | {"state": SendState.SENT, "session_id": session}
                insert_rows(connection, NotificationRow.__table__, [row])
            older = or_(NotificationRow.session_id < session, NotificationRow.session_id.is_(None))
            later = update(NotificationRow).where(NotificationRow.told == key, older)
            connection.execute(later.values(session_id=session, changed=utc_now()))

        # Another process that inserts the row meanwhile did the same.
        with suppress(IntegrityError):
            self._write(work)

    def _rows_of(self, items: Sequence[NewsItem], channel: str, recipient: str) -> list[tuple[NewsItem, Any]]:
        """Each item with its row, None without one."""
        keys = [item.ledger_key(channel, recipient) for item in items]
        with self._tracker.connect() as connection:
            known = _rows_by_key(connection, keys)
        return [(item, known.get(key)) for item, key in zip(items, keys, strict=True)]

    def _write(self, work: Callable[[Connection], T]) -> T:
        return run_writing(self._tracker, work, patience_seconds=_PATIENCE_SECONDS)


def _rows_by_key(connection: Connection, keys: Iterable[str], *, locked: bool = False) -> dict[str, Any]:
    """The rows with these keys; `locked`: no other process changes them in this transaction."""
    row = NotificationRow
    query = select(row.id, row.told, row.state, row.message_id, row.changed, row.attempts)
    query = query.with_for_update() if locked else query
    return {found.told: found for found in rows_with(connection, query, row.told, keys)}


def _is_free(row: Any) -> bool:
    if row is None:
        return True
    if row.state == SendState.FAILED:
        return _is_due(row, utc_now())
    return bool(row.state == SendState.CLAIMED and row.changed < utc_now() - LAPSED)


def _is_due(row: Any, now: datetime) -> bool:
    """Whether a failed item is due for another attempt: not during its pause, and not after it was given up."""
    if row.attempts >= MAX_ATTEMPTS:
        return False
    doubled = row.attempts - AT_ONCE
    pause = timedelta() if doubled < 0 else min(timedelta(minutes=2**doubled), LONGEST_PAUSE)
    return bool(row.changed <= now - pause)


def _of_claim(claim: Claim) -> tuple[ColumnElement[bool], ...]:
    """Conditions for the rows of a claim that has not lapsed and is not another process's."""
    return (
        NotificationRow.message_id == claim.message_id,
        NotificationRow.state == SendState.CLAIMED,
        NotificationRow.changed == claim.since,
    )


def _same_message(connection: Connection, rows: Sequence[Any]) -> str | None:
    """The id of the message that these rows were, all of them and no others.

    With fewer or more items, a recipient would take news for a repeated message.
    """
    before = {row.message_id for row in rows}
    if len(before) != 1:
        return None
    (message_id,) = before
    of_message = select(func.count()).select_from(NotificationRow).where(NotificationRow.message_id == message_id)
    return str(message_id) if connection.scalar(of_message) == len(rows) else None


def _row(item: NewsItem, key: str, message_id: str, channel: str, recipient: str, now: datetime) -> dict[str, object]:
    return {
        "told": key,
        "message_id": message_id,
        "kind": item.kind,
        "subject": item.subject[:_SUBJECT_LENGTH],
        "channel": channel,
        "recipient": recipient[:_RECIPIENT_LENGTH],
        "session_id": item.session,
        "centre_id": item.centre_id,
        "state": SendState.CLAIMED,
        "attempts": 0,
        "reason": None,
        "changed": now,
        "ended": None,
        "created": now,
    }


def _forget(connection: Connection, subjects: Sequence[str], channel: str, recipient: str, *, but: str = "") -> None:
    """Remove the rows of these submissions, all `but` those of one message."""
    query = select(NotificationRow.id).where(
        NotificationRow.kind == NewsKind.ZIP,
        NotificationRow.channel == channel,
        NotificationRow.recipient == recipient[:_RECIPIENT_LENGTH],
        NotificationRow.message_id != but,
    )
    kept = {subject[:_SUBJECT_LENGTH] for subject in subjects}
    _delete(connection, [row.id for row in rows_with(connection, query, NotificationRow.subject, kept)])


def _delete(connection: Connection, rows: Iterable[int]) -> None:
    for portion in sorted_chunks(rows):
        connection.execute(delete(NotificationRow).where(NotificationRow.id.in_(portion)))
