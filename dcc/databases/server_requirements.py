"""The version and settings that a MySQL or MariaDB server must have.

They are checked when a database is opened, so that a wrong server is named before any statement fails on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, text

from dcc.databases.columns import MYSQL_FAMILY
from dcc.databases.database import Database
from dcc.databases.engines import database_label
from dcc.errors import DatabaseServerUnfitError

OLDEST_MARIADB: Final = (10, 6)
"""The first version with SKIP LOCKED, which Dagster's pools need."""
OLDEST_MYSQL: Final = (8, 0)
"""The first version with window functions, SKIP LOCKED and CTEs."""
LEAST_PACKET_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of one statement of a session, generously."""

_STATE: Final = text(
    "SHOW VARIABLES WHERE Variable_name IN "
    "('version', 'version_comment', 'max_allowed_packet', 'log_bin', 'binlog_format')"
)
_DATABASE: Final = text(
    "SELECT default_character_set_name, default_collation_name, @@default_storage_engine "
    "FROM information_schema.schemata WHERE schema_name = DATABASE()"
)


def require_fit_server(connection: Connection, database: Database) -> None:
    """Raise DatabaseServerUnfitError unless the server of a connection suits `database`; SQLite always does."""
    if connection.dialect.name not in MYSQL_FAMILY:
        return
    problem = server_problem({name.lower(): str(value) for name, value in connection.execute(_STATE)})
    if problem is not None:
        raise DatabaseServerUnfitError(
            f"The server of the {database.name} {database_label(connection.engine.url)} {problem}"
        )


def require_fit_defaults(connection: Connection, database: Database) -> None:
    """Raise DatabaseServerUnfitError unless a database's defaults suit tables without options of their own.

    Dagster's tables are such: their names must be compared by bytes and hold all of Unicode, and they need
    transactions.
    """
    if connection.dialect.name not in MYSQL_FAMILY:
        return
    found = connection.execute(_DATABASE).first()
    problem = None if found is None else defaults_problem(*found)
    if problem is not None:
        name = connection.dialect.identifier_preparer.quote_identifier(str(connection.engine.url.database))
        raise DatabaseServerUnfitError(
            f"The {database.name} {database_label(connection.engine.url)} {problem} Have an empty one made: "
            f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin."
        )


def server_problem(variables: Mapping[str, str]) -> str | None:
    """The problem of a server with these variables, as the rest of a sentence; None without one."""
    version = variables.get("version", "")
    is_mariadb = "mariadb" in f"{version} {variables.get('version_comment', '')}".lower()
    kind, oldest = ("MariaDB", OLDEST_MARIADB) if is_mariadb else ("MySQL", OLDEST_MYSQL)
    number = parse_version(version)
    if number is None:
        return f"says that its version is {version!r}, which is none of MariaDB or MySQL. Use one of these."
    if number < oldest:
        needed = ".".join(map(str, oldest))
        return f"is {kind} {version}, and {needed} or later is needed. Upgrade the server."
    packet_bytes = int(variables.get("max_allowed_packet", LEAST_PACKET_BYTES))
    if packet_bytes < LEAST_PACKET_BYTES:
        return (
            f"takes no statement of more than {packet_bytes:,} bytes. Set max_allowed_packet = 64M in the server's "
            f"configuration; {LEAST_PACKET_BYTES:,} bytes is the least."
        )
    if variables.get("log_bin") == "ON" and variables.get("binlog_format") == "STATEMENT":
        return (
            "logs statements, from which transactions that are READ COMMITTED, as sessions' are, cannot be replicated. "
            "Set binlog_format = ROW or MIXED in the server's configuration."
        )
    return None


def defaults_problem(character_set: str, collation: str, engine: str) -> str | None:
    """The problem of a database's defaults, as the rest of a sentence; None without one."""
    if character_set != "utf8mb4":
        return f"has the character set {character_set}, which cannot hold every name that centres may choose."
    if not collation.endswith(("_bin", "_as_cs")):
        return f"has the collation {collation}, which takes names for the same that differ in case or accents."
    if engine.lower() != "innodb":
        return f"makes its tables with the engine {engine}, which has no transactions; set default_storage_engine."
    return None


def parse_version(version: str) -> tuple[int, int] | None:
    """The first two numbers of a server's version: `5.5.5-10.11.6-MariaDB` is (10, 11)."""
    found = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)", version)
    return None if found is None else (int(found[1]), int(found[2]))
