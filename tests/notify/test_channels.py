"""The channels: the mail server, the webhook, and those of installed packages."""

import hashlib
import hmac
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from email.message import EmailMessage
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from pydantic import SecretStr

from dcc.errors import ConfigurationError, NotificationNotSentError
from dcc.notify.channels import open_channels
from dcc.notify.channels.log import LogChannel
from dcc.notify.channels.mail import MailChannel, MailTransport, Wording
from dcc.notify.channels.webhook import WebhookChannel
from dcc.notify.messages import Audience, NewsKind, Notification
from dcc.settings import Settings, load_settings
from dcc.settings.recipients import parse_smtp_url
from tests.support.ports import free_port
from tests.support.servers import Authority
from tests.support.talking_servers import Talk, greeting, repeating, serving
from tests.support.web_server import QuietHandler, ThreadedServer

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


def taking(size: int, of_recipient: bytes = b"250 fine") -> Talk:
    """A mail server that takes so many bytes of a message, hangs up and answers nothing about it."""
    answers = {b"rcpt": of_recipient, b"data": b"354 go on"}

    def talk(connection: socket.socket) -> None:
        connection.sendall(b"220 here\r\n")
        with connection.makefile("rb") as lines:
            for line in lines:
                connection.sendall(answers.get(line[:4].lower(), b"250 fine") + b"\r\n")
                if line == b"data\r\n":
                    lines.read(size)
                    return

    return talk


