"""Why a session ended, and sessions during which the tracker's database goes away."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import make_url, select, update

from dcc.cli.demo import submissions
from dcc.databases.database import OUTAGE_SECONDS
from dcc.databases.transactions import run_writing
from dcc.errors import DiskFullError, InternalFaultError, SessionTimeLimitError, TrackerUnreachableError
from dcc.operations.session_work import open_session
from dcc.outcomes import EndReason
from dcc.phases import Phase
from dcc.runtime.clock import utc_now
from dcc.session import sessions, source_crawls
from dcc.session.archives import archive_phases
from dcc.session.fetching import archive_transfer
from dcc.session.prepare.archive_checks import ArchiveChecker
from dcc.settings import Settings
from dcc.sources.protocols import SourceProtocol
from dcc.tracker.crawls import list_sessions
from dcc.tracker.database import open_tracker
from dcc.tracker.models import CrawlingSession, SessionLock, SessionTask, SourceCrawlRow, ZipDownload, ZipFile
from dcc.tracker.session_statistics import seconds_by_phase, statistics_of
from dcc.tracker.session_statuses import TaskStatus
from tests.support.asking import column_in, in_reading
from tests.support.databases import PASSWORD, MariaDb, only_mariadb
from tests.support.installations import Folder, Installation, experiments, specimens
from tests.support.served_sources import Relay
from tests.support.servers import Share
from tests.support.trials import usually
from tests.support.waiting import wait_until


def end_of(installation: Installation, session_id: int) -> tuple[str, Phase | None]:
    (entry,) = in_reading(installation.tracker, list_sessions, ids=[session_id])
    return entry.outcome, entry.failed_phase


def test_how_it_breaks_off_is_the_reason(installation: Installation) -> None:
    for error, reason, phase in (
        (None, EndReason.FINISHED, None),
        (InternalFaultError("a fault"), EndReason.FAULTS, Phase.DOWNLOAD),
        (DiskFullError("no space"), EndReason.DISK, Phase.DOWNLOAD),
        (OSError(28, "No space left on device"), EndReason.DISK, Phase.DOWNLOAD),
    ):
        session = None
        try:
            with open_session(installation.tracker, installation.settings) as session:
                if error is not None:
                    raise error
        except (InternalFaultError, DiskFullError, OSError):
            pass
        assert session is not None
        assert session.ended is reason
        assert end_of(installation, session.id) == (reason, phase)
    # A task that failed is a fault, and a time limit is none.
    with open_session(installation.tracker, installation.settings) as session:
        session.finish_task(session.start_task(Phase.ZIP_NAME, "a crawl"), TaskStatus.FAILED)
    assert end_of(installation, session.id) == (EndReason.FAULTS, Phase.ZIP_NAME)
    limited = installation.with_settings(session_time_limit=0.5)
    with (  # noqa: PT012
        pytest.raises(SessionTimeLimitError, match="DCC_SESSION_TIME_LIMIT"),
        open_session(limited.tracker, limited.settings) as session,
    ):
        session.start_task(Phase.DOWNLOAD, "under way")
        while True:
            session.raise_if_over()
            time.sleep(0.1)
    (entry,) = in_reading(installation.tracker, list_sessions, ids=[session.id])
    assert (entry.outcome, entry.failed_phase) == (EndReason.TIME_LIMIT, None)
    assert [task.outcome for task in entry.tasks] == ["cancelled"]


@pytest.mark.both_databases
def test_it_leaves_what_it_did_with_each_source(installation: Installation) -> None:
    """Of a refused name, a damaged archive, an invalid document and a valid one; another source has nothing."""
    first, second = installation.add_folder(), installation.add_folder("J", "empty")
    invalid = {name: text.replace(b"gender=", b"gendr=") for name, text in specimens(stem="2013-10-31.3").items()}
    archives = [
        first.put("add/H.2013-10-31.1.impc.zip"),
        first.put("add/H.2013-10-31.2.impc.zip", b"no archive"),
        first.put("add/H.2013-10-31.3.impc.zip", invalid),
    ]
    first.put("add/wrong.zip", b"x")
    session = installation.run_session().id
    found = [asdict(one) for one in in_reading(installation.tracker, statistics_of, session)]
    assert all(one.pop("seconds") <= 60 for one in found)
    (entry,) = in_reading(installation.tracker, list_sessions, ids=[session])
    nothing = dict.fromkeys(("listed", "fetched", "bytes", "documents", "findings", "failed"), 0)
    size = sum(map(len, archives))
    done = {"listed": 4, "fetched": 3, "bytes": size, "documents": 2, "findings": found[0]["findings"], "failed": 3}
    assert found == [
        {"source": first.source_id, "centre": "H", **done},
        {"source": second.source_id, "centre": "J", **nothing},
    ]
    assert found[0]["findings"] >= 1
    assert list(seconds_by_phase(entry)) == ["zip_name", "download", "xsd"]
    again = installation.run_session().id
    quiet = in_reading(installation.tracker, statistics_of, again)
    assert [(one.listed, one.fetched, one.bytes) for one in quiet] == [(4, 0, 0), (0, 0, 0)]


KEYS = [f"add/H.2013-10-31.{inc}.impc.zip" for inc in range(5)]
AWAY_SECONDS = 0.6


@pytest.fixture
def folder(installation: Installation) -> Folder:
    """A source with some good archives and one that is not."""
    made = installation.add_folder()
    for inc, key in enumerate(KEYS[:-1]):
        stem = f"2013-10-31.{inc}"
        made.put(key, specimens(stem=stem) | experiments(stem=stem))
    made.put(KEYS[-1], submissions.archive(specimens())[:-100])
    return made


@pytest.fixture
def database(installation: Installation, mariadb: MariaDb, tmp_path: Path) -> Iterator[Relay]:
    """A relay before the database server."""
    with Relay(Share(tmp_path, SourceProtocol.FILE, f"127.0.0.1:{mariadb.port}")) as relay:
        yield relay


@pytest.fixture
def through(installation: Installation, database: Relay, settings: Settings) -> Iterator[Installation]:
    """The installation, its tracker behind the relay."""
    port = int(database.share.hostname.rpartition(":")[2])
    url = make_url(settings.tracker_database_url).set(port=port).render_as_string(hide_password=False)
    settings = installation.settings.model_copy(update={"tracker_url": SecretStr(url), "database_retry": 20.0})
    tracker = open_tracker(settings)
    yield replace(installation, tracker=tracker, settings=settings)
    tracker.dispose()


@contextmanager
def once_before(owner: Any, name: str, event: Callable[[], object]) -> Iterator[None]:
    """Have something happen before the first call of a function, whichever thread makes it."""
    original, first = getattr(owner, name), threading.Semaphore(1)

    def called(*arguments: Any, **named: Any) -> Any:
        if first.acquire(blocking=False):
            event()
        return original(*arguments, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(owner, name, called)
        yield
    assert not first.acquire(blocking=False), f"{name} was never called"


def as_if_nothing_had_happened(installation: Installation, folder: Folder) -> None:
    assert installation.states() == dict.fromkeys(KEYS[:-1], "xsd done") | {KEYS[-1]: "unzip failed"}
    for key, state in installation.states().items():
        assert installation.attempts(key) == [(folder.source_id, state)]
    assert [state for _, state in installation.documents()] == ["xsd done"] * 8
    with installation.tracker.connect() as connection:
        assert list(connection.scalars(select(CrawlingSession.status))) == [0]
        assert set(connection.scalars(select(SessionTask.status))) == {0}
        assert None not in set(connection.scalars(select(SessionTask.finish_time)))
        assert list(connection.scalars(select(SourceCrawlRow.new_zips))) == [5]
        assert None not in set(connection.scalars(select(ZipFile.content_md5)))


POINTS = {
    "when the session begins": (sessions, "acquire_lease"),
    "when the sources are looked up": (source_crawls, "load_addresses"),
    "when a source has been listed": (source_crawls, "_record"),
    "when a listing is being written": (source_crawls, "insert_rows"),
    "when the work is looked up": (archive_phases, "load_interrupted"),
    "when the work is taken up": (archive_phases, "load_waiting"),
    "when the centres are looked up": (archive_phases, "load_addresses"),
    "in mid-transfer": (archive_transfer.DownloadSink, "__call__"),
    "before an archive is extracted": (ArchiveChecker, "extract"),
    "before a document is validated": (ArchiveChecker, "validate"),
    "when how the sources did is written": (archive_phases, "record_transfer_statistics"),
    "when the session ends": (sessions, "finish_session"),
}


@pytest.mark.servers
@only_mariadb
@pytest.mark.parametrize(
    "point",
    usually(
        [
            "when a listing is being written",
            "in mid-transfer",
            "before a document is validated",
            "when the session ends",
        ],
        list(POINTS),
    ),
)
def test_a_database_that_goes_away_and_comes_back_costs_only_time(
    through: Installation, folder: Folder, database: Relay, point: str
) -> None:

    def come_back() -> None:
        database.down = False

    def go_away() -> None:
        database.down = True
        database.cut_all()
        threading.Timer(AWAY_SECONDS, come_back).start()

    with once_before(*POINTS[point], go_away):
        result = through.run_session()
    assert sorted(result.zips) == KEYS
    as_if_nothing_had_happened(through, folder)


@pytest.mark.servers
@only_mariadb
def test_a_database_that_is_killed_and_started_again_costs_only_time(
    installation: Installation, folder: Folder, mariadb: MariaDb, caplog: pytest.LogCaptureFixture
) -> None:
    """MariaDB dies by SIGKILL in the middle of a session, which cannot renew its lease meanwhile."""
    leased = installation.with_settings(lease_timeout=8.0)
    killed = threading.Event()

    def die() -> None:
        mariadb.kill()
        killed.set()

    with once_before(ArchiveChecker, "validate", die), ThreadPoolExecutor(1) as pool:
        session = pool.submit(leased.run_session)
        assert killed.wait(30)
        try:
            wait_until(lambda: "The lock of session 1 could not be renewed" in caplog.text)
        finally:
            mariadb.start()
    assert sorted(session.result().zips) == KEYS
    as_if_nothing_had_happened(installation, folder)
    assert PASSWORD not in caplog.text


@pytest.mark.servers
@only_mariadb
@pytest.mark.parametrize("point", ["when the work is looked up", "before a document is validated"])
def test_a_database_that_stays_away_ends_the_session_in_time_and_the_next_goes_on(
    through: Installation, folder: Folder, database: Relay, point: str
) -> None:
    impatient = through.with_settings(lease_timeout=3.0)
    impatient.tracker.update_execution_options(**{OUTAGE_SECONDS: 1.0})
    began = 0.0

    def go_away() -> None:
        nonlocal began
        database.down = True
        database.cut_all()
        began = time.monotonic()

    with (
        once_before(*POINTS[point], go_away),
        pytest.raises(TrackerUnreachableError, match=r"It was tried again for 1 second\."),
    ):
        impatient.run_session()
    assert time.monotonic() - began < 20
    database.down = False
    # The process of the first session lives on, so that only the end of its lease tells that it is dead.
    long_ago = update(SessionLock).values(heartbeat=utc_now() - timedelta(seconds=60))
    run_writing(through.tracker, lambda connection: connection.execute(long_ago) and None)
    assert "Session 1 died" in impatient.run_session().notices[0]
    assert through.states() == dict.fromkeys(KEYS[:-1], "xsd done") | {KEYS[-1]: "unzip failed"}
    assert [state for _, state in through.documents()] == ["xsd done"] * 8
    first, second = column_in(through.tracker, select(CrawlingSession.status).order_by(CrawlingSession.id))
    assert (first != 0, second) == (True, 0)
    assert None not in set(column_in(through.tracker, select(ZipDownload.received)))
