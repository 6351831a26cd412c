"""The bytes that centres submitted: archives of the archive store, and the documents in them, as files for a while.

What the store lacks is looked for in staging. An archive can have several attempts, each with bytes of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Select, select

from dcc.archives.entries import plain_path, write_pieces
from dcc.archives.extraction import archive_members
from dcc.archives.limits import Allowance, ArchiveLimits
from dcc.databases.list_parameters import rows_with
from dcc.errors import (
    DiskFullError,
    NotFoundError,
    StagedDocumentLostError,
    StoredObjectLostError,
    StoreUnreachableError,
)
from dcc.naming import ANY_CENTRE, Action
from dcc.outcomes import SubmissionKey, source_partition
from dcc.phases import Phase, Status
from dcc.runtime.checksums import md5_of
from dcc.runtime.private_files import scratch_directory
from dcc.settings import Settings
from dcc.store.staging import Staging, staged_path
from dcc.tracker.models import (
    Centre,
    DocumentPlace,
    FileSource,
    FileSourceHasZip,
    XmlFile,
    ZipAction,
    ZipDownload,
    ZipFile,
)
from dcc.tracker.submission_rows import KEY, has_archive_bytes, is_named, submission_key_of

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class Attempt(NamedTuple):
    """A download that had an archive's bytes; `sha256` is None if the archive store does not have them."""

    id: int
    key: SubmissionKey
    source: str
    requested: datetime
    size_bytes: int | None
    md5: str | None
    sha256: str | None
    outcome: str | None


class SubmittedDocument(NamedTuple):
    """A document of an attempt; `place` is its path in the archive, through archives inside it."""

    id: int
    file_name: str
    md5: str | None
    size_bytes: int | None
    place: str
    attempt: Attempt


def archive_attempts(connection: Connection, archive: str) -> list[Attempt]:
    """The attempts of an archive, oldest first: of a submission (`add/<file name>`), a file name or a SHA-256.

    Raises NotFoundError without any.
    """
    action, slash, name = archive.partition("/")
    if _SHA256.fullmatch(archive):
        condition = ZipDownload.sha256 == archive
    elif slash and action in set(Action):
        condition = is_named(SubmissionKey(Action(action), name))
    else:
        condition = ZipFile.file_name == archive
    query = _joined(select(*_COLUMNS).select_from(ZipDownload)).where(has_archive_bytes(), condition)
    found = [_attempt(row) for row in connection.execute(query.order_by(ZipDownload.id))]
    if not found:
        raise NotFoundError(f"No download brought an archive {archive!r}. `dcc zips` lists the archives.")
    return found


def delivered_document(
    connection: Connection, file_name: str, key: SubmissionKey | None = None, md5: str | None = None
) -> SubmittedDocument | None:
    """The document with a name, of a submission and with these bytes if given, that came last; None without one."""
    query = _documents().where(XmlFile.fname == file_name)
    if key is not None:
        query = query.where(is_named(key))
    if md5 is not None:
        query = query.where(XmlFile.content_md5 == md5)
    row = connection.execute(query.order_by(XmlFile.id.desc()).limit(1)).first()
    return None if row is None else _document(row)


class DocumentFailure(NamedTuple):
    """A document, and the phase in which it failed."""

    document: SubmittedDocument
    phase: Phase


def failed_documents(connection: Connection, downloads: Iterable[int]) -> list[DocumentFailure]:
    """The documents of downloads that failed before their data were taken over, newest first."""
    failed = (XmlFile.status_id == Status.FAILED, XmlFile.phase_id <= Phase.UPLOAD)
    rows = rows_with(connection, _documents().where(*failed), XmlFile.download_id, downloads)
    found = [DocumentFailure(_document(row), row.phase_id) for row in rows]
    return sorted(found, key=lambda one: -one.document.id)


@contextmanager
def fetched_file(settings: Settings, attempt: Attempt, wanted: str | None) -> Iterator[Path]:
    """The checked bytes of an attempt's archive, or of one file of it, as a file that is removed afterwards.

    `wanted` is that file's path in the archive, or its name. Raises StoredObjectLostError if neither the archive store
    nor staging has the archive, StoreUnreachableError, and DiskFullError; NotFoundError if there is no such file, or
    several have the name; and an ArchiveError.
    """
    with scratch_directory(settings.home) as folder:
        path = _archive(settings, attempt, folder)
        if wanted is not None:
            archive, path = path, folder / "document"
            _extract_member(settings, archive, attempt.key, wanted, path)
        yield path


