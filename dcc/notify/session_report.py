"""Sends the report of a crawling session to data wranglers: that of `dcc report --session`, with a subject."""

from __future__ import annotations

import logging
from dataclasses import replace

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from dcc.databases.transactions import run_reading
from dcc.errors import DccError
from dcc.notify.channels.reports import Report, ways_to_send
from dcc.outcomes import FAILED_ENDS
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.collecting import collect_session
from dcc.reports.submissions.model import Noted
from dcc.reports.submissions.plain_text import WIDTH, render_text
from dcc.reports.submissions.sentences import troubles_sentence
from dcc.reports.submissions.stored_reports import qc_at_hand
from dcc.runtime.legible_text import legible, wrapped
from dcc.settings import Settings
from dcc.tracker.crawls import crawl_comment

log = logging.getLogger(__name__)


def send_session_report(tracker: Engine, settings: Settings, session_id: int) -> list[str]:
    """Send the report of a finished session in every way that the settings ask for; by default there is none.

    Returns a sentence for each: where the report was sent, or why not and what to do, which is also logged as a
    warning. Never raises DccError or SQLAlchemyError: the session's work stands without a report.
    """
    sentences: list[str] = []
    try:
        ways = ways_to_send(settings)
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
