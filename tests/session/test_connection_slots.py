"""Connections to file sources and their servers: sessions and workers together have no more than is allowed."""

import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, func, select, update

from dcc.databases.transactions import writing
from dcc.errors import SourceTimeoutError
from dcc.operations.archive_audits import audit_archives, repair_archives
from dcc.session.connection_slots import ConnectionSlots, QueuedProcess, for_seconds, rows_with_slots
from dcc.session.fetching.archive_transfer import Transfer
from dcc.session.fetching.download_slots import DownloadSlots
from dcc.session.fetching.downloads import SourceDownloads
from dcc.session.fetching.source_connections import SourceConnections
from dcc.session.fetching.transfer_events import TransferCompleted, TransferEvent, TransferFailed
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.store.staging import Staging
from dcc.tracker.database import open_tracker
from dcc.tracker.hostings.hosting import Hosting
from dcc.tracker.models import ConnectionSlot
from dcc.tracker.register.source_addresses import load_addresses
from tests.support.asking import count_in, execute_in, in_reading, value_in
from tests.support.databases import only_sqlite
from tests.support.installations import Installation
from tests.support.prepared_processes import holding
from tests.support.served_from_memory import KEY, FakeConnection
from tests.support.served_sources import below, put_many, register
from tests.support.servers import Share
from tests.support.waiting import wait_until

PATIENCE = 60
LONG_AGO = datetime(2001, 1, 1)


@pytest.fixture
def installation(quick: Installation) -> Installation:
    """An installation of which a file source may have two connections."""
    return quick.with_settings(downloads_per_source=2, groups="europe=H;america=J")


def address_of(installation: Installation, source_id: int) -> SourceAddress:
    (address,) = in_reading(installation.tracker, load_addresses, ids=[source_id])
    return address


def is_full(installation: ConnectionSlots, address: SourceAddress) -> bool:
    try:
        with installation.slot(address, lambda: False):
            return False
    except SourceTimeoutError:
        return True


def lines(installation: Installation) -> int:
    return count_in(installation.tracker, ConnectionSlot)


LINES = st.lists(st.tuples(st.integers(1, 4), st.sampled_from("ab")), max_size=12).map(
    lambda asked: [
        QueuedProcess(number, 10 * source + ord(server), server, 2) for number, (source, server) in enumerate(asked)
    ]
)


@given(LINES, st.integers(1, 4), st.integers(0, 11))
def test_who_has_a_slot_keeps_it_when_others_leave_and_who_waits_has_no_room(
    line: list[QueuedProcess], most_at_server: int, leaves: int
) -> None:
    def having(some: list[QueuedProcess]) -> set[int]:
        return rows_with_slots(some, lambda _: most_at_server)

    with_slots = having(line)
    assert with_slots - {leaves} <= having([one for one in line if one.number != leaves])
    for one in line:
        before = [other for other in line[: one.number] if other.number in with_slots]
        at_source = [other for other in before if other.source == one.source]
        at_server = [other for other in before if other.server == one.server]
        assert (one.number in with_slots) == (len(at_source) < one.most and len(at_server) < most_at_server)


@pytest.mark.both_databases
def test_no_more_have_a_place_than_is_allowed_and_who_waits_comes_next(
    installation: Installation, sftp_server: Share
) -> None:
    first, second = (ConnectionSlots(installation.tracker, installation.settings) for _ in range(2))
    address = address_of(installation, register(installation, sftp_server))
    with first.slot(address, lambda: False), ExitStack() as held:
        held.enter_context(second.slot(address, lambda: False))
        assert is_full(first, address)
        assert is_full(second, address)
        threading.Timer(0.2, held.close).start()
        with first.slot(address, for_seconds(PATIENCE)):
            assert is_full(second, address)
    assert not is_full(second, address)
    assert lines(installation) == 0


def test_a_place_is_waited_for_while_the_source_has_no_connection_and_nothing_is_to_stop() -> None:
    waits: list[Callable[[], bool]] = []

    @contextmanager
    def place(goes_on: Callable[[], bool]) -> Iterator[None]:
        waits.append(goes_on)
        yield

    connections = SourceConnections("a source", FakeConnection, place)
    connections.get(0)
    assert not waits[0]()
    connections.release(0)
    assert waits[0]()
    connections.stop()
    assert not waits[0]()


