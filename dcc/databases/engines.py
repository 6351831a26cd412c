"""Connections to SQLite, MySQL and MariaDB, and the meaning of their failures.

Every connection has times in UTC, enforces foreign keys, compares names by their bytes and refuses values that do not
fit. No message made here contains a password or a statement's parameters.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError

from dcc.databases.database import DESCRIPTION, Database, database_of
from dcc.errors import ConfigurationError, DatabaseUnreachableError
from dcc.runtime.disk_space import advice_on_writing, comes_from_full_disk, no_space_left
from dcc.settings.database_urls import check_database_url

WRITES: Final = "dcc_writes"
"""Execution option of a connection whose next transaction writes."""

BUSY_SECONDS: Final = 30.0
"""Seconds for which a statement waits for another writer's lock."""

LISTED_BYTES: Final = 1 << 20
"""The maximal length of the text that a statement makes of a group of rows; the rest is cut off."""

_MYSQL_PORT = 3306
_THIS_MACHINE = frozenset({"127.0.0.1", "::1"})
_CONNECT_SECONDS = 10
_ANSWER_SECONDS = 300
_CLIENT_SECONDS = 86_400
_SESSION = (
    "SET SESSION time_zone = '+00:00', "
    "SESSION sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', "
    f"SESSION innodb_lock_wait_timeout = {int(BUSY_SECONDS)}, "
    f"SESSION group_concat_max_len = {LISTED_BYTES}"
)

_MYSQL_CONTENTION = frozenset({1020, 1205, 1206, 1213, 1637})
_MYSQL_NO_RIGHT = frozenset({1044, 1142, 1143})
INIT_ACCOUNT, SESSIONS_ACCOUNT = "dcc_init", "dcc_sessions"
"""The accounts of `dcc.databases.grants` for what makes tables, and for everyday commands."""
DATA_RIGHTS: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
"""The rights of the second; the first may change tables too."""
_RIGHTS: Final = "dcc init --production --grants prints the rights of each."
_MYSQL_REFUSED = {
    1044: f"Use an account with the rights for this command: {_RIGHTS}",
    1045: "Check the user name and password in {setting}.",
    1049: "Create it with: {made_by}.",
    1130: "Have the server accept connections from this machine.",
    1142: f"Use an account with this right, such as {{account}}: {_RIGHTS}",
    1143: f"Use an account with this right, such as {{account}}: {_RIGHTS}",
    1698: "Check the user name and password in {setting}.",
    1820: "Give the account a new password, and write it into {setting}.",
    1862: "Give the account a new password, and write it into {setting}.",
    2026: "Have the server offer TLS, or leave the options for it out of {setting}.",
    3118: "Have the server's administrator unlock it: ALTER USER ... ACCOUNT UNLOCK.",
    3159: "It takes connections with TLS only: add ?ssl_ca=PATH, with its authority, to {setting}.",
    4151: "Have the server's administrator unlock it: ALTER USER ... ACCOUNT UNLOCK.",
}
_CHECK_SERVER = "Check that the server runs and that {setting} is right."
_MYSQL_AWAY = {
    **dict.fromkeys((0, 1028, 1030, 1037, 1038, 1041, 1042, 1043, 1047, 1053, 1077, 1129, 1135, 1152), _CHECK_SERVER),
    **dict.fromkeys((1158, 1159, 1160, 1161, 1180, 1317, 1927, 2000, 2002, 2003, 2005, 2006, 2012), _CHECK_SERVER),
    **dict.fromkeys((2013, 2055, 3032, 3168, 4031), _CHECK_SERVER),
    **dict.fromkeys((1021, 1114), "Free some space on the server's disk."),
    **dict.fromkeys((1040, 1203, 1226), "Raise the server's max_connections, or run fewer dcc processes."),
    **dict.fromkeys((1290, 1836), "Have the server take writes again, or name another one in {setting}."),
}
_SQLITE_CONTENTION = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_SQLITE_AWAY = {
    sqlite3.SQLITE_CANTOPEN: "Check the path and its permissions; a new {noun} is made by: dcc init.",
    sqlite3.SQLITE_IOERR: "Check the disk.",
    sqlite3.SQLITE_FULL: "Free some space on its disk.",
}
_SQLITE_OF_DISK = _SQLITE_AWAY.keys() | {sqlite3.SQLITE_READONLY}
_SQLITE_UNFIT = {
    sqlite3.SQLITE_READONLY: "Check the permissions of the file, of those beside it (-wal, -shm), and of their folder.",
    sqlite3.SQLITE_CORRUPT: "Restore it from a backup.",
    sqlite3.SQLITE_NOTADB: "Check {setting} and DCC_HOME.",
}


