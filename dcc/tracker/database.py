"""Work with the tracker database: see `dcc.databases.transactions`; and the kinds of errors it knows.

Everything that writes does so inside `writing` or, better, `run_writing`; what reads uses `engine.connect()`.
"""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, bindparam, event, select
from sqlalchemy.dialects import mysql, sqlite

from dcc.databases.schema import InitReport
from dcc.databases.transactions import insert_rows, run_reading, run_writing, writing
from dcc.tracker.models import AnException
from dcc.tracker.schema import init_tracker, open_tracker, require_current

__all__ = [
    "InitReport",
    "exception_id",
    "init_tracker",
    "insert_rows",
    "open_tracker",
    "require_current",
    "run_reading",
    "run_writing",
    "writing",
]

_OWN_EXCEPTIONS = "dcc_own_exceptions"

_known_by_engine: WeakKeyDictionary[Engine, dict[str, int]] = WeakKeyDictionary()
_sharing = threading.Lock()


def _known_exceptions(engine: Engine) -> dict[str, int]:
    with _sharing:
        known = _known_by_engine.get(engine)
        if known is None:
            known = _known_by_engine[engine] = {}
            event.listen(engine, "begin", _forget_own_exceptions)
        return known


def _forget_own_exceptions(connection: Connection) -> None:
    connection.info.pop(_OWN_EXCEPTIONS, None)


def exception_id(connection: Connection, name: str, description: str) -> int:
    """The id of the kind of error `name` in `an_exception`; a row with `description` is made when there is none.

    Safe beside other writers that need the same row; a known id costs no statement. Call inside a write transaction.
    """
    known = _known_exceptions(connection.engine)
    if name in known:
        return known[name]
    found = connection.scalar(_FIND_EXCEPTION, {"name": name})
    own: set[str] = connection.info.setdefault(_OWN_EXCEPTIONS, set())
    if found is None:
        connection.execute(_add_exception(connection), {"short_name": name, "description": description})
        own.add(name)
        return int(connection.execute(_FIND_EXCEPTION, {"name": name}).scalar_one())
    if name not in own:
        known[name] = found
    return int(found)


_FIND_EXCEPTION = select(AnException.id).where(AnException.short_name == bindparam("name"))


def _add_exception(connection: Connection) -> Any:
    if connection.dialect.name == "sqlite":
        return sqlite.insert(AnException).on_conflict_do_nothing()
    return mysql.insert(AnException).prefix_with("IGNORE")
