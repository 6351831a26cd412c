"""What a command is given or prints to is not as it should be: it says so, and is no fault of the platform."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dcc.cli.shell.parameter_types import LARGEST_NUMBER
from tests.cli.conftest import PROGRAM, Dcc
from tests.cli.test_main import ALL
from tests.support.databases import only_sqlite
from tests.support.several_commands import OBEYING, run_commands

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
@pytest.mark.parametrize(("arguments", "unbuffered"), [("status --json", ""), ("--help", "1")])
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


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[tuple[object, ...]]:
    """What starts a command in a new directory that it may neither list nor enter, even as root."""
    directory = tmp_path / "closed"
    directory.mkdir()
    yield (*OBEYING, "sh", "-c", _CLOSED_FIRST, "sh", directory)
    directory.chmod(0o700)


@only_sqlite
def test_a_current_directory_that_one_may_not_use_is_no_fault_of_the_platform(
    dcc: Dcc, closed: tuple[object, ...]
) -> None:
    named = {
        "settings --write x.toml": "{}/x.toml",
        "data export weights.csv": "{}/weights.csv",
        "backup backups --verify": "{}/backups/manifest.json",
        "restore backups": "{}/backups/manifest.json",
        "replay --xsd proposed": "{}/proposed",
        "replay --reference colonies=n.csv": "{}/n.csv",
        "qc expected --csv e.csv": "e.csv",
        "data causes --spreadsheet x.xlsx": "x.xlsx",
    }
    for ended in run_commands(*named, environment=dcc.process_environment(), by=closed):
        assert ended.returncode == 2, ended
        assert f"{named[ended.args].format(closed[-1])} cannot be " in ended.stderr
        assert "Permission denied" in ended.stderr
        assert "Errno" not in ended.stderr


@only_sqlite
def test_the_doctor_finds_an_archive_store_that_may_only_be_read(dcc: Dcc) -> None:
    stores = [dcc.root / name for name in ("open", "closed", "closed-below")]
    for store in stores:
        (store / "ab").mkdir(parents=True)
    for folder in (stores[1], stores[2] / "ab"):
        folder.chmod(0o500)
    replicas = f"{dcc.root / 'home' / 'archive'}, {', '.join(map(str, stores))}"
    environment = {**dcc.process_environment(), "DCC_ARCHIVE_REPLICAS": replicas}
    (ended,) = run_commands("doctor --no-sources --json", environment=environment, by=OBEYING)
    told = {one["subject"]: one for one in json.loads(ended.stdout)["findings"]}
    found = [told[f"archive store {store}"] for store in stores]
    assert [one["verdict"] for one in found] == ["ok", "failed", "failed"]
    for store, one in zip(stores[1:], found[1:], strict=True):
        assert f"The store {store} refused to write into it: " in one["message"]
        assert "Permission denied" in one["message"]


def test_processes_work_in_a_current_directory_that_one_may_not_use(closed: tuple[object, ...]) -> None:
    code = (
        "from dcc.runtime.worker_processes import WorkerProcesses\n"
        "processes = WorkerProcesses(1, int)\n"
        "print(processes.submit('a number', max, 7).result(timeout=60))\n"
        "processes.stop()"
    )
    run = [*map(str, closed), sys.executable, "-c", code]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout == "7\n", ended.stderr
