"""The revisions of the tracker's schema, and how rows of earlier ones are converted (see `dcc.databases.schema`)."""

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


_CONVERSIONS: Final = {9: _tell_severities, 19: _give_reasons}
REVISIONS: Final[Revisions] = {f"{number:04}": _CONVERSIONS.get(number) for number in range(1, 29)}
"""All revisions, oldest first, and the function that converts the rows of the one before."""
