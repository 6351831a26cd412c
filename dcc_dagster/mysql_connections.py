"""Connections to the MySQL or MariaDB database of Dagster's storage, with repeats after failures.

Dagster's own classes connect for every statement and give up after a second. These keep a few connections for the whole
process, and repeat failed work for as long as DCC_DATABASE_RETRY says. They do so after a lost connection, a restart of
the server, a deadlock, a lock wait that took too long.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from sqlalchemy import URL, Connection, MetaData, make_url
from sqlalchemy.engine import Engine

from dcc.databases.columns import MYSQL_FAMILY
from dcc.databases.database import Database
from dcc.databases.engines import open_database
from dcc.databases.transactions import run_patiently
from dcc.errors import ConfigurationError, DagsterStorageOutdatedError, DagsterUnreachableError

T = TypeVar("T")

DAGSTER: Final = Database(
    noun="Dagster storage",
    name="Dagster database",
    setting="DCC_DAGSTER_URL",
    file_name="dagster.db",
    metadata=MetaData(),
    landmark="event_logs",
    revisions={},
    outdated=DagsterStorageOutdatedError,
    unreachable=DagsterUnreachableError,
    made_by="dcc init --production",
)
"""Dagster's database in messages. Its tables and their migrations are Dagster's own."""

# Storing events repeats itself: it must not store twice when the answer to a commit is lost.
_LEFT_ALONE: Final = frozenset(
    {
        "dispose",
        "end_watch",
        "migrate",
        "optimize",
        "optimize_for_webserver",
        "register_instance",
        "store_event",
        "store_event_batch",
        "upgrade",
        "watch",
    }
)
_CONNECT_SECONDS: Final = "10"
_ANSWER_SECONDS: Final = "300"


def open_dagster_database(url: str) -> Engine:
    """The engine of Dagster's database by its URL; it connects on first use.

    Raises ConfigurationError for a URL of another kind of database.
    """
    engine = open_database(url, DAGSTER)
    if engine.dialect.name not in MYSQL_FAMILY:
        raise ConfigurationError(
            f"{DAGSTER.setting} names a database of the kind {engine.dialect.name!r}. Name one on MySQL or MariaDB, "
            "mysql://user:password@host/phenodcc_dagster, or none: then Dagster keeps SQLite files in DCC_HOME."
        )
    return engine


def url_for_dagster(url: str) -> str:
    """The URL for Dagster's own classes, with the platform's driver. Never print it."""
    parsed: URL = make_url(url)
    options = {
        **parsed.query,
        "charset": "utf8mb4",
        "connect_timeout": _CONNECT_SECONDS,
        "read_timeout": _ANSWER_SECONDS,
        "write_timeout": _ANSWER_SECONDS,
    }
    # The driver encodes a password in Latin-1; servers expect UTF-8.
    password = None if parsed.password is None else parsed.password.encode().decode("latin-1")
    address = parsed.set(drivername="mysql+pymysql", password=password, query=options)
    return address.render_as_string(hide_password=False)


class Connections:
    """The connections to a database, for all storages of an instance."""

    def __init__(self, url: str, patience_seconds: float) -> None:
        self.engine = open_dagster_database(url)
        self._patience_seconds = patience_seconds
        self._of_thread = threading.local()
        self._was_in_vain = False

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A connection in a transaction of its own; within `transaction`, that transaction's."""
        held = getattr(self._of_thread, "held", None)
        if held is not None:
            yield held
            return
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction for everything that this thread asks of the storages in the block."""
        with self.engine.begin() as connection:
            self._of_thread.held = connection
            try:
                yield connection
            finally:
                self._of_thread.held = None

    def patiently(self, work: Callable[[], T]) -> T:
        """Repeat `work` after failures, unless this thread is doing so already; see `run_patiently`.

        After waiting in vain it does not wait again until the database answers: what Dagster only shows must not delay
        a session for each message.
        """
        if getattr(self._of_thread, "is_patient", False):
            return work()
        self._of_thread.is_patient = True
        seconds = 0.0 if self._was_in_vain else self._patience_seconds
        try:
            result = run_patiently(self.engine, work, patience_seconds=seconds)
        except DagsterUnreachableError:
            self._was_in_vain = True
            raise
        else:
            self._was_in_vain = False
            return result
        finally:
            self._of_thread.is_patient = False


class PatientStorage:
    """Common parts of Dagster's storages on MySQL; stands before Dagster's class."""

    def __init__(self, connections: Connections, url: str) -> None:
        self._connections = connections
        super().__init__(url_for_dagster(url))  # type: ignore[call-arg]

    def optimize_for_webserver(self, statement_timeout: int, pool_recycle: int, max_overflow: int) -> None:
        """Nothing to do: every process keeps its connections."""

    def dispose(self) -> None:
        """Close the connections that are idle, also for the other storages: they make new ones if they need any."""
        super().dispose()  # type: ignore[misc]
        self._connections.engine.dispose()


def patient(interface: type) -> Callable[[type[T]], type[T]]:
    """Decorates a PatientStorage: every method of `interface` is repeated after failures."""

    def decorate(storage: type[T]) -> type[T]:
        for name, member in inspect.getmembers(storage, inspect.isfunction):
            if name in vars(interface) and not name.startswith("_") and name not in _LEFT_ALONE:
                setattr(storage, name, _patiently(member))
        return storage

    return decorate


def _patiently(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def done(self: PatientStorage, *arguments: Any, **named: Any) -> Any:
        return self._connections.patiently(lambda: method(self, *arguments, **named))

    return done
