"""Dagster's database on MySQL or MariaDB: its URL, and its tables, made, upgraded and checked before use.

Only `dcc init` makes and changes them, by Dagster's own migrations. It corrects two things in Dagster's schema. Texts
end after 65,535 bytes, less than a check with many findings needs. And partitions with the same first 64 characters
count as one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from dagster._core.storage.sql import get_alembic_config
from dagster_mysql import MySQLEventLogStorage, MySQLRunStorage, MySQLScheduleStorage
from sqlalchemy import Connection, Engine, MetaData, inspect, make_url, text

from dcc.databases.columns import MYSQL_FAMILY
from dcc.databases.database import Database
from dcc.databases.engines import database_label, open_database
from dcc.databases.schema import InitReport, create_database, exclusive_connection
from dcc.databases.server_requirements import require_fit_defaults, require_fit_server
from dcc.errors import (
    ConfigurationError,
    DagsterStorageError,
    DagsterStorageOutdatedError,
    DagsterUnreachableError,
    DccError,
)

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

_CONNECT_SECONDS: Final = "10"
_ANSWER_SECONDS: Final = "300"
_TABLES: Final = frozenset({"event_logs", "runs", "jobs"})
_PARTITION_CHARACTERS: Final = 512
"""Longer than any partition's name: an action and a file's name."""
_WIDER: Final = {"text": "LONGTEXT", "blob": "LONGBLOB"}
_NARROW_COLUMNS: Final = text(
    "SELECT c.table_name, c.column_name, c.data_type, c.is_nullable FROM information_schema.columns c "
    "JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name "
    "LEFT JOIN information_schema.statistics s ON s.table_schema = c.table_schema AND s.table_name = c.table_name "
    "AND s.column_name = c.column_name "
    "WHERE c.table_schema = DATABASE() AND t.table_type = 'BASE TABLE' AND c.data_type IN ('text', 'blob') "
    "AND s.index_name IS NULL ORDER BY 1, 2"
)
_SHORT_INDEXES: Final = text(
    "SELECT table_name, index_name FROM information_schema.statistics "
    "WHERE table_schema = DATABASE() AND non_unique = 0 AND column_name = 'partition' AND sub_part < :characters"
)
_INDEX_COLUMNS: Final = text(
    "SELECT column_name, sub_part FROM information_schema.statistics "
    "WHERE table_schema = DATABASE() AND table_name = :table AND index_name = :index ORDER BY seq_in_index"
)


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
    parsed = make_url(url)
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


def init_dagster_database(url: str) -> InitReport:
    """Make Dagster's database with its tables, or upgrade older ones; no effect on current ones.

    Raises DagsterStorageOutdatedError for tables newer than the installed Dagster, ConfigurationError for a database
    with other tables or that the user may not create. Raises its subclass DatabaseServerUnfitError for an unfit server
    or database, and DagsterStorageError.
    """
    engine = open_dagster_database(url)
    try:
        create_database(engine)
        with exclusive_connection(engine, DAGSTER) as connection:
            require_fit_server(connection, DAGSTER)
            require_fit_defaults(connection, DAGSTER)
            before = _revision(connection)
            _refuse_unfit(connection, before)
            connection.commit()
            _make_or_upgrade(url_for_dagster(url), before)
            _widen(connection)
            connection.commit()
    except DccError:
        raise
    except Exception as error:
        reason = " ".join(str(getattr(error, "orig", None) or error.__cause__ or error).split())
        raise DagsterStorageError(
            f"The tables of the Dagster database {database_label(engine.url)} could not be made ({reason}). See to the "
            "user's rights in it (dcc init --production --grants prints them), and run dcc init --production again."
        ) from error
    finally:
        engine.dispose()
    return InitReport(created=before is None, from_revision=before, to_revision=head_revision())


def require_current(engine: Engine) -> None:
    """Raise unless the database has the tables of the installed Dagster; changes nothing.

    Raises DagsterStorageOutdatedError, DatabaseServerUnfitError for an unfit server or database, ConfigurationError for
    a database with other tables, and DagsterStorageError.
    """
    label = database_label(engine.url)
    with engine.connect() as connection:
        require_fit_server(connection, DAGSTER)
        require_fit_defaults(connection, DAGSTER)
        revision = _revision(connection)
        _refuse_unfit(connection, revision)
    if revision is None:
        raise DagsterStorageOutdatedError(
            f"The database {label} holds no {DAGSTER.noun}. Make it with: dcc init --production."
        )
    if revision != head_revision():
        raise DagsterStorageOutdatedError(
            f"The {DAGSTER.name} {label} has the schema {revision}, and this version of Dagster works with "
            f"{head_revision()}. Stop everything, then bring it up to date with: dcc init --production."
        )


@lru_cache(maxsize=1)
def head_revision() -> str:
    """The revision of Dagster's tables for the installed Dagster."""
    return str(_scripts().as_revision_number("head"))


def _scripts() -> ScriptDirectory:
    from dagster_mysql import utils

    # Relative to the module of the storage, one folder below.
    return ScriptDirectory.from_config(get_alembic_config(utils.__file__, "alembic/alembic.ini"))


def _revision(connection: Connection) -> str | None:
    revision: str | None = MigrationContext.configure(connection).get_current_revision()
    return revision


def _refuse_unfit(connection: Connection, revision: str | None) -> None:
    label = database_label(connection.engine.url)
    present = set(inspect(connection).get_table_names())
    if present and not present & _TABLES:
        raise ConfigurationError(
            f"The database {label} holds something else than the {DAGSTER.noun}. Name another one, or an empty one, in "
            f"{DAGSTER.setting}."
        )
    if revision is not None and revision not in {script.revision for script in _scripts().walk_revisions()}:
        raise DagsterStorageOutdatedError(
            f"The {DAGSTER.name} {label} has the schema {revision}, which the installed Dagster does not know. Install "
            "the version of Dagster that wrote it, or a later one."
        )


def _make_or_upgrade(url: str, revision: str | None) -> None:
    # Each storage makes its missing tables when it is created.
    runs, events, schedules = MySQLRunStorage(url), MySQLEventLogStorage(url), MySQLScheduleStorage(url)
    if revision is not None and revision != head_revision():
        runs.upgrade()
        runs.migrate()
        events.upgrade()
        events.reindex_assets()
        schedules.upgrade()
        schedules.migrate()


def _widen(connection: Connection) -> None:
    for table, column, kind, nullable in connection.execute(_NARROW_COLUMNS).all():
        null = "NULL" if nullable == "YES" else "NOT NULL"
        connection.exec_driver_sql(f"ALTER TABLE `{table}` MODIFY `{column}` {_WIDER[kind.lower()]} {null}")
    for table, index in connection.execute(_SHORT_INDEXES, {"characters": _PARTITION_CHARACTERS}).all():
        parts = [
            f"`{name}`" if length is None else f"`{name}`({_PARTITION_CHARACTERS if name == 'partition' else length})"
            for name, length in connection.execute(_INDEX_COLUMNS, {"table": table, "index": index})
        ]
        connection.exec_driver_sql(
            f"ALTER TABLE `{table}` DROP INDEX `{index}`, ADD UNIQUE INDEX `{index}` ({', '.join(parts)})"
        )
