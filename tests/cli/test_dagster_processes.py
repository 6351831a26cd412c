"""How Dagster's processes are stopped, shown by a process that has one of its own."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from dcc.cli.installation import dagster_processes
from dcc.cli.installation.dagster_processes import Program
from dcc.cli.shell.context import settings_from_environment
from dcc.errors import DagsterStorageError, InternalFaultError
from tests.support.waiting import wait_until

ASKED_AND_ENDED = "asked = time.monotonic(); time.sleep(1); note(f'{asked} {time.monotonic()}'); child.kill()"
STAYS = "time.sleep(600)"
STAYING = Program("stays", [])
MODULE = """
import signal, subprocess, sys, time
from pathlib import Path

# As Dagster's programs do.
signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
note = Path(sys.argv[1]).write_text
try:
    note("up")
    time.sleep(600)
except KeyboardInterrupt:
    {end}
"""


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of the test's own, and settings in the environment; a start or an end is heard of at once."""
    monkeypatch.setattr(dagster_processes, "_POLL_SECONDS", 0.02)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("DCC_HOME", str(tmp_path))


@contextmanager
def running(folder: Path, end: str, *names: str) -> Iterator[tuple[list[subprocess.Popen[bytes]], list[Path]]]:
    """Processes that are up, and the files in which they note what they are at."""
    (folder / "with_a_child.py").write_text(MODULE.format(end=end))
    noted = [folder / name for name in names]
    programs = [Program("with_a_child", [str(path)]) for path in noted]
    with dagster_processes.running(settings_from_environment(), *programs) as processes:
        dagster_processes.wait_until(
            processes, lambda: all(path.exists() and path.read_text() == "up" for path in noted)
        )
        yield processes, noted


def wait_for_the_end_of_groups(groups: Sequence[int]) -> None:
    """One that was killed is there until whoever inherited it has heard of its end."""
    wait_until(lambda: not any(dagster_processes._signal_group(group, 0) for group in groups))


def test_one_that_does_not_end_is_ended_with_its_own_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dagster_processes, "_ALONE_SECONDS", 0.2)
    monkeypatch.setattr(dagster_processes, "_STOP_SECONDS", 0.5)
    with running(tmp_path, STAYS, "noted") as (processes, (noted,)):
        group = processes[0].pid
    wait_for_the_end_of_groups([group])
    assert noted.read_text() == "up"


def test_files_in_the_working_directory_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "subprocess.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(here)
    with running(tmp_path, "child.kill()", "noted"):
        pass


def test_programs_that_run_together_are_stopped_at_once(tmp_path: Path) -> None:
    with running(tmp_path, ASKED_AND_ENDED, "first", "second") as (processes, noted):
        pass
    asked, ended = zip(*([float(moment) for moment in path.read_text().split()] for path in noted), strict=True)
    assert max(asked) < min(ended)
    assert [process.returncode for process in processes] == [0, 0]


def test_one_that_ends_by_itself_is_told_and_all_of_the_others_is_stopped(tmp_path: Path) -> None:
    with running(tmp_path, "child.kill()", "first", "second") as (processes, _):
        processes[0].kill()
        with pytest.raises(InternalFaultError, match="Dagster ended by itself, with exit code -9"):
            dagster_processes.wait_for_end(processes, tmp_path)
    wait_for_the_end_of_groups([process.pid for process in processes])


def test_they_do_not_stay_when_the_instance_is_removed(tmp_path: Path) -> None:
    workspace = dagster_processes.write_workspace(tmp_path)
    with running(tmp_path, "child.kill()", "noted") as (processes, _):
        workspace.unlink()
        with pytest.raises(DagsterStorageError, match=f"{tmp_path}, the Dagster instance that this uses, was removed"):
            dagster_processes.wait_for_end(processes, workspace)


def test_a_second_stop_does_not_cut_the_first_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stays.py").write_text(STAYS.replace("time", "__import__('time')", 1))
    stop_processes = dagster_processes._stop

    def asked_again(processes: Sequence[subprocess.Popen[bytes]]) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        stop_processes(processes)

    monkeypatch.setattr(dagster_processes, "_stop", asked_again)
    started: list[subprocess.Popen[bytes]] = []

    def fail() -> None:
        with (
            dagster_processes.stop_signals(),
            dagster_processes.running(settings_from_environment(), STAYING) as both,
        ):
            started.extend(both)
            raise InternalFaultError("It did not answer.")

    with pytest.raises(InternalFaultError):
        fail()
    assert started[0].returncode is not None
