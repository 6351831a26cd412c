"""What operations does around a session's work: events, stored archives, cleaning, notifications, metrics.

The settings say which of these happen; each result is added to the session's notices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlalchemy import Engine

from dcc.errors import SessionTimeLimitError
from dcc.redaction import redacted
from dcc.session.sessions import Session
from dcc.settings import Settings


@dataclass(frozen=True, slots=True)
class OperationsAroundSession:
    """The steps that the settings ask for (see `AroundSession`). Each part is imported when it is needed."""

    tracker: Engine
    settings: Settings

    def begun(self, session: Session) -> None:
        """Send the OpenLineage event of its begin."""
        if self.settings.openlineage_url is not None:
            from dcc.operations.openlineage.sending import send_begin

            send_begin(self.settings, session)

    def clean(self, session: Session) -> Iterator[str]:
        """Complete the copies of archives in the store, and remove staged files that nobody needs any more."""
        from dcc.operations.archive_audits import catch_up_after_session

        yield from catch_up_after_session(self.tracker, self.settings, session)
        if self.settings.staging_clean:
            from dcc.operations.staging.cleanup import clean_after_session

            yield from clean_after_session(self.tracker, self.settings, session)

    def notify(self, session: Session, failure: Exception | None, *, completed: bool) -> Iterator[str]:
        """Send the session's report, messages and OpenLineage events, and write the reports of its submissions.

        Also the reports and events of sessions that were handed over and that nobody went on with.
        """
        # A person who interrupts a session does not want to wait for a mail server.
        ended = failure is not None or (completed and not session.is_handed_over)
        failure = None if isinstance(failure, SessionTimeLimitError) else failure
        # An error that is not the platform's own may repeat a secret.
        broke_off = None if failure is None else redacted(str(failure)) or type(failure).__name__
        if ended or completed:
            if self.settings.asks_for_reports:
                from dcc.notify.session_report import send_session_report

                for number in (*session.left_open, *([session.id] if ended else ())):
                    yield from send_session_report(self.tracker, self.settings, number)
            from dcc.notify.channels.open_channels import notifies

            if notifies(self.settings):
                from dcc.notify.notifications import notify_after_session

                yield from notify_after_session(self.tracker, self.settings, session, ended=ended, broke_off=broke_off)
            if self.settings.submission_reports != "none":
                from dcc.reports.submissions.stored_reports import write_reports

                yield from write_reports(self.tracker, self.settings, session.id)
        if self.settings.openlineage_url is not None:
            from dcc.operations.openlineage.sending import send_end

            for number in session.left_open:
                yield from send_end(self.tracker, self.settings, number, None)
            if not session.is_handed_over:
                yield from send_end(self.tracker, self.settings, session.id, broke_off)

    def write_metrics(self) -> Iterable[str]:
        """Write the file of metrics."""
        path = self.settings.metrics_file
        if path is None:
            return ()
        from dcc.operations.metrics.collector import write_metrics_file

        return write_metrics_file(self.settings, path)
