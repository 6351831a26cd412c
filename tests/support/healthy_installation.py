"""An installation on SQLite that has seen something of everything, through to quality control.

`healthy_copy` is a copy of it to look at and to damage.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from dcc.operations.consistency.check import check_consistency
from dcc.operations.consistency.inconsistency import Inconsistency
from dcc.settings import Settings
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.prepared_installations import PreparedInstallations, opened_installation

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
        return self.settings.staging_directory

    def check(self) -> list[Inconsistency]:
        return check_consistency(self.tracker, self.qc, self.settings)

    def rules(self) -> set[str]:
        return {one.rule for one in self.check()}

    def damage(self, database: str, *statements: str) -> None:
        """Run statements on `tracker` or `qc`, whatever references they break."""
        engine = self.tracker if database == "tracker" else self.qc
        with engine.connect() as connection:
            # Where a transaction runs already, SQLite takes no account of it.
            connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
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
    ((name, document),) = experiments("2013-11-01.1", animals=2).items()
    data.put("edit/H.2013-11-01.1.impc.zip", {name: document.replace(b"<value>", b"<value>1", 1)})
    data.put(HELD, experiments("2013-11-05.1"))
    data.with_settings(hold_threshold=2).run()


@pytest.fixture(scope="session")
def healthy_home(prepared_installations: PreparedInstallations) -> Path:
    """The home of a healthy installation on SQLite, to be copied."""
    return prepared_installations.root_of(fill) / "home"


@pytest.fixture
def healthy_copy(healthy_home: Path, tmp_path: Path) -> Iterator[Inspected]:
    """A copy of a healthy installation on SQLite."""
    shutil.copytree(healthy_home, tmp_path / "home")
    data = opened_installation(tmp_path)
    yield Inspected(data.tracker, data.qc, data.settings)
    data.close()
