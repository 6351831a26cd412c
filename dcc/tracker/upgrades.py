"""The revisions of the tracker's schema, and how rows of earlier ones are converted (see `dcc.databases.upgrades`)."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, case, column, table, update

from dcc.databases.database import Revisions

_MARKS = {"Warning: ": "warning", "Not checked: ": "unchecked"}


def _tell_severities(connection: Connection) -> None:
    """Set the severities of warnings and unchecked rules."""
    log = table("xml_log", column("message"), column("severity"))
    for mark, severity in _MARKS.items():
        connection.execute(update(log).where(log.c.message.like(f"{mark}%")).values(severity=severity))


def _give_reasons(connection: Connection) -> None:
    """Say why earlier sessions ended: by a person, or in the only two ways that DCC distinguished."""
    session = table("crawling_session", column("status"), column("finish_time"), column("end_reason"))
    reason = case((session.c.status == 0, "finished"), (session.c.status == -2, "stopped"), else_="faults")
    ended = session.c.finish_time.is_not(None) & session.c.end_reason.is_(None)
    connection.execute(update(session).where(ended).values(end_reason=reason))


REVISIONS: Final[Revisions] = {
    "0001": None,
    "0002": None,
    "0003": None,
    "0004": None,
    "0005": None,
    "0006": None,
    "0007": None,
    "0008": None,
    "0009": _tell_severities,
    "0010": None,
    "0011": None,
    "0012": None,
    "0013": None,
    "0014": None,
    "0015": None,
    "0016": None,
    "0017": None,
    "0018": None,
    "0019": _give_reasons,
    "0020": None,
    "0021": None,
    "0022": None,
    "0023": None,
    "0024": None,
    "0025": None,
    "0026": None,
    "0027": None,
}
"""All revisions, oldest first, and the function that converts the rows of the one before."""
