"""The submissions that wait for a session."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, Select, and_, or_, select

from dcc.outcomes import ZipKey
from dcc.phases import Phase, State, Status
from dcc.tracker.decisions import is_on_hold
from dcc.tracker.hostings.foreign_archives import may_be_taken
from dcc.tracker.models import Centre, FileSource, FileSourceHasZip, ResourceStateRow, ZipAction, ZipFile
from dcc.tracker.queries.zip_filters import OLDEST_FIRST
from dcc.tracker.register.source_addresses import in_use
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
    obtainable = _obtainable()
    if sources is not None:
        obtainable = obtainable.where(FileSourceHasZip.file_source_id.in_(sorted(sources)))
    waiting = and_(is_at(ZipAction, WAITING), obtainable.exists())
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


def _obtainable() -> Select[int]:
    return (
        select(FileSourceHasZip.id)
        .join(FileSource)
        .join(ResourceStateRow)
        .join(Centre, Centre.id == FileSource.centre_id)
        .where(
            FileSourceHasZip.za_id == ZipAction.id,
            FileSourceHasZip.gone_since.is_(None),
            FileSourceHasZip.missed_since.is_(None),
            FileSourceHasZip.uploading_since.is_(None),
            in_use(),
            may_be_taken(),
        )
        .correlate(ZipAction, ZipFile)
    )
