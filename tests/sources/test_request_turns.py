"""Requests to a server keep to its limit, whichever connections and processes send them."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace

import pytest

from dcc.naming import Action
from dcc.session.connection_slots import ConnectionSlots
from dcc.settings import Settings
from dcc.settings.sessions import ServerLimits, parse_server_limits
from dcc.sources import request_turns
from dcc.sources.connect import connect
from dcc.sources.request_turns import Reserve, Turns, first_free, sharing
from dcc.tracker.register.source_addresses import load_addresses
from tests.support.asking import in_reading
from tests.support.installations import Installation
from tests.support.served_sources import register
from tests.support.servers import Share

RATE = 80.0


def sent(turns: list[Turns], number: int) -> list[float]:
    """When so many requests of each of several threads were sent."""

    def send(of_thread: Turns) -> list[float]:
        found = []
        for _ in range(number):
            of_thread.await_turn()
            found.append(time.time())
        return found

    with ThreadPoolExecutor(len(turns)) as pool:
        return sorted(at for times in pool.map(send, turns) for at in times)


def most_in_half_a_second(times: list[float]) -> int:
    return max(sum(begin <= at < begin + 0.5 for at in times) for begin in times)


def test_threads_share_the_turns_at_a_server() -> None:
    turns = Turns("server", RATE)
    began = time.time()
    times = sent([turns] * 3, 15)
    assert times[-1] - began >= 43 / RATE
    assert most_in_half_a_second(times) <= 0.5 * RATE + 3


def test_a_clock_that_is_set_back_stops_no_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does another machine whose clock was ahead. Each waited for the time that the clock had shown."""
    now, slept = [1_800_000_000.0], []
    monkeypatch.setattr(request_turns, "time", SimpleNamespace(time=lambda: now[0], sleep=slept.append))
    turns = Turns("server", 2.0)
    turns.await_turn()
    now[0] -= 2 * 3600
    for _ in range(4):
        turns.await_turn()
    assert slept == [0, 0, 0.5, 1, 1.5]
    assert [first_free(now[0] + ahead, now[0]) - now[0] for ahead in (-9, 60, 86_400)] == [0, 60, 0]


def test_sessions_that_overlap_in_a_process_leave_none_of_their_turns_behind() -> None:
    """Sessions of two groups: the one that began first ends first."""
    asked: list[str] = []

    def reserving(session: str) -> Reserve:
        def reserve(_server: str, _seconds: float) -> float:
            asked.append(session)
            return time.time()

        return reserve

    first, second = sharing(reserving("first")), sharing(reserving("second"))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    Turns("server", RATE).await_turn()
    second.__exit__(None, None, None)
    Turns("server", RATE).await_turn()
    assert asked == ["second"]


@pytest.mark.servers
@pytest.mark.both_databases
def test_processes_share_the_turns_at_a_server(installation: Installation, sftp_server: Share) -> None:
    source = register(installation, sftp_server)
    (address,) = in_reading(installation.tracker, load_addresses, ids=[source])
    connection_slots = ConnectionSlots(installation.tracker, installation.settings)
    with connection_slots.keep_alive(), connection_slots.slot(address, lambda: False):
        # As two processes have them.
        began = time.time()
        times = sent([Turns("127.0.0.1", RATE), Turns("127.0.0.1", RATE)], 15)
    assert times[-1] - began >= 28 / RATE


@pytest.mark.servers
@pytest.mark.parametrize(("server", "requests"), [("sftp_server", 6), ("ftp_server", 16), ("web_folder", 7)])
def test_every_protocol_waits_for_its_turns(
    server: str, requests: int, request: pytest.FixtureRequest, source_settings: Settings
) -> None:
    share = request.getfixturevalue(server)
    host = share.hostname.rpartition(":")[0]
    settings = source_settings.model_copy(update={"server_limits": f"{host}=,1"})
    asked: list[str] = []

    def reserve(server: str, _seconds: float) -> float:
        asked.append(server)
        return time.time()

    # With one turn a second each is reserved by itself.
    with sharing(reserve), closing(connect(share.address(), settings)) as connection:
        for action in Action:
            connection.list_action(action)
    assert (set(asked), len(asked)) == ({host}, requests)


def test_limits_of_single_servers_come_before_those_of_all() -> None:
    settings = Settings(connections_per_server=5, server_limits="FTP.example.org=2; b.org=,0.5")
    assert settings.limits_of("ftp.example.org") == ServerLimits(2, None)
    assert settings.limits_of("b.org") == ServerLimits(5, 0.5)
    assert settings.limits_of("c.org") == ServerLimits(5, None)
    for wrong in ("a.org", "a.org=", "a.org=x", "a.org=0", "a.org=1,-1", "a.org=1;A.org=2", "=1"):
        with pytest.raises(ValueError, match=r"such as ftp\.example\.org=2"):
            parse_server_limits(wrong)
