"""E-mail: notifications as plain text with HTML, sent by the mail server of DCC_SMTP_URL.

Each recipient gets a message of their own; messages about one centre form a thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
import re
import smtplib
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Any, Final

from dcc.errors import NotificationNotSentError, SourceTimeoutError, SourceUnreachableError, UnreachableError
from dcc.notify.messages import Audience, Notification
from dcc.redaction import redact
from dcc.runtime.time_limits import call_with_timeout, time_limit
from dcc.settings import Settings
from dcc.settings.hosts import is_loopback
from dcc.settings.recipients import MailServer, parse_smtp_url
from dcc.sources.access import Endpoint
from dcc.sources.certificates import tls_context
from dcc.sources.remote_names import printable
from dcc.sources.sockets import NAME_SERVICE, open_socket, shut_down

SEND_SECONDS = 60.0
_LONGEST_ANSWER = 300
_PERMANENT = 500
"""The first code of answers that a later attempt would get as well."""


@dataclass(frozen=True, slots=True)
class Wording:
    """What error messages name: the thing to be sent, the settings to check, and the class of the errors."""

    what: str
    check: str
    error: type[UnreachableError]


class MailTransport:
    """Sends messages by a mail server, one connection for each message.

    Encrypts with STARTTLS if the server offers it, and verifies its certificate. A password is never sent unencrypted,
    except to this machine itself; without a password, a server on this machine needs no encryption.

    `answer_seconds` bounds each answer of the server, and all of `reach`; `send_seconds` bounds a whole message, from
    the name's lookup on. After a message that failed, `may_have_arrived` tells that it was handed over completely, so
    that only the server's answer is missing. `refused_all` tells that the server refused every recipient, now and
    later.
    """

    def __init__(
        self,
        server: MailServer,
        settings: Settings,
        wording: Wording,
        *,
        answer_seconds: float | None = None,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        self._server, self._settings, self._wording = server, settings, wording
        self._answer_seconds = settings.connect_timeout if answer_seconds is None else answer_seconds
        self._send_seconds = send_seconds
        self.may_have_arrived = self.refused_all = False

    def deliver(self, message: EmailMessage, recipients: Sequence[str]) -> tuple[str, ...]:
        """Send a message to all recipients at once; returns those that the server refused, if it accepted any.

        Raises the error of the wording, without the password whatever the server says, and ConfigurationError for
        certificate authorities that cannot be read.
        """
        self.may_have_arrived = self.refused_all = False
        with self._translated(), self._client(self._send_seconds) as client:
            try:
                return tuple(client.send_message(message, to_addrs=list(recipients)))
            finally:
                self.may_have_arrived = client.handed_over

    def reach(self) -> None:
        """Connect and log in without sending anything. Raises as `deliver`."""
        with self._translated(), self._client(self._answer_seconds):
            pass

    @contextlib.contextmanager
    def _client(self, seconds: float) -> Iterator[_Client]:
        """A client that is logged in. Connecting and its use take `seconds` at most."""
        server, until = self._server, time.monotonic() + seconds
        answer_seconds = min(self._answer_seconds, seconds)
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(
                open_socket(server.label, Endpoint(server.host, server.port), answer_seconds)
            )
            connection.settimeout(answer_seconds)
            # TLS takes the socket over; the second one can shut the connection down at any time.
            handle = stack.enter_context(connection.dup())
            # Each answer has its own time limit; this one is for servers that trickle.
            left = max(until - time.monotonic(), 0.0)
            stack.enter_context(time_limit(left, lambda: shut_down(handle)))
            own_name = _own_name(connection, min(answer_seconds, left / 2))
            if server.encrypted:
                context = tls_context(self._settings)
                connection = stack.enter_context(context.wrap_socket(connection, server_hostname=server.host))
            client = _Client(connection, server, own_name, answer_seconds)
            stack.callback(client.close)
            self._log_in(client)
            yield client
            # What was to be done is done: errors of the farewell do not matter.
            with contextlib.suppress(smtplib.SMTPException, OSError):
                client.quit()

    def _log_in(self, client: smtplib.SMTP) -> None:
        """Encrypt and log in, as far as the server and the settings require."""
        server = self._server
        password = server.password.get_secret_value()
        client.ehlo_or_helo_if_needed()
        local = is_loopback(server.host)
        if not server.encrypted and client.has_extn("starttls") and (password or not local):
            client.starttls(context=tls_context(self._settings))
        elif not server.encrypted and password and not local:
            raise self._wording.error(
                f"The mail server {server.label} offers no encryption, and the password is not sent without. "
                "Write smtps:// in DCC_SMTP_URL, name the port for submission (587), or leave user and password out."
            )
        if password:
            client.login(server.username, password)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn smtplib's exceptions into an error of the platform, with the server's words but without the password."""
        server, reason = self._server, ""
        remedy = f"Check {self._wording.check}, and that the server is up."
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            raise self._wording.error(
                f"The TLS certificate of the mail server {server.label} could not be verified "
                f"({error.verify_message}). Have it corrected, or name the authority that signed it in DCC_TLS_CA_FILE."
            ) from error
        except smtplib.SMTPAuthenticationError as error:
            reason = f"refused the login of {server.username!r} ({self._legible(error.smtp_error)})"
        except smtplib.SMTPRecipientsRefused as error:
            refusals = "; ".join(
                f"{address}: {self._legible(answer)}" for address, (_, answer) in error.recipients.items()
            )
            reason = f"refused every recipient ({refusals})"
            if all(code >= _PERMANENT for code, _ in error.recipients.values()):
                remedy, self.refused_all = "Correct the address, or have the server accept it.", True
        except smtplib.SMTPResponseException as error:
            reason = f"refused it ({error.smtp_code} {self._legible(error.smtp_error)})"
        except (TimeoutError, SourceTimeoutError):
            reason = "did not answer in time"
        except smtplib.SMTPException as error:
            reason = f"cannot be used ({self._legible(str(error))})"
        except (OSError, ValueError, SourceUnreachableError) as error:
            cause = error.__cause__ if isinstance(error, SourceUnreachableError) else error
            reason = f"could not be reached ({self._legible(getattr(cause, 'strerror', None) or type(cause).__name__)})"
        if reason:
            # Exceptions of smtplib may repeat the password, so they are not chained.
            raise self._wording.error(
                f"{self._wording.what} was not sent: the mail server {server.label} {reason}. {remedy}"
            )

    def _legible(self, answer: bytes | str) -> str:
        text = answer if isinstance(answer, bytes) else answer.encode("utf-8", "replace")
        password = self._server.password.get_secret_value()
        return redact(printable(b" ".join(text.split())), (password,))[:_LONGEST_ANSWER]


