"""The archives to replay, with the present verdicts of their documents; nothing is written."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select
from sqlalchemy.orm import aliased

from dcc.databases.list_parameters import IDS, rows_about
from dcc.errors import StoredObjectLostError
from dcc.outcomes import Problem, SubmissionKey
from dcc.phases import STATES, Phase, State, Status
from dcc.qc.models import BLOCK, DOCUMENT
from dcc.replay.verdicts import NOT_OPENED, ReplayFact, ReplayVerdict, outcome_of
from dcc.settings import Settings
from dcc.store.archive_store import ArchiveStore
from dcc.store.staging import Staging
from dcc.tracker.models import Centre, FileSourceHasZip, XmlFile, XmlLog, ZipAction, ZipDownload, ZipFile
from dcc.tracker.problems import OF_DOCUMENT, entries_that_hold, problem_of
from dcc.tracker.states import WRONG_CHECKSUM
from dcc.tracker.submission_rows import group_pairs, has_archive_bytes, state_of

log = logging.getLogger(__name__)

_OF_NO_ARCHIVE: Final = ""
_OwnCentre = aliased(Centre)
_DOWNLOADS: Final = (
    select(
        ZipAction.id,
        ZipAction.todo_id,
        ZipAction.phase_id,
        ZipAction.status_id,
        FileSourceHasZip.manifest,
        ZipFile.file_name,
        ZipFile.created,
        Centre.short_name,
        ZipDownload.id.label("download_id"),
        ZipDownload.content_size_bytes,
        ZipDownload.content_md5,
        ZipDownload.session_id,
        ZipDownload.sha256,
    )
    .select_from(ZipDownload)
    .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
    .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
    .join(ZipFile, ZipFile.id == ZipAction.zip_id)
    .outerjoin(Centre, Centre.id == ZipFile.centre_id)
    .where(has_archive_bytes())
    .order_by(ZipDownload.id)
)
_DOCUMENTS: Final = select(XmlFile.download_id, XmlFile.id, XmlFile.fname, XmlFile.phase_id, XmlFile.status_id).where(
    XmlFile.download_id.in_(IDS)
)
_LOG: Final = entries_that_hold(*OF_DOCUMENT).where(XmlLog.xml_id.in_(IDS)).order_by(XmlLog.id)
_NAMED_CENTRES: Final = (
    select(Centre.short_name, _OwnCentre.short_name)
    .distinct()
    .select_from(XmlFile)
    .join(ZipDownload, ZipDownload.id == XmlFile.download_id)
    .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
    .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
    .join(ZipFile, ZipFile.id == ZipAction.zip_id)
    .join(Centre, Centre.id == ZipFile.centre_id)
    .join(_OwnCentre, _OwnCentre.id == XmlFile.centre_id)
    .where(ZipFile.centre_id != XmlFile.centre_id)
)
_BLOCKS: Final = (
    select(DOCUMENT.c.centre, BLOCK.c.centre)
    .distinct()
    .join(BLOCK, BLOCK.c.document_id == DOCUMENT.c.id)
    .where(BLOCK.c.centre != DOCUMENT.c.centre)
)


class RecordedDocument(NamedTuple):
    """A document of the tracker: its state, and the problems in its log."""

    state: State
    problems: list[Problem]


@dataclass
class FetchedArchive:
    """An archive whose bytes arrived, as last fetched; `sha256` is None if the archive store is no help."""

    key: SubmissionKey
    centre: str | None
    download_id: int
    size_bytes: int | None
    md5: str | None
    sha256: str | None


@dataclass
class StoredArchive(FetchedArchive):
    """Such an archive; `session` is the one that first fetched these bytes.

    It `is_selected`, or needed to judge others that are.
    """

    created: date | None
    session: int
    has_failed: bool
    is_selected: bool = True
    documents: dict[str, RecordedDocument] = field(default_factory=dict)

    def present(self) -> dict[str, ReplayVerdict]:
        """The present verdicts of its documents by name; see `verdicts.compare`."""
        if not self.documents:
            return {"": ReplayVerdict(NOT_OPENED if self.has_failed else None)}
        return {
            name: ReplayVerdict(outcome_of(one.state), tuple(map(ReplayFact.of, one.problems)))
            for name, one in self.documents.items()
        }


def find_archives(
    tracker: Connection, qc: Connection, centres: Collection[str] = (), since: date | None = None
) -> list[StoredArchive]:
    """The archives of `centres` (by default all) with a date from `since` on, and those needed to judge these.

    Those are all other archives of their centres, and of the centres with which these share documents.
    """
    by_action = group_pairs((row.id, row) for row in tracker.execute(_DOWNLOADS))
    archives = [_archive(rows) for rows in by_action.values()]
    for archive in archives:
        is_recent = since is None or (archive.created is not None and archive.created >= since)
        archive.is_selected = is_recent and (not centres or archive.centre in centres)
    pairs = [*tracker.execute(_NAMED_CENTRES), *qc.execute(_BLOCKS)]
    group_of = grouped([(str(one), str(other)) for one, other in pairs])
    wanted = {group_of(one.centre or "") for one in archives if one.is_selected}
    archives = [one for one in archives if group_of(one.centre or "") in wanted]
    _add_documents(tracker, archives)
    return archives


def _archive(downloads: list[Any]) -> StoredArchive:
    last = downloads[-1]
    same = [row for row in downloads if row.content_md5 == last.content_md5]
    has_failed = last.status_id == Status.FAILED
    # The manifest beside an archive, which may have refused it, is in staging alone.
    needs_staging = has_failed and last.phase_id == Phase.UNZIP and last.manifest
    sha256 = next((row.sha256 for row in reversed(same) if row.sha256 is not None), None)
    # What did not have its checksum was not kept: staging may have what was fetched before.
    md5 = _OF_NO_ARCHIVE if state_of(last) == WRONG_CHECKSUM else last.content_md5
    return StoredArchive(
        SubmissionKey(last.todo_id, last.file_name),
        last.short_name,
        last.download_id,
        last.content_size_bytes,
        md5,
        None if needs_staging else sha256,
        last.created,
        same[0].session_id or 0,
        has_failed,
    )


def grouped(pairs: Iterable[tuple[str, str]]) -> Callable[[str], str]:
    """The groups of centres that share documents, directly or by others: a function of a centre."""
    above: dict[str, str] = {}

    def first(centre: str) -> str:
        while centre in above:
            centre = above[centre]
        return centre

    for one, other in pairs:
        if first(one) != first(other):
            above[first(other)] = first(one)
    return first


def _add_documents(tracker: Connection, archives: Iterable[StoredArchive]) -> None:
    by_download = {archive.download_id: archive for archive in archives}
    of_selected: dict[int, RecordedDocument] = {}
    for download_id, xml_id, name, phase, status in rows_about(tracker, _DOCUMENTS, by_download):
        recorded = RecordedDocument(STATES[phase, status], [])
        by_download[download_id].documents[name] = recorded
        if by_download[download_id].is_selected:
            of_selected[xml_id] = recorded
    for row in rows_about(tracker, _LOG, of_selected):
        of_selected[row.xml_id].problems.append(problem_of(row))


class ArchiveBytes:
    """Fetches the bytes of archives, from staging or the archive store. Threads may share it."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._staging, self._store, self._folder = Staging(settings.staging_directory), ArchiveStore(settings), folder

    def fetch(self, archive: FetchedArchive) -> Path | None:
        """The place of an archive's bytes, in staging or below the folder; None if no copy is left.

        Raises StoreUnreachableError if a replica that is away may have them, DiskFullError and OSError.
        """
        staged = self._staging.matching_archive(archive.key, archive.md5)
        if staged is not None or archive.sha256 is None:
            return staged
        path = self._folder / f"{archive.download_id}" / archive.key.file_name
        path.parent.mkdir(parents=True)
        try:
            self._store.fetch(archive.sha256, path)
        except StoredObjectLostError as error:
            log.warning("%s", error)
            return None
        return path

    def release(self, archive: FetchedArchive) -> None:
        """Remove what was fetched."""
        shutil.rmtree(self._folder / f"{archive.download_id}", ignore_errors=True)

    def close(self) -> None:
        """Close connections."""
        self._store.close()
