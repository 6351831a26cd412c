"""A few days of the long life, and that its verdict sees what grows; `make soak` lives for a quarter of an hour."""

import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak.running import Course, Plan, live
from tests.soak.sampling import ProcessSample, Sample
from tests.soak.verdict import verdict
from tests.support.prepared_processes import run_in_process

_MB = 1_000_000


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that vsftpd's anonymous user may reach."""
    with tempfile.TemporaryDirectory(prefix="dcc-soak-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def live_and_tell(folder: str) -> None:
    """Live by the plan in a folder, and leave beside it what was seen."""
    given, told = Path(folder) / "plan", Path(folder) / "course"
    told.write_bytes(pickle.dumps(live(pickle.loads(given.read_bytes()))))


@pytest.mark.servers
def test_sessions_in_one_process_leave_no_file_thread_process_or_connection_behind(folder: Path) -> None:
    plan = Plan(folder / "life", minutes=5, database="sqlite", archives=5, sessions=3, daemon=False)
    (folder / "plan").write_bytes(pickle.dumps(plan))
    # A process of its own holds nothing of other tests.
    assert run_in_process(live_and_tell, str(folder), {}, seconds=300) == 0
    lived: Course = pickle.loads((folder / "course").read_bytes())
    seen = [replace(sample.process, rss=0) for sample in lived.samples]
    # The first session loads what is kept.
    assert seen[1] == seen[2]
    # Two children are the file servers.
    assert (seen[-1].threads, seen[-1].children, seen[-1].connections) == (1, 2, 0)
    assert lived.samples[-1].zip_actions >= 10
    assert lived.faults == []
    held = {finding.promise: finding.held for finding in verdict(lived) if "tracker." in finding.promise}
    assert len(held) > 10
    assert all(held.values()), held


def sample(number: int, **changes: object) -> Sample:
    """A day of an installation in which all is well."""
    rows = {
        "tracker.crawling_session": number,
        "tracker.source_crawl": 6 * number,
        "tracker.session_task": 8 * number,
        "tracker.zip_action": 50 * number,
        "tracker.zip_download": 50 * number,
        "tracker.file_source": 6,
        "tracker.xml_file": 100 * number,
        "qc.document": 100 * number,
        "qc.experiment": 100 * number,
        "qc.procedure_run": 100 * number,
    }
    well = Sample(
        session=number,
        seconds_since_begin=60.0 * number,
        session_seconds=2.0,
        quiet=False,
        zip_actions=50 * number,
        process=ProcessSample(rss=200 * _MB, files=7, threads=1, children=0, connections=0),
        daemon={"daemon 5": ProcessSample(rss=150 * _MB, files=40, threads=12, children=1, connections=4)},
        server_connections=9,
        staging_bytes=1_000,
        rows=rows,
    )
    return replace(well, **changes)  # type: ignore[arg-type]


def course(change: Callable[[Sample], Sample] = lambda one: one) -> Course:
    told = Counter(archives=2_000, bad=10, changed=1, withdrawn=1, checksum_days=3)
    told |= Counter(published_bytes=5_000, unpacked_bytes=5_000)
    plan = Plan(Path("x"), minutes=15, database="mariadb")
    return Course(plan, [change(sample(number)) for number in range(1, 41)], told)


def broken(lived: Course) -> list[str]:
    return [finding.promise for finding in verdict(lived) if not finding.held]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda one: replace(one, process=replace(one.process, files=7 + (one.session > 39))), "open files"),
        (lambda one: replace(one, process=replace(one.process, threads=one.session)), "threads"),
        (lambda one: replace(one, process=replace(one.process, connections=one.session % 2)), "open connections"),
        (lambda one: replace(one, process=replace(one.process, children=one.session)), "child processes"),
        (lambda one: replace(one, process=replace(one.process, rss=(200 + one.session) * _MB)), "less than 4 MB"),
        (lambda one: replace(one, server_connections=one.session), "the database server"),
        (lambda one: replace(one, staging_bytes=20_000), "staging holds"),
        (lambda one: replace(one, rows=one.rows | {"tracker.zip_log": 300 * one.session}), "tracker.zip_log"),
        (lambda one: replace(one, rows=one.rows | {"qc.surprise": one.session}), "qc.surprise does not grow"),
        (lambda one: replace(one, quiet=one.session == 20), "finds nothing new"),
    ],
)
def test_what_grows_is_seen(change: Callable[[Sample], Sample], told: str) -> None:
    assert any(told in promise for promise in broken(course(change)))


@pytest.mark.parametrize("what", ["files", "threads", "rss"])
def test_a_daemon_that_grows_is_seen(what: str) -> None:
    def grown(one: Sample) -> Sample:
        before = one.daemon["daemon 5"]
        more = {"files": 40 + one.session, "threads": 12 + one.session, "rss": (150 + 3 * one.session) * _MB}
        return replace(one, daemon={"daemon 5": replace(before, **{what: more[what]})})

    assert [promise for promise in broken(course(grown)) if promise.startswith("the daemon's process 1")]
