"""The report of a session, as a test reads it."""

from sqlalchemy import Connection

from dcc.notify import session_report as reports
from dcc.notify.channels.reports import Report


def session_report(connection: Connection, session_id: int) -> Report:
    """The report of a session, which nobody is sent."""
    return reports.session_report(connection, session_id, failure_limit=3)
