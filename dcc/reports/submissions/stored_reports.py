"""Stored reports: of the submissions that a session worked on, in DCC_HOME/reports, where the settings ask for it.

A report is `<action>/<name>.html` and `.json`, readable by this user alone, and replaced as a whole. It is removed with
the archive in staging, or when it is as old as failed archives may be; `dcc report` makes it again at any time.
"""

from __future__ import annotations

import hashlib
import heapq
import logging
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from dcc.databases.engines import disposed
from dcc.errors import CleaningError, DccError, ExportError, NotFoundError
from dcc.messages import mark
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.runtime import json_values
from dcc.runtime.private_files import PRIVATE_FILE, make_directory, replacement_file, writing_errors
from dcc.settings import Settings

if TYPE_CHECKING:
    from dcc.reports.languages import Catalogue
    from dcc.reports.submissions.model import Report, SubmissionReport

MAX_REPORTS: Final = 200
"""Reports that one session keeps: of the worst submissions, and of these the newest."""
MAX_SECONDS: Final = 120.0
"""For which a session goes on making reports; one that was begun is finished."""
_MAX_PICTURES: Final = 4
_MAX_IN_A_ROW: Final = 5
"""Reports that cannot be made, one after the other, until what they have in common is taken for the reason."""
_SUFFIXES: Final = (".html", ".json")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,150}")
_DAY_SECONDS: Final = 86_400

log = logging.getLogger(__name__)


def reports_directory(settings: Settings) -> Path:
    """Where reports are kept."""
    return settings.home / "reports"


