"""What the tracker knows of the zip actions that have something in staging."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from sqlalchemy import Connection, and_, exists, or_, select

from dcc.operations.retention.policy import KnownArchive
from dcc.outcomes import ZipKey
from dcc.phases import Phase, Status
from dcc.tracker.lineage import IDS, latest_downloads, rows_by_id
from dcc.tracker.models import (
    FileSource,
    FileSourceHasZip,
    ResourceStateRow,
    XmlFile,
    ZipAction,
    ZipFile,
)
from dcc.tracker.queries.zip_action_rows import key_of, select_zip_actions
from dcc.tracker.register.connections import SourceState
from dcc.tracker.states import State

_NAMES_AT_ONCE: Final = 500
_UNFINISHED: Final = (int(Status.PENDING), int(Status.RUNNING))

_HOSTED: Final = (
    exists()
    .where(FileSourceHasZip.za_id == ZipAction.id, FileSourceHasZip.gone_since.is_(None))
    .where(FileSource.id == FileSourceHasZip.file_source_id)
    .where(ResourceStateRow.id == FileSource.state_id, ResourceStateRow.short_name == SourceState.AVAILABLE)
)
_WANTED_DOCUMENTS: Final = (
    select(XmlFile.zip_id, XmlFile.phase_id, XmlFile.status_id)
    .where(
        XmlFile.zip_id.in_(IDS),
        or_(
            and_(XmlFile.phase_id <= int(Phase.XSD), XmlFile.status_id.in_(_UNFINISHED)),
            and_(XmlFile.phase_id == int(Phase.XSD), XmlFile.status_id == int(Status.DONE)),
            and_(XmlFile.phase_id == int(Phase.UPLOAD), XmlFile.status_id.in_(_UNFINISHED)),
        ),
    )
    .group_by(XmlFile.zip_id, XmlFile.phase_id, XmlFile.status_id)
)


def known_archives(connection: Connection, keys: Collection[ZipKey]) -> dict[ZipKey, KnownArchive]:
    """What the tracker knows of zip actions; those that it does not know are left out."""
    rows = [row for row in _rows(connection, {key.file_name for key in keys}) if key_of(row) in keys]
    unvalidated, to_upload, held = _wanted(connection, [row.id for row in rows])
    return {
        key_of(row): KnownArchive(
            za_id=row.id,
            centre=row.centre,
            state=State(Phase(row.phase_id), Status(row.status_id)),
            changed=row.last_update,
            hosted=bool(row.hosted),
            validated=row.id not in unvalidated,
            to_upload=row.id in to_upload,
            held=row.id in held,
        )
        for row in rows
    }


def _rows(connection: Connection, file_names: Iterable[str]) -> list[Any]:
    query = select_zip_actions().add_columns(_HOSTED.label("hosted"))
    # What is no text in UTF-8 cannot be a name that the tracker holds.
    names = sorted(name for name in file_names if name.isprintable())
    found: list[Any] = []
    for start in range(0, len(names), _NAMES_AT_ONCE):
        found.extend(connection.execute(query.where(ZipFile.file_name.in_(names[start : start + _NAMES_AT_ONCE]))))
    return found


def _wanted(connection: Connection, za_ids: list[int]) -> tuple[set[int], set[int], set[int]]:
    """The zip actions with documents that are not validated yet, that wait to be uploaded, that are in upload."""
    latest = {download: za_id for za_id, download, _ in latest_downloads(connection, za_ids)}
    unvalidated: set[int] = set()
    to_upload: set[int] = set()
    held: set[int] = set()
    for download_id, phase, status in rows_by_id(connection, _WANTED_DOCUMENTS, latest):
        za_id = latest[download_id]
        if phase == Phase.UPLOAD:
            held.add(za_id)
        elif (phase, status) == (Phase.XSD, Status.DONE):
            to_upload.add(za_id)
        else:
            unvalidated.add(za_id)
    return unvalidated, to_upload, held
