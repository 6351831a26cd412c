"""The leases of crawling sessions: rows of `session_lock`, each of a session of all centres or of a group of them.

A centre is in one session at a time: sessions of two groups run at once, one of all centres runs alone. If a lease's
holder is dead (its process has ended, or it was not renewed for `lease_timeout`), the next session of one of its
centres takes it over. It records that the dead session died.

The first row is that of sessions of all centres. A session locks it to begin, so that sessions begin one after the
other, and for work that two of them must not do at once (`Session.write`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, func, insert, select, update

from dcc.databases.list_parameters import IDS
from dcc.databases.transactions import insert_rows
from dcc.errors import NotFoundError, SessionActiveError
from dcc.messages import Message, mark, message
from dcc.nearest_names import nearest_sentence
from dcc.outcomes import AttemptOutcome, EndReason
from dcc.phases import UNFINISHED, Phase
from dcc.runtime.clock import utc_now
from dcc.runtime.processes import Process
from dcc.settings import Settings
from dcc.settings.centre_groups import CentreGroup
from dcc.tracker.models import CrawlingSession, SessionLock, SessionTask, ZipDownload
from dcc.tracker.session_statistics import record_statistics
from dcc.tracker.session_statuses import SessionStatus, TaskStatus

FIRST_LOCK: Final = 1
"""The row of sessions of all centres."""

COMMENT_LENGTH: Final = 256
"""The characters of what a task says."""
_ENDING_SECONDS: Final = 60
"""How long a process may still be busy after the end of its session."""
_LOCK: Final = SessionLock.__table__
_LOCKS: Final = select(_LOCK, func.current_timestamp().label("now")).order_by(_LOCK.c.id)
_OWN_LOCKS: Final = _LOCKS.where(_LOCK.c.id.in_(IDS)).with_for_update()


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of an open session: its group of centres (None: all), and its process.

    It `is_open` if it waits for a run to resume it, and `is_active` if its process is alive. `age_seconds` is the time
    since its last sign of life.
    """

    session: int
    group: CentreGroup | None
    is_open: bool
    is_active: bool
    host: str
    pid: int
    acquired: datetime
    heartbeat: datetime
    age_seconds: float

    @property
    def is_dead(self) -> bool:
        """Whether its process has died."""
        return not (self.is_open or self.is_active)

    @property
    def label(self) -> Message:
        """Its number and group, for messages."""
        number = str(self.session)
        if self.group is None:
            return message(mark("Session {number}"), number=number)
        return message(mark("Session {number} of {group}"), number=number, group=self.group.name)

    @property
    def reason(self) -> Message:
        """The message about its death."""
        text = mark(
            "{session} died (process {process} on {host}, last sign of life {moment} UTC). It is recorded as died and "
            "its unfinished work is taken up."
        )
        return message(text, session=self.label, process=str(self.pid), host=self.host, moment=str(self.heartbeat))

    def shares_centres_with(self, group: CentreGroup | None) -> bool:
        """Whether it is for a centre of a group; None: all centres."""
        return group is None or self.group is None or not self.group.centres.isdisjoint(group.centres)


class AcquiredSession(NamedTuple):
    """A session that was acquired, when it began, the row of its lease, and the sessions before it that it finished.

    Those are `dead`, or by their ids `left_open`: handed over, and nobody went on with them.
    """

    session_id: int
    began: datetime
    group: CentreGroup | None
    lock_id: int
    dead: tuple[Lease, ...]
    left_open: tuple[int, ...]


def named_group(settings: Settings, name: str) -> CentreGroup:
    """The group of that name. Raises NotFoundError if DCC_GROUPS does not name it."""
    groups = settings.centre_groups
    if name not in groups:
        known = f"DCC_GROUPS has {', '.join(groups)}." if groups else "DCC_GROUPS names none."
        raise NotFoundError(f"No group of centres {name!r} exists.{nearest_sentence(name, groups)} {known}")
    return groups[name]


def read_leases(connection: Connection, settings: Settings) -> list[Lease]:
    """The leases of open sessions, read only."""
    return list(_leases(connection, settings, connection.execute(_LOCKS).all()).values())


def active_sessions(connection: Connection, settings: Settings) -> list[Lease]:
    """The sessions that a process has now."""
    return [lease for lease in read_leases(connection, settings) if lease.is_active]


