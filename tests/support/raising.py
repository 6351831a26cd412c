"""What stands in for something that fails."""

import sqlite3
from collections.abc import Callable
from typing import NoReturn

import pymysql
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError


def raising(error: BaseException | type[BaseException]) -> Callable[..., NoReturn]:
    """A function that raises this, whatever it is given."""

    def fail(*_arguments: object, **_options: object) -> NoReturn:
        raise error

    return fail


def contention(engine: Engine) -> OperationalError:
    """What a database raises while another writer is in the way."""
    if engine.dialect.name == "sqlite":
        locked = sqlite3.OperationalError("database is locked")
        locked.sqlite_errorcode = sqlite3.SQLITE_BUSY
        return OperationalError("INSERT", {}, locked)
    return OperationalError("INSERT", {}, pymysql.err.OperationalError(1213, "Deadlock found"))