def open_database(url: str, database: Database) -> Engine:
    """The engine of a database by the text of its URL, as in a setting; it connects on first use only.

    SQLite and MySQL or MariaDB are known (`mysql://` and `mariadb://`, with or without `+pymysql`). Using it raises the
    database's `unreachable` error when the database cannot be reached. Raises ConfigurationError for any other URL.
    """
    return open_url(parse_url(url, database), database)


def parse_url(url: str, database: Database) -> URL:
    """The parsed URL of a database. Raises ConfigurationError, without the password, for an invalid one."""
    try:
        check_database_url(url)
    except ValueError as error:
        raise ConfigurationError(f"{database.setting}: {error}. Correct the setting and start again.") from None
    return make_url(url)


def open_url(url: URL, database: Database, *, answer_seconds: int | None = _ANSWER_SECONDS) -> Engine:
    """The engine of a database by URL; a statement may take `answer_seconds` (None: without limit)."""
    if url.get_backend_name() == "sqlite":
        engine = _open_sqlite(url, database)
    else:
        engine = _open_mysql(url, database, answer_seconds)
    event.listen(engine, "handle_error", _explain_failure)
    return engine


@contextmanager
def disposed(engine: Engine) -> Iterator[Engine]:
    """An engine whose connections are closed at the end of the block."""
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def patient_connection(engine: Engine) -> Iterator[Connection]:
    """A separate connection for long reading: its queries read the database at one moment, and may take their time."""
    with disposed(open_url(engine.url, database_of(engine), answer_seconds=None)) as own, own.connect() as connection:
        if own.dialect.name != "sqlite":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
            # How long the server waits for a client that pauses while reading a result.
            connection.exec_driver_sql(f"SET SESSION net_write_timeout = {_CLIENT_SECONDS}")
        yield connection


def database_label(url: URL) -> str:
    """The database's name in messages: its path, or user, host and name without the password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    user = f"{url.username}@" if url.username else ""
    port = f":{url.port}" if url.port else ""
    return f"{url.get_backend_name()}://{user}{url.host or 'localhost'}{port}/{url.database or ''}"


def same_database(one: URL, other: URL) -> bool:
    """Whether two URLs name one database, for any user: the same file, or the same server, port and name."""
    return _identity(one) == _identity(other)


def _identity(url: URL) -> tuple[str, ...]:
    if url.get_backend_name() == "sqlite":
        return ("sqlite", os.path.realpath(Path(str(url.database)).expanduser()))
    server = server_of_database(url.set(host="localhost") if url.host in _THIS_MACHINE else url)
    return ("server", server, str(url.database))


def server_of_database(url: URL) -> str:
    """A database's server as host and port, with defaults filled in and letters unified."""
    return f"{(url.host or 'localhost').lower()}:{url.port or _MYSQL_PORT}"


def _open_sqlite(url: URL, database: Database) -> Engine:
    path = Path(str(url.database)).expanduser().absolute()
    address = f"file:{quote(str(path))}?mode=rw"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)

    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        creator=connect,
        execution_options={DESCRIPTION: database},
        hide_parameters=True,
        pool_size=8,
        max_overflow=-1,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    event.listen(engine, "checkin", _detach)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, record: object) -> None:  # noqa: ARG001
    connection.execute("PRAGMA journal_mode = WAL")
    # So that a power failure takes back nothing that was committed: the tracker counts what the QC database has.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that began as a reader cannot write after another writer: take the write lock at once.
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _open_mysql(url: URL, database: Database, answer_seconds: int | None) -> Engine:
    arguments: dict[str, Any] = {
        "charset": "utf8mb4",
        "connect_timeout": _CONNECT_SECONDS,
        "init_command": _SESSION,
        "local_infile": database.loads_files,
        "read_timeout": answer_seconds,
        "write_timeout": answer_seconds,
    }
    if url.password:
        # UTF-8 as other clients send it; the driver would encode it in Latin-1.
        arguments["password"] = url.password.encode()
    return create_engine(
        url.set(drivername="mysql+pymysql").difference_update_query(["charset"]),
        connect_args=arguments,
        execution_options={DESCRIPTION: database},
        hide_parameters=True,
        isolation_level="READ COMMITTED",
        max_overflow=-1,
        pool_pre_ping=True,
        pool_size=8,
    )