@contextmanager
def fetched_document(settings: Settings, document: SubmittedDocument) -> Iterator[Path]:
    """The checked bytes of a document, as a file that is removed afterwards.

    Raises NotFoundError if neither its archive nor staging has it, an ArchiveError for a fault of the
    archive, StoreUnreachableError and DiskFullError.
    """
    key = document.attempt.key
    with scratch_directory(settings.home) as folder:
        path = folder / "document"
        try:
            _extract_member(settings, _archive(settings, document.attempt, folder), key, document.place, path)
            path = _converted(settings, document, path)
            if document.md5 is not None and md5_of(path) != document.md5:
                raise NotFoundError(f"{document.file_name} in {key} has other bytes.")
        except (NotFoundError, StoredObjectLostError, StoreUnreachableError, DiskFullError) as fault:
            try:
                path = staged_path(Staging(settings.staging_directory), key, document.file_name, document.md5)
            except StagedDocumentLostError:
                if isinstance(fault, StoreUnreachableError | DiskFullError):
                    raise fault from None
                raise NotFoundError(
                    f"Neither the archive store nor staging has {document.file_name} of {key} as it was submitted. The "
                    f"data stored of it: dcc data document {document.file_name} --rebuilt."
                ) from fault
        yield path


def _archive(settings: Settings, attempt: Attempt, folder: Path) -> Path:
    """An attempt's archive in a folder, or in staging. Raises as `fetched_file`."""
    if attempt.sha256 is not None:
        # A light installation, which reports from what the databases have, lacks its packages.
        from dcc.store.archive_store import ArchiveStore

        # Errors about its limits name the file.
        path = folder / attempt.key.file_name
        with closing(ArchiveStore(settings)) as store, suppress(StoredObjectLostError):
            store.fetch(attempt.sha256, path)
            return path
    staging, key = Staging(settings.staging_directory), attempt.key
    staged = None if attempt.md5 is None else staging.matching_archive(key, attempt.md5)
    if staged is None:
        raise StoredObjectLostError(
            f"Neither the archive store nor staging has the bytes of {key} that download {attempt.id} brought. "
            f"`dcc archive list {key}` shows its other attempts."
        )
    return staged


def _extract_member(settings: Settings, archive: Path, key: SubmissionKey, wanted: str, path: Path) -> None:
    allowance, found = Allowance(ArchiveLimits.from_settings(settings), archive), []
    # As places were recorded once, and as people may write one.
    wanted = plain_path(wanted)
    for member in archive_members(archive, key.file_name, allowance, path.parent):
        if wanted in (member.place, member.place.rpartition("/")[2]):
            found.append(member.place)
            path.unlink(missing_ok=True)
            write_pieces(member.content(), path)
            if member.place == wanted:
                return
    if len(found) == 1:
        return
    text = f"several files named {wanted}: {', '.join(found)}. Give the path of one" if found else f"no file {wanted!r}"
    raise NotFoundError(f"The archive {key} has {text}. `dcc archive list {key}` shows its files.")


def _converted(settings: Settings, document: SubmittedDocument, path: Path) -> Path:
    """The document that a converter makes of a submitted file at `path`, beside it; `path` if it is a document."""
    from dcc.converters.base import SubmittedFile
    from dcc.converters.conversion import convert_file, converter_for

    converter = converter_for(document.place.rpartition("/")[2])
    if converter is None:
        return path
    kind = settings.naming.parse_document_name(document.file_name, ANY_CENTRE).kind
    centre = settings.naming.parse_archive_name(document.attempt.key.file_name, ANY_CENTRE).centre
    file, made = SubmittedFile(document.place, path, centre), path.with_name("converted")
    convert_file(converter, file, kind, made, settings.max_archive_bytes, settings.max_document_errors)
    return made


_COLUMNS: Final[tuple[Any, ...]] = (
    ZipDownload.id,
    *KEY,
    Centre.short_name,
    FileSource.id.label("source_id"),
    ZipDownload.request,
    ZipDownload.content_size_bytes,
    ZipDownload.content_md5,
    ZipDownload.sha256,
    ZipDownload.outcome,
)


def _documents() -> Select[Any]:
    query = select(
        *_COLUMNS,
        XmlFile.id.label("document_id"),
        XmlFile.fname,
        XmlFile.content_md5.label("md5"),
        XmlFile.phase_id,
        DocumentPlace.place,
        XmlFile.size_bytes.label("document_bytes"),
    )
    joined = _joined(query.select_from(XmlFile).join(ZipDownload, ZipDownload.id == XmlFile.download_id))
    return joined.outerjoin(DocumentPlace, DocumentPlace.xml_id == XmlFile.id)


def _document(row: Any) -> SubmittedDocument:
    place = row.place or row.fname
    return SubmittedDocument(row.document_id, row.fname, row.md5, row.document_bytes, place, _attempt(row))


def _joined(query: Any) -> Select[Any]:
    joined = query.join(FileSourceHasZip).join(ZipAction).join(ZipFile).join(FileSource)
    of_source: Select[Any] = joined.join(Centre, Centre.id == FileSource.centre_id)
    return of_source


def _attempt(row: Any) -> Attempt:
    source = source_partition(row.short_name, row.source_id)
    stored = (row.content_size_bytes, row.content_md5, row.sha256, row.outcome)
    return Attempt(row.id, submission_key_of(row), source, row.request, *stored)
