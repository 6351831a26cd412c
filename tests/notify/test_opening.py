"""Channels of installed packages that do what they should not: the others send, and the sentence names the package."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest

from dcc.errors import ConfigurationError, NotificationNotSentError
from dcc.notify.channels import opening
from dcc.notify.messages import Audience, Message, MessageKind
from dcc.settings import Settings

SETTINGS = Settings(notify_log=True)


def channel(name: object = "pager", recipients: object = (), fault: Exception | None = None) -> Any:
    def send(*_: object, seconds: float) -> None:
        if fault is not None:
            raise fault

    return SimpleNamespace(name=name, repeats=True, attaches=False, recipients=lambda *_: recipients, send=send)


def opened(monkeypatch: pytest.MonkeyPatch, make: object) -> tuple[list[Any], list[str]]:
    """The channels with one of a package, and what is told."""

    def load(*_: object) -> object:
        if isinstance(make, Exception):
            raise make
        return make

    monkeypatch.setattr(opening, "added_entries", lambda _: [("acme 1.0", EntryPoint("acme", "acme", "dcc.channels"))])
    monkeypatch.setattr(opening, "load_entry", load)
    problems: list[str] = []
    return opening.open_channels(SETTINGS, problems), problems


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (ConfigurationError("acme 1.0 cannot be loaded."), "acme 1.0 cannot be loaded."),
        (lambda: channel(), "takes 0 positional arguments"),
        (lambda _: "text", "AttributeError"),
        (lambda _: channel("the pager of the night"), "1 to 16 characters"),
        (lambda _: channel("log"), "The channel log of the package acme 1.0 has the name of another one."),
    ],
)
def test_a_channel_that_cannot_be_used_is_left_out(monkeypatch: pytest.MonkeyPatch, make: object, told: str) -> None:
    channels, (problem,) = opened(monkeypatch, make)
    assert [one.name for one in channels] == ["log"]
    assert "acme 1.0" in problem
    assert told in problem


def test_a_channel_without_recipients_to_name_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    (_, added), problems = opened(monkeypatch, lambda _: channel(recipients=None))
    assert added.recipients(Audience.WRANGLERS, ()) == []
    assert [one.partition(" sends")[0] for one in problems] == ["The channel pager of the package acme 1.0"]


def test_whether_a_message_arrived_is_not_known_after_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    (_, added), _ = opened(monkeypatch, lambda _: channel(fault=KeyError("x")))
    with pytest.raises(NotificationNotSentError, match=r"channel pager of the package acme 1\.0 met a fault") as raised:
        added.send(Message("1", MessageKind.TEST, "s", "t"), "somebody", seconds=1)
    assert raised.value.may_have_arrived
