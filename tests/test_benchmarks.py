"""The benchmarks do on both sides the work that they time, and say so when it was not done."""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import causes, quiet_session, replay, session, session_qc, transfer
from benchmarks.__main__ import DOCUMENT, MARK
from benchmarks.circumstances import TOOLS, circumstances, missing, versions
from benchmarks.measuring import Contender, Figure, Note, Timing, timed
from benchmarks.plain_load import OnMariaDb, OnSqlite
from benchmarks.registry import Benchmark, Finding
from benchmarks.replay import ReplayBenchmark
from benchmarks.results import RECORD, Entry, as_markdown, entry, goals_table, read_entries, write_entries
from benchmarks.servers import OpenSsh
from benchmarks.session_qc import WholeSession
from benchmarks.transfer import TransferBenchmark
from benchmarks.upload import UploadBenchmark, upload_memory, write_small
from benchmarks.validation import LOOP, ONE_CALL, ValidationBenchmark, write_archives, write_documents
from tests.support.databases import MariaDb
from tests.support.prepared_processes import run_dcc
from tests.support.servers import server_program

SESSION_TOOLS = ("sftp", "unzip", "md5sum", "xmllint", "ssh-keygen")


@pytest.fixture
def forked_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of the platform's own rules, and replays, are timed in processes that begin at once."""

    def timed_fork(command: Sequence[str], *, log: Path, environment: Mapping[str, str], expected: int = 0) -> Timing:
        if command[1] not in ("crawl", "replay") or environment.get("PYTHONPATH") != os.environ.get("PYTHONPATH"):
            return timed(command, log=log, environment=environment, expected=expected)
        began = time.perf_counter()
        assert run_dcc(command[1:], log.parent, environment, log, log) == expected, log.read_text("utf-8")
        return Timing(time.perf_counter() - began, 0.0, None)

    for module in (session, replay):
        monkeypatch.setattr(module, "timed", timed_fork)


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """A folder that vsftpd's anonymous user reaches, as none of pytest's."""
    with tempfile.TemporaryDirectory(prefix="dcc-bench-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def require(*tools: str) -> None:
    """Skip the test if one of these is not installed, or fail it if CI=true."""
    for tool in tools:
        server_program(tool)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSsh]:
    require(*SESSION_TOOLS)
    with OpenSsh(tmp_path_factory.mktemp("openssh") / "sshd") as running:
        yield running


@pytest.mark.servers
@pytest.mark.usefixtures("forked_sessions")
def test_both_sides_of_a_whole_session_write_every_row(tmp_path: Path, server: OpenSsh, on_mariadb: OnMariaDb) -> None:
    whole = WholeSession(tmp_path / "work", server, 1)
    assert whole.rows.counts["document"] == 5
    assert whole.run_shell(on_mariadb).wall > 0
    assert whole.run_crawl(on_mariadb).wall > 0


def test_the_benchmark_of_causes_counts_every_finding(tmp_path: Path) -> None:
    tracker, qc = (f"sqlite:///{tmp_path / name}" for name in ("tracker.db", "qc.db"))
    causes.fill(tracker, qc, findings=3_000, documents=7)
    counted = causes.count(tracker, qc)
    assert counted["findings"] == 3_000
    assert counted["causes"] > 300


@pytest.mark.usefixtures("forked_sessions")
def test_both_sides_of_a_replay_judge_every_document_and_it_is_as_judging_anew(tmp_path: Path) -> None:
    benchmark = ReplayBenchmark(tmp_path, 2)
    for contender in benchmark.comparison().contenders:
        assert contender.run().wall > 0
    benchmark.require_same()


@pytest.mark.servers
def test_both_sides_of_validation_find_every_document_valid(tmp_path: Path, server: OpenSsh) -> None:
    folder = tmp_path / "archives"
    number = write_archives(folder, 1)
    assert number == 5
    for contender in ValidationBenchmark(folder, number).comparison("All", LOOP, 1.0).contenders:
        assert contender.run().wall > 0
    for contender in ValidationBenchmark(folder, number + 1).comparison("All", LOOP, 1.0).contenders:
        with pytest.raises(RuntimeError, match=f"{number} of {number + 1} documents are valid"):
            contender.run()
    # `dcc validate` is as above; the shell has another script for documents.
    documents = tmp_path / "documents"
    number = write_documents(documents, 1)
    assert number == 4
    one_call, _ = ValidationBenchmark(documents, number).comparison("All", ONE_CALL, 1.0).contenders
    assert one_call.run().wall > 0


@pytest.mark.servers
def test_both_sides_of_the_transfer_bring_every_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("lftp", "ssh-keygen")
    monkeypatch.setattr(transfer, "DELAY", 0.001)
    sizes = [10, 100_000, 2_000_000]
    with transfer.servers(tmp_path / "servers", ftp=False, far=True) as running:
        near = TransferBenchmark(tmp_path / "near", running, sizes)
        assert near.run_sftp().wall > 0
        far = TransferBenchmark(tmp_path / "far", running, sizes, transfer.FAR)
        assert far.run_lftp("sftp").wall > 0
        assert far.run_platform("sftp").wall > 0


@pytest.mark.servers
def test_both_sides_of_the_transfer_bring_every_file_over_ftp() -> None:
    require("lftp", "vsftpd")
    if os.geteuid() != 0:
        pytest.skip("vsftpd must be started by root.")
    with reachable_folder() as folder, transfer.servers(folder / "servers", ftp=True, far=False) as running:
        benchmark = TransferBenchmark(folder / "near", running, [10, 100_000])
        assert benchmark.run_lftp("ftp").wall > 0
        assert benchmark.run_platform("ftp").wall > 0