def sessions_over(connection: Connection, settings: Settings, session_ids: Collection[int]) -> set[int]:
    """Those of some sessions whose process has certainly let go of them: it died, or they ended a minute ago."""
    left = set(session_ids) - {lease.session for lease in read_leases(connection, settings) if not lease.is_dead}
    session = CrawlingSession
    lately = session.finish_time > utc_now() - timedelta(seconds=_ENDING_SECONDS)
    return left - set(connection.scalars(select(session.id).where(session.id.in_(left), lately))) if left else left


def refuse_during_session(connection: Connection, settings: Settings) -> None:
    """Raise SessionActiveError while a process has a session; else none begins before the transaction ends.

    Call inside a write transaction. The tracker may be of an earlier version.
    """
    for lock in connection.execute(_LOCKS.with_for_update()).all():
        if lock.holder is not None and is_alive(lock, settings):
            raise _active_error(_lease(lock, None, settings))


def end_sessions_of_copy(connection: Connection) -> list[int]:
    """End the sessions that were active when a tracker was copied, as if their processes had been killed; returns their
    ids.

    For trackers that no process uses yet. Call inside a write transaction.
    """
    locks = [lock for lock in connection.execute(_LOCKS.with_for_update()) if lock.session_id is not None]
    for lock in locks:
        finish_session(connection, lock.session_id, None if lock.holder is None else EndReason.DIED)
    connection.execute(update(_LOCK).values(holder=None, session_id=None))
    return [lock.session_id for lock in locks]


def await_turn(connection: Connection) -> None:
    """Keep other sessions out until the transaction ends. On SQLite every write transaction does so."""
    if connection.dialect.name != "sqlite":
        connection.execute(select(_LOCK.c.id).where(_LOCK.c.id == FIRST_LOCK).with_for_update())


def acquire_lease(
    connection: Connection, holder: str, settings: Settings, group: CentreGroup | None, resume: int | None
) -> AcquiredSession:
    """Begin a session of a group, or of all centres, or `resume` one that was handed over, for `holder`.

    Dead and handed-over sessions of the same centres are finished. Raises SessionActiveError while a process has one.
    Call inside a write transaction.
    """
    await_turn(connection)
    locks = connection.execute(_LOCKS).all()
    leases = _leases(connection, settings, locks)
    resumed = next((lock_id for lock_id, one in leases.items() if one.is_open and one.session == resume), None)
    if resumed is not None:
        group = leases[resumed].group
    own = [lock_id for lock_id, lease in leases.items() if lease.shares_centres_with(group)]
    # A process that was taken for dead may be writing: its renewals up to then count.
    certain = connection.execute(_OWN_LOCKS, {"ids": own}).all() if own else []
    dead, left_open = [], []
    for lock_id, lease in _leases(connection, settings, certain).items():
        if lease.is_active:
            raise _active_error(lease)
        if lock_id == resumed:
            continue
        if lease.is_dead:
            dead.append(lease)
        else:
            left_open.append(lease.session)
        finish_session(connection, lease.session, None if lease.is_open else EndReason.DIED)
        connection.execute(update(_LOCK).where(_LOCK.c.id == lock_id).values(holder=None, session_id=None))
    if resumed is None:
        lock_id = _free_lock(connection, group, [lock.id for lock in locks], leases.keys() - set(own))
        name, centres = (None, None) if group is None else (group.name, group.text)
        row = start_columns() | {"centre_group": name, "centres": centres}
        session_id = insert_rows(connection, CrawlingSession.__table__, [row])[0]
    else:
        lock_id, session_id = resumed, leases[resumed].session
    process, now = Process.this(), func.current_timestamp()
    taken = {"session_id": session_id, "holder": holder, "host": process.host, "pid": process.pid}
    holding = update(_LOCK).values(pid_started=process.started, acquired=now, heartbeat=now, **taken)
    connection.execute(holding.where(_LOCK.c.id == lock_id))
    began = connection.scalars(select(CrawlingSession.start_time).where(CrawlingSession.id == session_id)).one()
    return AcquiredSession(session_id, began, group, lock_id, tuple(dead), tuple(left_open))


def _free_lock(connection: Connection, group: CentreGroup | None, ids: Sequence[int], taken: Collection[int]) -> int:
    """The id of the row for a new session; a group without a free row gets a new one."""
    if group is None:
        return FIRST_LOCK
    free = next((lock_id for lock_id in ids if lock_id != FIRST_LOCK and lock_id not in taken), None)
    if free is not None:
        return free
    new = max(ids) + 1
    connection.execute(insert(_LOCK).values(id=new))
    return new