def test_a_connection_that_was_not_used_for_long_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may have closed it."""
    made: list[FakeConnection] = []

    def make() -> FakeConnection:
        made.append(FakeConnection())
        return made[-1]

    connections = SourceConnections("a source", make, lambda _: nullcontext())
    connections.get(0)
    connections.release(0, keep=True)
    assert connections.get(0) is made[0]
    monkeypatch.setattr("dcc.session.fetching.source_connections._FRESH_SECONDS", 0.05)
    connections.release(0, keep=True)
    time.sleep(0.1)
    assert connections.get(0) is made[1]
    assert [one.closed for one in made] == [True, False]


@only_sqlite
@pytest.mark.servers
def test_a_thread_without_further_transfers_leaves_its_slot_to_others(
    installation: Installation, sftp_server: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcc.session.fetching.downloads._IDLE_SECONDS", 0.2)
    sftp_server.put(str(KEY))
    told: queue.SimpleQueue[TransferEvent] = queue.SimpleQueue()
    downloads = SourceDownloads(
        address_of(installation, register(installation, sftp_server)),
        installation.settings,
        Staging(installation.settings.staging_directory),
        DownloadSlots(1),
        told.put,
        connection_slots=ConnectionSlots(installation.tracker, installation.settings),
    )
    downloads.put(Transfer(1, KEY, Hosting(1, 1, None, None, has_md5=False)))
    while not isinstance(ended := told.get(timeout=PATIENCE), TransferCompleted | TransferFailed):
        pass
    assert isinstance(ended, TransferCompleted)
    wait_until(lambda: not lines(installation))
    downloads.stop()
    downloads.join(PATIENCE)


@only_sqlite
@pytest.mark.parametrize("limit", [{"connections_per_server": 3}, {"server_limits": "127.0.0.1=3"}], ids=str)
def test_a_server_of_several_sources_has_a_limit_of_its_own(
    installation: Installation, sftp_server: Share, limit: dict[str, object]
) -> None:
    settings = installation.with_settings(**limit).settings
    one, other = (
        address_of(installation, register(installation, below(sftp_server, name))) for name in ("one", "other")
    )
    some = ConnectionSlots(installation.tracker, settings)
    with some.slot(one, lambda: False), some.slot(one, lambda: False), some.slot(other, lambda: False):
        assert is_full(some, other)
        assert not is_full(ConnectionSlots(installation.tracker, installation.settings), other)


@only_sqlite
@pytest.mark.parametrize(("limit", "names"), [({}, "aa"), ({"connections_per_server": 1}, "ab")], ids=str)
def test_who_has_a_slot_hears_that_another_waits_for_it_and_that_it_was_taken_for_dead(
    installation: Installation, sftp_server: Share, limit: dict[str, object], names: str
) -> None:
    limited = installation.with_settings(downloads_per_source=1, lease_timeout=1.2, **limit)
    ids = {name: register(limited, below(sftp_server, name)) for name in sorted(set(names))}
    one, other = (address_of(limited, ids[name]) for name in names)
    some, others = (ConnectionSlots(limited.tracker, limited.settings) for _ in range(2))
    told: list[bool] = []
    in_time = for_seconds(PATIENCE)

    def goes_on() -> bool:
        told.append(some.must_give_up(one))
        return in_time() and not told[-1]

    with some.keep_alive(), some.slot(one, lambda: False):
        with pytest.raises(SourceTimeoutError), others.slot(other, goes_on):
            pass
        assert [told[0], told[-1]] == [False, True]
        wait_until(lambda: not some.must_give_up(one))
        execute_in(limited.tracker, update(ConnectionSlot).values(heartbeat=LONG_AGO))
        wait_until(lambda: value_in(limited.tracker, select(ConnectionSlot.heartbeat)) > LONG_AGO)
        execute_in(limited.tracker, delete(ConnectionSlot))
        wait_until(lambda: some.must_give_up(one))


@only_sqlite
def test_who_waits_and_was_taken_for_dead_waits_anew(installation: Installation, sftp_server: Share) -> None:
    limited = installation.with_settings(downloads_per_source=1)
    address = address_of(limited, register(limited, sftp_server))
    some = ConnectionSlots(limited.tracker, limited.settings)
    in_time = for_seconds(PATIENCE)

    def goes_on() -> bool:
        if lines(limited) == 2:
            execute_in(limited.tracker, delete(ConnectionSlot))
        return in_time()

    with some.slot(address, lambda: False), some.slot(address, goes_on):
        assert lines(limited) == 1
    assert lines(limited) == 0


@only_sqlite
@pytest.mark.servers
def test_an_audit_that_fetches_a_lost_archive_waits_for_a_slot(installation: Installation, sftp_server: Share) -> None:
    limited = installation.with_settings(downloads_per_source=1, connect_timeout=0.5, login_timeout=0.5)
    put_many(sftp_server, "H", 1)
    address = address_of(limited, register(limited, sftp_server))
    limited.run_session()
    shutil.rmtree(limited.settings.staging_directory)
    (copy,) = (limited.settings.home / "archive").glob("??/*")
    copy.unlink()
    tracker, settings = limited.tracker, limited.settings
    with ConnectionSlots(tracker, settings).slot(address, lambda: False):
        assert not audit_archives(tracker, settings, "tester", everything=True).is_intact
    assert repair_archives(tracker, settings, "tester").is_intact
    assert copy.exists()
    assert lines(limited) == 0


@only_sqlite
@pytest.mark.parametrize("elsewhere", [False, True], ids=["on this machine", "elsewhere"])
def test_who_was_killed_has_no_slot(installation: Installation, sftp_server: Share, elsewhere: bool) -> None:
    address = address_of(installation, register(installation, sftp_server))
    some = ConnectionSlots(installation.tracker, installation.settings)
    with holding(_hold, installation.settings, address.id), holding(_hold, installation.settings, address.id):
        assert is_full(some, address)
    if elsewhere:
        execute_in(installation.tracker, update(ConnectionSlot).values(host="another"))
        assert is_full(some, address)
        with writing(installation.tracker) as connection:
            long_ago = select(func.datetime(func.current_timestamp(), "-61 seconds")).scalar_subquery()
            connection.execute(update(ConnectionSlot).values(heartbeat=long_ago))
    assert not is_full(some, address)
    assert lines(installation) == 0


def _hold(said: Any, settings: Settings, source_id: int) -> None:
    """Hold a place until killed."""
    tracker = open_tracker(settings)
    (address,) = in_reading(tracker, load_addresses, ids=[source_id])
    with ConnectionSlots(tracker, settings).slot(address, lambda: False):
        said.send(None)
        time.sleep(PATIENCE)