@pytest.fixture(scope="module")
def on_mariadb(mariadb: MariaDb) -> OnMariaDb:
    """Databases of the server that all tests of this process share, each with a name of its own."""
    require("sqlite3", "mariadb")
    return OnMariaDb(mariadb)


@pytest.mark.servers
def test_the_memory_of_an_upload_is_a_figure_with_a_goal(tmp_path: Path) -> None:
    (figure,) = upload_memory(tmp_path / "upload", size=2_000_000).figures
    assert (figure.unit, figure.met) == ("MB", True)
    assert figure.value > 10


def test_both_sides_of_the_upload_write_every_row_or_are_not_timed(tmp_path: Path, on_mariadb: OnMariaDb) -> None:
    write_small(tmp_path / "documents", 3, 5_000)
    benchmark = UploadBenchmark(tmp_path / "work", tmp_path / "documents")
    assert benchmark.rows.counts["document"] == 3
    assert benchmark.rows.counts["measurement"] > 50
    kinds = (OnSqlite(tmp_path), on_mariadb)
    for databases in kinds:
        for contender in benchmark.comparison("Documents", databases, bound=False).contenders:
            assert contender.run().wall > 0
    written = dict(benchmark.rows.counts)
    benchmark.rows.counts["measurement"] += 1
    for databases in kinds:
        with pytest.raises(RuntimeError, match=re.escape(f"The rows are {written}, not ")):
            benchmark.run_load(databases)


def shown(*findings: Finding, name: str = "one", measured: str = "2026-11-21 13:28 UTC") -> str:
    return as_markdown({name: found(*findings, measured=measured)})


def found(*findings: Finding, measured: str = "2026-11-21 13:28 UTC") -> Entry:
    facts = {"measured": measured, "commit": "0123456789", "machine": "2 processors", "load before": "0.10"}
    benchmark = Benchmark("one", "What is compared.", lambda bench: findings)
    return entry(benchmark, findings, facts, {"Python": "3.11"}, 5)


def finished(name: str, wall: float, *, peak_mb: float | None = None) -> Contender:
    return Contender(name, lambda: Timing(wall, wall, peak_mb), [Timing(wall, wall, peak_mb)], f"run {name}")


def test_a_benchmark_measured_again_takes_the_place_of_what_it_found_before_and_of_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "results.json"
    one, other = (Note(title, "Text.") for title in ("First", "Second"))
    write_entries(path, {"one": found(one), "other": found(other)})
    write_entries(path, read_entries(path) | {"one": found(one, measured="2026-12-01 08:00 UTC")})
    told = read_entries(path)
    assert {name: each["measured"][:10] for name, each in told.items()} == {"one": "2026-12-01", "other": "2026-11-21"}
    assert [each["notes"][0]["title"] for each in told.values()] == ["First", "Second"]


def test_every_recorded_figure_has_its_day_and_the_commit_that_was_measured() -> None:
    facts = {name: (each["measured"], each["commit"]) for name, each in read_entries(RECORD).items()}
    assert len(facts) > 25
    unknown = {
        name
        for name, (measured, commit) in facts.items()
        if not re.match(r"20\d\d-\d\d-\d\d ", measured) or not re.match(r"[0-9a-f]{10}\b", commit)
    }
    assert unknown == set()


def test_the_page_shows_the_recorded_figures_and_the_goals_of_the_benchmarks() -> None:
    recorded = read_entries(RECORD)
    assert DOCUMENT.read_text("utf-8").partition(MARK)[2].strip() == goals_table(recorded)
    assert shown(Note("Text", "t", [Figure("f", 1.0, "s", 2.0)])).splitlines()[2:3] == [
        "| Text | 1.00 s (2) | 2026-11-21 | one |"
    ]
    of_code = {"session-qc-sqlite": session_qc, "session-qc-mariadb": session_qc, "quiet": quiet_session}
    for name, of_module in of_code.items():
        [compared] = recorded[name]["comparisons"]
        rows = [row for row in compared["contenders"] if row["name"] in of_module.GOALS]
        assert rows
        assert {row["name"]: row["goal"] for row in rows} == {row["name"]: of_module.GOALS[row["name"]] for row in rows}
    compared = [row for each in recorded.values() for one in each["comparisons"] for row in one["contenders"]]
    assert [row for row in compared if row["goal"] is not None and row["met"] != (row["ratio"] <= row["goal"])] == []


def test_what_is_measured_tells_the_versions_of_all_tools_and_the_state_of_the_code() -> None:
    installed_tools = set(TOOLS) - set(missing(TOOLS))
    told = versions(installed_tools)
    assert {tool for tool in installed_tools if not re.search(r"\d+\.\d|\d{5}", told[tool])} == set()
    assert re.fullmatch(r"unknown|[0-9a-f]{10,}( with changes)?", circumstances()["commit"])
    asked = ["git", "rev-parse", "HEAD"]
    head = subprocess.run(asked, cwd=Path(__file__).parent, capture_output=True, text=True)
    if head.returncode == 0:
        assert head.stdout.startswith(circumstances()["commit"].split()[0])


def test_a_process_that_ends_otherwise_is_not_timed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with 3:\nout of luck"):
        timed(["sh", "-c", "echo out of luck; exit 3"], log=tmp_path / "log")