def start_columns() -> dict[str, object]:
    """The columns of a session or task that begins."""
    now = utc_now()
    return {"start_time": now, "status": int(TaskStatus.UNFINISHED), "created": now}


def finish_session(connection: Connection, session_id: int, broke_off: EndReason | None, why: str = "") -> EndReason:
    """Close a session with its statistics; returns why it ended.

    `broke_off` is None if all its work was done: then its tasks tell the reason. The unfinished tasks and attempts of a
    session that was cut short are cancelled; those of one that broke off say `why` too.
    """
    now = utc_now()
    is_cancelled = broke_off in (EndReason.STOPPED, EndReason.TIME_LIMIT)
    if broke_off is not None:
        end_attempts(connection, session_id, AttemptOutcome.CANCELLED if is_cancelled else AttemptOutcome.ABORTED)
    of_session = SessionTask.session_id == session_id
    comment = func.substr(SessionTask.comment + (f": {why}" if why else ""), 1, COMMENT_LENGTH)
    cut_short = int(TaskStatus.CANCELLED if is_cancelled else TaskStatus.FAILED)
    end_of_tasks = update(SessionTask).values(finish_time=now, status=cut_short, comment=comment)
    connection.execute(end_of_tasks.where(of_session, SessionTask.finish_time.is_(None)))
    tasks = select(func.min(SessionTask.phase_id), func.max(SessionTask.status))
    failed, worst = connection.execute(tasks.where(of_session, SessionTask.status != int(TaskStatus.SUCCEEDED))).one()
    reached = failed or (Phase.DOWNLOAD if broke_off else SessionStatus.SUCCEEDED)
    status = int(SessionStatus.CANCELLED if is_cancelled else reached)
    reason = broke_off
    if reason is None:
        by_tasks = EndReason.DISK if worst == TaskStatus.LACKED_ROOM else EndReason.FAULTS
        reason = EndReason.FINISHED if failed is None else by_tasks
    end = update(CrawlingSession).values(finish_time=now, status=status, end_reason=reason.value)
    connection.execute(end.where(CrawlingSession.id == session_id, CrawlingSession.finish_time.is_(None)))
    record_statistics(connection, session_id)
    return reason


def _leases(connection: Connection, settings: Settings, locks: Sequence[Row[Any]]) -> dict[int, Lease]:
    """The leases of rows of `session_lock`, by the ids of these; rows without one are left out."""
    taken = [lock for lock in locks if lock.session_id is not None]
    session = CrawlingSession
    query = select(session.id, session.centre_group, session.centres)
    rows = connection.execute(query.where(session.id.in_([lock.session_id for lock in taken]))) if taken else ()
    groups = {number: CentreGroup.of_texts(name, centres) for number, name, centres in rows}
    return {lock.id: _lease(lock, groups.get(lock.session_id), settings) for lock in taken}


def _lease(lock: Row[Any], group: CentreGroup | None, settings: Settings) -> Lease:
    is_open = lock.holder is None
    is_active = not is_open and is_alive(lock, settings)
    host, age = str(lock.host).split(" ")[0], max(_age(lock).total_seconds(), 0.0)
    return Lease(lock.session_id, group, is_open, is_active, host, lock.pid, lock.acquired, lock.heartbeat, age)


def is_alive(lock: Row[Any], settings: Settings) -> bool:
    """Whether the process of a row is alive, as far as known; the row has the database's time as `now`."""
    if Process(lock.host, lock.pid, lock.pid_started).is_gone:
        return False
    return _age(lock) < timedelta(seconds=settings.lease_timeout)


def _age(lock: Row[Any]) -> timedelta:
    """The time since the last sign of life, by the database's clock."""
    now: datetime = lock.now if isinstance(lock.now, datetime) else datetime.fromisoformat(lock.now)
    age: timedelta = now.replace(tzinfo=None) - lock.heartbeat
    return age


def _active_error(lease: Lease) -> SessionActiveError:
    return SessionActiveError(
        f"{lease.label} is active: process {lease.pid} on {lease.host} holds it since {lease.acquired} UTC. Wait until "
        "it ends (`dcc session list`), or stop that process."
    )


def end_attempts(connection: Connection, session_id: int, outcome: AttemptOutcome) -> None:
    """Record the end of attempts that were running or waiting when a session ended."""
    under_way = ZipDownload.status_id.in_(UNFINISHED)
    mine = ZipDownload.session_id == session_id
    connection.execute(
        update(ZipDownload).where(under_way, mine, ZipDownload.outcome.is_(None)).values(outcome=outcome.value)
    )