@pytest.mark.parametrize(("size_bytes", "whole"), [(10_000_000, False), (100, True)])
def test_a_mail_may_have_arrived_only_if_all_of_it_was_sent(size_bytes: int, whole: bool) -> None:
    message = letter()
    message.set_content(f"{'x' * 99}\n" * (size_bytes // 100))
    with serving(taking(100)) as (hostname, _):
        one = transport(f"smtp://{hostname}", send_seconds=20.0)
        with pytest.raises(NotificationNotSentError):
            one.deliver(message, ["b@example.org"])
        assert one.may_have_arrived is whole


@pytest.mark.parametrize(
    ("answer", "told"), [(b"250 fine", (True, False)), (b"450 later", (False, False)), (b"550 no", (False, True))]
)
def test_the_channel_tells_that_a_mail_may_have_arrived_or_is_refused_for_good(
    answer: bytes, told: tuple[bool, bool]
) -> None:
    with serving(taking(100, answer)) as (hostname, _):
        channel = MailChannel(Settings(smtp_url=SecretStr(f"smtp://{hostname}")))
        with pytest.raises(NotificationNotSentError) as unanswered:
            channel.send(Notification("0" * 32, NewsKind.TEST, "s", "t"), "b@example.org", seconds=10)
    assert (unanswered.value.may_have_arrived, unanswered.value.recipient_refused) == told


SECRET = "signing key/4711"
PATH = "/hooks/T0K3N-of-the-url?x=1"
MESSAGE = Notification("ab" * 16, NewsKind.DIGEST, "Sübject", "text", data={"failed": ["add/x"]}, session=3, centre="H")


class Receiver(ThreadedServer):
    """A web server that notes what it is sent and answers as it is told: a status each, the last one for all others."""

    def __init__(self, certificate: Path | None = None) -> None:
        super().__init__(_Handler, certificate)
        self.statuses = [200]
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.hangs = False


class _Handler(QuietHandler):
    web: ClassVar[Receiver]

    def do_POST(self) -> None:
        self.web.got.append((self.path, dict(self.headers), self.sent()))
        if self.web.hangs:
            self.web.released.wait(30)
            return
        statuses = self.web.statuses
        status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
        self.answer(status, headers={"Location": f"{self.web.url}/elsewhere"})


@pytest.fixture
def receiver() -> Iterator[Callable[..., Receiver]]:
    with ExitStack() as stack:
        yield lambda certificate=None: stack.enter_context(Receiver(certificate))


def channel(port: int, scheme: str = "http", pause: float = 0.01, **settings: object) -> WebhookChannel:
    made = load_settings(notify_webhook=f"{scheme}://127.0.0.1:{port}{PATH}", notify_webhook_secret=SECRET, **settings)
    return WebhookChannel(made, pause=pause)


def failure(one: WebhookChannel, seconds: float = 20) -> NotificationNotSentError:
    with pytest.raises(NotificationNotSentError) as raised:
        one.send(MESSAGE, "", seconds=seconds)
    return raised.value


def test_what_it_gets_is_json_and_signed_with_the_time(receiver: Callable[..., Receiver]) -> None:
    server = receiver()
    channel(server.port).send(MESSAGE, "", seconds=20)
    ((path, headers, body),) = server.got
    assert path == PATH
    assert json.loads(body) == {
        "version": 1,
        "id": MESSAGE.id,
        "kind": "digest",
        "session": 3,
        "centre": "H",
        "language": "en",
        "subject": "Sübject",
        "text": "text",
        "data": {"failed": ["add/x"]},
    }
    signed = f"{headers['X-DCC-Timestamp']}.".encode() + body
    proof = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["X-DCC-Signature"] == f"sha256={proof}"
    assert headers["X-DCC-Id"] == MESSAGE.id


def test_a_server_in_trouble_is_tried_again_with_the_same_message(receiver: Callable[..., Receiver]) -> None:
    server = receiver()
    server.statuses = [503, 429, 204]
    channel(server.port).send(MESSAGE, "", seconds=20)
    assert [json.loads(body)["id"] for _, _, body in server.got] == [MESSAGE.id] * 3
    server.statuses = [502]
    error = failure(channel(server.port))
    assert "answered 502 Bad Gateway" in str(error)
    assert (len(server.got), error.may_have_arrived) == (6, False)
    # A pause that would last beyond its time is not made.
    assert "answered 502" in str(failure(channel(server.port, pause=5), seconds=4))
    # A redirect is not followed, nor a refusal tried again.
    server.got.clear()
    answers = {302: "302 Found, and redirects are not followed", 400: "400 Bad Request", 401: "401"}
    for status, said in answers.items():
        server.statuses = [status]
        assert said in str(failure(channel(server.port)))
    assert [path for path, _, _ in server.got] == [PATH] * len(answers)


def test_a_server_that_does_not_answer_is_given_up_and_may_have_taken_it(receiver: Callable[..., Receiver]) -> None:
    server = receiver()
    server.hangs = True
    error = failure(channel(server.port), seconds=0.5)
    assert "did not answer in time" in str(error)
    assert error.may_have_arrived is True


def test_no_secret_is_in_what_is_said_logged_or_shown(
    receiver: Callable[..., Receiver], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = receiver()
    server.statuses = [400]
    refused, away = channel(server.port), channel(free_port())
    settings = refused._settings
    logging.getLogger("dcc").warning("A library says %s %s", PATH, SECRET)
    seen = [str(failure(refused)), str(failure(away)), repr(settings), repr(refused), repr(vars(refused)), caplog.text]
    for text in seen:
        assert "T0K3N" not in text
        assert SECRET not in text


def test_its_certificate_is_verified(receiver: Callable[..., Receiver], authority: Authority) -> None:
    server = receiver(authority.issue())
    channel(server.port, "https", tls_ca_file=authority.ca_file).send(MESSAGE, "", seconds=20)
    assert len(server.got) == 1
    assert "TLS certificate that could not be verified" in str(failure(channel(server.port, "https")))
    assert len(server.got) == 1


SETTINGS = Settings(notify_log=True)


def pager(name: object = "pager", recipients: object = (), fault: Exception | None = None) -> Any:
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

    added = [("acme 1.0", EntryPoint("acme", "acme", "dcc.channels"))]
    monkeypatch.setattr(open_channels, "added_entries", lambda _: added)
    monkeypatch.setattr(open_channels, "load_entry", load)
    found = open_channels.open_channels(SETTINGS)
    return found.channels, found.problems


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (ConfigurationError("acme 1.0 cannot be loaded."), "acme 1.0 cannot be loaded."),
        (lambda: pager(), "takes 0 positional arguments"),
        (lambda _: "text", "AttributeError"),
        (lambda _: pager("the pager of the night"), "1 to 16 characters"),
        (lambda _: pager("mail"), "The channel mail of the package acme 1.0 has the name of another one."),
    ],
)
def test_a_channel_that_cannot_be_used_is_left_out(monkeypatch: pytest.MonkeyPatch, make: object, told: str) -> None:
    channels, (problem,) = opened(monkeypatch, make)
    assert [one.name for one in channels] == ["log"]
    assert "acme 1.0" in problem
    assert told in problem
    # None by itself, as the settings do not ask for it, is no problem.
    channels, problems = opened(monkeypatch, lambda _: None)
    assert ([one.name for one in channels], problems) == (["log"], [])


def test_a_channel_that_meets_a_fault_sends_nothing_or_perhaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a message arrived is not known after a fault."""
    (_, added), problems = opened(monkeypatch, lambda _: pager(recipients=None, fault=KeyError("x")))
    assert added.recipients(Audience.WRANGLERS, ()) == []
    assert [one.partition(" sends")[0] for one in problems] == ["The channel pager of the package acme 1.0"]
    with pytest.raises(NotificationNotSentError, match=r"channel pager of the package acme 1\.0 met a fault") as raised:
        added.send(Notification("1", NewsKind.TEST, "s", "t"), "somebody", seconds=1)
    assert raised.value.may_have_arrived
    (_, added), _ = opened(monkeypatch, lambda _: pager(fault=NotificationNotSentError("It is asleep.")))
    with pytest.raises(NotificationNotSentError, match=r"^It is asleep\.$"):
        added.send(Notification("1", NewsKind.TEST, "s", "t"), "somebody", seconds=1)


def test_the_log_has_an_outage_as_an_error_and_no_summary(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = LogChannel()
    assert {audience for audience in Audience if log.recipients(audience, ())} == {*Audience} - {Audience.SUMMARY}
    for kind in (NewsKind.OUTAGE, NewsKind.ADDRESS, NewsKind.DIGEST):
        log.send(Notification("1", kind, "s", "t"), "log", seconds=1)
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("ERROR", "Notification outage 1: s"),
        ("WARNING", "Notification address 1: s"),
        ("INFO", "Notification digest 1: s"),
    ]
