"""How session reports are sent: by e-mail, and as files in a directory.

To add a way, write a `ReportChannel` and a function that makes it from the settings, and add the function to CHANNELS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from dcc.errors import ConfigurationError, ReportNotSentError
from dcc.notify.channels.mail import MailTransport, Wording, sender_of
from dcc.runtime.private_files import SHARED_DIRECTORY, SHARED_FILE, make_directory, replacement_file
from dcc.settings import Settings
from dcc.settings.recipients import MailServer, parse_smtp_url

_WORDING = Wording("The report", "DCC_SMTP_URL, DCC_REPORT_TO and DCC_REPORT_FROM", ReportNotSentError)


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one session, in plain text; `subject` is one line."""

    session_id: int
    subject: str
    text: str


class ReportChannel(Protocol):
    """One way in which a report reaches people."""

    def send(self, report: Report) -> str:
        """Send a report; returns a sentence with its destination. Raises ReportNotSentError."""
        ...


class SmtpChannel:
    """Sends reports by e-mail, to all recipients in one message; see `MailTransport`."""

    def __init__(self, server: MailServer, recipients: tuple[str, ...], settings: Settings) -> None:
        self._recipients, self._sender = recipients, sender_of(settings)
        self._transport = MailTransport(server, settings, _WORDING)

    def send(self, report: Report) -> str:
        """Send a report; see `ReportChannel.send`."""
        label = self._transport.label
        refused = self._transport.deliver(self._message(report), self._recipients)
        if refused:
            others = ", ".join(address for address in self._recipients if address not in refused)
            raise ReportNotSentError(
                f"The mail server {label} refused {', '.join(refused)}; the report was sent to {others}. "
                "Correct the addresses in DCC_REPORT_TO."
            )
        return (
            f"The report of session {report.session_id} was sent by e-mail to {', '.join(self._recipients)} ({label})."
        )

    def reach(self) -> str:
        """Connect and log in without sending anything; returns the server's name. Raises ReportNotSentError."""
        return self._transport.reach()

    def _message(self, report: Report) -> EmailMessage:
        message = EmailMessage()
        message["Subject"] = report.subject
        message["From"] = self._sender
        message["To"] = ", ".join(self._recipients)
        message["Date"] = formatdate(localtime=False)
        message["Message-ID"] = make_msgid(f"dcc-session-{report.session_id}", self._sender.rpartition("@")[2])
        # Keeps holiday notices from answering (RFC 3834).
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(report.text, charset="utf-8", cte="quoted-printable")
        return message


class DirectoryChannel:
    """Writes reports as files `session-<id>.txt` into a directory, and makes the directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def send(self, report: Report) -> str:
        """Write a report; see `ReportChannel.send`."""
        path = self._directory / f"session-{report.session_id:06}.txt"
        try:
            make_directory(self._directory, SHARED_DIRECTORY)
            # Complete or absent: other programs may watch the directory.
            with replacement_file(path, SHARED_FILE) as part:
                part.write_text(f"{report.subject}\n\n{report.text}", "utf-8", errors="backslashreplace")
        except (OSError, ConfigurationError) as error:
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
"""Makes each channel from the settings; None if these do not ask for it."""


def open_channels(settings: Settings) -> list[ReportChannel]:
    """The channels that the settings ask for; by default none."""
    made = (make(settings) for make in CHANNELS.values())
    return [channel for channel in made if channel is not None]


def reach_mail_server(settings: Settings) -> str:
    """Check that the mail server accepts a login, without sending; returns its name. Raises ReportNotSentError."""
    return SmtpChannel(parse_smtp_url(settings.smtp_url), settings.report_addresses, settings).reach()
