"""The way to the mail server: within its time limit, whatever the server or the name service do, and cleared up."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage

import pytest
from pydantic import SecretStr

from dcc.errors import NotificationNotSentError
from dcc.notify.channels.mail import MailTransport, Wording
from dcc.settings import Settings
from dcc.settings.recipients import parse_smtp_url

SECONDS = 0.4


@dataclass
class Staller:
    """A server that says some things, one for each that it is told, and then says `then` forever, or nothing."""

    port: int = 0
    says: list[bytes] = field(default_factory=list)
    then: bytes = b""
    hung_up: threading.Event = field(default_factory=threading.Event)

    def serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                for number, said in enumerate(self.says):
                    if number:
                        connection.recv(1000)
                    connection.sendall(said)
                connection.settimeout(0.05)
                while True:
                    with suppress(TimeoutError):
                        if not connection.recv(1000):
                            break
                    connection.sendall(self.then)
            self.hung_up.set()


@pytest.fixture
def staller() -> Iterator[Callable[..., Staller]]:
    listeners: list[socket.socket] = []

    def start(*says: bytes, then: bytes = b"") -> Staller:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        made = Staller(listener.getsockname()[1], list(says), then)
        threading.Thread(target=made.serve, args=(listener,), daemon=True).start()
        return made

    yield start
    for listener in listeners:
        listener.close()


def transport(url: str, *, answer_seconds: float = 20.0, send_seconds: float = SECONDS) -> MailTransport:
    wording = Wording("The letter", "DCC_SMTP_URL", NotificationNotSentError)
    server = parse_smtp_url(SecretStr(url))
    return MailTransport(server, Settings(), wording, answer_seconds=answer_seconds, send_seconds=send_seconds)


def letter() -> EmailMessage:
    made = EmailMessage()
    made["From"], made["To"] = "a@example.org", "b@example.org"
    made.set_content("text")
    return made


def fails_in_time(one: MailTransport, *, reach: bool = False) -> str:
    began = time.monotonic()
    with pytest.raises(NotificationNotSentError) as raised:
        one.reach() if reach else one.deliver(letter(), ["b@example.org"])
    assert time.monotonic() - began < 5 * SECONDS
    assert one.may_have_arrived is False
    return str(raised.value)


@pytest.mark.parametrize("reach", [False, True])
def test_a_server_that_trickles_its_greeting_is_given_up(staller: Callable[..., Staller], reach: bool) -> None:
    server = staller(then=b"220-wait\r\n")
    one = transport(f"smtp://127.0.0.1:{server.port}", answer_seconds=SECONDS if reach else 20.0)
    assert "did not answer in time" in fails_in_time(one, reach=reach)
    assert server.hung_up.wait(5)


def test_a_server_that_refuses_to_talk_is_hung_up_on(staller: Callable[..., Staller]) -> None:
    server = staller(b"554 not today\r\n")
    assert "refused it (554 not today)" in fails_in_time(transport(f"smtp://127.0.0.1:{server.port}"))
    assert server.hung_up.wait(5)


def test_a_name_service_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: done.wait(10) and [])
    assert "did not answer in time" in fails_in_time(transport("smtp://mail.example.org:25"))
    done.set()
