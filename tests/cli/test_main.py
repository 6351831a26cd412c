"""`dcc` as a whole: help, exit codes, errors, interrupts, and how fast it starts."""

import logging
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from sqlalchemy import make_url
from sqlalchemy.exc import OperationalError

from dcc.cli.main import dcc as command
from dcc.cli.shell import dagster_side
from dcc.errors import InternalFaultError
from dcc.redaction import keep_secret
from tests.cli.conftest import PROGRAM, Dcc, imported_by
from tests.support.databases import is_sqlite, only_sqlite
from tests.support.installations import Folder, specimens
from tests.support.prepared_processes import begin
from tests.support.raising import raising
from tests.support.waiting import wait_until
from tests.support.web_server import WebServer

HEAVY = ("dagster", "lxml", "paramiko", "pandas", "pyarrow", "numpy", "matplotlib", "sqlalchemy", "pydantic")
COMMANDS = (
    "init centre source crawl ui status zips show archive retry hold release cancel acknowledge session sessions "
    "report notify data qc rules reference "
    "validate replay explain example manifest demo completion settings doctor upgrade daemon metrics staging backup "
    "restore migrate-storage instance"
)
"""In the order of their use."""


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group, **group.context_settings)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        yield (*path, name), found
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))


ALL = dict(commands(command))
LEAVES = [path for path, found in ALL.items() if not isinstance(found, click.Group)]


def test_the_commands_are_these() -> None:
    def below(*group: str) -> str:
        return " ".join(path[-1] for path in ALL if path[:-1] == group)

    assert below() == COMMANDS, "Say a new command in COMMANDS, where people need it."
    assert below("centre") == "add list change activate deactivate delegate delegations"
    assert below("source") == "add test list set-state change remove pause resume why missing"
    assert ("instance", "rebuild") in ALL


def test_every_command_says_what_it_does_and_how_it_ends() -> None:
    for path in LEAVES:
        result = CliRunner().invoke(command, [*path, "--help"], prog_name="dcc")
        assert result.exit_code == 0, path
        assert result.stdout.startswith(f"Usage: dcc {' '.join(path)}")
        assert "Exit codes:\n    0  " in result.stdout, path
        if any(parameter.required for parameter in ALL[path].params):
            assert f"\n  dcc {' '.join(path)} " in result.stdout.partition("\nExample")[2], path
        assert f"dcc {' '.join(path)}" in result.stdout.partition("\nExample")[2], path
        assert not ALL[path].get_short_help_str(70).endswith("..."), (path, "its first sentence is longer than 70")
        too_long = [line for line in result.stdout.splitlines() if len(line) > 102]
        assert not too_long, f"Break these lines of the docstring of {path}."


def test_help_lists_every_command_and_the_exit_codes_and_the_version_is_the_packages() -> None:
    told = CliRunner().invoke(command, ["--version"], prog_name="dcc")
    assert told.stdout == f"dcc {version('dcc')}\n"
    for arguments in (["--help"], ["-h"]):
        result = CliRunner().invoke(command, arguments, prog_name="dcc")
        assert result.exit_code == 0
        assert all(f"\n  {name} " in result.stdout for name, *below in ALL if not below)
        assert "3  another session is active" in result.stdout


@pytest.mark.parametrize("path", [[], ["data"], ["data", "plan"]])
def test_help_is_a_command_too(bare_dcc: Dcc, path: list[str]) -> None:
    assert bare_dcc("help", *path).stdout == bare_dcc(*path, "--help").stdout != ""
    assert "No such command 'zzz'" in bare_dcc("help", *path[:1], "zzz", exit_code=2).stderr


def test_help_and_version_import_nothing_heavy() -> None:
    helps = (f"{path} --help" for path in ("crawl", "retry", "data", "data export", "qc plot"))
    commands = ("--help", "--version", *helps, "explain E4")
    assert imported_by(*commands).isdisjoint(HEAVY)


def test_holding_files_against_the_schema_alone_loads_no_database(tmp_path: Path) -> None:
    for name, content in specimens().items():
        (tmp_path / name).write_bytes(content)
    loaded = imported_by(f"validate --schema-only {tmp_path}")
    assert "lxml" in loaded
    assert loaded.isdisjoint({"sqlalchemy", "paramiko", "pandas", "dagster"})


