"""Disks that are full, can only be read or are not mounted: what has no room waits, and commands name the place."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dcc.cli.demo.submissions import specimen_document
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite
from tests.support.installations import specimens
from tests.support.several_commands import OBEYING, run_commands
from tests.support.small_disks import SmallDisk, read_only, small_disk
from tests.support.trials import usually

pytestmark = only_sqlite
ARCHIVES, FEW = 10, 4
KEYS = [f"add/H.2013-10-31.{inc}.impc.zip" for inc in range(1, ARCHIVES + 1)]


@pytest.fixture
def staging(dcc: Dcc) -> Iterator[SmallDisk]:
    """A staging area with room for the archives and the documents of four of them."""
    with small_disk(dcc.root / "staging", 400_000) as disk:
        dcc.environment["DCC_STAGING"] = str(disk.path)
        folder = dcc.add_folder()
        for inc, key in enumerate(KEYS, start=1):
            folder.put(key, specimens(stem=f"2013-10-31.{inc}", mice=200))
        yield disk


def states(dcc: Dcc) -> dict[tuple[str, str], int]:
    """How many submissions are in each state."""
    return {(state["phase"], state["status"]): state["count"] for state in dcc.json("status")["zip_actions"]}


@pytest.mark.usefixtures("dagster_made")
@pytest.mark.parametrize(
    ("events", "reserve", "waiting"), [("true", "0", ("unzip", "running")), ("false", None, ("zip_name", "done"))]
)
def test_what_has_no_room_in_staging_waits_and_comes_through_when_there_is(
    dcc: Dcc, staging: SmallDisk, events: str, reserve: str | None, waiting: tuple[str, str]
) -> None:
    reports = dcc.root / "reports"
    dcc.environment |= {"DCC_DAGSTER_EVENTS": events, "DCC_REPORT_DIRECTORY": str(reports)}
    del dcc.environment["DCC_MIN_FREE_BYTES"]
    if reserve is not None:
        dcc.environment["DCC_MIN_FREE_BYTES"] = reserve
    for _ in range(2):
        said = dcc("crawl", exit_code=4).stdout
        assert dcc.json("session", "list")[0]["outcome"] == "disk"
        assert states(dcc).keys() <= {waiting, ("xsd", "done")}
        left = states(dcc)[waiting]
        assert f"waits   {left} submissions wait for room on the disk: " in said
        assert f"{staging.path}" in said
        assert "Free some space; the next session takes the archive up again." in said
        report = max(reports.iterdir(), key=lambda path: path.stat().st_mtime_ns).read_text()
        assert "Archives that wait for room on a disk of the platform\n" in report
        assert f"{left} submissions without room" in report
    staging.resize(1 << 31)
    dcc("crawl")
    assert states(dcc) == {("xsd", "done"): ARCHIVES}
    assert dcc.json("session", "list")[0]["outcome"] == "finished"


def test_a_submission_that_no_source_has_any_more_waits_for_no_room(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    folder.put("add/H.2013-10-31.1.impc.zip")
    dcc.environment |= {"DCC_DAGSTER_EVENTS": "false", "DCC_MIN_FREE_BYTES": str(1 << 60)}
    dcc("crawl", exit_code=4)
    assert "1 submission without room" in dcc("report", "--session", 1).stdout
    (folder.path / "add" / "H.2013-10-31.1.impc.zip").unlink()
    # A listing that has shrunk so much is believed when it comes again.
    dcc("crawl", exit_code=4)
    dcc("crawl")
    assert "without room" not in dcc("report", "--session", 3).stdout


@pytest.mark.parametrize("size", [100_000, 800_000, 1_600_000])
def test_validation_without_room_says_so(
    bare_dcc: Dcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    document = tmp_path / "H.2013-10-31.1.specimen.impc.xml"
    document.write_bytes(specimen_document("H", mice=5_000))
    with small_disk(tmp_path / "small", size) as disk:
        monkeypatch.setattr("tempfile.tempdir", str(disk.path))
        told = bare_dcc.error("validate", document, exit_code=4)
        assert told.startswith(f"There is no space left on the disk of {disk.path}")
        assert told.endswith(" free. Free some space, or set TMPDIR.")
        assert list(disk.path.iterdir()) == []


@pytest.mark.usefixtures("forked_workers")
def test_processes_that_extract_at_once_record_no_document_as_the_centres_fault(dcc: Dcc) -> None:
    """Each sees room for itself; together they have none, so that a write takes less than it was given."""
    with small_disk(dcc.root / "staging", 1_200_000) as disk:
        dcc.environment |= {"DCC_STAGING": str(disk.path), "DCC_WORKERS": "8"}
        folder = dcc.add_folder()
        for inc in range(1, 61):
            folder.put(f"add/H.2013-10-31.{inc}.impc.zip", specimens(stem=f"2013-10-31.{inc}", mice=200 + inc))
        dcc("crawl", exit_code=4)
        assert states(dcc).keys() <= {("unzip", "running"), ("zip_name", "done"), ("xsd", "done")}
        disk.resize(1 << 31)
        dcc("crawl")
        assert states(dcc) == {("xsd", "done"): 60}


@contextmanager
def staging_of_large_documents(dcc: Dcc, number: int, **settings: str) -> Iterator[SmallDisk]:
    """A disk with room for so many archives of the source; their rows take more."""
    with small_disk(dcc.root / "staging", 60_000_000) as disk:
        dcc.environment |= {"DCC_STAGING": str(disk.path), "DCC_MIN_FREE_BYTES": "0", **settings}
        folder = dcc.add_folder()
        for inc in range(1, number + 1):
            document = specimen_document("H", mice=1_500, first=2_000 * inc)
            folder.put(KEYS[inc - 1], {f"H.2013-10-31.{inc}.specimen.impc.xml": document})
        yield disk


@pytest.mark.parametrize(
    ("number", "leave", "events"),
    usually(
        [(1, 0, "true"), (FEW, 200_000, "true")],
        [(1, 0, "true"), (1, 50_000, "false"), (FEW, 0, "false"), (FEW, 200_000, "true")],
    ),
)
@pytest.mark.usefixtures("dagster_made", "forked_workers")
def test_documents_wait_for_room_for_their_rows_in_staging(dcc: Dcc, number: int, leave: int, events: str) -> None:
    with staging_of_large_documents(dcc, number, DCC_DAGSTER_EVENTS=events) as disk:
        dcc("crawl")
        dcc.environment["DCC_UNTIL"] = "qc"
        disk.fill(leave)
        ended = dcc.forked("crawl")
        assert ended.returncode == 4, ended.stderr
        assert f"The disk of {disk.path}" in ended.stderr.splitlines()[-1]
        assert dcc.json("session", "list")[0]["outcome"] == "disk"
        assert {phase for phase, _ in states(dcc)} == {"upload"}
        assert {status for _, status in states(dcc)} <= {"pending", "running", "done"}
        disk.make_room()
        dcc("crawl")
        assert states(dcc) == {("qc", "done"): number}


@pytest.mark.usefixtures("dagster_made")
@pytest.mark.parametrize("leave", usually([5_000], [0, 5_000, 60_000, 600_000, 1_500_000]))
def test_workers_without_room_leave_it_to_the_session_to_say_so(dcc: Dcc, leave: int) -> None:
    settings = {"DCC_DAGSTER_EVENTS": "true", "DCC_EXECUTOR": "multiprocess", "DCC_UNTIL": "qc"}
    with staging_of_large_documents(dcc, 2, **settings) as disk:
        disk.fill(leave)
        ended = dcc.forked("crawl")
        assert ended.returncode == 4, ended.stderr
        assert len(ended.stderr.splitlines()) <= 1
        assert str(disk.path) in ended.stdout + ended.stderr
        assert dcc.json("session", "list")[0]["outcome"] == "disk"
        disk.make_room()
        # Workers take long to start, and this session needs none.
        del dcc.environment["DCC_EXECUTOR"]
        dcc("crawl")
        assert states(dcc) == {("qc", "done"): 2}


@pytest.mark.parametrize(
    ("events", "leave"),
    usually(
        [("false", 0), ("true", 0), ("true", 500_000)],
        [("false", 0), ("true", 0), ("false", 200_000), ("true", 500_000)],
    ),
)
def test_a_full_disk_under_dcc_home_costs_nothing(bare_dcc: Dcc, tmp_path: Path, events: str, leave: int) -> None:
    dcc = bare_dcc
    with small_disk(tmp_path / "home", 60_000_000) as disk:
        del dcc.environment["DCC_TRACKER_URL"], dcc.environment["DCC_QC_URL"]
        staging = str(tmp_path / "staging")
        dcc.environment |= {"DCC_UNTIL": "qc", "DCC_DATABASE_RETRY": "0.5", "DCC_STAGING": staging}
        dcc.environment["DCC_DAGSTER_EVENTS"] = events
        dcc("init")
        dcc("centre", "add", "H")
        dcc.add_folder().put(KEYS[0], specimens(mice=300))
        disk.fill(leave)
        ended = dcc.forked("crawl")
        assert ended.returncode == 4, ended.stderr
        error = ended.stderr.splitlines()[-1]
        assert f"no space left on the disk of {disk.path}" in error
        assert "B free" in error
        assert "could not be opened" not in ended.stderr
        if leave == 0:
            assert "nothing can be written there" in dcc("doctor", exit_code=4).stdout
        disk.make_room()
        assert dcc.forked("crawl").returncode == 0
        assert states(dcc) == {("qc", "done"): 1}


AT_ONCE = 20.0
"""Seconds, with room for a busy machine; a database that is away is waited for for a minute."""


def test_a_database_on_a_read_only_disk_is_named(dcc: Dcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dcc.environment["DCC_DATABASE_RETRY"] = "60"
    began = time.monotonic()
    with read_only(dcc.home):
        for command in ("status", "crawl", "backup sets", "centre list"):
            assert dcc.error(*command.split(), exit_code=4) == (
                f"The tracker database {dcc.home}/tracker.db could not be reached: {dcc.home} cannot be written to. "
                "The disk is mounted read-only, often after an error of it: see `dmesg`, mend it, and mount it again."
            )
    assert time.monotonic() - began < AT_ONCE
    with read_only(dcc.home / "tracker.db"):
        said = dcc.error("centre", "add", "K", "--name", "KMPC", exit_code=4)
    assert f"could not be reached: {dcc.home}/tracker.db cannot be written to. The disk is mounted read-only" in said


def test_a_backup_of_no_installation_says_so_at_once(dcc: Dcc) -> None:
    other = Dcc({"DCC_HOME": str(dcc.root / "other"), "DCC_DATABASE_RETRY": "60"}, dcc.root)
    began = time.monotonic()
    said = other.error("backup", dcc.root / "sets", exit_code=2)
    assert time.monotonic() - began < AT_ONCE
    assert said.startswith(f"No tracker database exists at {dcc.root}/other/tracker.db. Name the installation")


def test_a_folder_that_is_closed_to_this_user_is_named(dcc: Dcc) -> None:
    dcc.home.chmod(0)
    try:
        several = run_commands("status", "doctor --no-sources", environment=dcc.process_environment(), by=OBEYING)
    finally:
        dcc.home.chmod(0o700)
    for ended in several:
        assert ended.returncode == 4
        assert f"tracker.db could not be reached: {dcc.home} cannot be written to. " in ended.stdout + ended.stderr
        assert f"chown -R USER {dcc.home}" in ended.stdout + ended.stderr


def test_a_link_to_a_disk_that_is_not_mounted_is_named(dcc: Dcc) -> None:
    home, disk = dcc.home, dcc.root / "disk"
    said = f" is a link to {disk}, which is missing: mount its disk, or correct it. "
    other = dcc.root / "other"
    other.symlink_to(disk)
    assert f"tracker.db could not be created: {other}{said}" in Dcc({"DCC_HOME": str(other)}, dcc.root).error(
        "init", exit_code=4
    )
    (home / "staging").symlink_to(disk)
    dcc.add_folder().put("add/H.2013-10-31.1.impc.zip")
    assert (
        f"Archives cannot be put into staging ({home}/staging): {home}/staging{said}"
        in dcc("crawl", exit_code=2).stderr
    )
    assert not disk.exists()


def test_where_a_restoration_and_staging_cannot_write_is_named(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    folder.put("add/H.2013-10-31.1.impc.zip")
    dcc("backup", dcc.root / "sets")
    other, staging = dcc.root / "other", dcc.root / "staging"
    for place in (other, staging):
        place.mkdir()
    with read_only(other):
        said = Dcc({"DCC_HOME": str(other)}, dcc.root).error("restore", dcc.root / "sets", exit_code=2)
    assert (
        f"could not be restored to the tracker database {other}/tracker.db and the QC database {other}/qc.db: " in said
    )
    dcc.environment["DCC_STAGING"] = str(staging)
    with read_only(staging):
        said = dcc("crawl", exit_code=2).stderr
    assert f"into staging ({staging}): it cannot be written to. The disk is mounted read-only" in said


def test_what_a_command_cannot_write_for_want_of_room_stays_as_it_was(dcc: Dcc, tmp_path: Path) -> None:
    dcc.add_folder().put("add/H.2013-10-31.1.impc.zip")
    dcc("crawl")
    with small_disk(tmp_path / "small", 200_000) as disk:
        (disk.path / "H.2013-10-31.1.specimen.impc.xml").write_bytes(specimen_document("H"))
        (disk.path / "manifest.json").write_text("before")
        (disk.path / "add").mkdir()
        disk.fill()
        there = {path: path.read_bytes() for path in disk.path.rglob("*") if path.is_file()}
        for command in (
            f"archive get add/H.2013-10-31.1.impc.zip --output {disk.path}/some.zip",
            f"data schema --html {disk.path}/page.html",
            f"example {disk.path}",
            f"manifest {disk.path}",
            f"settings --write {disk.path}/dcc.toml",
        ):
            said = dcc.error(*command.split(), exit_code=2)
            assert "cannot be written: No space left on device. " in said
        said = dcc.forked("data", "causes", "--spreadsheet", disk.path / "causes.xlsx").stderr
        assert "cannot be written: No space left on device. " in said
        assert {path: path.read_bytes() for path in disk.path.rglob("*") if path.is_file()} == there
