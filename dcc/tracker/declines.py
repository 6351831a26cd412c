"""Declining an archive on another centre's source, and revoking that; both centres get a notice.

Functions that write expect the caller's write transaction.
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from dcc.errors import ConfigurationError, NotFoundError
from dcc.outcomes import ZipKey
from dcc.tracker.hostings import declined_archives
from dcc.tracker.hostings.declined_archives import Decline
from dcc.tracker.hostings.foreign_archives import HeldArchive, held_archives
from dcc.tracker.hostings.owner_notices import NewNotice, Outcome, add_notices
from dcc.tracker.queries.zip_stories import require_zip_action


def decline_archive(connection: Connection, key: ZipKey, *, declined_by: str, reason: str) -> Decline:
    """Decline a held archive; the centre of its name and those of its sources get a notice.

    Raises NotFoundError if it is not held, ConfigurationError if it is declined already, and for a reason that is blank
    or too long.
    """
    require_zip_action(connection, key)
    found = held_archives(connection, key=key)
    if not found:
        raise NotFoundError(
            f"{key} is not held as an archive: see how far it is with `dcc show {key}`. Documents of it that are held "
            f"are turned down with `dcc data undo {key} --reason ...`."
        )
    (held,) = found
    if held.declined is not None:
        raise ConfigurationError(held.message)
    made = declined_archives.decline(connection, held.za_id, declined_by=declined_by, reason=reason)
    _tell(connection, held, NewNotice("", held.za_id, Outcome.DECLINED, done_by=declined_by, reason=made.reason))
    return made


def accept_archive(connection: Connection, key: ZipKey, *, revoked_by: str) -> Decline:
    """Let a declined archive wait again. Raises NotFoundError if it is not declined."""
    require_zip_action(connection, key)
    wanted = [one for one in declined_archives.list_declines(connection) if one.key == key]
    ended = None
    if wanted:
        ended = declined_archives.revoke_decline(connection, wanted[0].za_id, revoked_by=revoked_by)
    if ended is None:
        raise NotFoundError(f"{key} is not turned down at present. See: dcc archive declined --all")
    for held in held_archives(connection, key=key):
        _tell(connection, held, NewNotice("", held.za_id, Outcome.HELD, done_by=revoked_by))
    return ended


def _tell(connection: Connection, held: HeldArchive, notice: NewNotice) -> None:
    """Add notices for the archive's centre and those of its sources, even if they got the same before."""
    add_notices(connection, [replace(notice, owner=centre) for centre in (held.owner, *held.hosts)], again=True)
