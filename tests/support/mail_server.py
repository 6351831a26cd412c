"""A real mail server for tests: it takes e-mails, refuses some, and can ask for a login over TLS."""

import email
import email.policy
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.support.ports import free_port

PASSWORD = "s3cret@%:/pass"
QUOTED = "s3cret%40%25%3A%2Fpass"


@dataclass
class MailServerForTests:
    """A mail server: what it received, and what it does wrong."""

    port: int = 0
    received: list[tuple[Envelope, EmailMessage]] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    greeted: list[str] = field(default_factory=list)
    refuse: str = ""

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.refuse and address.endswith(self.refuse):
            return "550 no such user here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        self.greeted.append(str(session.host_name))
        self.received.append((envelope, message))
        assert server.transport is not None
        self.encrypted.append(server.transport.get_extra_info("ssl_object") is not None)
        return "250 OK"

    def log_in(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: LoginPassword
    ) -> AuthResult:
        self.logins.append((data.login.decode(), data.password.decode()))
        right = self.logins[-1] == ("dcc", PASSWORD)
        # A server that repeats what it was sent must not bring it into a log.
        return AuthResult(success=right, handled=False, message=None if right else f"535 not {PASSWORD}x")


Starter = Callable[..., MailServerForTests]


@pytest.fixture
def mail_server() -> Iterator[Starter]:
    running: list[Controller] = []

    def start(
        certificate: Path | None = None, *, from_the_start: bool = False, login: bool = False
    ) -> MailServerForTests:
        server = MailServerForTests()
        context = None
        if certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate)
        controller = Controller(
            server,
            hostname="127.0.0.1",
            port=free_port(),
            server_hostname="mail.example.org",
            ssl_context=context if from_the_start else None,
            tls_context=None if from_the_start else context,
            authenticator=server.log_in if login else None,
            auth_required=login,
            auth_require_tls=False,
        )
        controller.start()
        running.append(controller)
        server.port = controller.port
        return server

    yield start
    for controller in running:
        controller.stop()