def report_path(settings: Settings, key: SubmissionKey) -> Path:
    """Where the report of a submission is kept, whether it is there or not.

    Names that do not follow the convention are written in letters that every file system has, with a checksum.
    """
    name = key.file_name
    if not _PLAIN_NAME.fullmatch(name):
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:60].lstrip("-") + f"~{digest}"
    return reports_directory(settings) / key.action.value / f"{name}.html"


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A stored report: the name of its file without the suffix, the submission and centre that this tells, if any, and
    when it was made (UTC, naive).
    """

    action: Action
    name: str
    key: SubmissionKey | None
    centre: str | None
    made: datetime


def list_reports(settings: Settings, limit: int, centre: str | None = None) -> list[StoredReport]:
    """The stored reports that were made last, of a centre if it is given, the newest first."""
    found = (report for report in _stored(settings) if centre in (None, report.centre))
    return heapq.nlargest(limit, found, key=lambda one: one.made)


def _stored(settings: Settings) -> Iterator[StoredReport]:
    for action in Action:
        for page in (reports_directory(settings) / action.value).glob("*.html"):
            # It may be removed meanwhile.
            with suppress(FileNotFoundError):
                made = datetime.fromtimestamp(page.lstat().st_mtime, UTC).replace(tzinfo=None)
                name = page.name.removesuffix(".html")
                key = SubmissionKey(action, name) if _PLAIN_NAME.fullmatch(name) else None
                yield StoredReport(action, name, key, settings.naming.centre_of_archive(name), made)


def stored_page(settings: Settings, action: Action, name: str) -> bytes:
    """The page of a stored report as it was made. Raises NotFoundError if there is none of that name."""
    if _PLAIN_NAME.fullmatch(name.replace("~", "_")):
        with suppress(OSError):
            return (reports_directory(settings) / action.value / f"{name}.html").read_bytes()
    text = mark("No report of {action}/{name} is kept. It may have been removed since.")
    raise NotFoundError(text, action=action.value, name=name)


def write_page(path: Path, text: str) -> None:
    """Write a page or JSON for this user alone, in place of what is there. Raises ExportError."""
    with writing_errors(path, ExportError), replacement_file(path, PRIVATE_FILE) as part:
        part.write_text(text, "utf-8", errors="backslashreplace")


def json_text(report: Report, catalogue: Catalogue) -> str:
    """A report as JSON, a text of several lines."""
    from dcc.reports.submissions.json_form import report_as_json

    return json_values.json_text(report_as_json(report, catalogue)) + "\n"


def write_reports(tracker: Engine, settings: Settings, session_id: int) -> list[str]:
    """Store the reports of a session that has ended, as DCC_SUBMISSION_REPORTS says; returns sentences for its log.

    At most `MAX_REPORTS`, and for `MAX_SECONDS`. A report that cannot be made affects no other. Raises nothing: the
    session's work stands with or without reports, even if a DCC's own template meets a fault.
    """
    if settings.submission_reports == "none":
        return []
    try:
        written, wanted, faults = _write_all(tracker, settings, session_id)
    except Exception as error:
        written, wanted, faults = 0, 0, [_tell(session_id, error)]
    sentences = []
    if written or (wanted and not faults):
        left = wanted - written - len(faults)
        more = f"; {left:,} more on demand: dcc report" if left else ""
        sentences.append(f"Kept {written:,} submission reports in {reports_directory(settings)}{more}.")
    if faults:
        others = f" {len(faults) - 1:,} more failed; see the log." if len(faults) > 1 else ""
        sentences.append(f"The submission reports of session {session_id} were not all kept: {faults[0]}{others}")
    return sentences


def _tell(session_id: int, error: Exception, key: SubmissionKey | None = None) -> str:
    """Log why reports, or that of a submission, are not kept; the same as a sentence."""
    of_zip = f"{key}: " if key is not None else ""
    if isinstance(error, DccError | SQLAlchemyError | OSError):
        is_known = isinstance(error, DccError)
        what = of_zip + (str(error) if is_known else f"a database or disk failed ({type(error).__name__}).")
        log.warning("Submission reports of session %s were not all kept: %s", session_id, what)
        return what
    log.error("Submission reports of session %s met a fault: %s", session_id, key or "all", exc_info=error)
    return (
        f"{of_zip}{type(error).__name__}. Look at the templates in DCC_TEMPLATES_DIRECTORY, if any; else it is a fault "
        "of the platform: report it with the log."
    )


def _write_all(tracker: Engine, settings: Settings, session_id: int) -> tuple[int, int, list[str]]:
    """Write the reports that a session is to keep; how many were written, how many there would be, and what failed."""
    from dcc.reports.submissions.submission_lines import submissions_of_session
    from dcc.tracker.crawls import list_sessions
    from dcc.tracker.queries.session_submissions import session_submission_ids

    began = time.monotonic()
    with tracker.connect() as connection:
        sessions = list_sessions(connection, ids=[session_id])
        lines = [
            line
            for session in sessions
            for line in submissions_of_session(connection, session, session_submission_ids(connection, session))
        ]
    only_bad = settings.submission_reports == "failed"
    keys = [line.key for line in lines if not only_bad or line.tone.needs_somebody]
    written = in_a_row = 0
    faults: list[str] = []
    if not keys:
        return 0, 0, faults
    with qc_at_hand(settings) as (qc, missing), tracker.connect() as connection:
        for key in keys[:MAX_REPORTS]:
            if time.monotonic() - began > MAX_SECONDS or in_a_row == _MAX_IN_A_ROW:
                break
            try:
                store_report(connection, qc, missing, key, settings)
                written += 1
                in_a_row = 0
            except Exception as error:
                faults.append(_tell(session_id, error, key))
                in_a_row += 1
            # What is read for the next one is as it is then, and no transaction is open for minutes.
            for read in (connection, qc):
                if read is not None:
                    read.rollback()
    return written, len(keys), faults


class WrittenReport(NamedTuple):
    """A report that was stored, the path of its page, and its language."""

    report: SubmissionReport
    page: Path
    language: str


def store_report(
    tracker: Connection,
    qc: Connection | None,
    missing: str | None,
    key: SubmissionKey,
    settings: Settings,
    *,
    max_pictures: int = _MAX_PICTURES,
) -> WrittenReport:
    """Store the report of a submission in its centre's language; `missing` says why there is no QC database.

    Raises NotFoundError, ExportError and ConfigurationError.
    """
    from dcc.reports.languages import load_catalogue
    from dcc.reports.submissions.collecting import collect_submission, draw_pictures, language_of
    from dcc.reports.submissions.page import render_html

    catalogue = load_catalogue(language_of(tracker, key), settings)
    report = replace(
        collect_submission(tracker, qc, key, settings, qc_missing=missing),
        pictures=draw_pictures(qc, key, settings, catalogue, max_pictures),
    )
    page = report_path(settings, key)
    try:
        make_directory(page.parent)
    except OSError as error:
        raise ExportError(
            f"The directory {page.parent} of reports cannot be made: {error.strerror or error}. Make it, or give its "
            "parent to this user."
        ) from error
    write_page(page, render_html(report, catalogue, settings))
    write_page(page.with_suffix(".json"), json_text(report, catalogue))
    return WrittenReport(report, page, catalogue.code)


@contextmanager
def qc_at_hand(settings: Settings) -> Iterator[tuple[Connection | None, str | None]]:
    """A connection to the QC database, or None and why there is none: not made, of another version, or away."""
    from dcc.databases.schema import require_current
    from dcc.qc.database import open_qc_database

    with disposed(open_qc_database(settings)) as engine:
        try:
            require_current(engine)
            connection = engine.connect()
        except DccError as error:
            yield None, str(error)
            return
        with connection:
            yield connection, None


def remove_reports(settings: Settings, keys: Iterable[SubmissionKey]) -> None:
    """Remove the kept reports of submissions, where there are any. Raises CleaningError."""
    for key in keys:
        for suffix in _SUFFIXES:
            _remove(report_path(settings, key).with_suffix(suffix))


def remove_old_reports(settings: Settings, days: int) -> None:
    """Remove the kept reports that were made more than so many days ago. Raises CleaningError."""
    oldest = time.time() - days * _DAY_SECONDS
    for path in sorted(reports_directory(settings).glob("*/*")):
        # `dcc report` may have just put it in the place of another one.
        with suppress(FileNotFoundError):
            if path.suffix in (*_SUFFIXES, ".part") and path.lstat().st_mtime < oldest:
                _remove(path)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise CleaningError(
            f"The report {path} cannot be removed: {error.strerror or error}. See to the permissions of its directory."
        ) from error
