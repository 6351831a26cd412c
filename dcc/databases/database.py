"""The two databases of the platform: name, tables, revisions and errors of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Engine, MetaData

from dcc.errors import DatabaseOutdatedError, DatabaseUnreachableError

DESCRIPTION: Final = "dcc_database"
"""Execution option of an engine: its `Database`."""

OUTAGE_SECONDS: Final = "dcc_outage_seconds"
"""Execution option of an engine: for how many seconds its database may be away or full before work is given up."""

MADE_FIRST: Final = "write_receipt"
"""The first table that is made; it marks a database as the platform's."""

Revisions = Mapping[str, Callable[[Connection], None] | None]
"""The revisions of a schema, oldest first, each with the function that converts the rows of the one before."""


@dataclass(frozen=True, slots=True, eq=False)
class Database:
    """One of the platform's databases.

    `noun` names its content in messages ("tracker"), `name` the database ("tracker database"), `setting` is the
    environment variable with its URL, and `file_name` its usual SQLite file. `landmark` is a table that only this
    database has. `revisions` are those of its schema, oldest first. `fill` adds missing rows that every such database
    has. `views` are the queries of its views by name, for a dialect. `loads_files`: the client may send files for LOAD
    DATA LOCAL INFILE. `made_by` is the command that makes it.
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
    """The database of an engine that `dcc.databases.engines` opened."""
    database: Database = engine.get_execution_options()[DESCRIPTION]
    return database
