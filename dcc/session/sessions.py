"""Crawling sessions: one at a time, held by a lease in the tracker that outlives no crash.

The lease is the single row of `session_lock`. Its holder renews it while it lives; a lease whose holder is dead (its
process is gone, or it has not been renewed for `lease_timeout`) is taken over, and the dead session finished as
failed. A session may be handed over: it stays open without a holder until a later run resumes it, or until the next
session, which finishes it.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine, Row, func, select, update

from dcc.errors import DccError, SessionActiveError, SessionLostError
from dcc.phases import Phase
from dcc.runtime.log_context import logging_about, progress_log, with_log_context
from dcc.runtime.processes import Process
from dcc.settings import Settings
from dcc.tracker.database import insert_rows, run_writing, writing
from dcc.tracker.models import CrawlingSession, SessionLock, SessionTask, utc_now

log = logging.getLogger(__name__)
progress = progress_log(__name__)
T = TypeVar("T")

SUCCESS = 0
UNFINISHED = -1
_TASK_FAILED = 1
_RENEWALS = 6  # in the time of a lease
_COMMENT_LENGTH = 256
_RENEWAL = update(SessionLock).values(heartbeat=func.current_timestamp())
_LOCK = select(SessionLock.__table__, func.current_timestamp().label("now"))


def _unheard(_text: str) -> None:
    """Where nobody shows how far long listings are."""


@dataclass
class Session:
    """A crawling session held by this process, under the name `holder`. Made by `open_session`."""

    id: int
    holder: str
    notices: tuple[str, ...]
    _tracker: Engine = field(repr=False)
    _settings: Settings = field(repr=False)
    _renewed: float = field(repr=False)
    _noting: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _lost: threading.Event = field(default_factory=threading.Event, repr=False)
    heard: Callable[[str], object] = field(default=_unheard, repr=False)
    """Is told how far long listings are, by the threads that list: who shows that puts itself here."""
    is_handed_over: bool = False
    troubles: tuple[DccError, ...] = ()
    dead: tuple[int, str] | None = field(default=None, repr=False)
    """The session before this one, if its process died without anybody noticing, with a sentence on that."""

    def check(self) -> None:
        """Raise SessionLostError if the lease went, or may by now have gone, to someone else: stop working at once."""
        if self._lost.is_set() or time.monotonic() - self._renewed > self._settings.lease_timeout:
            raise self._lost_error()

    def _lost_error(self) -> SessionLostError:
        return SessionLostError(
            f"Session {self.id} lost its lock: it gave no sign of life for {self._settings.lease_timeout:g} s, or "
            "another session took over. Its work is taken up by the next session; look at `dcc sessions`."
        )

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do `work` in a write transaction that no other session can come before: the lease is held until its end.

        However long it takes, it renews the lease with its commit. Raises SessionLostError, before anything is
        written, if the lease went to someone else while the database was away; else as `run_writing`.
        """

        def fenced(connection: Connection) -> tuple[T, float]:
            held = select(SessionLock.id).where(SessionLock.holder == self.holder).with_for_update()
            if connection.scalar(held) is None:
                raise self._lost_error()
            result = work(connection)
            now = time.monotonic()
            if now - self._renewed < self._settings.lease_timeout / _RENEWALS:
                return result, self._renewed
            # Meanwhile nobody else could renew it.
            connection.execute(_RENEWAL.where(SessionLock.holder == self.holder))
            return result, now

        result, renewed = self._write(fenced)
        self._note_renewal(renewed)
        return result

    def _note_renewal(self, at: float) -> None:
        """Note that the lease was renewed, not before `at`; one that was noted before may have been later."""
        with self._noting:
            self._renewed = max(self._renewed, at)

    def note_trouble(self, phase: Phase, error: DccError) -> None:
        """Record what went wrong beside any archive or source: a failed task of the session, which tells it in the end.

        Whoever runs the session finds it in `troubles`.
        """
        self.finish_task(self.start_task(phase, str(error)), failed=True)
        self.troubles += (error,)
        self.notices += (str(error),)

    def hand_over(self) -> None:
        """Leave the session open when this process is done with it, for a later run to resume."""
        self.is_handed_over = True

    def start_task(self, phase: Phase, comment: str) -> int:
        """Record that a task begins; returns its id."""
        row = {"session_id": self.id, "phase_id": int(phase), "comment": comment[:_COMMENT_LENGTH], **_begun()}
        return self.write(lambda connection: insert_rows(connection, SessionTask.__table__, [row])[0])

    def finish_task(self, task_id: int, *, failed: bool) -> None:
        """Record how a task ended; a failed one fails the session."""
        statement = (
            update(SessionTask).where(SessionTask.id == task_id).values(finish_time=utc_now(), status=int(failed))
        )
        self.write(lambda connection: connection.execute(statement) and None)

    @contextmanager
    def task(self, phase: Phase, comment: str) -> Iterator[None]:
        """A task of the session, recorded with its times; an exception out of it fails it."""
        task_id = self.start_task(phase, comment)
        failed = True
        try:
            yield
            failed = False
        finally:
            self.finish_task(task_id, failed=failed)

    def _write(self, work: Callable[[Connection], T]) -> T:
        return run_writing(self._tracker, work, patience_seconds=self._settings.database_retry)


