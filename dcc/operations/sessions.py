"""Crawling sessions with the work at their end: archives stored, staging cleaned, reports, notifications, metrics.

The settings say which of these happen; each result is added to the session's notices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy import Engine

from dcc.errors import SessionTimeLimitError
from dcc.redaction import redacted
from dcc.session.sessions import Session, hold_session
from dcc.settings import Settings


def open_session(
    tracker: Engine, settings: Settings, *, group: str | None = None, resume: int | None = None
) -> AbstractContextManager[Session]:
    """Open a crawling session, hold it while the block runs (see `hold_session`), and do what the settings ask for at
    its end.

    The session is for a group of centres, or for all. Raises NotFoundError for a group that the settings do not name,
    and SessionActiveError while another process has a session of one of the centres. Raises SessionLostError when the
    lease was lost meanwhile.
    """
    return hold_session(tracker, settings, _SessionEnd(tracker, settings), group=group, resume=resume)


@dataclass(frozen=True, slots=True)
class _SessionEnd:
    """The work at the end of a session. Each part is imported when it is needed."""

    tracker: Engine
    settings: Settings

    def begin(self, session: Session) -> None:
        if self.settings.openlineage_url is not None:
            from dcc.operations.openlineage.sending import send_begin

            send_begin(self.settings, session)

    def clean(self, session: Session) -> Iterator[str]:
        from dcc.operations.archive_copies import catch_up_after_session

        yield from catch_up_after_session(self.tracker, self.settings, session)
        if self.settings.staging_clean:
            from dcc.operations.retention.cleanup import clean_after_session

            yield from clean_after_session(self.tracker, self.settings, session)

    def notify(self, session: Session, failure: Exception | None, *, completed: bool) -> Iterator[str]:
        # A person who interrupts a session does not want to wait for a mail server.
        ended = failure is not None or (completed and not session.is_handed_over)
        failure = None if isinstance(failure, SessionTimeLimitError) else failure
        # An error that is not the platform's own may repeat a secret.
        broke_off = None if failure is None else redacted(str(failure)) or type(failure).__name__
        if ended and self.settings.asks_for_reports:
            from dcc.notify.session_report import send_session_report

            yield from send_session_report(self.tracker, self.settings, session.id)
        if ended or completed:
            from dcc.notify.channels.base import notifies

            if notifies(self.settings):
                from dcc.notify.notifications import notify_after_session

                yield from notify_after_session(self.tracker, self.settings, session, ended=ended, broke_off=broke_off)
            if self.settings.submission_reports != "none":
                from dcc.reports.submissions.stored_reports import write_reports

                yield from write_reports(self.tracker, self.settings, session.id)
        if self.settings.openlineage_url is not None and not session.is_handed_over:
            from dcc.operations.openlineage.sending import send_end

            yield from send_end(self.tracker, self.settings, session.id, broke_off)

    def write_metrics(self) -> Iterable[str]:
        path = self.settings.metrics_file
        if path is None:
            return ()
        from dcc.operations.metrics.collector import write_metrics_file

        return write_metrics_file(self.settings, path)
