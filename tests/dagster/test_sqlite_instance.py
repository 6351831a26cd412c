"""Dagster's SQLite files: whole whenever the process that makes them is killed, and mended where they were not."""

import os
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from dagster import DagsterInstance
from dagster._core.storage.sqlite import LAST_KNOWN_STAMPED_SQLITE_ALEMBIC_REVISION

from dcc.errors import DagsterStorageError
from dcc.operations.doctor.checks import Environment
from dcc.settings import Settings, load_settings
from dcc_assets.doctor import check_dagster
from dcc_dagster.instance import make_instance, open_instance
from dcc_dagster.sqlite_instance import _MARKS, are_complete
from tests.support.trials import trials

KILLS = trials(8)
SEED = 20_261_123

pytestmark = pytest.mark.filterwarnings("ignore:This process .*fork:DeprecationWarning")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation whose instance is whole, and empty."""
    home = tmp_path_factory.mktemp("whole")
    make_instance(load_settings(home=home))
    return home


@pytest.fixture
def settings(whole: Path, tmp_path: Path) -> Settings:
    shutil.copytree(whole, tmp_path / "home")
    return load_settings(home=tmp_path / "home")


def assert_well(settings: Settings) -> None:
    """The doctor finds the storage well."""
    storage = next(iter(check_dagster(Environment(settings, time.monotonic() + 60))))
    assert (storage.subject, storage.verdict) == ("Dagster instance", "ok"), storage


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def read(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


HALF: dict[str, Callable[[Path], None]] = {
    "whole": lambda path: None,
    "nothing in it": lambda path: path.write_bytes(b""),
    "not there": Path.unlink,
    "no version table": lambda path: edit(path, "DROP TABLE alembic_version", "DROP TABLE secondary_indexes"),
    "no version": lambda path: edit(path, "DELETE FROM alembic_version", "DELETE FROM secondary_indexes"),
    # What Dagster makes of tables without a version at the next opening.
    "an old version": lambda path: edit(
        path,
        "DELETE FROM alembic_version",
        "DELETE FROM secondary_indexes",
        f"INSERT INTO alembic_version VALUES ('{LAST_KNOWN_STAMPED_SQLITE_ALEMBIC_REVISION}')",
    ),
    "rows not migrated": lambda path: edit(path, "DELETE FROM secondary_indexes"),
    "one table": lambda path: edit(
        path,
        *(
            f"DROP TABLE {name}"
            for (name,) in read(path, "SELECT name FROM sqlite_master WHERE type = 'table'")
            if name not in ("runs", "event_logs", "job_ticks", "sqlite_sequence")
        ),
    ),
}


@pytest.mark.parametrize(
    "states",
    [
        ("nothing in it", "not there", "no version table"),
        ("no version", "an old version", "one table"),
        ("rows not migrated", "rows not migrated", "rows not migrated"),
        ("one table", "one table", "one table"),
        ("no version table", "no version table", "no version table"),
        ("whole", "whole", "no version"),
    ],
    ids=str,
)
def test_files_that_were_left_half_made_are_mended(states: Sequence[str], settings: Settings, whole: Path) -> None:
    """All of them, and one beside others that are whole."""
    for name, state in zip(_MARKS, states, strict=True):
        HALF[state](settings.dagster_home / name)
    (settings.dagster_home / ".being-made-by-one-that-was-killed").mkdir()
    assert not are_complete(settings.dagster_home)
    with open_instance(settings) as instance:
        assert instance.get_runs() == []
    assert are_complete(settings.dagster_home)
    schema = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
    for name in _MARKS:
        assert read(settings.dagster_home / name, schema) == read(whole / "dagster" / name, schema)
    assert_well(settings)
    assert not list(settings.dagster_home.glob(".being-made-*"))


def test_an_instance_that_is_whole_is_left_as_it_is(settings: Settings) -> None:
    files = {name: (settings.dagster_home / name).stat().st_ino for name in _MARKS}
    with open_instance(settings):
        pass
    assert {name: (settings.dagster_home / name).stat().st_ino for name in _MARKS} == files


def test_a_file_of_an_older_schema_is_not_taken_for_a_present_one(settings: Settings) -> None:
    path = settings.dagster_home / "history/runs.db"
    edit(path, "DELETE FROM alembic_version", "ALTER TABLE runs DROP COLUMN end_time")
    _open(settings)
    assert read(path, "SELECT version_num FROM alembic_version") == [(LAST_KNOWN_STAMPED_SQLITE_ALEMBIC_REVISION,)]


def test_a_file_that_is_no_database_is_never_replaced(settings: Settings) -> None:
    path = settings.dagster_home / "history/runs.db"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(DagsterStorageError, match="dcc instance rebuild"):
        open_instance(settings)
    assert path.read_bytes() == b"no database" * 1000


def _open(settings: Settings) -> None:
    with open_instance(settings):
        pass


def _killed(make: Callable[[Settings], None], settings: Settings, seconds: float | None) -> float:
    """Make an instance in a process that is killed after so long, or ends; how long it took."""
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            make(settings)
            os._exit(0)
        finally:
            os._exit(1)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return time.monotonic() - began


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[Settings]:
    return (load_settings(home=tmp_path / f"home-{number}") for number in range(1_000))


def test_killed_at_any_moment_it_is_whole_after_the_next_opening(homes: Iterator[Settings]) -> None:
    chance = random.Random(SEED)
    longest = _killed(_open, next(homes), None)
    for kill in range(KILLS):
        settings = next(homes)
        moment = chance.uniform(0, longest)
        _killed(_open, settings, moment)
        said = f"kill {kill} of seed {SEED}, after {moment:.3f} of {longest:.3f} s"
        # What is in its place is whole, without any mending.
        for name, marks in _MARKS.items():
            path = settings.dagster_home / name
            if path.exists():
                found = {row[0] for row in read(path, "SELECT name FROM secondary_indexes")}
                assert marks <= found, said
        with open_instance(settings) as instance:
            assert isinstance(instance, DagsterInstance), said
        assert are_complete(settings.dagster_home), said
        assert_well(settings)
