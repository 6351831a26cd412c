"""Installations on SQLite that have been through something, made once a run of tests and copied for each test."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import func, update

from dcc.databases.transactions import writing
from dcc.settings import Settings
from dcc.tracker.models import FileSource
from tests.support.data_installations import DataInstallation
from tests.support.databases import is_sqlite
from tests.support.installations import Folder, Installation
from tests.support.prepared_databases import PreparedFile
from tests.support.sharing import made_once
from tests.support.stores import Store

Filling = Callable[[DataInstallation], object]
"""What an installation goes through; it has the centres H and J, a folder that H serves, and shipped reference data."""


def begun_installation(root: Path, prepared_files: dict[str, PreparedFile]) -> DataInstallation:
    """An installation below `root`, to be filled."""
    data = opened_installation(root, prepared_files)
    data.base.add_centre("H", "J")
    data.folder = data.base.add_folder()
    return data


def opened_installation(root: Path, prepared_files: dict[str, PreparedFile] | None = None) -> DataInstallation:
    """The installation below `root`; its databases are put there first where they are given."""
    for name, prepared in (("tracker.db", "tracker"), ("qc.db", "qc_with_reference")):
        if prepared_files is not None:
            prepared_files[prepared].copy_to(root / "home" / name)
    store = Store(Settings(home=root / "home", min_free_bytes=0, retry_delay=0.05, database_retry=10.0))
    return DataInstallation(Installation(store.tracker, store.settings, root), store.qc, Folder(root / "centre", 1))


def copy_installation(root: Path, data: DataInstallation) -> None:
    """Have `data` be as the installation below `root` is, with folders of its own as sources."""
    data.close()
    shutil.copytree(root, data.base.root, dirs_exist_ok=True)
    with writing(data.tracker) as connection:
        moved = func.replace(FileSource.base_path, str(root), str(data.base.root))
        connection.execute(update(FileSource).values(base_path=moved))


class PreparedInstallations:
    """Installations by what they have been through, for all processes of the run."""

    def __init__(self, prepared_files: dict[str, PreparedFile], folders: pytest.TempPathFactory) -> None:
        self._prepared_files, self._folders = prepared_files, folders

    def root_of(self, filling: Filling) -> Path:
        """The directory of one that has been through this, to be looked at or copied."""

        def make(root: Path) -> None:
            made = begun_installation(root, self._prepared_files)
            filling(made)
            made.close()

        return made_once(self._folders, f"{filling.__module__}.{filling.__qualname__}", make)

    def begin(self, data: DataInstallation, filling: Filling) -> None:
        """Have `data`, a new one, go through this; on SQLite as a copy of one that has."""
        if is_sqlite(data.settings.tracker_database_url):
            copy_installation(self.root_of(filling), data)
        else:
            filling(data)


@pytest.fixture(scope="session")
def prepared_installations(
    prepared_files: dict[str, PreparedFile], tmp_path_factory: pytest.TempPathFactory
) -> PreparedInstallations:
    return PreparedInstallations(prepared_files, tmp_path_factory)
