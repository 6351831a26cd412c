"""The Dagster instance that an installation has."""

import sqlite3
from contextlib import AbstractContextManager, closing, nullcontext
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from dcc.errors import DagsterStorageError
from dcc.settings import Settings, load_settings
from dcc_dagster.event_storage import BatchingSqliteEventLogStorage
from dcc_dagster.instance import make_instance, open_instance
from dcc_dagster.instance_configuration import write_configuration
from tests.support.prepared_processes import FORKED
from tests.support.small_disks import read_only


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return load_settings(home=tmp_path / "new" / "home")


def test_it_is_made_where_there_is_none_and_sends_nothing_to_anyone(
    home: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    with open_instance(home) as instance:
        assert instance.telemetry_enabled is False
        assert instance.nux_enabled is False
        assert isinstance(instance.event_log_storage, BatchingSqliteEventLogStorage)
        assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == 1  # type: ignore[union-attr]
    assert (home.dagster_home / "history" / "runs" / "index.db").exists()
    assert caplog.messages == []


def open_in_turn(home: Path, together: Barrier) -> None:
    """Open four instances, each in the moment in which the other process does."""
    for number in range(4):
        settings = load_settings(home=home / str(number))
        together.wait(60)
        open_instance(settings).dispose()


def test_commands_that_start_at_once_make_it_one_after_the_other(tmp_path: Path) -> None:
    """Four new instances, each opened by two processes in the same moment."""
    together = FORKED.Barrier(2)
    commands = [FORKED.Process(target=open_in_turn, args=(tmp_path, together)) for _ in range(2)]
    for command in commands:
        command.start()
    for command in commands:
        command.join(120)
    assert [command.exitcode for command in commands] == [0, 0]


def test_it_is_made_before_dagsters_processes_open_it_unless_it_is_there(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_instance(home)
    for name in ("history/runs.db", "history/runs/index.db", "schedules/schedules.db"):
        with closing(sqlite3.connect(home.dagster_home / name)) as file:
            assert file.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
    opened: list[Settings] = []

    def note(settings: Settings) -> AbstractContextManager[None]:
        opened.append(settings)
        return nullcontext()

    monkeypatch.setattr("dcc_dagster.instance.open_instance", note)
    make_instance(home)
    assert opened == []
    (home.dagster_home / "schedules" / "schedules.db").write_bytes(b"")
    make_instance(home)
    assert opened == [home]


def test_a_home_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DagsterStorageError, match=r"could not be made .* DCC_HOME"):
        open_instance(load_settings(home=tmp_path / "file"))


def test_a_file_that_cannot_be_written_to_is_no_reason_to_delete_the_instance(home: Settings) -> None:
    make_instance(home)
    with read_only(home.dagster_home / "opening.lock"), pytest.raises(DagsterStorageError) as caught:
        open_instance(home)
    said = str(caught.value)
    assert f"{home.dagster_home / 'opening.lock'} cannot be used (Read-only file system)" in said
    assert "delete" not in said


def test_a_configuration_that_is_wrong_is_said(home: Settings) -> None:
    write_configuration(home)
    (home.dagster_home / "dagster.yaml").write_text("no_such_thing: 1\n", "utf-8")
    with pytest.raises(DagsterStorageError, match=r"could not be opened .*no_such_thing.*dcc instance rebuild"):
        open_instance(home)
