"""What changes while a session downloads: archives are wanted first, sources are paused, resumed, or windows close."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

import pytest
from sqlalchemy import select

from dcc.outcomes import EndReason
from dcc.session.archives import waiting_attempts
from dcc.session.archives.waiting_attempts import WaitingAttempts
from dcc.session.fetching import archive_transfer
from dcc.sources.crawl_policy import Pause, Windows
from dcc.store.staging import Staging
from dcc.tracker.hostings.urgent_requests import request_urgently
from dcc.tracker.models import ZipDownload
from dcc.tracker.register.file_sources import change_source
from dcc.tracker.register.source_schedules import set_pause
from tests.support.asking import column_in, in_writing
from tests.support.data_installations import key_of
from tests.support.databases import only_sqlite
from tests.support.installations import Installation, SessionResult
from tests.support.served_sources import Relay, below, large_archive, register
from tests.support.servers import Share
from tests.support.trials import usually
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.servers,
    only_sqlite,
    pytest.mark.parametrize("share", usually(["sftp_server"], ["sftp_server", "ftp_server"]), indirect=True),
]

STEMS = [f"2013-10-{day}.1" for day in range(10, 20)]
KEYS = [f"add/H.{stem}.impc.zip" for stem in STEMS]
OLDEST = KEYS[0]


def put_all(share: Share) -> None:
    """Put archives there that take half a second each over a slow relay."""
    for stem, key in zip(STEMS, KEYS, strict=True):
        share.put(key, large_archive(stem, 200_000))


def pause(installation: Installation, source_id: int) -> None:
    in_writing(installation.tracker, set_pause, source_id, Pause("The server moves", "ann", datetime(2026, 1, 1), None))


def resume(installation: Installation, source_id: int) -> None:
    in_writing(installation.tracker, set_pause, source_id, None)


@dataclass
class Slow:
    """An installation before a slow relay, whose sessions often look at what people want; `looks` counts that."""

    installation: Installation
    relay: Relay
    looks: int = 0

    def begin_with_all(self) -> tuple[int, Running]:
        """Register a source that has all archives; returns it with the session of `begin`."""
        put_all(self.relay.share)
        return register(self.installation, self.relay.share), self.begin()

    def begin(self) -> Running:
        """Begin a session; returns it once its first download has begun."""
        session = Running(self.installation)
        wait_until(lambda: session.begun > 0)
        return session

    def hurry_after_a_look(self) -> None:
        """Send the rest at once after the session has looked at what people want, and heeds it."""
        before = self.looks
        wait_until(lambda: self.looks > before)
        self.relay.delay = 0.0


class Running:
    """A session in a thread, of which `begun` says how many downloads have begun."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._session = ThreadPoolExecutor(1).submit(installation.run_session)

    @property
    def begun(self) -> int:
        query = select(ZipDownload.id).where(ZipDownload.downloaded_size_bytes > 0)
        return len(column_in(self._installation.tracker, query))

    def end(self) -> list[str]:
        """Wait for its end; the archives that it fetched."""
        return [key for key, outcome in self.result.zips.items() if outcome.downloaded]

    @property
    def result(self) -> SessionResult:
        """What it yielded, once it has ended."""
        return self._session.result(30)


@pytest.fixture
def slow(quick: Installation, share: Share, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    with Relay(share, delay=0.04) as relay:
        slow = Slow(quick.with_settings(downloads_per_source=1, max_retries=0), relay)

        pause_attempts = WaitingAttempts.pause

        def looked(attempts: WaitingAttempts, paused: Collection[int]) -> None:
            pause_attempts(attempts, paused)
            slow.looks += 1

        monkeypatch.setattr(archive_transfer, "_PROGRESS_SECONDS", 0.1)
        monkeypatch.setattr(waiting_attempts, "_ASKING_SECONDS", 0.1)
        # The last that a look does.
        monkeypatch.setattr(WaitingAttempts, "pause", looked)
        yield slow


def test_an_archive_that_is_wanted_first_is_fetched_next(slow: Slow) -> None:
    installation = slow.installation
    _, session = slow.begin_with_all()
    in_writing(installation.tracker, request_urgently, [key_of(OLDEST)], "ann")
    slow.hurry_after_a_look()
    begun = session.begun
    assert sorted(session.end()) == KEYS
    staging = Staging(installation.settings.staging_directory)
    # When each arrived: archives that are checked at once end in any order.
    arrived = {key: staging.archive(key_of(key)).stat().st_mtime_ns for key in KEYS}
    assert sorted(KEYS, key=arrived.__getitem__).index(OLDEST) <= begun + 1


def test_a_paused_source_gets_no_further_download(slow: Slow) -> None:
    installation = slow.installation
    source_id, session = slow.begin_with_all()
    pause(installation, source_id)
    slow.hurry_after_a_look()
    fetched = session.end()
    assert 1 <= len(fetched) <= 3
    left = [key for key in KEYS if key not in fetched]
    assert session.result.ended is EndReason.FINISHED, "a pause is no fault"
    said = f"{len(left)} submissions were not fetched, because people paused the sources. A later session fetches them."
    assert said in session.result.closing_notices
    assert {installation.states()[key] for key in left} == {"zip_name done"}
    assert {state for key in left for _, state in installation.attempts(key)} == {"download cancelled"}
    assert installation.run_session().zips == {}
    resume(installation, source_id)
    assert sorted(Running(installation).end()) == left
    assert set(installation.states().values()) == {"xsd done"}


def test_a_source_whose_window_closes_gets_no_further_download(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    installation, relay = slow.installation, slow.relay
    put_all(relay.share)
    source_id = register(installation, relay.share)
    in_writing(installation.tracker, change_source, source_id, windows="00:00-24:00")
    is_closed = threading.Event()
    monkeypatch.setattr(Windows, "is_open", lambda *_: not is_closed.is_set())
    session = slow.begin()
    is_closed.set()
    relay.delay = 0.0
    fetched = session.end()
    assert 1 <= len(fetched) <= 2
    left = [key for key in KEYS if key not in fetched]
    assert {installation.states()[key] for key in left} == {"zip_name done"}
    is_closed.clear()
    assert sorted(Running(installation).end()) == left


def test_what_a_paused_source_does_not_send_another_does(slow: Slow) -> None:
    installation, relay = slow.installation, slow.relay
    one, two = below(relay.share, "one"), below(relay.share, "two")
    put_all(one)
    put_all(two)
    register(installation, one)
    register(installation, two)
    session = slow.begin()
    used = {source_id for key in KEYS for source_id, _ in installation.attempts(key)}
    assert len(used) == 1
    pause(installation, paused := used.pop())
    slow.hurry_after_a_look()
    assert sorted(session.end()) == KEYS
    assert {installation.attempts(key)[-1] for key in KEYS[:5]} == {(3 - paused, "xsd done")}
