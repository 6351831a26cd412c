"""How e-mail leaves the platform: by the mail server of DCC_SMTP_URL, encrypted and logged in as far as need be."""

from __future__ import annotations

import contextlib
import ipaddress
import platform
import smtplib
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import EmailMessage

from dcc.errors import SourceTimeoutError, SourceUnreachableError, UnreachableError
from dcc.redaction import redact
from dcc.settings import Settings
from dcc.settings.mail_addresses import MailServer
from dcc.sources.access import Endpoint
from dcc.sources.certificates import tls_context
from dcc.sources.remote_names import printable
from dcc.sources.sockets import ask_resolver, open_socket, shut_down, time_limit

SEND_SECONDS = 60.0
_LONGEST_ANSWER = 300


@dataclass(frozen=True, slots=True)
class Wording:
    """How errors speak of what was to be sent: what it is, the settings to check, the class of the errors."""

    what: str
    check: str
    error: type[UnreachableError]


class MailTransport:
    """Hands messages to a mail server, one connection a message.

    Encrypts with STARTTLS where the server offers it, and verifies its certificate. A password is never sent
    unencrypted, except to this very machine; a server there needs no encryption either where there is no password.

    `answer_seconds` bounds each answer of the server, and all of `reach`; `send_seconds` a whole message, from looking
    for the server on.
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
        self._handed_over = False

    @property
    def label(self) -> str:
        """How messages name the server: `smtp://host:port`."""
        return self._server.label

    @property
    def may_have_arrived(self) -> bool:
        """Whether the last message that failed was handed over as a whole, and only the server's answer is missing."""
        return self._handed_over

    def deliver(self, message: EmailMessage, recipients: Sequence[str]) -> tuple[str, ...]:
        """Hand a message to the server, for all recipients at once; those that it refused, if it took any.

        Raises the error of the wording, without the password whatever the server says, and ConfigurationError for
        certificate authorities that cannot be read.
        """
        self._handed_over = False
        with self._translated(), self._client(self._send_seconds) as client:
            self._log_in(client)
            refused = tuple(client.send_message(message, to_addrs=list(recipients)))
            # The message is on its way: how the server takes leave does not matter.
            with contextlib.suppress(smtplib.SMTPException, OSError):
                client.quit()
        return refused

    def reach(self) -> str:
        """Connect and log in as for a message, and send nothing; the name of the server. Raises as `deliver`."""
        with self._translated(), self._client(self._answer_seconds) as client:
            self._log_in(client)
            with contextlib.suppress(smtplib.SMTPException, OSError):
                client.quit()
        return self._server.label

    @contextlib.contextmanager
    def _client(self, seconds: float) -> Iterator[smtplib.SMTP]:
        """A client that the server has greeted. To come to it and what is done with it take `seconds` at most."""
        server, until = self._server, time.monotonic() + seconds
        answer_seconds = min(self._answer_seconds, seconds)
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(
                open_socket(server.label, Endpoint(server.host, server.port), answer_seconds)
            )
            connection.settimeout(answer_seconds)
            # TLS takes the socket over; by a second one the connection can be shut down whatever is done with it.
            handle = stack.enter_context(connection.dup())
            # Each answer has a time limit of its own; this one is for servers that trickle.
            left = max(until - time.monotonic(), 0.0)
            stack.enter_context(time_limit(left, lambda: shut_down(handle)))
            own_name = _own_name(connection, min(answer_seconds, left / 2))
            if server.encrypted:
                context = tls_context(self._settings)
                connection = stack.enter_context(context.wrap_socket(connection, server_hostname=server.host))
            client = _Client(connection, server, own_name, answer_seconds)
            stack.callback(client.close)
            self._note_when_handed_over(client)
            yield client

    def _note_when_handed_over(self, client: smtplib.SMTP) -> None:
        answered = client.getreply

        def getreply() -> tuple[int, bytes]:
            # After DATA and its 354, what is waited for next is the answer to the message as a whole.
            waiting = self._handed_over
            code, said = answered()
            self._handed_over = code == 354 and not waiting
            return code, said

        client.getreply = getreply  # type: ignore[method-assign]

    def _log_in(self, client: smtplib.SMTP) -> None:
        """Come to where a message can be handed over: encrypted and logged in, as far as need be."""
        server = self._server
        password = server.password.get_secret_value()
        client.ehlo_or_helo_if_needed()
        local = is_local(server.host)
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
        """Turn what smtplib raises into an error of the platform, with what the server said but not the password."""
        server, reason = self._server, ""
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            raise self._wording.error(
                f"The TLS certificate of the mail server {server.label} could not be verified "
                f"({error.verify_message}). Have it corrected, or name the authority that signed it in DCC_TLS_CA_FILE."
            ) from error
        except smtplib.SMTPAuthenticationError as error:
            reason = f"refused the login of {server.username!r} ({self._said(error.smtp_error)})"
        except smtplib.SMTPRecipientsRefused as error:
            said = "; ".join(f"{address}: {self._said(answer)}" for address, (_, answer) in error.recipients.items())
            reason = f"refused every recipient ({said})"
        except smtplib.SMTPResponseException as error:
            reason = f"refused it ({error.smtp_code} {self._said(error.smtp_error)})"
        except (TimeoutError, SourceTimeoutError):
            reason = "did not answer in time"
        except smtplib.SMTPException as error:
            reason = f"cannot be used ({self._said(str(error))})"
        except (OSError, ValueError, SourceUnreachableError) as error:
            cause = error.__cause__ if isinstance(error, SourceUnreachableError) else error
            reason = f"could not be reached ({self._said(getattr(cause, 'strerror', None) or type(cause).__name__)})"
        if reason:
            # What smtplib raises may repeat the password, so it is not chained.
            raise self._wording.error(
                f"{self._wording.what} was not sent: the mail server {server.label} {reason}. Check "
                f"{self._wording.check}, and that the server is up."
            )

    def _said(self, answer: bytes | str) -> str:
        text = answer if isinstance(answer, bytes) else answer.encode("utf-8", "replace")
        password = self._server.password.get_secret_value()
        return redact(printable(b" ".join(text.split())), (password,))[:_LONGEST_ANSWER]


class _Client(smtplib.SMTP):
    """A client on a connection that is there already; it has been greeted when it is made."""

    def __init__(self, connection: socket.socket, server: MailServer, own_name: str, answer_seconds: float) -> None:
        self._connection = connection
        super().__init__(server.host, server.port, own_name, answer_seconds)

    def _get_socket(self, *_: object) -> socket.socket:
        return self._connection


def _own_name(connection: socket.socket, seconds: float) -> str:
    """What this machine calls itself to a mail server: its full name, else its address (RFC 5321, 4.1.3)."""
    with contextlib.suppress(TimeoutError):
        name = ask_resolver(socket.getfqdn, seconds)
        if "." in name:
            return name
    address = connection.getsockname()[0].partition("%")[0]
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


def sender_of(settings: Settings) -> str:
    """The address that e-mails come from."""
    return settings.report_from or f"dcc@{platform.node() or 'localhost'}"


def is_local(host: str) -> bool:
    """Whether a host is this very machine."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"
