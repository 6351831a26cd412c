"""Connections of installed packages that do what they should not: each fault is one of the source, with the package."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from dcc.cli.sources.add_dialog import try_source
from dcc.cli.sources.source import checked_address, tls_trust
from dcc.errors import (
    ConfigurationError,
    ListingFailedError,
    SourceError,
    SourceMisconfiguredError,
    SourceTimeoutError,
    TransferFailedError,
)
from dcc.naming import Action
from dcc.settings import Settings
from dcc.sources.added_connection import open_added
from dcc.sources.base import ActionListing, Connection, Extent, SourceAddress
from dcc.sources.listing import Entry, EntryKind, action_listing
from dcc.sources.protocols import PROTOCOLS, ProtocolTraits, SourceProtocol
from tests.support.raising import raising
from tests.support.served_from_memory import CONTENT, FakeConnection

FINGERPRINT = "SHA256:" + ":".join(["AB"] * 32)
ADDRESS = SourceAddress(1, "H", "acme", "host", "user", SecretStr("x"), "")


def opened(connection: Any) -> Connection:
    return open_added("acme 1.0", lambda *_: connection, ADDRESS, Settings())


class Incomplete(Connection):
    def list_action(self, action: Action) -> Any:
        return [1]

    def close(self) -> None:
        raise ZeroDivisionError


class Wrong(FakeConnection):
    def list_action(self, action: Action) -> Any:
        return [1]

    def read_md5(self, action: Action, name: str) -> Any:
        return b"1"

    def close(self) -> None:
        raise ZeroDivisionError


class Texts(FakeConnection):
    def fetch(self, action: Action, name: str, sink: Callable[[Any], object], **_: Any) -> None:
        sink("text")


def fetch(connection: Connection, sink: Callable[[Any], object] = len) -> None:
    connection.fetch(Action.ADD, "a.zip", sink, size=None)


@pytest.mark.parametrize(
    ("kind", "work"),
    [
        (SourceMisconfiguredError, lambda: opened(None)),
        (SourceMisconfiguredError, lambda: open_added("acme 1.0", Incomplete, ADDRESS, Settings())),
        (ListingFailedError, lambda: opened(Wrong()).list_action(Action.ADD)),
        (TransferFailedError, lambda: opened(Wrong()).read_md5(Action.ADD, "a.zip")),
        (TransferFailedError, lambda: fetch(opened(FakeConnection(fault_at=0, fault=KeyError("x"))))),
        (TransferFailedError, lambda: fetch(opened(Texts()))),
    ],
)
def test_whatever_a_package_does_is_an_error_of_its_source(kind: type[SourceError], work: Callable[[], object]) -> None:
    with pytest.raises(kind) as raised:
        work()
    assert str(raised.value).startswith(f"{ADDRESS.label}: the package acme 1.0 met a fault: ")


def test_what_the_caller_raises_is_not_the_package_s_fault() -> None:
    class StopError(Exception):
        pass

    with pytest.raises(StopError):
        fetch(opened(FakeConnection()), raising(StopError))


def test_a_sound_connection_delivers_and_its_own_errors_stay() -> None:
    received = bytearray()
    connection = opened(FakeConnection(md5="0" * 32))
    fetch(connection, received.extend)
    assert (bytes(received), connection.read_md5(Action.ADD, "a.zip")) == (CONTENT, "0" * 32)
    own = TransferFailedError("it broke off. Try again.")
    with pytest.raises(TransferFailedError) as raised:
        fetch(opened(FakeConnection(fault_at=0, fault=own)))
    assert raised.value is own


class Listing(FakeConnection):
    def list_action(self, action: Action) -> ActionListing:
        entries = (Entry(f"{name}.zip".encode(), EntryKind.FILE, 1, 0) for name in "ab")
        return action_listing(ADDRESS.label, action, entries, resolve=lambda _: None)


def test_the_patterns_of_a_source_leave_out_archives_that_a_package_lists() -> None:
    address = replace(ADDRESS, extent=Extent(include=("?.zip",), exclude=("b*",)))
    found = open_added("acme 1.0", lambda *_: Listing(), address, Settings()).list_action(Action.ADD)
    assert ([file.name for file in found.zips], found.ignored) == (["a.zip"], 1)
    assert found.ignored_examples == (("b.zip", "left out by the patterns of the file source"),)


def test_a_package_that_hangs_while_it_lists_is_closed_when_the_time_is_up() -> None:
    closed = threading.Event()

    class Hanging(FakeConnection):
        def list_action(self, action: Action) -> ActionListing:
            closed.wait(30)
            raise ConnectionError("closed")

        def close(self) -> None:
            closed.set()

    connection = open_added("acme 1.0", lambda *_: Hanging(), ADDRESS, Settings(list_timeout=0.1))
    with pytest.raises(SourceTimeoutError, match="DCC_LIST_TIMEOUT"):
        connection.list_action(Action.ADD)


def install(monkeypatch: pytest.MonkeyPatch, **openers: type[Connection]) -> None:
    """Have packages open these protocols, and `acme`."""
    opened_by = {"acme": FakeConnection} | openers
    monkeypatch.setattr("dcc.sources.protocols.load_added", lambda _, protocol: [opened_by[protocol]])


def test_a_package_declares_the_traits_of_its_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tape(FakeConnection):
        traits = ProtocolTraits(has_server=False)

    install(monkeypatch, tape=Tape)
    tape = replace(ADDRESS, protocol="tape", hostname="", base_path="tapes/3")
    assert checked_address(tape) == replace(tape, hostname="localhost")
    for address, needs in ((replace(tape, base_path=""), "--base-path"), (replace(ADDRESS, hostname=""), "--hostname")):
        with pytest.raises(ConfigurationError, match=needs):
            checked_address(address)
    with pytest.raises(ConfigurationError, match="has no --depth"):
        checked_address(replace(ADDRESS, extent=Extent(depth=1)))


def test_a_protocol_of_a_package_that_uses_tls_takes_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    class Secure(FakeConnection):
        traits = ProtocolTraits(uses_tls=True)

    install(monkeypatch, secure=Secure)
    assert tls_trust("secure", None, (FINGERPRINT,)).fingerprints == [FINGERPRINT]
    with pytest.raises(ConfigurationError, match="has no --tls-fingerprint"):
        tls_trust("acme", None, (FINGERPRINT,))


def test_a_protocol_of_a_package_that_uses_ssh_needs_a_host_key(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shell(FakeConnection):
        traits = ProtocolTraits(uses_ssh=True)

    install(monkeypatch, shell=Shell)
    for protocol, known in (("shell", False), ("acme", True)):
        away = replace(ADDRESS, protocol=protocol, hostname="127.0.0.1:1")
        assert try_source(away, Settings(connect_timeout=1), (), accept_host_key=True).known == known


def test_a_package_that_cannot_close_costs_nothing() -> None:
    opened(Wrong()).close()


def test_each_protocol_of_the_platform_is_in_its_table() -> None:
    assert set(PROTOCOLS) == set(SourceProtocol), "Correct PROTOCOLS in dcc/sources/protocols.py."
    portless = {name for name, (*_, traits) in PROTOCOLS.items() if traits.has_server and not traits.usual_port}
    assert not portless, "Give them a usual_port in PROTOCOLS."
