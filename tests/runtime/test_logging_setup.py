"""The log: lines that parse and cannot be forged, with what each is about; levels, files that move, other processes."""

import json
import logging
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dcc.errors import ConfigurationError
from dcc.redaction import keep_secret
from dcc.runtime.log_context import log_context, logging_about, progress_log
from dcc.runtime.logging_setup import LogPlan, log_plan, logging_as, plan_from_environment
from dcc.runtime.worker_processes import WorkerProcesses
from tests.support.installations import Installation, specimens

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ [\w.]+\[\d+\] ")
FORGED = "2026-11-21T12:00:00.000Z ERROR dcc.sessions[1] forged"
NAMES = [f"a{end}{FORGED}" for end in ("\n", "\r\n", "\x0b", "\x85", "\u2028", "\u2029")]
NAMES += ["a\x1b[2K\x1b[1A", "a\x00b", "a\udcffb", "a\u202eb", 'a" level="error', "a] b"]
LEVELS = ["debug", "info", "warning", "error"]
log = progress_log("dcc.tests")


@pytest.fixture
def kept(tmp_path: Path) -> Callable[..., Any]:
    """Starts a log of a form, and reads its lines as they are split by whatever a reader splits by."""
    path = tmp_path / "dcc.log"

    class Kept:
        def __init__(self, form: str, level: int = logging.INFO) -> None:
            self.plan = LogPlan(form, level, path)

        def lines(self) -> list[str]:
            return path.read_text("utf-8").splitlines() if path.exists() else []

        def entries(self) -> list[dict[str, Any]]:
            return [json.loads(line) for line in self.lines()]

    return Kept


@pytest.fixture(autouse=True)
def _no_log_left() -> Iterator[None]:
    yield
    assert log_plan() is None
    assert logging.getLogger("dcc").level == logging.NOTSET


def test_an_entry_says_when_how_grave_who_and_about_what(kept: Callable[..., Any]) -> None:
    json_log = kept("json")
    with logging_as(json_log.plan), logging_about(session=7, source=3, centre="H", phase="download"):
        with logging_about(zip_action="add/x.zip", document="d.xml", phase=None):
            log.warning("%d bytes", 12)
        log.info("again")
    first, second = json_log.entries()
    assert abs(datetime.now(UTC) - datetime.fromisoformat(first.pop("time"))) < timedelta(minutes=1)
    assert first == {
        "level": "warning",
        "logger": "dcc.tests",
        "message": "12 bytes",
        "process": os.getpid(),
        "session": 7,
        "source": 3,
        "centre": "H",
        "zip_action": "add/x.zip",
        "phase": "download",
        "document": "d.xml",
    }
    assert second["session"] == 7
    assert "zip_action" not in second
    assert log_context() == {}
    json_log.plan.file.unlink()
    text_log = kept("text")
    with logging_as(text_log.plan), logging_about(session=7, zip_action="add/x.zip"):
        log.warning("%d bytes", 12)
    (line,) = text_log.lines()
    assert LINE.match(line)
    assert line.endswith(f" WARNING dcc.tests[{os.getpid()}] [session=7 zip_action=add/x.zip] 12 bytes")


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_name_can_forge_a_line(kept: Callable[..., Any], form: str) -> None:
    made = kept(form)
    with logging_as(made.plan):
        for name in NAMES:
            with logging_about(zip_action=f"add/{name}", document=name, centre=name):
                log.error("%s is bad", name)
    for name, line in zip(NAMES, made.lines(), strict=True):
        assert line.isprintable()
        if form == "json":
            entry = json.loads(line)
            assert (entry["message"], entry["document"]) == (f"{name} is bad", name)
        else:
            assert len(LINE.findall(line)) <= 1 + 4 * ("forged" in name)
            assert LINE.match(line)


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_exception_comes_with_its_traceback_and_forges_nothing(kept: Callable[..., Any], form: str) -> None:
    made = kept(form)
    with logging_as(made.plan):
        try:
            raise ValueError(f"bad\n{FORGED}\x1b[1A")
        except ValueError:
            log.exception("It broke")
        log.info("after")
    lines = made.lines()
    assert all(line.isprintable() for line in lines)
    if form == "json":
        assert len(lines) == 2
        trace = json.loads(lines[0])["exception"]
        assert trace.startswith("Traceback (most recent call last):\n")
        assert "test_logging_setup.py" in trace
        assert f"ValueError: bad\n{FORGED}" in trace
    else:
        assert [bool(LINE.match(line)) for line in lines if not line.startswith("    ")] == [True, True]
        assert f"    {FORGED}\\x1b[1A" in lines


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_secret_is_in_no_part_of_an_entry(kept: Callable[..., Any], form: str) -> None:
    secret = "correct horse: battery/staple 1"
    keep_secret(secret)
    made = kept(form)
    with logging_as(made.plan), logging_about(document=f"{secret}.xml", zip_action=secret):
        log.info("Login with %s", secret)
        try:
            raise ValueError(secret)
        except ValueError:
            log.exception("It broke: %r", {"password": secret})
    told = made.plan.file.read_text()
    assert told.count("***") >= 6
    assert "horse" not in told
    assert "ValueError" in told


