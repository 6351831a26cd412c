"""The report of a session, as a test reads it."""

from sqlalchemy import Connection

from dcc.notify.channels.reports import Report
from dcc.notify.session_report import load_facts, render_report


def session_report(connection: Connection, session_id: int) -> Report:
    """The report of a session, which nobody is sent."""
    return render_report(load_facts(connection, session_id, failure_limit=3))
