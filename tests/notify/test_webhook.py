"""The webhook: signed, tried again while its server is in trouble, led nowhere else."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import pytest

from dcc.errors import NotificationNotSentError
from dcc.notify.channels.webhook import WebhookChannel
from dcc.notify.messages import Message, MessageKind
from dcc.settings import load_settings
from tests.support.ports import free_port
from tests.support.servers import Authority
from tests.support.web_server import ThreadedServer

SECRET = "signing key/4711"
PATH = "/hooks/T0K3N-of-the-url?x=1"
MESSAGE = Message("ab" * 16, MessageKind.DIGEST, "Sübject", "text", data={"failed": ["add/x"]}, session=3, centre="H")


class Receiver(ThreadedServer):
    """A web server that notes what it is sent and answers as it is told: a status each, the last one for all others."""

    def __init__(self, certificate: Path | None = None) -> None:
        super().__init__(_Handler, certificate)
        self.statuses = [200]
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.hangs = False


class _Handler(BaseHTTPRequestHandler):
    web: ClassVar[Receiver]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.web.got.append((self.path, dict(self.headers), body))
        if self.web.hangs:
            self.web.released.wait(30)
            return
        statuses = self.web.statuses
        self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
        self.send_header("Location", f"{self.web.url}/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def receiver() -> Iterator[Callable[..., Receiver]]:
    with ExitStack() as stack:
        yield lambda certificate=None: stack.enter_context(Receiver(certificate))


def channel(port: int, scheme: str = "http", **settings: object) -> WebhookChannel:
    made = load_settings(notify_webhook=f"{scheme}://127.0.0.1:{port}{PATH}", notify_webhook_secret=SECRET, **settings)
    assert made.notify_webhook is not None
    return WebhookChannel(made.notify_webhook, made.notify_webhook_secret, made, pause=0.01)


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
    server.statuses = [503, 500, 204]
    channel(server.port).send(MESSAGE, "", seconds=20)
    assert [json.loads(body)["id"] for _, _, body in server.got] == [MESSAGE.id] * 3
    server.statuses = [502]
    error = failure(channel(server.port))
    assert "answered 502 Bad Gateway" in str(error)
    assert (len(server.got), error.may_have_arrived) == (6, False)
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
    error = failure(channel(server.port), seconds=1.5)
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