class _Client(smtplib.SMTP):
    """A client on an existing connection; the server has greeted it once it is made.

    `handed_over`: a whole message was sent, and its answer is missing.
    """

    handed_over = False
    _message_is_next = False

    def __init__(self, connection: socket.socket, server: MailServer, own_name: str, answer_seconds: float) -> None:
        self._connection = connection
        super().__init__(server.host, server.port, own_name, answer_seconds)

    def getreply(self) -> tuple[int, bytes]:
        """The server's answer."""
        code, answer = super().getreply()
        self._message_is_next, self.handed_over = code == 354, False
        return code, answer

    def send(self, s: Any) -> None:
        """Send a command, or after the answer 354 a message."""
        super().send(s)
        self.handed_over = self._message_is_next

    def _get_socket(self, *_: object) -> socket.socket:
        return self._connection


def _own_name(connection: socket.socket, seconds: float) -> str:
    """This machine's name for a mail server: its full name, else its address (RFC 5321, 4.1.3)."""
    with contextlib.suppress(TimeoutError):
        name = call_with_timeout(socket.getfqdn, seconds, NAME_SERVICE)
        if "." in name:
            return name
    address = connection.getsockname()[0].partition("%")[0]
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


def sender_of(settings: Settings) -> str:
    """The sender's address."""
    return settings.report_from or f"dcc@{platform.node() or 'localhost'}"


