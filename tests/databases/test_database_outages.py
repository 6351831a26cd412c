"""What a MySQL or MariaDB server answers when it is busy, shuts down or is away, and what is done about each."""

from __future__ import annotations

import pymysql
from sqlalchemy import Connection, Engine, event, text, update
from sqlalchemy.exc import OperationalError

from dcc.databases.engines import _advice, is_contention, is_transient, lacks_right
from dcc.databases.transactions import run_writing
from dcc.errors import TrackerUnreachableError
from dcc.tracker.models import Centre
from tests.support.asking import value_in
from tests.support.databases import only_mariadb, seed_centre

CONTENTION = {
    1020: "record has changed since last read",
    1205: "lock wait timeout",
    1206: "lock table full",
    1213: "deadlock",
    1637: "too many active concurrent transactions",
}
AWAY = {
    1021: "disk full",
    1030: "error from the storage engine: no space left",
    1040: "too many connections",
    1053: "server shutdown in progress",
    1077: "normal shutdown",
    1114: "table is full",
    1158: "error reading communication packets",
    1180: "error during commit",
    1203: "too many user connections",
    1290: "running with --read-only",
    1317: "query execution was interrupted",
    1836: "running in read-only mode",
    1927: "connection was killed",
    2002: "cannot connect through socket",
    2003: "cannot connect",
    2006: "server has gone away",
    2013: "lost connection during query",
    3032: "offline mode",
    3168: "server isn't available",
    4031: "disconnected by the server because of inactivity",
}
REFUSED = {
    1044: "no rights in the database",
    1045: "wrong password",
    1049: "unknown database",
    1142: "no right",
    4151: "locked",
}
REFUSED |= {
    2026: "no TLS",
    3159: "TLS only",
    1820: "must change password",
    1862: "password expired",
    3118: "locked, of MySQL",
}
OTHER = {1054: "unknown column", 1062: "duplicate entry", 1064: "syntax error", 1406: "data too long"}


def test_each_answer_of_the_server_is_taken_for_what_it_is() -> None:
    for code in (*CONTENTION, *AWAY, *REFUSED, *OTHER):
        cause = pymysql.err.OperationalError(code, "as the server says it")
        wrapped = OperationalError("UPDATE", {}, cause)
        assert is_contention(wrapped) is (code in CONTENTION), code
        error: Exception = wrapped
        if _advice(cause, disconnected=False) is not None:
            error = TrackerUnreachableError("away")
            error.__cause__ = cause
        assert is_transient(error) is (code in CONTENTION or code in AWAY), code
        assert isinstance(error, TrackerUnreachableError) is (code in AWAY or code in REFUSED), code
        assert lacks_right(error) is (code in {1044, 1142}), code


@only_mariadb
def test_a_lock_that_another_holds_for_too_long_is_waited_for_again(tracker: Engine) -> None:
    """Error 1205: the statement is given up by the server, the transaction is done again."""
    centre = seed_centre(tracker)

    @event.listens_for(tracker, "connect")
    def be_impatient(connection: pymysql.Connection[object], _: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 0")

    tracker.dispose()
    timeouts: list[int] = []

    @event.listens_for(tracker, "handle_error")
    def note(context: object) -> None:
        timeouts.append(context.original_exception.args[0])  # type: ignore[attr-defined]
        holder.rollback()

    holder = tracker.connect()
    holder.execute(update(Centre).where(Centre.id == centre).values(full_name="held"))

    def work(connection: Connection) -> None:
        connection.execute(update(Centre).where(Centre.id == centre).values(full_name="written"))

    run_writing(tracker, work, patience_seconds=20)
    holder.close()
    assert timeouts == [1205]
    assert value_in(tracker, "SELECT full_name FROM centre") == "written"


@only_mariadb
def test_a_connection_that_is_killed_within_a_transaction_is_replaced(tracker: Engine) -> None:
    tries: list[int] = []

    def work(connection: Connection) -> None:
        tries.append(1)
        connection.execute(update(Centre).values(full_name=Centre.full_name + "!"))
        if len(tries) == 1:
            number = connection.scalar(text("SELECT CONNECTION_ID()"))
            with tracker.connect() as other:
                other.exec_driver_sql(f"KILL {number}")

    seed_centre(tracker)
    run_writing(tracker, work, patience_seconds=20)
    assert len(tries) == 2
    assert value_in(tracker, "SELECT full_name FROM centre") == "Centre H!"
