"""The ways in which a session's report reaches people: by e-mail, and as a file in a directory.

To add a channel, write a `ReportChannel` and a function that makes it from the settings, and put that into CHANNELS.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import platform
import smtplib
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from dcc_resources.errors import ConfigurationError, ReportNotSentError
from dcc_resources.file_sources.certificates import tls_context
from dcc_resources.file_sources.remote_names import printable
from dcc_resources.file_sources.sockets import shut_down, time_limit
from dcc_resources.mail_addresses import MailServer, parse_smtp_url
from dcc_resources.private_files import SHARED_DIRECTORY, SHARED_FILE, make_directory, open_new
from dcc_resources.redaction import redact
from dcc_resources.settings import Settings

_SEND_SECONDS = 60.0
_LONGEST_ANSWER = 300


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one session, in plain text; `subject` is one line."""

    session_id: int
    subject: str
    text: str


class ReportChannel(Protocol):
    """One way in which a report reaches people."""

    def send(self, report: Report) -> str:
        """Send a report; returns a sentence that says where to. Raises ReportNotSentError."""
        ...


class SmtpChannel:
    """Sends reports by e-mail, to all recipients in one message.

    Encrypts with STARTTLS where the server offers it, and verifies its certificate. A password is never sent
    unencrypted, except to this very machine; a server there needs no encryption either where there is no password.
    """

    def __init__(self, server: MailServer, recipients: tuple[str, ...], settings: Settings) -> None:
        self._server, self._recipients = server, recipients
        self._sender = settings.report_from or f"dcc@{platform.node() or 'localhost'}"
        self._settings = settings

    def send(self, report: Report) -> str:
        """Send a report; see `ReportChannel.send`."""
        message = self._message(report)
        with self._translated():
            client = self._client()
            # Each answer has a time limit of its own; this one is for servers that trickle.
            with time_limit(_SEND_SECONDS, lambda: shut_down(client.sock)):
                try:
                    refused = self._deliver(client, message)
                    # The message is on its way: how the server takes leave does not matter.
                    with contextlib.suppress(smtplib.SMTPException, OSError):
                        client.quit()
                finally:
                    client.close()
        if refused:
            others = ", ".join(address for address in self._recipients if address not in refused)
            raise ReportNotSentError(
                f"The mail server {self._server.label} refused {', '.join(refused)}; the report was sent to {others}. "
                "Correct the addresses in DCC_REPORT_TO."
            )
        return (
            f"The report of session {report.session_id} was sent by e-mail to {', '.join(self._recipients)} "
            f"({self._server.label})."
        )

    def reach(self) -> str:
        """Connect and log in as for a report, and send nothing; the name of the server. Raises ReportNotSentError."""
        with self._translated():
            client = self._client()
            with time_limit(self._settings.connect_timeout, lambda: shut_down(client.sock)):
                try:
                    self._log_in(client)
                    with contextlib.suppress(smtplib.SMTPException, OSError):
                        client.quit()
                finally:
                    client.close()
        return self._server.label

    def _message(self, report: Report) -> EmailMessage:
        message = EmailMessage()
        message["Subject"] = report.subject
        message["From"] = self._sender
        message["To"] = ", ".join(self._recipients)
        message["Date"] = formatdate(localtime=False)
        message["Message-ID"] = make_msgid(f"dcc-session-{report.session_id}", self._sender.rpartition("@")[2])
        # So that no holiday notice answers (RFC 3834).
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(report.text, charset="utf-8", cte="quoted-printable")
        return message

    def _client(self) -> smtplib.SMTP:
        server, timeout = self._server, self._settings.connect_timeout
        if server.encrypted:
            context = tls_context(self._settings)
            return smtplib.SMTP_SSL(server.host, server.port, timeout=timeout, context=context)
        return smtplib.SMTP(server.host, server.port, timeout=timeout)

    def _deliver(self, client: smtplib.SMTP, message: EmailMessage) -> tuple[str, ...]:
        """Hand the message to the server; returns the recipients that it refused, if it took any."""
        self._log_in(client)
        return tuple(client.send_message(message))

    def _log_in(self, client: smtplib.SMTP) -> None:
        """Come to where a message can be handed over: encrypted and logged in, as far as need be."""
        server = self._server
        password = server.password.get_secret_value()
        client.ehlo_or_helo_if_needed()
        local = _is_local(server.host)
        if not server.encrypted and client.has_extn("starttls") and (password or not local):
            client.starttls(context=tls_context(self._settings))
        elif not server.encrypted and password and not local:
            raise ReportNotSentError(
                f"The mail server {server.label} offers no encryption, and the password is not sent without. "
                "Write smtps:// in DCC_SMTP_URL, name the port for submission (587), or leave user and password out."
            )
        if password:
            client.login(server.username, password)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn what smtplib raises into ReportNotSentError, with what the server said but without the password."""
        server, reason = self._server, ""
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            raise ReportNotSentError(
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
        except TimeoutError:
            reason = "did not answer in time"
        except smtplib.SMTPException as error:
            reason = f"cannot be used ({self._said(str(error))})"
        except (OSError, ValueError) as error:
            reason = f"could not be reached ({self._said(getattr(error, 'strerror', None) or type(error).__name__)})"
        if reason:
            # What smtplib raises may repeat the password, so it is not chained.
            raise ReportNotSentError(
                f"The report was not sent: the mail server {server.label} {reason}. Check DCC_SMTP_URL, DCC_REPORT_TO "
                "and DCC_REPORT_FROM, and that the server is up."
            )

    def _said(self, answer: bytes | str) -> str:
        text = answer if isinstance(answer, bytes) else answer.encode("utf-8", "replace")
        password = self._server.password.get_secret_value()
        return redact(printable(b" ".join(text.split())), (password,))[:_LONGEST_ANSWER]


class DirectoryChannel:
    """Writes reports as files `session-<id>.txt` into a directory, which is made if need be."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def send(self, report: Report) -> str:
        """Write a report; see `ReportChannel.send`."""
        path = self._directory / f"session-{report.session_id:06}.txt"
        # Whole or not at all, for others may be watching the directory.
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            make_directory(self._directory, SHARED_DIRECTORY)
            with os.fdopen(open_new(unfinished, SHARED_FILE), "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"{report.subject}\n\n{report.text}")
            unfinished.replace(path)
        except (OSError, ConfigurationError) as error:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).rstrip(".")
            raise ReportNotSentError(
                f"The report of session {report.session_id} could not be written to {path} ({reason}). "
                "Correct DCC_REPORT_DIRECTORY or its permissions."
            ) from error
        return f"The report of session {report.session_id} was written to {path}."


def _smtp_channel(settings: Settings) -> ReportChannel | None:
    recipients = settings.report_addresses
    return SmtpChannel(parse_smtp_url(settings.smtp_url), recipients, settings) if recipients else None


def _directory_channel(settings: Settings) -> ReportChannel | None:
    return None if settings.report_directory is None else DirectoryChannel(settings.report_directory)


CHANNELS: Mapping[str, Callable[[Settings], ReportChannel | None]] = MappingProxyType(
    {"file": _directory_channel, "smtp": _smtp_channel}
)
"""What makes each channel from the settings; None where these ask for no report by it."""


def open_channels(settings: Settings) -> list[ReportChannel]:
    """The channels that the settings ask for; none by default."""
    made = (make(settings) for make in CHANNELS.values())
    return [channel for channel in made if channel is not None]


def reach_mail_server(settings: Settings) -> str:
    """See that the mail server takes one in, and send nothing; what it is called. Raises ReportNotSentError."""
    return SmtpChannel(parse_smtp_url(settings.smtp_url), settings.report_addresses, settings).reach()


def _is_local(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"
