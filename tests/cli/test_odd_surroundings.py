"""What a command is given or prints to is not as it should be: it says so, and is no fault of the platform."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from dcc.cli.shell.parameter_types import LARGEST_NUMBER
from tests.cli.conftest import PROGRAM, Dcc
from tests.cli.test_main import ALL
from tests.support.databases import only_sqlite

TOO_LARGE = "99999999999999999999"
NO_TEXT = "caf\udce9"


def test_no_command_takes_a_number_without_a_bound() -> None:
    unbounded = [
        f"{' '.join(path)} {parameter.name}"
        for path, command in ALL.items()
        for parameter in command.params
        if isinstance(parameter.type, click.types.IntParamType) and getattr(parameter.type, "max", None) is None
        if type(parameter.type).__module__ != "dcc.cli.shell.parameter_types"
    ]
    assert unbounded == []


@only_sqlite
def test_a_number_larger_than_any_is_refused_and_the_largest_of_all_taken(dcc: Dcc) -> None:
    for command in ("source why", "source test", "crawl --source", "report --session", "sessions --limit"):
        assert TOO_LARGE in dcc.error(*command.split(), TOO_LARGE, exit_code=2)
    assert TOO_LARGE in dcc.error("rules", "revoke", TOO_LARGE, "--reason", "x", exit_code=2)
    for number in (TOO_LARGE, "9" * 5_000):
        assert number[:20] in dcc.error("data", "export", "out", "--as-of", number, exit_code=2)
        assert "has no document" in dcc.error("data", "document", number, exit_code=2)
    assert dcc.json("session", "list", "--limit", LARGEST_NUMBER) == []
    assert "There is no file source" in dcc.error("source", "why", LARGEST_NUMBER, exit_code=2)


@only_sqlite
def test_an_argument_that_is_no_text_is_refused_by_name(dcc: Dcc) -> None:
    for command in (
        f"show add/{NO_TEXT}.zip",
        f"zips --centre {NO_TEXT}",
        f"centre add X --name {NO_TEXT}",
        f"data undo add/{NO_TEXT}.zip --reason x",
        f"qc contexts --parameter {NO_TEXT}",
        f"rules waive S4 --reason {NO_TEXT}",
        f"report add/{NO_TEXT}.zip",
    ):
        error = dcc.error(*command.split(), exit_code=2)
        assert r"caf\udce9" in error
        assert "is not in UTF-8" in error


@only_sqlite
@pytest.mark.parametrize(("arguments", "unbuffered"), [("status --json", ""), ("--help", "1"), ("metrics", "")])
def test_a_full_disk_behind_standard_output_is_said(dcc: Dcc, arguments: str, unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [PROGRAM, *arguments.split()],
            env=dcc.process_environment() | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("Error (export): Standard output cannot be written: No space left on device.")


_CLOSED_FIRST = 'cd "$1" && chmod 0 . && shift && exec "$@"'


def _without_power() -> tuple[str, ...]:
    """What makes even root obey permissions."""
    return ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


def run_in_closed_directory(directory: Path, *command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in a new directory that it may neither list nor enter, even as root."""
    directory.mkdir()
    try:
        return subprocess.run(
            [*_without_power(), "sh", "-c", _CLOSED_FIRST, "sh", directory, *map(str, command)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **options,
        )
    finally:
        directory.chmod(0o700)


@only_sqlite
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("settings --write x.toml", "{closed}/x.toml"),
        ("data export weights.csv", "{closed}/weights.csv"),
        ("backup backups --verify", "{closed}/backups/manifest.json"),
        ("restore backups", "{closed}/backups/manifest.json"),
        ("replay --xsd proposed", "{closed}/proposed"),
        ("replay --reference colonies=n.csv", "{closed}/n.csv"),
        ("qc expected --csv e.csv", "e.csv"),
        ("data causes --spreadsheet x.xlsx", "x.xlsx"),
    ],
)
def test_a_current_directory_that_one_may_not_use_is_no_fault_of_the_platform(
    dcc: Dcc, tmp_path: Path, arguments: str, named: str
) -> None:
    closed = tmp_path / "closed"
    ended = run_in_closed_directory(closed, PROGRAM, *arguments.split(), env=dcc.process_environment())
    assert ended.returncode == 2, ended.stderr
    assert f"{named.format(closed=closed)} cannot be " in ended.stderr
    assert "Permission denied" in ended.stderr
    assert "Errno" not in ended.stderr


@only_sqlite
@pytest.mark.parametrize("closed", [".", "ab"])
def test_the_doctor_finds_an_archive_store_that_may_only_be_read(dcc: Dcc, closed: str) -> None:
    replica = dcc.root / "replica"
    (replica / "ab").mkdir(parents=True)
    environment = {**dcc.process_environment(), "DCC_ARCHIVE_REPLICAS": f"{dcc.root / 'home' / 'archive'}, {replica}"}
    examine = [*_without_power(), str(PROGRAM), "doctor", "--no-sources", "--json"]
    told = []
    for mode in (0o700, 0o500):
        (replica / closed).chmod(mode)
        ended = subprocess.run(examine, env=environment, capture_output=True, text=True, timeout=120, check=False)
        findings = json.loads(ended.stdout)["findings"]
        told.append(next(one for one in findings if one["subject"] == f"archive store {replica}"))
    assert [one["verdict"] for one in told] == ["ok", "failed"]
    assert f"The store {replica} refused to write into it: " in told[1]["message"]
    assert "Permission denied" in told[1]["message"]


def test_processes_work_in_a_current_directory_that_one_may_not_use(tmp_path: Path) -> None:
    code = (
        "from dcc.runtime.worker_processes import WorkerProcesses\n"
        "processes = WorkerProcesses(1, int)\n"
        "print(processes.submit('a number', max, 7).result(timeout=60))\n"
        "processes.stop()"
    )
    ended = run_in_closed_directory(tmp_path / "closed", sys.executable, "-c", code)
    assert ended.stdout == "7\n", ended.stderr
