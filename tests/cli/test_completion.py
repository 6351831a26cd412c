"""`dcc completion`: a shell offers commands, options and values, in a bash that really runs."""

import shlex
import subprocess

import click
import pytest

from dcc.cli.shell.parameter_types import VALUES
from tests.cli.conftest import PROGRAM, Dcc
from tests.cli.test_main import ALL, LEAVES
from tests.support.databases import only_sqlite

COMPLETING = """
PATH={path}:$PATH
eval "$(dcc completion bash)"
COMP_WORDS=({words}) COMP_CWORD={last}
_dcc_completion dcc
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed_by_bash(dcc: Dcc, *words: str) -> list[str]:
    """What bash offers for the last of the words that follow `dcc`."""
    typed = " ".join(shlex.quote(word) for word in ("dcc", *words))
    script = COMPLETING.format(path=PROGRAM.parent, words=typed, last=len(words))
    ended = subprocess.run(
        ["bash", "--norc", "-c", script], env=dcc.process_environment(), capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.split()


def completed(dcc: Dcc, *words: str) -> list[str]:
    """What a shell is told, by this process."""
    asked = {"_DCC_COMPLETE": "bash_complete", "COMP_WORDS": shlex.join(["dcc", *words]), "COMP_CWORD": str(len(words))}
    result = dcc(*words, env=asked)
    return [line.removeprefix("plain,") for line in result.stdout.splitlines() if line]


@only_sqlite
def test_bash_completes_values(dcc: Dcc) -> None:
    dcc.collect("add/H.2013-10-31.1.impc.zip", "--until", "zip_name")
    assert completed_by_bash(dcc, "show", "add/H") == ["add/H.2013-10-31.1.impc.zip"]


@only_sqlite
def test_values_of_every_kind_are_offered(dcc: Dcc) -> None:
    keys = ("add/H.2013-10-31.1.impc.zip", "add/H.2013-10-31.2.impc.zip", "add/H.2013; rm -rf $HOME.zip")
    dcc.collect(dict.fromkeys(keys), "--until", "zip_name", exit_code=1)
    assert completed(dcc, "sou") == ["source"]
    assert completed(dcc, "retry", "") == ["add/H.2013-10-31.1.impc.zip", "add/H.2013-10-31.2.impc.zip"]
    assert completed(dcc, "retry", "a") == completed(dcc, "retry", "add/") == completed(dcc, "retry", "")
    assert completed(dcc, "retry", "edit/") == completed(dcc, "retry", "move/") == []
    assert completed(dcc, "retry", "add/H_2013") == []
    assert completed(dcc, "data", "recheck", "--zip", "add/H.2013-10-31.2") == ["add/H.2013-10-31.2.impc.zip"]
    assert completed(dcc, "zips", "--centre", "") == ["H", "J"]
    assert completed(dcc, "centre", "deactivate", "J") == ["J"]
    assert completed(dcc, "source", "test", "") == ["1"]
    assert completed(dcc, "crawl", "--source", "") == ["1"]
    assert completed(dcc, "report", "--session", "") == ["1"]
    assert completed(dcc, "rules", "waive", "S1")[:2] == ["S1", "S10"]
    assert completed(dcc, "explain", "host-key-") == ["host-key-unknown", "host-key-changed"]
    assert completed(dcc, "zips", "--status", "f") == ["failed"]
    assert completed(dcc, "example", "--centre", "") == ["H", "J", "Tcp", "Wtsi"]
    assert "--json" in completed(dcc, "status", "--")
    dcc.environment["DCC_GROUPS"] = "europe=H;asia=J"
    assert completed(dcc, "crawl", "--group", "") == ["europe", "asia"]


@only_sqlite
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_without_a_tracker_or_with_a_wrong_setting_nothing_is_offered_and_nothing_said(bare_dcc: Dcc) -> None:
    def offered_for_a_zip() -> str:
        asked = {"_DCC_COMPLETE": "bash_complete", "COMP_WORDS": "dcc show add/", "COMP_CWORD": "2"}
        return bare_dcc("show", "add/", env=asked).output.strip()

    assert offered_for_a_zip() == ""
    assert not bare_dcc.home.exists()
    bare_dcc.environment["DCC_DOWNLOADERS"] = "many"
    assert offered_for_a_zip() == ""
    bare_dcc.environment["DCC_LOG_FORMAT"] = "nonsense"
    assert offered_for_a_zip() == ""


@only_sqlite
def test_every_shell_has_its_script(bare_dcc: Dcc) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert f"_DCC_COMPLETE={shell}_complete" in bare_dcc("completion", shell).stdout


def test_every_zip_action_centre_source_and_rule_of_a_command_is_completed() -> None:
    """By the names of the parameters: one that is named otherwise would be forgotten."""
    unregistered = {("validate", "--centre"), ("centre add", "code")}
    for path in LEAVES:
        for parameter in ALL[path].params:
            words = {*parameter.opts, str(parameter.metavar)}
            valued = words & {"--centre", "--zip", "--rule", "--source", "--session", "rule", "code"}
            valued = valued or {word for word in words if "ACTION/ZIP" in word}
            if valued and not isinstance(parameter.type, click.Choice):
                known = any((" ".join(path), word) in unregistered for word in valued)
                assert known or parameter.name in VALUES, f"Name the parameter of {' '.join(valued)} as in VALUES"
