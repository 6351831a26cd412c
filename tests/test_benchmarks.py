"""The benchmarks do on both sides the work that they time, and say so when it was not done."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import causes, transfer
from benchmarks.circumstances import TOOLS, circumstances, installed, missing, versions
from benchmarks.measuring import Contender, Note, Timing, timed
from benchmarks.plain_load import OnMariaDb, OnSqlite
from benchmarks.registry import Benchmark, Finding
from benchmarks.replay import ReplayBenchmark
from benchmarks.results import Entry, as_markdown, entry, read_entries, write_entries
from benchmarks.servers import MARIADB, MariaDb, OpenSsh, mariadb_server, openssh_server
from benchmarks.session_qc import WholeSession
from benchmarks.transfer import TransferBenchmark
from benchmarks.upload import UploadBenchmark, write_small
from benchmarks.validation import LOOP, ONE_CALL, ValidationBenchmark, write_archives, write_documents

SESSION_TOOLS = ("sftp", "unzip", "md5sum", "xmllint", "ssh-keygen")


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """A folder that vsftpd's anonymous user reaches, as none of pytest's."""
    with tempfile.TemporaryDirectory(prefix="dcc-bench-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSsh]:
    missing = [tool for tool in SESSION_TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"Not installed: {', '.join(missing)}. As root, make test installs them.")
    with openssh_server(tmp_path_factory.mktemp("openssh") / "sshd") as running:
        yield running


@pytest.mark.servers
def test_both_sides_of_a_whole_session_write_every_row(tmp_path: Path, server: OpenSsh, mariadb: MariaDb) -> None:
    session = WholeSession(tmp_path / "work", server, 1)
    assert session.rows.counts["document"] == 5
    on_sqlite, on_mariadb = OnSqlite(tmp_path), OnMariaDb(mariadb)
    assert session.run_shell(on_sqlite).wall > 0
    assert session.run_shell(on_mariadb).wall > 0
    assert session.run_crawl(on_mariadb).wall > 0
    session.rows.counts["measurement"] += 1
    with pytest.raises(RuntimeError, match="The rows are"):
        session.run_shell(on_sqlite)


def test_the_benchmark_of_causes_counts_every_finding(tmp_path: Path) -> None:
    tracker, qc = (f"sqlite:///{tmp_path / name}" for name in ("tracker.db", "qc.db"))
    causes.fill(tracker, qc, findings=3_000, documents=7)
    counted = causes.count(tracker, qc)
    assert counted["findings"] == 3_000
    assert counted["causes"] > 300


@pytest.mark.servers
@pytest.mark.parametrize("archives", [False, True])
def test_both_sides_of_validation_find_every_document_valid(tmp_path: Path, server: OpenSsh, archives: bool) -> None:
    folder = tmp_path / "files"
    number = write_archives(folder, 1) if archives else write_documents(folder, 1)
    assert number == (5 if archives else 4)
    script = LOOP if archives else ONE_CALL
    for contender in ValidationBenchmark(folder, number).comparison("All", script, 1.0).contenders:
        assert contender.run().wall > 0
    for contender in ValidationBenchmark(folder, number + 1).comparison("All", script, 1.0).contenders:
        with pytest.raises(RuntimeError, match="documents are valid"):
            contender.run()


@pytest.mark.servers
@pytest.mark.parametrize("sizes", [[2_000_000], [10, 100_000]])
def test_both_sides_of_the_transfer_bring_every_file_whole(
    tmp_path: Path, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not installed(["lftp", "ssh-keygen"]):
        pytest.skip("Not installed: lftp. As root, make test installs it.")
    monkeypatch.setattr(transfer, "DELAY", 0.001)
    with transfer.servers(tmp_path / "servers", ftp=False, far=True) as running:
        near = TransferBenchmark(tmp_path / "near", running, sizes)
        assert near.run_sftp().wall > 0
        far = TransferBenchmark(tmp_path / "far", running, sizes, transfer.FAR)
        assert far.run_lftp("sftp").wall > 0
        assert far.run_platform("sftp").wall > 0


@pytest.mark.servers
def test_both_sides_of_the_transfer_bring_every_file_over_ftp() -> None:
    if not installed(["lftp", "vsftpd"]) or os.geteuid() != 0:
        pytest.skip("vsftpd must be installed, and started by root; lftp must be installed.")
    with reachable_folder() as folder, transfer.servers(folder / "servers", ftp=True, far=False) as running:
        benchmark = TransferBenchmark(folder / "near", running, [10, 100_000])
        assert benchmark.run_lftp("ftp").wall > 0
        assert benchmark.run_platform("ftp").wall > 0


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    missing = [tool for tool in ("sqlite3", *MARIADB) if not installed([tool])]
    if missing:
        pytest.skip(f"Not installed: {', '.join(missing)}. As root, make test installs them.")
    with mariadb_server(tmp_path_factory.mktemp("mariadb") / "server") as running:
        yield running


@pytest.mark.servers
def test_both_sides_of_the_upload_write_every_row_or_are_not_timed(tmp_path: Path, mariadb: MariaDb) -> None:
    write_small(tmp_path / "documents", 3, 5_000)
    benchmark = UploadBenchmark(tmp_path / "work", tmp_path / "documents")
    assert benchmark.rows.counts["document"] == 3
    assert benchmark.rows.counts["measurement"] > 50
    kinds = (OnSqlite(tmp_path), OnMariaDb(mariadb))
    for databases in kinds:
        for contender in benchmark.comparison("Documents", databases, bound=False).contenders:
            assert contender.run().wall > 0
    benchmark.rows.counts["measurement"] += 1
    for databases in kinds:
        with pytest.raises(RuntimeError, match="The rows are"):
            benchmark.run_load(databases)


def shown(*findings: Finding, name: str = "one", measured: str = "2026-11-21 13:28 UTC") -> str:
    return as_markdown({name: found(*findings, measured=measured)})


def found(*findings: Finding, measured: str = "2026-11-21 13:28 UTC") -> Entry:
    facts = {"measured": measured, "machine": "2 processors", "load before": "0.10"}
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


def test_a_replay_is_compared_with_judging_anew(tmp_path: Path) -> None:
    replay = ReplayBenchmark(tmp_path / "work", 2)
    assert all(contender.run().wall > 0 for contender in replay.comparison().contenders)
    replay.require_same()
