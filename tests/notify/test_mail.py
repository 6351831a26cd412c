"""The way to the mail server: within its time limit, whatever the server or the name service do, and cleared up."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage

import pytest
from pydantic import SecretStr

from dcc.errors import NotificationNotSentError
from dcc.notify.channels.mail import MailTransport, Wording
from dcc.settings import Settings
from dcc.settings.recipients import parse_smtp_url
from tests.support.talking_servers import Talk, greeting, repeating, serving

SECONDS = 0.4


@contextmanager
def hung_up_on(talk: Talk) -> Iterator[str]:
    """A server that talks so, and must be hung up on; its `host:port`."""
    hung_up = threading.Event()

    def noting(connection: socket.socket) -> None:
        try:
            talk(connection)
        finally:
            hung_up.set()

    with serving(noting) as (hostname, _):
        yield hostname
        assert hung_up.wait(5)


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
def test_a_server_that_trickles_its_greeting_is_given_up(reach: bool) -> None:
    with hung_up_on(repeating(b"220-wait\r\n", pause=0.05)) as hostname:
        one = transport(f"smtp://{hostname}", answer_seconds=SECONDS if reach else 20.0)
        assert "did not answer in time" in fails_in_time(one, reach=reach)


def test_a_server_that_refuses_to_talk_is_hung_up_on() -> None:
    with hung_up_on(greeting(b"554 not today\r\n")) as hostname:
        assert "refused it (554 not today)" in fails_in_time(transport(f"smtp://{hostname}"))


def test_a_name_service_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: done.wait(10) and [])
    assert "did not answer in time" in fails_in_time(transport("smtp://mail.example.org:25"))
    done.set()
