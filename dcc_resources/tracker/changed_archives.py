"""What became of archives that changed on a file source: whether their data were uploaded, and where they came from."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, and_, func, or_, select

from dcc_resources.tracker.lineage import chunks
from dcc_resources.tracker.models import FileSourceHasZip, XmlFile, ZipDownload
from dcc_resources.tracker.reference import Phase, Status

_LOADED = or_(
    and_(XmlFile.phase_id > int(Phase.UPLOAD), XmlFile.status_id != int(Status.CANCELLED)),
    and_(
        XmlFile.phase_id == int(Phase.UPLOAD),
        XmlFile.status_id.in_([int(Status.RUNNING), int(Status.DONE)]),
    ),
)


def loaded_zips(connection: Connection, za_ids: Collection[int]) -> set[int]:
    """Those of the zip actions of which the QC database holds a document, of whichever download."""
    query = (
        select(FileSourceHasZip.za_id)
        .join(ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id)
        .join(XmlFile, XmlFile.zip_id == ZipDownload.id)
        .where(_LOADED)
        .distinct()
    )
    return {
        za_id for ids in chunks(za_ids) for za_id in connection.scalars(query.where(FileSourceHasZip.za_id.in_(ids)))
    }


def last_hostings(connection: Connection, za_ids: Collection[int]) -> dict[int, int]:
    """The hosting that each of the zip actions was downloaded from last; without those never downloaded."""
    found: dict[int, int] = {}
    for ids in chunks(za_ids):
        latest = (
            select(func.max(ZipDownload.id))
            .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
            .where(FileSourceHasZip.za_id.in_(ids))
            .group_by(FileSourceHasZip.za_id)
        )
        query = select(FileSourceHasZip.za_id, FileSourceHasZip.id).join(
            ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id
        )
        for za_id, hosting in connection.execute(query.where(ZipDownload.id.in_(latest))):
            found[za_id] = hosting
    return found
