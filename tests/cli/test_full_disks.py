"""Disks that are full under a session: what has no room waits, the session says so, and the next one goes on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dcc.cli.demo.submissions import specimen_document
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite
from tests.support.installations import specimens
from tests.support.small_disks import SmallDisk, small_disk
from tests.support.trials import usually

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


@only_sqlite
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


@only_sqlite
@pytest.mark.parametrize("size", [100_000, 800_000, 1_600_000])
def test_validation_without_room_for_its_files_says_so(
    bare_dcc: Dcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    document = tmp_path / "H.2013-10-31.1.specimen.impc.xml"
    document.write_bytes(specimen_document("H", mice=5_000))
    with small_disk(tmp_path / "small", size) as disk:
        monkeypatch.setattr("tempfile.tempdir", str(disk.path))
        told = bare_dcc.error("validate", document, exit_code=4)
        assert told.startswith(f"There is no space left on the disk of {disk.path}")
        assert told.endswith(" bytes. Free some space, or set TMPDIR.")
        assert list(disk.path.iterdir()) == []


@only_sqlite
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


@only_sqlite
@pytest.mark.parametrize(
    ("number", "leave", "events"),
    usually(
        [(1, 0, "true"), (FEW, 200_000, "true")],
        [(1, 0, "true"), (1, 50_000, "false"), (FEW, 0, "false"), (FEW, 200_000, "true")],
    ),
)
def test_documents_for_whose_rows_staging_has_no_room_wait_and_come_through_when_there_is(
    dcc: Dcc, number: int, leave: int, events: str
) -> None:
    with small_disk(dcc.root / "staging", 60_000_000) as disk:
        dcc.environment |= {"DCC_STAGING": str(disk.path), "DCC_MIN_FREE_BYTES": "0", "DCC_DAGSTER_EVENTS": events}
        folder = dcc.add_folder()
        for inc in range(1, number + 1):
            document = specimen_document("H", mice=1_500, first=2_000 * inc)
            folder.put(KEYS[inc - 1], {f"H.2013-10-31.{inc}.specimen.impc.xml": document})
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


@only_sqlite
@pytest.mark.parametrize("leave", usually([0, 5_000], [0, 5_000, 60_000, 600_000, 1_500_000]))
def test_workers_without_room_leave_it_to_the_session_to_say_so(dcc: Dcc, leave: int) -> None:
    with small_disk(dcc.root / "staging", 60_000_000) as disk:
        dcc.environment |= {"DCC_STAGING": str(disk.path), "DCC_MIN_FREE_BYTES": "0", "DCC_DAGSTER_EVENTS": "true"}
        dcc.environment |= {"DCC_EXECUTOR": "multiprocess", "DCC_UNTIL": "qc"}
        folder = dcc.add_folder()
        for inc in (1, 2):
            document = specimen_document("H", mice=1_500, first=2_000 * inc)
            folder.put(KEYS[inc - 1], {f"H.2013-10-31.{inc}.specimen.impc.xml": document})
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


@only_sqlite
@pytest.mark.parametrize(
    ("events", "leave"),
    usually(
        [("false", 0), ("true", 0), ("true", 500_000)],
        [("false", 0), ("true", 0), ("false", 200_000), ("true", 500_000)],
    ),
)
def test_a_full_disk_under_dcc_home_is_said_to_be_that_and_costs_nothing(
    bare_dcc: Dcc, tmp_path: Path, events: str, leave: int
) -> None:
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
        assert ", free " in error
        assert "could not be opened" not in ended.stderr
        if leave == 0:
            assert "nothing can be written there" in dcc("doctor", exit_code=4).stdout
        disk.make_room()
        assert dcc.forked("crawl").returncode == 0
        assert states(dcc) == {("qc", "done"): 1}
