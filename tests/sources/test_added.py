"""Connections of installed packages that do what they should not: each fault is one of the source, with the package."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from dcc.cli.sources.add_dialog import protocols
from dcc.errors import ListingFailedError, SourceError, SourceMisconfiguredError, TransferFailedError
from dcc.naming import Action
from dcc.settings import Settings
from dcc.sources.base import TRAITS, Connection, SourceAddress, SourceProtocol
from dcc.sources.connect import OPENERS, open_added
from dcc.tracker.reference_rows import REFERENCE_ROWS
from tests.support.raising import raising
from tests.support.served_from_memory import CONTENT, FakeConnection

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


def test_a_package_that_cannot_close_costs_nothing() -> None:
    opened(Wrong()).close()


def test_each_protocol_of_the_platform_can_be_opened_chosen_and_kept() -> None:
    kept = {row.short_name for row in REFERENCE_ROWS["source_protocol"]}
    assert set(OPENERS) == set(SourceProtocol), "Correct OPENERS in dcc/sources/connect.py."
    assert set(TRAITS) == set(SourceProtocol), "Correct TRAITS in dcc/sources/base.py."
    assert set(protocols()) == set(SourceProtocol), "Correct _PROTOCOLS in dcc/cli/sources/add_dialog.py."
    assert kept == set(SourceProtocol), "Correct REFERENCE_ROWS in dcc/tracker/reference_rows.py."
