"""The language of a report: that of the centre that reads it."""

from __future__ import annotations

from sqlalchemy import Connection, select

from dcc.outcomes import ZipKey
from dcc.phases import ACTION_IDS
from dcc.tracker.models import Centre, FileSource, FileSourceHasZip, ZipAction, ZipFile


def language_of_centre(tracker: Connection, centre: str) -> str | None:
    """The language of a centre; None where it has none of its own, or is not registered."""
    return tracker.scalar(select(Centre.language).where(Centre.short_name == centre))


def language_of_zip(tracker: Connection, key: ZipKey) -> str | None:
    """The language of a submission's centre: by the archive's name or, if that names none, by its file source."""
    named = (
        select(ZipAction.id, Centre.id.label("centre_id"), Centre.language)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .outerjoin(Centre, Centre.id == ZipFile.centre_id)
        .where(ZipFile.file_name == key.file_name, ZipAction.todo_id == ACTION_IDS[key.action])
    )
    row = tracker.execute(named).first()
    if row is None:
        return None
    if row.centre_id is not None:
        return str(row.language) if row.language else None
    hosting = (
        select(Centre.language)
        .join(FileSource, FileSource.centre_id == Centre.id)
        .join(FileSourceHasZip, FileSourceHasZip.file_source_id == FileSource.id)
        .where(FileSourceHasZip.za_id == row.id)
        .order_by(FileSourceHasZip.id)
        .limit(1)
    )
    return tracker.scalar(hosting)
