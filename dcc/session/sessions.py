"""Crawling sessions, of all centres or of a group: their parts, and how they begin and end.

Each has a lease in the tracker (`leases`), which its process renews while it runs and which expires after a crash. A
session may be handed over. It stays open without a process until a later run resumes it, or until the next session of
one of its centres, which finishes it.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection, Engine, bindparam, func, select, update

from dcc.databases.transactions import end_interrupted_transactions, insert_rows, run_reading, run_writing, writing
from dcc.errors import (
    DatabaseUnreachableError,
    DccError,
    DiskFullError,
    QcDatabaseOutdatedError,
    QcDatabaseUnreachableError,
    ReferenceDataError,
    SessionLostError,
    SessionTimeLimitError,
    fault_of,
)
from dcc.outcomes import EndReason
from dcc.phases import Phase
from dcc.runtime.clock import utc_now
from dcc.runtime.disk_space import lacks_room
from dcc.runtime.heartbeat import RENEWALS, renewing
from dcc.runtime.log_context import logging_about, progress_log
from dcc.runtime.logging_setup import RAISED
from dcc.session.connection_slots import slots_for
from dcc.session.leases import (
    COMMENT_LENGTH,
    AcquiredSession,
    acquire_lease,
    await_turn,
    finish_session,
    named_group,
    start_columns,
)
from dcc.session.session_request import SessionRequest
from dcc.settings import Settings
from dcc.tracker.models import SessionLock, SessionTask
from dcc.tracker.session_statuses import TaskStatus

session_log = progress_log(__name__)
T = TypeVar("T")

STOPPING: Final = (DatabaseUnreachableError, DiskFullError, SessionLostError, SessionTimeLimitError)
"""Errors after which a session does nothing more, whatever it was doing."""

# Made once: a session sends them with every write.
_MINE: Final = (SessionLock.id == bindparam("lock_id")) & (SessionLock.holder == bindparam("holder_name"))
_OWN_LEASE: Final = select(SessionLock.id).where(_MINE).with_for_update()
_RENEWAL: Final = update(SessionLock).values(heartbeat=func.current_timestamp()).where(_MINE)


class Session:
    """A crawling session of this process, under the name `holder`, in a row of `session_lock`.

    It is for the centres of a `group`, or for all: None; a resumed one has the group of its begin. Made by
    `hold_session`.
    """

    def __init__(
        self,
        acquired: AcquiredSession,
        holder: str,
        request: SessionRequest,
        tracker: Engine,
        settings: Settings,
        renewed: float,
    ) -> None:
        self.id, self.group = acquired.session_id, acquired.group
        self.holder, self.request, self.tracker, self.settings = holder, request, tracker, settings
        self.connection_slots = slots_for(tracker, settings, acquired.group)
        """The slots of its connections to sources; None if no others may have some at the same time."""
        self.dead = acquired.dead
        """The earlier sessions of its centres whose processes died unnoticed."""
        self.left_open = acquired.left_open
        """The earlier sessions of its centres that were handed over and ended with its begin, by their ids."""
        self.is_handed_over = False
        self.task_errors: tuple[DccError, ...] = ()
        self.ended: EndReason | None = None
        """Why it ended; None before."""
        self._lock_id = acquired.lock_id
        self._notices = [str(one.reason) for one in acquired.dead]
        self._renewed = renewed
        self._noting = threading.Lock()
        self._lost = threading.Event()
        limit = settings.session_time_limit
        self._deadline = None if limit is None else acquired.began + timedelta(seconds=limit)

    @property
    def lease(self) -> dict[str, object]:
        """The parameters of statements about its own row of `session_lock`, while no other session has it."""
        return {"lock_id": self._lock_id, "holder_name": self.holder}

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for people on the session, and on others that it found dead."""
        return tuple(self._notices)

    def notice(self, *sentences: str) -> None:
        """Add sentences for people to its notices."""
        self._notices += sentences

    @property
    def centres(self) -> frozenset[str] | None:
        """Its centres; None: all."""
        return None if self.group is None else self.group.centres

    def covers(self, centre: str | None) -> bool:
        """Whether it is for a centre; one of a group is not for archives without a centre in their names."""
        return self.group is None or centre in self.group.centres

    def raise_if_over(self) -> None:
        """Raise an error if the session must stop working at once: its lease is lost, or its time is up.

        Raises SessionLostError also if the lease may be lost by now, and SessionTimeLimitError.
        """
        self._raise_if_lost()
        if self._deadline is not None and utc_now() > self._deadline:
            raise SessionTimeLimitError(
                f"Session {self.id} ended after the {self.settings.session_time_limit:g} s of DCC_SESSION_TIME_LIMIT. "
                "The next session continues its work: dcc crawl"
            )

    def _raise_if_lost(self) -> None:
        if self._lost.is_set() or time.monotonic() - self._renewed > self.settings.lease_timeout:
            raise self._lost_error()

    def _lost_error(self) -> SessionLostError:
        return SessionLostError(
            f"Session {self.id} lost its lock: it gave no sign of life for {self.settings.lease_timeout:g} s, or "
            "another session took over. Its work is taken up by the next session; look at `dcc session list`."
        )

    def read(self, work: Callable[[Connection], T]) -> T:
        """Read from the tracker. Raises as `run_reading`."""
        return run_reading(self.tracker, work)

    def write(self, work: Callable[[Connection], T], *, alone: bool = False) -> T:
        """Do `work` in a write transaction that no other session can precede: the lease is locked until its end.

        However long it takes, its commit renews the lease. `alone`: no other session, of any centres, does such work
        meanwhile. Raises SessionLostError, before anything is written, if another session took the lease while the
        database was away; else as `run_writing`.
        """

        def fenced(connection: Connection) -> tuple[T, float]:
            if alone:
                await_turn(connection)
            if connection.scalar(_OWN_LEASE, self.lease) is None:
                raise self._lost_error()
            result = work(connection)
            now = time.monotonic()
            if now - self._renewed < self.settings.lease_timeout / RENEWALS:
                return result, self._renewed
            # No other session could take it meanwhile.
            connection.execute(_RENEWAL, self.lease)
            return result, now

        result, renewed = run_writing(self.tracker, fenced)
        self._note_renewal(renewed)
        return result

    def _renew(self) -> bool:
        """Renew the lease; returns whether the session still has it."""
        began = time.monotonic()
        with writing(self.tracker) as connection:
            held = connection.execute(_RENEWAL, self.lease).rowcount > 0
        if held:
            self._note_renewal(began)
        else:
            self._lost.set()
        return held

    def _note_renewal(self, at: float) -> None:
        """Record that the lease was renewed, not before `at`; an earlier record may be of a later renewal."""
        with self._noting:
            self._renewed = max(self._renewed, at)

    def record_task_error(self, phase: Phase, error: DccError) -> None:
        """Record trouble beyond any archive or source: a failed task of the session, reported at its end.

        `task_errors` has them all. Refused reference data keep a session from nothing: the earlier ones are used.
        """
        ended = TaskStatus.of(failed=not isinstance(error, ReferenceDataError))
        status = TaskStatus.LACKED_ROOM if isinstance(error, DiskFullError) else ended
        self.finish_task(self.start_task(phase, str(error)), status)
        self.task_errors += (error,)
        self.notice(str(error))

    def hand_over(self) -> None:
        """Leave the session open at the end of this process's work, for a later run to resume."""
        self.is_handed_over = True

    def start_task(self, phase: Phase, comment: str) -> int:
        """Record that a task begins; returns its id."""
        return self.write(partial(_insert_task, session_id=self.id, phase=phase, comment=comment))

    def finish_task(self, task_id: int, status: TaskStatus) -> None:
        """Record how a task ended; a failed one, or one for which a disk was full, decides why the session ended."""
        end = update(SessionTask).values(finish_time=utc_now(), status=int(status)).where(SessionTask.id == task_id)
        self.write(lambda connection: connection.execute(end) and None)


