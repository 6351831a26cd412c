"""Sends the report of a crawling session to data wranglers: that of `dcc report --session`, with a subject."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from dcc.databases.transactions import run_reading
from dcc.errors import ConfigurationError, DccError, ReportNotSentError
from dcc.notify.channels.mail import MailTransport, Wording, sender_of
from dcc.outcomes import FAILED_ENDS
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.collecting import collect_session
from dcc.reports.submissions.model import Noted
from dcc.reports.submissions.plain_text import WIDTH, render_text
from dcc.reports.submissions.sentences import troubles_sentence
from dcc.reports.submissions.stored_reports import qc_at_hand
from dcc.runtime.legible_text import legible, wrapped
from dcc.runtime.private_files import SHARED_DIRECTORY, SHARED_FILE, make_directory, replacement_file
from dcc.settings import Settings
from dcc.settings.recipients import parse_smtp_url
from dcc.tracker.crawls import crawl_comment

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
    server = parse_smtp_url(settings.smtp_url)
    recipients = settings.report_addresses
    sender = sender_of(settings)
    letter = EmailMessage()
    letter["Subject"] = report.subject
    letter["From"] = sender
    letter["To"] = ", ".join(recipients)
    letter["Date"] = formatdate(localtime=False)
    letter["Message-ID"] = make_msgid(f"dcc-session-{report.session_id}", sender.rpartition("@")[2])
    # Keeps holiday notices from answering (RFC 3834).
    letter["Auto-Submitted"] = "auto-generated"
    letter.set_content(report.text, charset="utf-8", cte="quoted-printable")
    refused = MailTransport(server, settings, REPORT_WORDING).deliver(letter, recipients)
    if refused:
        others = ", ".join(address for address in recipients if address not in refused)
        raise ReportNotSentError(
            f"The mail server {server.label} refused {', '.join(refused)}; the report was sent to {others}. "
            "Correct the addresses in DCC_REPORT_TO."
        )
    return f"The report of session {report.session_id} was sent by e-mail to {', '.join(recipients)} ({server.label})."


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


log = logging.getLogger(__name__)


def send_session_report(tracker: Engine, settings: Settings, session_id: int) -> list[str]:
    """Send the report of a finished session in every way that the settings ask for; by default there is none.

    Returns a sentence for each: where the report was sent, or why not and what to do, which is also logged as a
    warning. Never raises DccError or SQLAlchemyError: the session's work stands without a report.
    """
    sentences: list[str] = []
    try:
        ways: list[Callable[[Report], str]] = []
        if settings.report_directory is not None:
            ways.append(partial(write_to_directory, settings.report_directory))
        if settings.report_addresses:
            ways.append(partial(send_by_mail, settings))
        if not ways:
            return sentences
        with qc_at_hand(settings) as (qc, missing):
            report = run_reading(
                tracker, lambda connection: session_report(connection, qc, session_id, settings, missing)
            )
        if report.is_quiet and not settings.report_quiet_sessions:
            return sentences
        report = replace(report, subject=settings.labelled(report.subject))
    except (DccError, SQLAlchemyError) as error:
        return [_not_sent(session_id, error)]
    for send in ways:
        try:
            sentences.append(send(report))
        except DccError as error:
            sentences.append(_not_sent(session_id, error))
        else:
            log.info("%s", sentences[-1])
    return sentences


def _not_sent(session_id: int, error: Exception) -> str:
    what = str(error) if isinstance(error, DccError) else f"The tracker could not be read ({type(error).__name__})."
    log.warning("Report of session %s: %s", session_id, what)
    return what


def session_report(
    tracker: Connection, qc: Connection | None, session_id: int, settings: Settings, missing: str | None = None
) -> Report:
    """The report of a session in plain text, in the language of DCC_LANGUAGE; `missing` says why there is no `qc`.

    Raises NotFoundError if the session does not exist, and ConfigurationError.
    """
    catalogue = load_catalogue(None, settings)
    report = collect_session(tracker, qc, session_id, settings, qc_missing=missing)
    title = catalogue.say(
        "DCC session {number}: {troubles}", number=session_id, troubles=troubles_sentence(catalogue, report)
    )
    noticed = any(section.kind is Noted.FINDINGS for section in report.sections)
    is_quiet = not (report.zips or noticed or report.sources_in_trouble or report.outcome in FAILED_ENDS)
    told = {crawl_comment(source.title) for source in report.sources if source.crawl_error}
    failed = [error for error in report.task_errors if error not in told]
    lines = [catalogue.say("Failed: {what}", what=legible(error)) for error in failed]
    lines.append(catalogue.say("See also: {command}", command="dcc status; dcc show <action>/<zip>; dcc ui"))
    more = "".join(f"{piece}\n" for line in lines for piece in wrapped(line, WIDTH, "  "))
    return Report(session_id, title, f"{render_text(report, catalogue)}\n{more}", is_quiet)
