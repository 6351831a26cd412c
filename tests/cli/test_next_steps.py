"""What is suggested after each command: a row for every one, commands that exist, one line, never in JSON."""

import re
from pathlib import Path

import pytest

from dcc.cli.shell.next_steps import NEXT, NextStep, next_line, step_fields
from dcc.session.archives import archive_phases
from dcc.sources.folder import LocalConnection
from tests.cli.conftest import Dcc
from tests.cli.test_main import ALL, LEAVES
from tests.support.databases import only_sqlite
from tests.support.installations import Folder
from tests.test_documents_commands import look_up_dcc

ROOT = Path(__file__).parents[2]
FACTS = {
    fact
    for module in (ROOT / "dcc" / "cli").rglob("*.py")
    for told in re.findall(
        r"\bnote_facts\(\n?(.*?)\n?    \)?\n|\bnote_facts\((.*)\)", module.read_text("utf-8"), re.DOTALL
    )
    for fact in re.findall(r"(\w+)=", "".join(told))
}
UNSUGGESTED = {"archive cat", "completion", "daemon", "data document", "demo", "metrics", "ui"}
"""Commands whose output is for programs, or a document, or which end when somebody ends them; the demo has its own."""


@pytest.fixture
def talking(dcc: Dcc) -> Dcc:
    """`dcc` with its suggestions."""
    del dcc.environment["DCC_SUGGESTIONS"]
    return dcc


def test_every_command_has_a_next_one_or_a_reason_for_none() -> None:
    names = {" ".join(path) for path in LEAVES}
    assert NEXT.keys() ^ UNSUGGESTED == names, "A command has a line in dcc/cli/shell/next_steps.py or in UNSUGGESTED."
    assert all(NEXT.values())


def test_what_is_suggested_exists_and_can_be_known() -> None:
    for name, step in ((name, step) for name, steps in NEXT.items() for step in steps):
        look_up_dcc(re.sub(r"\{\w+\}|\.\.\.", "1", step.command).split()[1:])
        parameters = {parameter.name for parameter in ALL[tuple(name.split())].params}
        assert set(step_fields(step)) <= parameters | FACTS, name
        assert not step.why.endswith("."), name


def test_a_name_from_a_server_is_one_word_and_steers_nothing() -> None:
    line = next_line([NextStep("dcc show {first}", "its story")], 0, {"first": "add/a; rm -rf \x1b[31m~\n.zip"})
    assert line == r"Next: dcc show 'add/a; rm -rf \x1b[31m~ .zip'  # its story"


