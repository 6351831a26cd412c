"""`dcc demo`: a whole session on real servers, from nothing, with the outcome that it announces."""

import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from dcc.cli.demo.centres import EXPECTED
from dcc.cli.main import dcc
from tests.cli.conftest import Dcc
from tests.support.environments import clean, forget_settings
from tests.support.waiting import wait_until

pytest.importorskip("asyncssh", reason="The demonstration's servers are not installed: pip install 'dcc[demo]'")
pytest.importorskip("pyftpdlib", reason="The demonstration's servers are not installed: pip install 'dcc[demo]'")

DCC = str(Path(sys.executable).with_name("dcc"))
END_SECONDS = 60.0
Demonstration = tuple[Path, subprocess.CompletedProcess[str]]


def processes_in(folder: Path) -> list[str]:
    """The commands of all processes that work in `folder`, which those that a demonstration starts inherit from it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink() == folder:
                found.append((process / "cmdline").read_text().replace("\0", " "))
    return found


@contextmanager
def demo_with_servers(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A demonstration whose servers are running: they are, when the tracker is made."""
    with subprocess.Popen([DCC, "demo"], cwd=folder, env=clean(), stdout=subprocess.DEVNULL) as demo:
        try:
            tracker = folder / ".demo" / "home" / "tracker.db"
            wait_until(lambda: tracker.exists() or demo.poll() is not None)
            assert demo.poll() is None
            yield demo
        finally:
            demo.kill()


@pytest.fixture
def seen(demonstration: Demonstration, monkeypatch: pytest.MonkeyPatch) -> Dcc:
    """`dcc` on what the demonstration left."""
    forget_settings(monkeypatch)
    return Dcc({"DCC_HOME": str(demonstration[0] / ".demo" / "home")}, demonstration[0])


def test_it_ends_as_expected_and_tells_every_problem_once_and_where_to_look(demonstration: Demonstration) -> None:
    _, ended = demonstration
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Not as expected" not in ended.stdout
    assert ended.stderr == ""
    # However often the archive was downloaded.
    assert ended.stdout.count("J.2013-11-01.27.impc.zip is cut off") == 1
    for key, expected in EXPECTED.items():
        if expected.status.short_name == "failed":
            assert str(key) in ended.stdout
    assert "127.0.0.1" in next(line for line in ended.stdout.splitlines() if line.startswith("failed"))
    assert "(and 7 more)" in ended.stdout
    assert "weights final version.xml" in ended.stdout
    assert "DCC_HOME=.demo/home" in ended.stdout
    assert "dcc ui" in ended.stdout
    assert "Session 1 (faults): 13 submissions" in ended.stdout


def test_the_commands_see_what_it_has_done(seen: Dcc) -> None:
    status = seen.json("status")
    states = Counter((key.phase.short_name, key.status.short_name) for key in EXPECTED.values())
    assert {(state["phase"], state["status"]): state["count"] for state in status["zip_actions"]} == states
    assert Counter(source["last_crawl"]["outcome"] for source in status["sources"]) == {"ok": 4, "failed": 1}
    assert {source["pause"]["by"] for source in seen.json("source", "list")} == {"dcc demo"}
    told = seen.json("show", "add/H.2013-11-04.3.impc.zip")
    errors = {document["file_name"]: len(document["errors"]) for document in told["documents"]}
    assert errors["H.2013-11-04.3.experiment.impc.xml"] == 8
    assert errors["H.2013-11-04.1.specimen.impc.xml"] >= 2
    assert errors["H.2013-11-04.2.experiment.impc.xml"] >= 1
    failed = {"document": "H.2013-11-04.1.specimen.impc.xml", "phase": "xsd"}
    told_causes = seen.json("data", "causes", "--zip", "add/H.2013-11-04.3.impc.zip")
    (waiting,) = [cause for cause in told_causes if cause["kind"] == "E4"]
    for documents in (told["failed_documents"], waiting["failed_documents"]):
        assert [{name: one[name] for name in failed} for one in documents] == [failed]
    assert waiting["acts"] == "centre"
    (session,) = seen.json("session", "list")
    assert (session["outcome"], session["failed_phase"], session["problems"]["failed"]) == ("faults", "zip_name", 6)
    assert seen("session", "show", "1").stdout.startswith("Session 1: faults (crawl), 6 failed")
    assert seen("report", "--session", "1").stdout.partition("\n")[0].count(" UTC: faults: a source") == 1


def test_its_archives_can_be_processed_again_once_their_source_is_resumed(
    demonstration: Demonstration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, ended = demonstration
    home = shutil.copytree(folder / ".demo" / "home", tmp_path / "home")
    forget_settings(monkeypatch)
    copied = Dcc({"DCC_HOME": str(home)}, tmp_path)
    key = "add/H.2013-11-04.3.impc.zip"
    assert "dcc source resume" in ended.stdout
    assert "dcc source resume 1" in copied.error("retry", key, exit_code=2)
    copied("source", "resume", "1")
    assert "1 xsd failed; 3 documents; 0 B received" in copied("retry", key, exit_code=1).stdout


def test_it_keeps_to_its_folder_and_shows_no_password(demonstration: Demonstration) -> None:
    folder, ended = demonstration
    assert [path.name for path in folder.iterdir()] == [".demo"]
    accesskeys = list((folder / ".demo" / "accesskeys").iterdir())
    assert {path.stat().st_mode & 0o077 for path in accesskeys} == {0}
    passwords = [path.read_text() for path in accesskeys]
    assert len(passwords) == 5
    tracker = (folder / ".demo" / "home" / "tracker.db").read_bytes()
    for password in passwords:
        assert password not in ended.stdout + ended.stderr
        assert password.encode() not in tracker


def test_it_leaves_no_process_behind(demonstration: Demonstration) -> None:
    folder, _ = demonstration
    wait_until(lambda: not processes_in(folder))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_one_that_is_stopped_or_killed_leaves_no_process(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with demo_with_servers(tmp_path) as demo:
        demo.send_signal(number)
        assert demo.wait(END_SECONDS) == code
        wait_until(lambda: not processes_in(tmp_path))


def test_it_refuses_a_folder_that_holds_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".demo").mkdir()
    (tmp_path / ".demo" / "thesis.txt").write_text("the only copy")
    ended = CliRunner().invoke(dcc, ["demo"])
    assert ended.exit_code == 2
    assert "holds something else" in ended.stderr
    assert (tmp_path / ".demo" / "thesis.txt").read_text() == "the only copy"