class SessionEnd(Protocol):
    """What follows a session when its work is over. Each method returns notices, which are added to the session's."""

    def clean(self, session: Session) -> Iterable[str]:
        """Tidy up after a session that came to its end, while its lease is still held."""
        ...

    def tell(self, session: Session, failure: Exception | None, *, completed: bool) -> Iterable[str]:
        """Tell people, after the lease was released.

        `failure` broke the session off; a session without one that is not `completed` was interrupted by a person.
        """
        ...

    def measure(self) -> Iterable[str]:
        """Take stock last of all, whatever the session's end was."""
        ...


@contextmanager
def hold_session(
    tracker: Engine, settings: Settings, end: SessionEnd, *, resume: int | None = None
) -> Iterator[Session]:
    """Open a crawling session and hold it while the block runs; `end` follows.

    `resume` names a session that was handed over, to go on with; if it is over, a new one is opened. Raises
    SessionActiveError while another process holds a session, and SessionLostError when the lease was lost meanwhile.
    """
    holder = uuid.uuid4().hex

    def acquire(connection: Connection) -> tuple[float, int, tuple[int, str] | None]:
        return time.monotonic(), *_acquire(connection, holder, settings, resume)

    acquired, session_id, dead = run_writing(tracker, acquire, patience_seconds=settings.database_retry)
    notices = () if dead is None else (dead[1],)
    session = Session(session_id, holder, notices, tracker, settings, acquired, dead=dead)
    with logging_about(session=session_id):
        try:
            with _logged(session):
                yield from _hold(session, end)
        finally:
            session.notices += tuple(end.measure())


def _hold(session: Session, end: SessionEnd) -> Iterator[Session]:
    stop = threading.Event()
    keep_alive = with_log_context(_keep_alive)
    beat = threading.Thread(target=keep_alive, args=(session, stop), name="session lease", daemon=True)
    beat.start()
    completed = False
    failure: Exception | None = None
    try:
        yield session
        session.check()
        if not session.is_handed_over:
            # While the lease is renewed, for it may take longer.
            session.notices += tuple(end.clean(session))
            if session._lost.is_set():
                raise session._lost_error()
        completed = True
    except Exception as error:
        failure = error
        raise
    finally:
        stop.set()
        beat.join()
        if not session._lost.is_set():
            _release(session, completed)
            session.notices += tuple(end.tell(session, failure, completed=completed))