@pytest.mark.parametrize("level", LEVELS)
def test_the_level_is_that_of_the_setting(kept: Callable[..., Any], level: str) -> None:
    plan = plan_from_environment({"DCC_LOG_LEVEL": level, "DCC_LOG_FORMAT": "json"})
    assert plan is not None
    made = kept("json", plan.level)
    # Dagster's instances of other tests leave a level there.
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("dcc.")]:
        logging.getLogger(name).setLevel(logging.NOTSET)
    with logging_as(made.plan):
        for name in ("dcc.sessions", "dcc.session.sessions", "dcc.cli.sessions.crawl"):
            for method in LEVELS:
                getattr(logging.getLogger(name), method)("said")
    assert [entry["level"] for entry in made.entries()] == 3 * LEVELS[LEVELS.index(level) :]


def test_other_packages_are_heard_from_warnings_on(kept: Callable[..., Any]) -> None:
    made = kept("json", logging.DEBUG)
    other = logging.getLogger("some_library.part")
    other.setLevel(logging.DEBUG)
    with logging_as(made.plan):
        other.info("chatter")
        other.warning("told")
        logging.getLogger("dcc_other").info("not ours")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("from Python", UserWarning, stacklevel=1)
    assert [(entry["logger"], entry["level"]) for entry in made.entries()] == [
        ("some_library.part", "warning"),
        ("py.warnings", "warning"),
    ]


def test_a_log_that_was_moved_away_is_begun_anew(kept: Callable[..., Any], tmp_path: Path) -> None:
    made = kept("json")
    with logging_as(made.plan):
        log.info("one")
        made.plan.file.rename(tmp_path / "dcc.log.1")
        log.info("two")
        log.info("three")
    assert [entry["message"] for entry in made.entries()] == ["two", "three"]
    assert json.loads((tmp_path / "dcc.log.1").read_text())["message"] == "one"
    assert made.plan.file.stat().st_mode & 0o777 == 0o640


def test_a_log_that_cannot_be_written_is_complained_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as(LogPlan("json", logging.INFO, Path("/dev/full"))):
        log.info("one")
        log.info("two")
    told = capsys.readouterr().err.splitlines()
    assert told == ["Warning: The log /dev/full could not be written (No space left on device)."]


def test_a_log_on_a_disk_that_was_full_goes_on_in_a_new_file(tmp_path: Path) -> None:
    file = tmp_path / "dcc.log"
    file.symlink_to("/dev/full")
    with logging_as(LogPlan("json", logging.INFO, file)):
        log.info("one")
        file.unlink()
        log.info("two")
    assert json.loads(file.read_text())["message"] == "two"