class AroundSession(Protocol):
    """What operations does around a session's work, so that `dcc.session` needs none of it.

    Each method but `begun` returns notices, which are added to the session's.
    """

    def begun(self, session: Session) -> None:
        """Tell other programs that a session has begun, without waiting for them."""
        ...

    def clean(self, session: Session) -> Iterable[str]:
        """Tidy up after a completed session, while its lease is still held."""
        ...

    def notify(self, session: Session, failure: Exception | None, *, completed: bool) -> Iterable[str]:
        """Notify people, after the lease was released.

        `failure` broke the session off; a session without one that is not `completed` was interrupted by a person.
        """
        ...

    def write_metrics(self) -> Iterable[str]:
        """Measure, last of all, however the session ended."""
        ...


@contextmanager
def hold_session(
    tracker: Engine, settings: Settings, request: SessionRequest, around: AroundSession, *, resume: int | None
) -> Iterator[Session]:
    """Open a crawling session, and hold it while the block runs.

    `around` has the steps at its begin and end. `resume` names a handed-over session to continue, of any centres; if it
    is over, a new one is opened. Raises NotFoundError for a group that the settings do not name, and SessionActiveError
    while another process has a session of one of the centres. Raises SessionLostError when the lease was lost
    meanwhile.
    """
    wanted = None if request.group is None else named_group(settings, request.group)
    holder = uuid.uuid4().hex

    def acquire(connection: Connection) -> tuple[float, AcquiredSession]:
        return time.monotonic(), acquire_lease(connection, holder, settings, wanted, resume)

    began, acquired = run_writing(tracker, acquire)
    session = Session(acquired, holder, request, tracker, settings, began)
    with logging_about(session=session.id):
        try:
            with (
                _logged(session),
                nullcontext() if session.connection_slots is None else session.connection_slots.keep_alive(),
            ):
                yield from _hold(session, around, is_new=session.id != resume)
        finally:
            session.notice(*around.write_metrics())