@contextmanager
def _logged(session: Session) -> Iterator[None]:
    for notice in session.notices:
        progress.warning("%s", notice)
    progress.info("Session %d begins", session.id)
    began = time.monotonic()
    try:
        yield
    except BaseException as error:
        reason = str(error) or type(error).__name__
        # Whoever interrupts a session knows of it.
        level = logging.ERROR if isinstance(error, Exception) else logging.WARNING
        progress.log(level, "Session %d broke off after %.1f s: %s", session.id, time.monotonic() - began, reason)
        raise
    what = "waits for a run to go on with it" if session.is_handed_over else "ended"
    progress.info("Session %d %s after %.1f s", session.id, what, time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class Lease:
    """What the lease says: the session that a process holds at this moment, or that waits for a run to resume it."""

    active: int | None
    handed_over: int | None


def read_lease(connection: Connection, settings: Settings) -> Lease:
    """Look at the lease without touching it. A session whose holder is dead is neither active nor handed over."""
    lock = connection.execute(_LOCK).one()
    if lock.holder is None:
        return Lease(None, lock.session_id)
    return Lease(lock.session_id if _alive(lock, settings) else None, None)


def dead_session(connection: Connection, settings: Settings) -> tuple[int, str] | None:
    """The session whose process has died without another one having followed yet, with a sentence on that."""
    lock = connection.execute(_LOCK).one()
    if lock.holder is None or _alive(lock, settings):
        return None
    return lock.session_id, _died(lock)


def _died(lock: Row[Any]) -> str:
    return (
        f"Session {lock.session_id} died (process {lock.pid} on {lock.host.split(' ')[0]}, last sign of life "
        f"{lock.heartbeat} UTC). It is recorded as failed and its unfinished work is taken up."
    )


def refuse_beside_session(connection: Connection, settings: Settings) -> None:
    """Raise SessionActiveError while a process holds a session; else none begins before the transaction ends.

    Call inside a write transaction.
    """
    lock = connection.execute(_LOCK.with_for_update()).one()
    if lock.holder is not None and _alive(lock, settings):
        raise _active_error(lock)


def end_session_of_copy(connection: Connection) -> int | None:
    """End the session that a copy of a tracker was made beside, as if its process had been killed then; its id.

    None when there was none. For trackers that no process works with yet. Call inside a write transaction.
    """
    lock = connection.execute(_LOCK.with_for_update()).one()
    if lock.session_id is not None:
        _finish(connection, lock.session_id, completed=lock.holder is None)
    connection.execute(update(SessionLock).values(holder=None, session_id=None))
    session_id: int | None = lock.session_id
    return session_id


def _active_error(lock: Row[Any]) -> SessionActiveError:
    return SessionActiveError(
        f"Session {lock.session_id} is active: process {lock.pid} on {lock.host.split(' ')[0]} holds it since "
        f"{lock.acquired} UTC. Wait until it ends (`dcc sessions`), or stop that process."
    )


def _acquire(
    connection: Connection, holder: str, settings: Settings, resume: int | None
) -> tuple[int, tuple[int, str] | None]:
    """Take the lease; the session's id, and the session that had died with a sentence on that, if one had."""
    lock = connection.execute(_LOCK.with_for_update()).one()
    dead = None
    if lock.holder is not None:
        if _alive(lock, settings):
            raise _active_error(lock)
        dead = lock.session_id, _died(lock)
        _finish(connection, lock.session_id, completed=False)
    elif lock.session_id is not None and lock.session_id != resume:
        _finish(connection, lock.session_id, completed=True)
    session_id = lock.session_id if lock.holder is None and lock.session_id == resume else None
    if session_id is None:
        session_id = _new_session(connection)
    process = Process.this()
    connection.execute(
        update(SessionLock).values(
            session_id=session_id,
            holder=holder,
            host=process.host,
            pid=process.pid,
            pid_started=process.started,
            acquired=func.current_timestamp(),
            heartbeat=func.current_timestamp(),
        )
    )
    return session_id, dead


def _new_session(connection: Connection) -> int:
    return insert_rows(connection, CrawlingSession.__table__, [_begun()])[0]


def _begun() -> dict[str, object]:
    now = utc_now()
    return {"start_time": now, "status": UNFINISHED, "created": now}


def _alive(lock: Row[Any], settings: Settings) -> bool:
    if Process(lock.host, lock.pid, lock.pid_started).is_gone:
        return False
    now = lock.now if isinstance(lock.now, datetime) else datetime.fromisoformat(lock.now)
    return bool(now.replace(tzinfo=None) - lock.heartbeat < timedelta(seconds=settings.lease_timeout))


def _finish(connection: Connection, session_id: int, *, completed: bool) -> None:
    """Close a session: failed, with the earliest phase, when a task of it failed or was left unfinished."""
    now = utc_now()
    of_session = SessionTask.session_id == session_id
    connection.execute(
        update(SessionTask)
        .where(of_session, SessionTask.finish_time.is_(None))
        .values(finish_time=now, status=_TASK_FAILED)
    )
    failed = connection.scalar(select(func.min(SessionTask.phase_id)).where(of_session, SessionTask.status != SUCCESS))
    connection.execute(
        update(CrawlingSession)
        .where(CrawlingSession.id == session_id, CrawlingSession.finish_time.is_(None))
        .values(finish_time=now, status=failed or (SUCCESS if completed else int(Phase.DOWNLOAD)))
    )


def _release(session: Session, completed: bool) -> None:
    def release(connection: Connection) -> None:
        mine = update(SessionLock).where(SessionLock.holder == session.holder)
        keep = session.id if completed and session.is_handed_over else None
        if connection.execute(mine.values(holder=None, session_id=keep)).rowcount and keep is None:
            _finish(connection, session.id, completed=completed)

    session._write(release)


def _keep_alive(session: Session, stop: threading.Event) -> None:
    while not stop.wait(session._settings.lease_timeout / _RENEWALS):
        began = time.monotonic()
        try:
            with writing(session._tracker) as connection:
                held = connection.execute(_RENEWAL.where(SessionLock.holder == session.holder)).rowcount > 0
        except Exception as error:
            # The database may come back before the lease runs out; if not, `Session.check` tells.
            log.warning("Session %s could not renew its lock: %s", session.id, error)
            continue
        if not held:
            session._lost.set()
            return
        session._note_renewal(began)
