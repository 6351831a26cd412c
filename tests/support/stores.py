"""Pairs of databases, tracker and QC database, that are not made yet: `new_store` makes one of either kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine, select

from dcc.databases.database import database_of
from dcc.databases.schema import init_database
from dcc.operations.backups.database_files import TABLES_LEFT_OUT
from dcc.qc.database import open_qc_database
from dcc.settings import Settings
from dcc.tracker.database import open_tracker
from tests.support.databases import MariaDb
from tests.support.prepared_databases import PreparedFile

BOTH_KINDS = ["sqlite", pytest.param("mariadb", marks=pytest.mark.servers)]


@dataclass
class Store:
    """A tracker and a QC database with a home of their own."""

    settings: Settings
    prepared: dict[str, PreparedFile] | None = None

    def __post_init__(self) -> None:
        self.tracker = open_tracker(self.settings)
        self.qc = open_qc_database(self.settings)

    def init(self) -> Store:
        if self.prepared is not None:
            self.prepared["tracker"].copy_to(self.settings.home / "tracker.db")
            self.prepared["qc_database"].copy_to(self.settings.home / "qc.db")
            return self
        init_database(self.tracker)
        init_database(self.qc)
        return self

    def close(self) -> None:
        self.tracker.dispose()
        self.qc.dispose()


def content(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, as the models read them; in an order of its own."""
    tables = [table for table in database_of(engine).metadata.sorted_tables if table.name not in TABLES_LEFT_OUT]
    with engine.connect() as connection:
        return {table.name: sorted(map(tuple, connection.execute(select(table))), key=repr) for table in tables}


@pytest.fixture
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Store]]:
    """Make a pair of databases of a kind, `sqlite` or `mariadb`; those of MariaDB are dropped afterwards."""
    stores: list[Store] = []
    names: list[str] = []

    def make(kind: str) -> Store:
        name = uuid4().hex[:12]
        urls: dict[str, SecretStr] = {}
        prepared = request.getfixturevalue("prepared_files") if kind == "sqlite" else None
        if kind == "mariadb":
            server: MariaDb = request.getfixturevalue("mariadb")
            names.extend((f"to_tracker_{name}", f"to_qc_{name}"))
            urls = {
                "tracker_url": SecretStr(server.url(names[-2])),
                "qc_url": SecretStr(server.url(names[-1])),
            }
        home = tmp_path / f"store-{name}"
        settings = Settings(home=home, min_free_bytes=0, retry_delay=0.05, database_retry=10.0, **urls)
        stores.append(Store(settings, prepared))
        return stores[-1]

    yield make
    for store in stores:
        store.close()
    for name in names:
        request.getfixturevalue("mariadb").query(f"DROP DATABASE IF EXISTS {name}")