def _hold(session: Session, around: AroundSession, *, is_new: bool) -> Iterator[Session]:
    completed = False
    failure: Exception | None = None
    try:
        with renewing(f"The lock of session {session.id}", session.settings.lease_timeout, session._renew):
            try:
                if is_new:
                    around.begun(session)
                session.request.listeners.on_begin(session)
                yield session
                session._raise_if_lost()
                if not session.is_handed_over:
                    # While the lease is renewed, because it may take longer.
                    session.notice(*around.clean(session))
                    if session._lost.is_set():
                        raise session._lost_error()
                completed = True
            except Exception as error:
                failure = error
                raise
            except BaseException as error:
                # Before the end of the renewals, which may wait for one of them.
                end_interrupted_transactions(error)
                raise
    finally:
        if not session._lost.is_set():
            _release(session, None if completed else _break_off(failure), failure)
            session.notice(*around.notify(session, failure, completed=completed))


@contextmanager
def _logged(session: Session) -> Iterator[None]:
    for notice in session.notices:
        session_log.warning("%s", notice)
    session_log.info("Session %d%s begins", session.id, "" if session.group is None else f" of {session.group.name}")
    began = time.monotonic()
    try:
        yield
    except BaseException as error:
        reason = str(error) or type(error).__name__
        # The person who interrupts a session knows of it.
        level = logging.ERROR if isinstance(error, Exception) else logging.WARNING
        facts = (session.id, time.monotonic() - began, reason)
        session_log.log(level, "Session %d broke off after %.1f s: %s", *facts, extra={RAISED: True})
        raise
    end, why = ("ended", f": {session.ended}") if session.ended else ("waits for a run to go on with it", "")
    session_log.info("Session %d %s after %.1f s%s", session.id, end, time.monotonic() - began, why)


def _break_off(failure: Exception | None) -> EndReason:
    """Why a session broke off; a person's interruption is no failure."""
    if failure is None:
        return EndReason.STOPPED
    if isinstance(failure, SessionTimeLimitError):
        return EndReason.TIME_LIMIT
    return EndReason.DISK if lacks_room(failure) else EndReason.FAULTS


def _why(failure: Exception | None) -> str:
    if failure is None:
        return ""
    return str(failure) if isinstance(failure, DccError) else fault_of(failure)


def _insert_task(connection: Connection, *, session_id: int, phase: Phase, comment: str, **ended: object) -> int:
    row = {"session_id": session_id, "phase_id": phase, "comment": comment[:COMMENT_LENGTH], **start_columns()}
    return insert_rows(connection, SessionTask.__table__, [row | ended])[0]


def _insert_reason(connection: Connection, session: Session, failure: Exception) -> None:
    """Record why a session broke off between two tasks, as a task that failed; others say so themselves."""
    told = select(SessionTask.id).where(
        SessionTask.session_id == session.id, SessionTask.status != int(TaskStatus.SUCCEEDED)
    )
    if connection.scalar(told.limit(1)) is None:
        lacks_qc = isinstance(failure, QcDatabaseOutdatedError | QcDatabaseUnreachableError)
        phase = Phase.UPLOAD if lacks_qc else Phase.DOWNLOAD
        ended = {"finish_time": utc_now(), "status": int(TaskStatus.FAILED)}
        _insert_task(connection, session_id=session.id, phase=phase, comment=_why(failure), **ended)


def _release(session: Session, broke_off: EndReason | None, failure: Exception | None) -> None:
    def release(connection: Connection) -> EndReason | None:
        keep = session.id if broke_off is None and session.is_handed_over else None
        released = update(SessionLock).where(_MINE).values(holder=None, session_id=keep)
        if not connection.execute(released, session.lease).rowcount:
            return EndReason.DIED
        if keep is not None:
            return None
        if failure is not None and broke_off is not EndReason.TIME_LIMIT:
            _insert_reason(connection, session, failure)
        return finish_session(connection, session.id, broke_off, _why(failure))

    session.ended = run_writing(session.tracker, release)
