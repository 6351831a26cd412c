"""The two databases of the platform: name, tables, revisions and errors of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Engine, MetaData

from dcc.errors import DatabaseOutdatedError, DatabaseUnreachableError

DESCRIPTION: Final = "dcc_database"
"""Execution option of an engine that holds the `Database` it is of."""


OUTAGE_SECONDS: Final = "dcc_outage_seconds"
"""Execution option of an engine: for how many seconds its database may be away or full before work is given up."""

MADE_FIRST: Final = "write_receipt"
"""The table that is made before all others, and marks a database as the platform's."""

Revisions = Mapping[str, Callable[[Connection], None] | None]
"""The revisions of a schema, oldest first, and what converts the rows that the one before has."""


@dataclass(frozen=True, slots=True, eq=False)
class Database:
    """One of the platform's databases.

    `noun` is what messages call what it holds ("tracker"), `name` what they call itself ("tracker database"),
    `setting` the environment variable with its URL, `file_name` its usual SQLite file. `landmark` is a table that no
    other of the databases has. `revisions` are those of its schema, oldest first. `fill` adds the rows that every such
    database holds, where they are missing. `views` are the queries of its views by name, for a dialect. `loads_files`:
    the client may send files for LOAD DATA LOCAL INFILE. `made_by` is the command that makes it.
    """

    noun: str
    name: str
    setting: str
    file_name: str
    metadata: MetaData
    landmark: str
    revisions: Revisions
    outdated: type[DatabaseOutdatedError]
    unreachable: type[DatabaseUnreachableError]
    fill: Callable[[Connection], None] | None = None
    views: Callable[[str], Mapping[str, str]] = lambda _: {}
    loads_files: bool = False
    made_by: str = "dcc init"

    @property
    def head(self) -> str:
        """The revision that this version of the platform works with."""
        return list(self.revisions)[-1]


def database_of(engine: Engine) -> Database:
    """Which database an engine, opened by `dcc.databases.engines`, is of."""
    database = engine.get_execution_options()[DESCRIPTION]
    if not isinstance(database, Database):
        raise TypeError(f"{database!r} describes no database.")
    return database
