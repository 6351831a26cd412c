"""How session reports are sent: by e-mail, and as files in a directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from functools import partial
from pathlib import Path
from typing import Final

from dcc.errors import ConfigurationError, ReportNotSentError
from dcc.notify.channels.mail import MailTransport, Wording, sender_of
from dcc.runtime.private_files import SHARED_DIRECTORY, SHARED_FILE, make_directory, replacement_file
from dcc.settings import Settings
from dcc.settings.recipients import parse_smtp_url

REPORT_WORDING: Final = Wording("The report", "DCC_SMTP_URL, DCC_REPORT_TO and DCC_REPORT_FROM", ReportNotSentError)
"""What errors say of a report that cannot be sent."""


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one session, in plain text; `subject` is one line. `is_quiet`: nothing happened, nothing failed."""

    session_id: int
    subject: str
    text: str
    is_quiet: bool = False


def send_by_mail(settings: Settings, report: Report) -> str:
    """Send a report to all recipients of the settings in one e-mail; returns a sentence with its destination.

    Raises ReportNotSentError; see `MailTransport`.
    """
    transport = MailTransport(parse_smtp_url(settings.smtp_url), settings, REPORT_WORDING)
    recipients = settings.report_addresses
    refused = transport.deliver(_letter(report, sender_of(settings), recipients), recipients)
    if refused:
        others = ", ".join(address for address in recipients if address not in refused)
        raise ReportNotSentError(
            f"The mail server {transport.label} refused {', '.join(refused)}; the report was sent to {others}. "
            "Correct the addresses in DCC_REPORT_TO."
        )
    return (
        f"The report of session {report.session_id} was sent by e-mail to {', '.join(recipients)} ({transport.label})."
    )


def _letter(report: Report, sender: str, recipients: Sequence[str]) -> EmailMessage:
    letter = EmailMessage()
    letter["Subject"] = report.subject
    letter["From"] = sender
    letter["To"] = ", ".join(recipients)
    letter["Date"] = formatdate(localtime=False)
    letter["Message-ID"] = make_msgid(f"dcc-session-{report.session_id}", sender.rpartition("@")[2])
    # Keeps holiday notices from answering (RFC 3834).
    letter["Auto-Submitted"] = "auto-generated"
    letter.set_content(report.text, charset="utf-8", cte="quoted-printable")
    return letter


def write_to_directory(directory: Path, report: Report) -> str:
    """Write a report as `session-<id>.txt` into a directory, which is made; returns a sentence with its destination.

    Raises ReportNotSentError.
    """
    path = directory / f"session-{report.session_id:06}.txt"
    try:
        make_directory(directory, SHARED_DIRECTORY)
        # Complete or absent: other programs may watch the directory.
        with replacement_file(path, SHARED_FILE) as part:
            part.write_text(f"{report.subject}\n\n{report.text}", "utf-8", errors="backslashreplace")
    except (OSError, ConfigurationError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).rstrip(".")
        raise ReportNotSentError(
            f"The report of session {report.session_id} could not be written to {path} ({reason}). "
            "See to its permissions and its disk, or name another directory in DCC_REPORT_DIRECTORY."
        ) from error
    return f"The report of session {report.session_id} was written to {path}."


def ways_to_send(settings: Settings) -> list[Callable[[Report], str]]:
    """The functions that send a report as the settings ask; by default none."""
    ways: list[Callable[[Report], str]] = []
    if settings.report_directory is not None:
        ways.append(partial(write_to_directory, settings.report_directory))
    if settings.report_addresses:
        ways.append(partial(send_by_mail, settings))
    return ways
