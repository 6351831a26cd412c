"""Both databases as they were at one moment, while sessions go on.

At that moment no session may write to the tracker: the rows of the leases, which every write of a session locks, are
locked while both snapshots begin. This takes milliseconds. So a set is what sessions would have left if they had been
killed at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Engine, select

from dcc.databases.columns import MYSQL_FAMILY
from dcc.databases.database import database_of
from dcc.databases.engines import open_url
from dcc.databases.transactions import run_patiently, writing
from dcc.session.leases import Lease, active_sessions
from dcc.settings import Settings
from dcc.tracker.models import SessionLock

_CLIENT_SECONDS: Final = 3_600
_HOLD_LEASES: Final = select(SessionLock.id).order_by(SessionLock.id).with_for_update()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Connections that read both databases at the same moment, and the sessions that were active then."""

    tracker: Connection
    qc: Connection
    active: Sequence[Lease]


@contextmanager
def snapshot(tracker: Engine, qc: Engine, settings: Settings) -> Iterator[Snapshot]:
    """Both databases at one moment, for as long as the block lasts.

    Meanwhile the write-ahead log of SQLite, or the undo log of MariaDB and MySQL, grows by what others write. Raises
    the `unreachable` error of either database.
    """
    with ExitStack() as stack:
        own = [_patient_engine(stack, engine) for engine in (tracker, qc)]

        def begin() -> Snapshot:
            with ExitStack() as begun, writing(tracker) as lock:
                lock.execute(_HOLD_LEASES)
                of_tracker, of_qc = (_begin(begun, engine) for engine in own)
                found = Snapshot(of_tracker, of_qc, active_sessions(of_tracker, settings))
                stack.push(begun.pop_all())
                return found

        yield run_patiently(tracker, begin, patience_seconds=settings.database_retry)


@contextmanager
def patient_connection(engine: Engine) -> Iterator[Connection]:
    """A separate connection that reads a database at one moment and may take its time."""
    with ExitStack() as stack:
        yield _begin(stack, _patient_engine(stack, engine))


def _patient_engine(stack: ExitStack, engine: Engine) -> Engine:
    patient = open_url(engine.url, database_of(engine), answer_seconds=None)
    stack.callback(patient.dispose)
    return patient


def _begin(stack: ExitStack, engine: Engine) -> Connection:
    connection = stack.enter_context(engine.connect())
    if engine.dialect.name in MYSQL_FAMILY:
        connection = connection.execution_options(isolation_level="REPEATABLE READ")
        # How long the server waits for a client that pauses while reading a result.
        connection.exec_driver_sql(f"SET SESSION net_write_timeout = {_CLIENT_SECONDS}")
        connection.exec_driver_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    else:
        # The snapshot begins with the first read.
        connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1").all()
    return connection