@only_sqlite
def test_commands_lead_from_one_to_the_next(talking: Dcc) -> None:
    def next_of(*arguments: object, exit_code: int = 0) -> str:
        (*_, line) = ["", *talking(*arguments, exit_code=exit_code).stderr.splitlines()]
        return line.removeprefix("Next: ").partition("  # ")[0]

    assert next_of("status") == "dcc source add"
    assert next_of("centre", "add", "Tcp") == "dcc source add --centre Tcp"
    folder = Folder(talking.root / "centre")
    folder.path.mkdir()
    added = ("source", "add", "--centre", "H", "--protocol", "file", "--base-path", folder.path)
    assert next_of(*added) == "dcc crawl --source 1"
    folder.put("add/H.2013-10-31.1.impc.zip")
    assert next_of("crawl") == "dcc status"
    folder.put("add/H.2013-10-31.2.impc.zip", b"none")
    assert next_of("crawl", exit_code=1) == "dcc show add/H.2013-10-31.2.impc.zip"
    assert next_of("show", "add/H.2013-10-31.2.impc.zip") == "dcc report add/H.2013-10-31.2.impc.zip"
    assert next_of("session", "show", "1") == ""
    assert next_of("session", "show", "2") == "dcc report --session 2"
    assert next_of("data", "causes", "--centre", "H").startswith("dcc data causes --centre H --spreadsheet")
    assert next_of("data", "causes", "--zip", "add/H.2013-10-31.2.impc.zip") == "dcc report add/H.2013-10-31.2.impc.zip"
    for nothing_wrong in (["--centre", "J"], ["--zip", "add/H.2013-10-31.1.impc.zip"]):
        assert next_of("data", "causes", *nothing_wrong) == ""
    # An archive that could not be read has no findings of rules.
    assert next_of("data", "causes") == ""
    assert next_of("status") == "dcc zips --status failed"
    assert next_of("zips", "--status", "failed") == "dcc show add/H.2013-10-31.2.impc.zip"
    assert next_of("hold", "--centre", "J", "--reason", "wait") == "dcc status"
    held = ("hold", "--centre", "H", "--reason", "wait")
    assert next_of(*held, "--dry-run") == "dcc status"
    assert next_of(*held) == "dcc zips --on-hold"
    assert next_of("release", "--centre", "J") == "dcc zips --on-hold"
    assert next_of("release", "--centre", "H") == "dcc crawl"
    sets = talking.root / "sets"
    assert next_of("backup", sets) == f"dcc backup --verify {sets}"
    assert next_of("backup", "--verify", sets) == ""
    talking.environment["DCC_NOTIFY_LOG"] = "true"
    assert next_of("notify", "--dry-run") == "dcc notify"
    talking("notify")
    nothing = talking("notify", "--dry-run")
    assert nothing.stdout == "No message is due.\n"
    assert nothing.stderr.startswith("Next: dcc notify --list  # ")
    del talking.environment["DCC_NOTIFY_LOG"]
    folder.path.rename(talking.root / "moved")
    assert next_of("crawl", exit_code=4) == "dcc source test 1"
    assert next_of("source", "list") == "dcc source test 1"


@only_sqlite
def test_validation_leads_to_a_session_only_where_there_is_an_installation(talking: Dcc) -> None:
    archive = talking.json("example", talking.root / "export")["path"]
    assert "Next: dcc crawl  # collects what is uploaded\n" in talking("validate", archive).stderr
    talking.environment |= {"DCC_HOME": str(talking.root / "none")}
    del talking.environment["DCC_TRACKER_URL"]
    assert "Next:" not in talking("validate", archive).output


@only_sqlite
def test_after_a_fault_of_the_platform_commands_lead_to_it(talking: Dcc, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = talking.add_folder()
    folder.put("add/H.2013-10-31.1.impc.zip")
    with monkeypatch.context() as patch:
        patch.setattr(archive_phases, "Coordinator", lambda *_, **__: 1 // 0)
        talking("crawl", exit_code=70)
    line = talking("status").stderr.splitlines()[-1]
    assert line.startswith("Next: dcc session show 1  # ")
    shown = talking("session", "show", "1")
    assert "1 submission: ZeroDivisionError: " in shown.stdout
    assert "Next: dcc doctor  # " in shown.stderr
    folder.put("add/H.2013-10-31.2.impc.zip")
    monkeypatch.setattr(LocalConnection, "fetch", lambda *_, **__: 1 // 0)
    told = talking("crawl", exit_code=70).stderr
    assert "(line " in told
    line = talking("show", "add/H.2013-10-31.2.impc.zip").stderr.splitlines()[-1]
    assert line.startswith("Next: dcc retry add/H.2013-10-31.2.impc.zip  # ")


@only_sqlite
def test_nothing_is_suggested_in_json_after_an_error_in_help_in_a_log_or_when_it_is_not_wanted(talking: Dcc) -> None:
    assert talking("zips").stderr.splitlines()[-1] == "Next: dcc status  # how far everything is"
    assert talking("zips", "--json").output == "[]\n"
    assert "Next:" not in talking("zips", "--help").output
    assert "Next:" not in talking("show", "add/none.zip", exit_code=2).output
    talking.environment["DCC_LOG_FORMAT"] = "json"
    assert "Next:" not in talking("zips").output
    del talking.environment["DCC_LOG_FORMAT"]
    talking.environment["DCC_SUGGESTIONS"] = "no"
    assert "Next:" not in talking("zips").output
