"""The submissions that wait for a session."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from dcc.outcomes import ZipKey
from dcc.phases import Phase, State, Status
from dcc.tracker.decisions import is_on_hold
from dcc.tracker.hostings.download_plan import hosted
from dcc.tracker.hostings.foreign_archives import may_be_taken
from dcc.tracker.models import FileSource, ZipAction, ZipFile
from dcc.tracker.queries.zip_filters import OLDEST_FIRST
from dcc.tracker.states import WAITING
from dcc.tracker.submission_rows import KEY, is_at, named_after, zip_key_of


def waiting_zip_actions(
    connection: Connection,
    *,
    centres: Collection[str] | None = None,
    sources: Collection[int] | None = None,
    limit: int | None = None,
) -> list[ZipKey]:
    """The submissions that a session would process, oldest first; of archives of some `centres` alone, if given.

    Those at (zip_name, done) that an available source of an active centre hosts now, complete, wait for their download.
    `sources` are the ids of those that may be used, if not all may. Those between (zip_md5, pending) and (xsd, running)
    were left unfinished by a dead session.
    """
    obtainable = hosted(select(ZipAction.id)).where(is_at(ZipAction, WAITING), may_be_taken())
    if sources is not None:
        obtainable = obtainable.where(FileSource.id.in_(sorted(sources)))
    waiting = and_(is_at(ZipAction, WAITING), ZipAction.id.in_(obtainable))
    query = (
        select(*KEY)
        .join(ZipFile)
        .where(or_(waiting, _interrupted()), ~is_on_hold(), named_after(centres))
        .order_by(*OLDEST_FIRST)
        .limit(limit)
    )
    return [zip_key_of(row) for row in connection.execute(query)]


def _interrupted() -> ColumnElement[bool]:
    # One equality on the phase for each term: both databases then use the index on (phase_id, status_id) only.
    phases = (Phase.ZIP_MD5, Phase.UNZIP, Phase.XML_NAME, Phase.XSD)
    under_way = [State(phase, status) for phase in phases for status in (Status.PENDING, Status.RUNNING, Status.DONE)]
    return is_at(ZipAction, *under_way[:-1])