_WORDING: Final = Wording("The notification", "DCC_SMTP_URL and DCC_REPORT_FROM", NotificationNotSentError)
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_LONGEST_SUBJECT: Final = 200
_ANSWER_SECONDS: Final = 10.0


class MailChannel:
    """Sends notifications by the mail server of the settings: see `MailTransport`."""

    name = "mail"
    repeats = False
    attaches = True

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sender = sender_of(settings)
        self._server = parse_smtp_url(settings.smtp_url)

    def recipients(self, audience: Audience, addresses: Sequence[str]) -> Sequence[str]:
        """See `Channel.recipients`: recipients of the session report do not get its content again."""
        if audience is Audience.CENTRE:
            return list(addresses) if self._settings.notify_centres else []
        wranglers = self._settings.notify_addresses
        if audience is not Audience.WRANGLERS:
            return [address for address in wranglers if address not in self._settings.report_addresses]
        return list(wranglers)

    def send(self, message: Notification, recipient: str, *, seconds: float) -> None:
        """See `Channel.send`."""
        answer_seconds = min(_ANSWER_SECONDS, self._settings.connect_timeout, seconds)
        transport = MailTransport(
            self._server, self._settings, _WORDING, answer_seconds=answer_seconds, send_seconds=seconds
        )
        try:
            letter = self.letter(message, recipient)
        except (ValueError, IndexError) as error:
            unfit = NotificationNotSentError(
                f"The notification was not sent: no e-mail can be addressed to {recipient!r}. Correct the address."
            )
            unfit.recipient_refused = True
            raise unfit from error
        try:
            transport.deliver(letter, [recipient])
        except NotificationNotSentError as error:
            error.may_have_arrived, error.recipient_refused = transport.may_have_arrived, transport.refused_all
            raise

    def letter(self, message: Notification, recipient: str) -> EmailMessage:
        """The e-mail of a message. Line breaks in centres' texts become spaces, so that they cannot add a header."""
        letter = EmailMessage(policy=SMTP)
        domain = self._sender.rpartition("@")[2]
        letter["Subject"] = _one_line(message.subject)
        letter["From"] = self._sender
        letter["To"] = Address(addr_spec=recipient)
        wranglers = self._settings.notify_addresses
        if message.centre is not None and wranglers:
            letter["Reply-To"] = ", ".join(wranglers)
        letter["Date"] = formatdate(localtime=False)
        letter["Message-ID"] = f"<dcc-{message.id}@{domain}>"
        # Mail programs group messages that refer to the same id, even if nobody sent that one.
        digest = hashlib.sha256(f"{self._sender}\0{message.thread}".encode()).hexdigest()[:24]
        letter["In-Reply-To"] = letter["References"] = f"<dcc-thread-{digest}@{domain}>"
        # Keeps holiday notices (RFC 3834) and older programs from answering.
        letter["Auto-Submitted"] = "auto-generated"
        letter["Precedence"] = "bulk"
        letter.set_content(message.text, charset="utf-8", cte="quoted-printable")
        if message.html:
            letter.add_alternative(message.html, subtype="html", charset="utf-8", cte="quoted-printable")
        for attachment in message.attachments:
            main, _, sub = attachment.media_type.partition("/")
            name = _one_line(attachment.name)
            letter.add_attachment(attachment.content, maintype=main, subtype=sub, filename=name)
        # Setting the content removes its headers.
        letter["Content-Language"] = message.language.replace("_", "-")
        return letter


def _one_line(text: str) -> str:
    return _UNFIT.sub(" ", text).strip()[:_LONGEST_SUBJECT]