@only_sqlite
def test_a_crawl_without_dagster_events_does_not_import_dagster(dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor a package that does, which only `dagster_side` can name: import-linter holds that."""
    dcc.add_folder().put("add/H.2013-10-31.1.impc.zip")
    loaded = {name for name in sys.modules if name.startswith(("dagster", "dcc_"))}
    for name in {"dagster", dagster_side._MODULE, *loaded}:
        monkeypatch.setitem(sys.modules, name, None)
    dcc("crawl")


def test_without_databases_a_command_says_how_to_make_them(bare_dcc: Dcc, tracker_url: str) -> None:
    # A server that has no such database counts as a database that could not be reached.
    exit_code = 2 if is_sqlite(tracker_url) else 4
    of_tracker = (
        "status",
        "status --json",
        "zips",
        "session list",
        "crawl",
        "centre list",
        "source list",
        "show add/x",
        "ui",
    )
    for asked in (*of_tracker, "rules waivers", f"data export {bare_dcc.root / 'export'}"):
        assert "dcc init" in bare_dcc.error(*asked.split(), exit_code=exit_code), asked
    assert not (bare_dcc.root / "export").exists()


@only_sqlite
def test_a_wrong_setting_ends_with_2_and_a_database_that_cannot_be_reached_with_4(bare_dcc: Dcc) -> None:
    bare_dcc.environment["DCC_DOWNLOADERS"] = "many"
    assert "DCC_DOWNLOADERS" in bare_dcc.error("status", exit_code=2)
    bare_dcc.environment |= {
        "DCC_DOWNLOADERS": "1",
        "DCC_TRACKER_URL": "mysql://dcc:s3cret%40%3A%2F%20%C3%BC@127.0.0.1:1/tracker",
    }
    assert "127.0.0.1:1" in bare_dcc.error("status", exit_code=4)


@only_sqlite
def test_debug_shows_the_traceback_too(bare_dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> None:
    result = bare_dcc("--debug", "status", exit_code=2)
    assert "Traceback" in result.stderr
    assert "TrackerOutdatedError" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error (tracker-outdated): ")

    keep_secret("pass word 4711")
    bare_dcc.secrets.append("pass word 4711")
    bare_dcc("init")
    monkeypatch.setattr("dcc.databases.schema.require_current", raising(ValueError("with pass word 4711")))
    assert "\nValueError: with ***\n" in bare_dcc("--debug", "status", exit_code=70).stderr


@only_sqlite
@pytest.mark.parametrize("step", ["plan_from_environment", "RootGroup.parse_args", "suggest_next"])
def test_an_interrupt_is_told_alike_at_every_step(bare_dcc: Dcc, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    bare_dcc("init")
    monkeypatch.setattr(f"dcc.cli.shell.group.{step}", raising(KeyboardInterrupt))
    result = bare_dcc("status", exit_code=130)
    assert result.stderr == "Interrupted.\n"


@only_sqlite
@pytest.mark.parametrize(
    ("error", "exit_code", "said"),
    [
        (ValueError("odd"), 70, "ValueError: odd"),
        (InternalFaultError("broken"), 70, "broken"),
        (OperationalError("SELECT 1", {}, Exception("gone")), 4, "A database did not answer"),
        (KeyboardInterrupt(), 130, "Interrupted."),
    ],
    ids=["unexpected", "fault", "database", "interrupt"],
)
def test_every_other_end_has_its_code_and_one_line(
    bare_dcc: Dcc, monkeypatch: pytest.MonkeyPatch, error: BaseException, exit_code: int, said: str
) -> None:
    bare_dcc("init")
    monkeypatch.setattr("dcc.databases.schema.require_current", raising(error))
    result = bare_dcc("status", exit_code=exit_code)
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert said in line


@only_sqlite
def test_a_database_to_which_another_process_writes_is_told_as_that(dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcc.databases.engines.BUSY_SECONDS", 0.1)
    path = make_url(dcc.environment["DCC_TRACKER_URL"]).database
    assert path is not None
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        said = dcc.error("centre", "add", "J", exit_code=4)
    assert "Another process writes to it: run the command again when that is done." in said


@only_sqlite
def test_what_is_logged_as_an_error_is_a_warning_on_one_line(bare_dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> None:
    def complain(_: object, **_options: object) -> None:
        logging.getLogger("some.library").warning("a detail")
        logging.getLogger("some.library").error("two\nlines")

    bare_dcc("init")
    monkeypatch.setattr("dcc.databases.schema.require_current", complain)
    assert bare_dcc("session", "list").stderr == "Warning: two lines\n"
    assert bare_dcc("--debug", "session", "list").stderr == "Warning: a detail\nWarning: two lines\n"
    assert logging.getLogger().handlers == [
        handler for handler in logging.getLogger().handlers if type(handler).__module__ != "dcc.cli.shell.group"
    ]


@only_sqlite
def test_what_a_server_or_centre_named_cannot_steer_the_terminal(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    folder.put("add/\x1b[31mred\x07.zip", b"x")
    shown = dcc("crawl", exit_code=1).output + dcc("zips").output + dcc("status").output
    assert "red" in shown
    assert "\x1b[31mred" not in shown
    assert "\x07" not in shown


@only_sqlite
def test_a_reader_that_stops_reading_is_no_error(dcc: Dcc) -> None:
    run = ["bash", "-c", '"$0" settings | true; exit "${PIPESTATUS[0]}"', PROGRAM]
    ended = subprocess.run(run, env=dcc.process_environment(), capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (141, b"", b"")


STREAMS = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
from dcc.cli import main

def work(prog_name):
    null = os.stat(os.devnull)
    nowhere = [n for n in range(3) if os.path.samestat(os.fstat(n), null) and os.get_inheritable(n)]
    print("said", file=sys.stdout, flush=True)
    print("said", file=sys.stderr, flush=True)
    Path(sys.argv[1]).write_text(f"{nowhere}")
    raise KeyboardInterrupt

main.dcc = SimpleNamespace(main=work)
main.main()
"""


@pytest.mark.parametrize(("closed", "said"), [("</dev/null", b"said\nInterrupted.\n"), ("<&- >&- 2>&-", b"")])
def test_a_process_has_all_streams_and_an_interrupt_ends_it_in_a_line(tmp_path: Path, closed: str, said: bytes) -> None:
    """Closed streams lead nowhere, in processes that it starts too."""
    run = ["sh", "-c", f'exec "$0" -c "$1" "$2" {closed}', sys.executable, STREAMS, str(tmp_path / "nowhere")]
    ended = subprocess.run(run, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (130, said)
    assert (tmp_path / "nowhere").read_text() == ("[0, 1, 2]" if ">&-" in closed else "[0]")


J = "add/J.2013-10-31.1.impc.zip"


@only_sqlite
@pytest.mark.usefixtures("dagster_made")
@pytest.mark.parametrize(("events", "number"), [("false", signal.SIGTERM), ("true", signal.SIGINT)])
def test_an_interrupted_crawl_is_cancelled_and_the_next_one_goes_on(dcc: Dcc, events: str, number: int) -> None:
    """With documents being validated, and a download under way that would hold the session up for a minute."""
    dcc.environment["DCC_DAGSTER_EVENTS"] = events
    folder, served = dcc.add_folder(), Folder(dcc.root / "served")
    served.put(J, specimens("J"))
    for inc in range(24):
        stem = f"2013-10-31.{inc}"
        folder.put(f"add/H.{stem}.impc.zip", specimens("H", stem, mice=40))
    environment = {**dcc.process_environment(), "DCC_WORKERS": "1"}
    with WebServer(served.path) as web:
        dcc("source", "add", "--centre", "J", "--protocol", "http", "--hostname", web.hostname, "--base-path", "/")
        web.stall_after = 1
        said = dcc.root / "said"
        process = begin(["dcc", "crawl"], dcc.root, environment, dcc.root / "output", said)
        wait_until(lambda: dcc.json("zips", "--phase", "xsd"))
        assert process.pid is not None
        os.kill(process.pid, number)
        # Whoever stops waits some seconds for what is silent.
        web.disconnect()
        process.join(60)
        assert (process.exitcode, said.read_text()) == (130, "Interrupted.\n")
        status = dcc.json("status")
        assert status["session"]["active"] is None
        last = status["session"]["last"]
        assert (last["outcome"], last["failed_phase"]) == ("stopped", None)
        assert {task["outcome"] for task in last["tasks"]} == {"succeeded", "cancelled"}
        assert [one["outcome"] for one in dcc.json("show", J)["downloads"]] == ["cancelled"]
        web.stall_after = None
        dcc.environment["DCC_DAGSTER_EVENTS"] = "false"
        dcc("crawl")
    assert [one["outcome"] for one in dcc.json("show", J)["downloads"]] == ["cancelled", "finished"]
    assert dcc.json("status")["zip_actions"] == [{"phase": "xsd", "status": "done", "count": 25}]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["shw"], "show"),
        (["SHOW"], "show"),
        (["retyr"], "retry or restore"),
        (["data", "xport"], "export"),
        (["centre", "ad"], "add"),
    ],
)
def test_a_wrong_name_of_a_command_is_told_with_the_nearest(dcc: Dcc, typed: list[str], meant: str) -> None:
    assert f"Did you mean {meant}" in dcc(*typed, exit_code=2).stderr
    assert "Did you mean" not in dcc(*typed[:-1], "zzzzzz", exit_code=2).stderr
