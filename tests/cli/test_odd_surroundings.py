"""What a command is given or prints to is not as it should be: it says so, and is no fault of the platform."""

from __future__ import annotations

import subprocess
from pathlib import Path

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
