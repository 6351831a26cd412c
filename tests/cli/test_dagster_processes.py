"""How Dagster's processes are stopped, shown by a process that has one of its own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dcc_cli import dagster_processes
from dcc_cli.context import settings_from_environment

ENDS = "time.sleep(0.5); note(str(child.poll())); child.kill()"
STAYS = "time.sleep(600)"
_HEARD_SECONDS = 10
MODULE = """
import subprocess, sys, time
from pathlib import Path

child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
note = Path(sys.argv[1]).write_text
try:
    note("up")
    time.sleep(600)
except KeyboardInterrupt:
    {end}
"""


def stop(folder: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> str:
    """Start a process, and stop it as soon as it is up; what it noted last."""
    (folder / "with_a_child.py").write_text(MODULE.format(end=end))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("DCC_HOME", str(folder))
    noted = folder / "noted"
    settings = settings_from_environment()
    with dagster_processes.running(settings, "with_a_child", [str(noted)]) as process:
        dagster_processes.wait_until(process, lambda: noted.exists() and noted.read_text() == "up")
        group = process.pid
    # One that was killed is there until whoever inherited it has heard of its end.
    ends = time.monotonic() + _HEARD_SECONDS
    while dagster_processes._signal_group(group, 0) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not dagster_processes._signal_group(group, 0)
    return noted.read_text()


def test_what_a_process_asks_of_its_own_ones_is_answered_until_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stop(tmp_path, monkeypatch, ENDS) == str(None)


def test_one_that_does_not_end_when_it_is_asked_is_ended_with_its_own_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dagster_processes, "_ALONE_SECONDS", 0.2)
    monkeypatch.setattr(dagster_processes, "_STOP_SECONDS", 0.5)
    assert stop(tmp_path, monkeypatch, STAYS) == "up"
