"""What a session worked on, for lineage: its archives, their documents, and the rows that each document opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine, Row, select

from dcc.databases.engines import disposed
from dcc.databases.transactions import run_reading
from dcc.outcomes import ZipKey
from dcc.phases import Phase, Status
from dcc.qc.database import open_qc_database
from dcc.qc.models import DOCUMENT
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.tracker.crawls import SessionEntry, list_sessions
from dcc.tracker.models import FileSourceHasZip, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.queries.session_zips import session_zip_ids
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.submission_rows import IDS, KEY, newest_downloads, object_of, rows_by_id

ENTITIES = ("specimen", "experiment", "line", "housing", "measurement")
"""The QC tables whose rows the document table counts, each in a column of its name with an s."""


@dataclass(frozen=True, slots=True)
class SessionDocument:
    """A document; `rows` are the numbers of rows that it opened in the QC tables, by their names."""

    name: str
    size_bytes: int | None
    phase: Phase
    status: Status
    rows: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionArchive:
    """A submission with the source of its latest download, if any, and its documents."""

    key: ZipKey
    source: SourceAddress | None
    size_bytes: int | None
    phase: Phase
    status: Status
    documents: Sequence[SessionDocument]


@dataclass(frozen=True, slots=True)
class SessionDatasets:
    """A session as the tracker records it, the sources that it crawled, and its archives."""

    session: SessionEntry
    sources: Sequence[SourceAddress]
    archives: Sequence[SessionArchive]


def load_session_datasets(tracker: Engine, settings: Settings, session_id: int) -> SessionDatasets:
    """What a session worked on. Raises DatabaseUnreachableError and SQLAlchemyError."""
    patience = settings.database_retry
    session, addresses, archives, documents = run_reading(
        tracker, lambda connection: _of_tracker(connection, session_id), patience_seconds=patience
    )
    rows: dict[int, dict[str, int]] = {}
    if documents and any(task.phase is Phase.UPLOAD for task in session.tasks):
        with disposed(open_qc_database(settings)) as qc:
            ids = list(documents)
            rows = run_reading(qc, lambda connection: _opened_rows(connection, ids), patience_seconds=patience)
    of_download: dict[int, list[SessionDocument]] = {}
    for number, (download, name, size_bytes, phase, status) in documents.items():
        known = SessionDocument(name, size_bytes, Phase(phase), Status(status), rows.get(number, {}))
        of_download.setdefault(download, []).append(known)
    crawled = {crawl.source for crawl in session.crawls}
    return SessionDatasets(
        session,
        [one for one in addresses.values() if one.id in crawled],
        [
            object_of(
                SessionArchive,
                row,
                source=addresses.get(row.file_source_id),
                documents=of_download.get(row.download_id, []),
            )
            for row in archives
        ],
    )


def _of_tracker(
    connection: Connection, session_id: int
) -> tuple[SessionEntry, dict[int, SourceAddress], Sequence[Row[Any]], dict[int, Sequence[Any]]]:
    (session,) = list_sessions(connection, ids=[session_id])
    addresses = {one.id: one for one in load_addresses(connection, only_crawlable=False)}
    latest = newest_downloads()
    query = (
        select(
            *KEY,
            ZipAction.phase_id,
            ZipAction.status_id,
            ZipFile.size_bytes,
            latest.c.download_id,
            FileSourceHasZip.file_source_id,
        )
        .join(ZipFile)
        .outerjoin(latest, latest.c.za_id == ZipAction.id)
        .outerjoin(ZipDownload, ZipDownload.id == latest.c.download_id)
        .outerjoin(FileSourceHasZip)
        .where(ZipAction.id.in_(session_zip_ids(connection, session)))
        .order_by(ZipAction.id)
    )
    archives = connection.execute(query).all()
    downloads = [row.download_id for row in archives if row.download_id is not None]
    documents = {number: row for number, *row in rows_by_id(connection, _DOCUMENTS, downloads)}
    return session, addresses, archives, documents


_DOCUMENTS = select(
    XmlFile.id, XmlFile.zip_id, XmlFile.fname, XmlFile.size_bytes, XmlFile.phase_id, XmlFile.status_id
).where(XmlFile.zip_id.in_(IDS))
_COUNTS = select(DOCUMENT.c.tracker_id, *(DOCUMENT.c[f"{name}s"] for name in ENTITIES)).where(
    DOCUMENT.c.tracker_id.in_(IDS)
)


def _opened_rows(connection: Connection, ids: Sequence[int]) -> dict[int, dict[str, int]]:
    return {row[0]: dict(zip(ENTITIES, row[1:], strict=True)) for row in rows_by_id(connection, _COUNTS, ids)}
