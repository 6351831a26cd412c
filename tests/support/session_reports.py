"""The report of a session, as a test reads it."""

from sqlalchemy import Connection

from dcc.notify import session_report as reports
from dcc.notify.session_report import Report
from dcc.settings import Settings


def session_report(connection: Connection, session_id: int) -> Report:
    """The report of a session, which nobody is sent, without what the QC database knows."""
    return reports.session_report(connection, None, session_id, Settings())