def test_work_goes_on_without_a_log_whose_folder_went(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "logs" / "dcc.log"
    file.parent.mkdir()
    with logging_as(LogPlan("json", logging.INFO, file)):
        log.info("one")
        shutil.rmtree(file.parent)
        log.info("two")
        log.info("three")
        file.parent.mkdir()
        log.info("four")
    assert [json.loads(line)["message"] for line in file.read_text().splitlines()] == ["four"]
    told = capsys.readouterr().err.splitlines()
    assert told == [f"Warning: The log {file} could not be written (No such file or directory)."]


@pytest.mark.parametrize(
    ("environment", "plan"),
    [
        ({}, None),
        ({"DCC_LOG_FORMAT": "", "DCC_LOG_LEVEL": ""}, None),
        ({"DCC_LOG_FORMAT": "json"}, LogPlan("json", logging.INFO, None)),
        ({"DCC_LOG_LEVEL": "debug"}, LogPlan("text", logging.DEBUG, None)),
        ({"DCC_LOG_FILE": "/var/log/dcc.log"}, LogPlan("text", logging.INFO, Path("/var/log/dcc.log"))),
        (
            {"DCC_LOG_FILE": "/srv/dcc/logs/dcc.log", "DCC_HOME": "/srv/dcc"},
            LogPlan("text", logging.INFO, Path("/srv/dcc/logs/dcc.log"), Path("/srv/dcc")),
        ),
    ],
)
def test_there_is_a_log_where_a_setting_asks_for_one(environment: dict[str, str], plan: LogPlan | None) -> None:
    assert plan_from_environment(environment) == plan


def test_a_log_in_the_folder_of_an_unknown_user_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'~nobody-here/dcc\.log', and it or DCC_HOME names a home directory"):
        plan_from_environment({"DCC_LOG_FILE": "~nobody-here/dcc.log"})


def test_the_folder_of_a_log_in_the_home_is_made(tmp_path: Path) -> None:
    file = tmp_path / "home" / "logs" / "dcc.log"
    with logging_as(LogPlan("json", logging.INFO, file, tmp_path / "home")):
        log.info("one")
    assert json.loads(file.read_text())["message"] == "one"


def broken(_begun: object, told: Path) -> None:
    told.write_text(str(os.getpid()))
    raise RuntimeError("broken\n2026-01-01T00:00:00.000Z ERROR dcc[1] forged")


def test_a_process_that_reads_documents_logs_what_broke_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "dcc.log"
    monkeypatch.setenv("DCC_LOG_FILE", str(path))
    monkeypatch.setenv("DCC_LOG_FORMAT", "json")
    with logging_about(session=12, document="a\nb.xml"):
        processes = WorkerProcesses(1, id, 0)
    with pytest.raises(RuntimeError, match="broken"):
        processes.submit("a.xml", broken, tmp_path / "process").result()
    processes.stop()
    process = int((tmp_path / "process").read_text())
    (entry,) = [json.loads(line) for line in path.read_text().splitlines()]
    assert (entry["process"], entry["session"], entry["document"]) == (process, 12, "a\nb.xml")
    assert "RuntimeError: broken\n2026" in entry["exception"]


@pytest.mark.parametrize("tracker_url", ["sqlite"], indirect=True)
def test_a_session_says_what_it_does_and_about_what(installation: Installation, kept: Callable[..., Any]) -> None:
    folder = installation.add_folder()
    folder.put("add/H.2013-10-31.1.impc.zip", specimens())
    folder.put("add/H.2013-10-31.2.impc.zip", b"no archive")
    folder.put(f"add/H.2013-10-31.3.impc.zip\n{FORGED}", specimens())
    made = kept("json")
    with logging_as(made.plan):
        session = installation.run_session().id
    entries = made.entries()
    assert {entry.get("session") for entry in entries} == {session}
    assert entries[0]["message"] == f"Session {session} begins"
    (crawl,) = [entry for entry in entries if entry["logger"] == "dcc.source_crawls"]
    assert (crawl["source"], crawl["centre"], crawl["phase"]) == (folder.source_id, "H", "zip_name")
    assert ": crawl ok after " in crawl["message"]
    told = {entry["zip_action"]: entry for entry in entries if entry["logger"] == "dcc.coordination"}
    assert set(told) == {"add/H.2013-10-31.1.impc.zip", "add/H.2013-10-31.2.impc.zip"}
    assert told["add/H.2013-10-31.1.impc.zip"]["phase"] == "xsd"
    assert told["add/H.2013-10-31.2.impc.zip"]["phase"] == "unzip"
    assert "CorruptArchiveError" in told["add/H.2013-10-31.2.impc.zip"]["message"]
    assert all(entry["source"] == folder.source_id and entry["centre"] == "H" for entry in told.values())
