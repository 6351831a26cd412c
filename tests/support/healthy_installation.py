"""An installation that has seen something of everything, through to quality control, to look at and to damage.

`healthy` is one on each kind of database; `healthy_copy` is a copy of one on SQLite, quick to have.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine, text

from dcc.operations.consistency.check import Inconsistency, check_consistency
from dcc.qc.database import init_qc_database, open_qc_database, writing
from dcc.qc.reference import snapshots
from dcc.reference.loading import load_shipped
from dcc.settings import Settings
from dcc.tracker.database import init_tracker, open_tracker
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.installations import Installation
from tests.support.sharing import made_once

GOOD = "add/H.2013-10-31.1.impc.zip"
FAULTY = "add/H.2013-11-02.1.impc.zip"
INVALID = "add/H.2013-11-03.1.impc.zip"
DAMAGED = "add/H.2013-11-04.1.impc.zip"
MISNAMED = "add/H-of-yesterday.zip"
HELD = "edit/H.2013-11-05.1.impc.zip"


@dataclass
class Inspected:
    """An installation with what there is to damage in it."""

    tracker: Engine
    qc: Engine
    settings: Settings

    @property
    def staging(self) -> Path:
        """The staging area."""
        return self.settings.staging_directory

    def check(self) -> list[Inconsistency]:
        """What does not hold."""
        return check_consistency(self.tracker, self.qc, self.settings)

    def rules(self) -> set[str]:
        """The rules that do not hold."""
        return {one.rule for one in self.check()}

    def damage(self, database: str, *statements: str) -> None:
        """Run statements on `tracker` or `qc`, whatever references they break."""
        engine = self.tracker if database == "tracker" else self.qc
        off = "PRAGMA foreign_keys=OFF" if engine.dialect.name == "sqlite" else "SET foreign_key_checks = 0"
        with engine.connect() as connection:
            # Where a transaction runs already, SQLite takes no account of it.
            connection.exec_driver_sql(off)
            connection.commit()
            for statement in statements:
                connection.execute(text(statement))
            connection.commit()
        engine.dispose()


def fill(data: DataInstallation) -> None:
    """Have the installation see two sessions of good, bad and late submissions."""
    data.put(GOOD, specimens(), experiments())
    data.put(FAULTY, experiments("2013-11-02.1", animals=3, first=50))
    data.folder.put(INVALID, {"H.2013-11-03.1.specimen.impc.xml": b"<no/>", "unnamed.xml": b"<no/>"})
    data.folder.put(DAMAGED, b"no archive")
    data.folder.put(MISNAMED, b"whatever")
    data.run()
    data.put("add/H.2013-11-06.1.impc.zip", specimens("2013-11-06.1", first=20), experiments("2013-11-06.1", first=20))
    ((name, document),) = experiments("2013-11-01.1").items()
    data.put("edit/H.2013-11-01.1.impc.zip", {name: document.replace(b"<value>", b"<value>1", 1)})
    data.put(HELD, experiments("2013-11-05.1"))
    data.with_settings(hold_threshold=3).run()


@pytest.fixture
def healthy(data: DataInstallation) -> Inspected:
    """A healthy installation."""
    fill(data)
    return Inspected(data.tracker, data.qc, data.settings)


@pytest.fixture(scope="session")
def healthy_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a healthy installation on SQLite, to be copied."""
    return made_once(tmp_path_factory, "healthy", _make_healthy) / "home"


def _make_healthy(root: Path) -> None:
    settings = _settings(root / "home")
    settings.home.mkdir()
    tracker, qc = open_tracker(settings), open_qc_database(settings)
    init_tracker(tracker)
    init_qc_database(qc)
    base = Installation(tracker, settings, root)
    base.add_centre("H", "J")
    shipped = load_shipped()
    with writing(qc) as connection:
        for snapshot in (shipped.impress, shipped.status_codes, shipped.projects, shipped.colonies, shipped.strains):
            assert snapshot is not None
            snapshots.save(connection, snapshot)
    fill(DataInstallation(base, qc, base.add_folder()))
    for engine in (tracker, qc):
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        engine.dispose()


@pytest.fixture
def healthy_copy(healthy_home: Path, tmp_path: Path) -> Iterator[Inspected]:
    """A copy of a healthy installation on SQLite."""
    home = tmp_path / "home"
    shutil.copytree(healthy_home, home)
    settings = _settings(home)
    tracker, qc = open_tracker(settings), open_qc_database(settings)
    yield Inspected(tracker, qc, settings)
    tracker.dispose()
    qc.dispose()


def _settings(home: Path) -> Settings:
    return Settings(
        home=home,
        tracker_url=SecretStr(f"sqlite:///{home / 'tracker.db'}"),
        retry_delay=0.05,
        min_free_bytes=0,
        database_retry=10.0,
    )