def _explain_failure(context: ExceptionContext) -> DatabaseUnreachableError | None:
    """Turn a driver's failure to reach or use the database into its `unreachable` error."""
    engine = context.engine
    if context.is_pre_ping or engine is None:
        return None
    cause = context.original_exception
    advice = _advice(cause, disconnected=context.is_disconnect)
    if advice is None:
        return None
    database = database_of(engine)
    reason = _reason(cause)
    advice = advice.format(
        noun=database.noun, setting=database.setting, made_by=database.made_by, account=_account_with(reason)
    )
    what = "refused a statement" if _code(cause) in _MYSQL_NO_RIGHT else "could not be reached"
    unwritable = None
    if _code(cause) in _SQLITE_OF_DISK and isinstance(cause, sqlite3.Error):
        path = Path(str(engine.url.database))
        if (unwritable := first_unwritable(path)) is not None:
            reason, advice = f"{unwritable} cannot be written to", advice_on_writing(unwritable)
        elif path.parent.is_dir() and comes_from_full_disk(cause, path.parent):
            reason, advice = no_space_left(path.parent), "Free some space there, then run the command again."
    error = database.unreachable(f"The {database.name} {database_label(engine.url)} {what}: {reason}. {advice}")
    error.lasts = unwritable is not None
    return error


def first_unwritable(path: Path) -> Path | None:
    """The first of the folder of a SQLite file, the file, and those beside it that this user cannot write to."""
    beside = [path.with_name(f"{path.name}{ending}") for ending in ("-wal", "-shm")]
    for each in (path.parent, path, *beside):
        # The last connection that closes, of whatever process, removes those beside it meanwhile.
        if os.access(each, os.F_OK) and not os.access(each, os.W_OK) and os.access(each, os.F_OK):
            return each
    return None


def _advice(cause: BaseException, *, disconnected: bool) -> str | None:
    """What to do about a failure to reach the database, as a format; None for other failures."""
    code = _code(cause)
    if isinstance(cause, sqlite3.Error):
        return _SQLITE_AWAY.get(code) or _SQLITE_UNFIT.get(code)
    if not _of_mysql(cause):
        return None
    if code in _MYSQL_REFUSED:
        return _MYSQL_REFUSED[code]
    return _MYSQL_AWAY.get(code, _CHECK_SERVER if disconnected else None)


def _of_mysql(cause: BaseException | None) -> bool:
    # Only if the driver is loaded already: an installation with SQLite need not wait for its import.
    driver = sys.modules.get("pymysql")
    return driver is not None and isinstance(cause, driver.err.Error)


def _code(cause: BaseException | None) -> int:
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if cause is not None and _of_mysql(cause) and cause.args and isinstance(cause.args[0], int):
        return cause.args[0]
    return -1


def _account_with(denial: str) -> str:
    """The account of `dcc.databases.grants` with a right that the server denies: `CREATE command denied to ...`."""
    rights = denial.partition(" command denied")[0].split(", ")
    return SESSIONS_ACCOUNT if set(DATA_RIGHTS).issuperset(rights) else INIT_ACCOUNT


def _reason(cause: BaseException) -> str:
    text = str(cause.args[-1]) if cause.args else ""
    return (text or "the connection was lost").rstrip(".")


def _driver_failure(error: BaseException) -> BaseException | None:
    return error.orig if isinstance(error, DBAPIError) else error.__cause__


def lacks_right(error: BaseException) -> bool:
    """Whether the database refused a statement because the account lacks the right."""
    return _code(_driver_failure(error)) in _MYSQL_NO_RIGHT


def is_contention(error: BaseException) -> bool:
    """Whether the database refused because of another writer: busy, a lock wait too long, a deadlock."""
    cause = _driver_failure(error)
    code = _code(cause)
    return code in (_SQLITE_CONTENTION if isinstance(cause, sqlite3.Error) else _MYSQL_CONTENTION)


def is_transient(error: BaseException) -> bool:
    """Whether the whole transaction is worth another try."""
    if is_contention(error):
        return True
    if isinstance(error, DatabaseUnreachableError) and error.lasts:
        return False
    cause = _driver_failure(error)
    code = _code(cause)
    if isinstance(cause, sqlite3.Error):
        return code in _SQLITE_AWAY
    return isinstance(error, DatabaseUnreachableError) and code not in _MYSQL_REFUSED


MAX_ATTACHED: Final = 8
"""How many files one transaction may read; SQLite permits ten."""

_ATTACHED: Final = "dcc_attached"


def attached(connection: Connection, address: str) -> str:
    """The schema name of the file at an address in the statements of a transaction.

    The file is detached when the connection returns to its pool, because that is impossible within a transaction.
    """
    names: dict[str, str] = connection.info.setdefault(_ATTACHED, {})
    name = names.get(address)
    if name is None:
        name = f"attached_{len(names)}"
        connection.exec_driver_sql(f"ATTACH DATABASE ? AS {name}", (address,))
        names[address] = name
    return name


def _detach(connection: sqlite3.Connection | None, record: Any) -> None:
    """Detach the files that a connection's transaction has read."""
    names: dict[str, str] = record.info.pop(_ATTACHED, {})
    if connection is not None:
        for name in names.values():
            connection.execute(f"DETACH DATABASE {name}")
