"""The prepared files of the archives whose documents a session applies and judges.

They are beside the documents in staging, one for each kind of document: specimens of all archives are applied before
any experiment. Processes make them if there is much to prepare, in the order of their use, while this process applies
those that are there. Those of a killed session are used again.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from sqlalchemy import Engine

from dcc.errors import BadFileNameError, HelperEndedError
from dcc.naming import DocumentKind
from dcc.outcomes import SubmissionKey
from dcc.qc.apply.entity_rows import columns_for
from dcc.qc.judging.documents import JudgingBasis
from dcc.qc.rows.prepared_file import PreparedDocument, PreparedFile, open_prepared
from dcc.reference.loading import ReferenceData
from dcc.runtime.clock import utc_today
from dcc.runtime.log_context import progress_log
from dcc.runtime.worker_processes import WorkerProcesses
from dcc.session.data.data_session import DataSession
from dcc.session.data.upload_order import DueDocument
from dcc.session.prepare import documents as preparing
from dcc.session.prepare.documents import ArchiveToPrepare, DocumentToPrepare, PreparationBasis, prepare_archive
from dcc.store.staging import Staging, document_lost, place_of_document, prepared_place

log = logging.getLogger(__name__)
session_log = progress_log(__name__)

LARGE: Final = 2_000_000
"""Bytes of documents from which on processes are worth their start."""

_Part: TypeAlias = tuple[SubmissionKey, DocumentKind]
"""The documents of a kind in an archive, which share a file."""

_OPEN: Final = 8
_LOOK_SECONDS: Final = 1.0


def basis_of(basis: JudgingBasis, qc: Engine) -> PreparationBasis:
    """What documents are prepared by for a QC database, of what they are judged by."""
    return PreparationBasis(basis.reference.data, basis.signature, basis.today, columns_for(qc))


class PreparedFiles:
    """The prepared files of archives in staging with the right basis; the last few are kept open.

    Each is compared with its checksum when it is first opened.
    """

    def __init__(self, staging: Staging, basis: PreparationBasis) -> None:
        self.staging, self.basis = staging, basis
        self._open: OrderedDict[_Part, PreparedFile] = OrderedDict()
        self._checked: set[_Part] = set()

    def find(self, document: DueDocument) -> PreparedDocument | None:
        """A prepared document, if there is one."""
        file = self.file(part_of(document))
        name, md5 = document.name.file_name, document.md5 or ""
        return file.document(name, md5) if file is not None and file.has(name, md5) else None

    def file(self, part: _Part) -> PreparedFile | None:
        """The file of documents of an archive, if it is usable."""
        file = self._open.pop(part, None)
        if file is None:
            try:
                place = _place(self.staging, part)
            except BadFileNameError:
                return None
            file = open_prepared(place, self.basis.name, is_checked=part in self._checked)
            if file is None:
                return None
        self._checked.add(part)
        self._open[part] = file
        if len(self._open) > _OPEN:
            self._open.popitem(last=False)[1].close()
        return file

    def has(self, part: _Part, documents: Sequence[DocumentToPrepare]) -> bool:
        """Whether a file has all of these documents."""
        file = self.file(part)
        return file is not None and all(file.has(document.file_name, document.md5 or "") for document in documents)

    def forget(self, part: _Part) -> None:
        """Forget a file, which was made again."""
        self._checked.discard(part)
        if part in self._open:
            self._open.pop(part).close()

    def close(self) -> None:
        """Close the files."""
        for file in self._open.values():
            file.close()
        self._open.clear()


class PreparedArchives:
    """Prepares documents that wait to be applied; close it afterwards."""

    def __init__(self, work: DataSession, due: Sequence[DueDocument], basis: PreparationBasis) -> None:
        self._work = work
        self._files = files = PreparedFiles(work.staging, basis)
        self._parts = _parts(work.staging, due)
        self._being_made: dict[_Part, Future[dict[str, Exception]]] = {}
        self._failed: dict[_Part, dict[str, Exception]] = {}
        self._processes: WorkerProcesses[PreparationBasis] | None = None
        to_make = {part: each for part, each in self._parts.items() if not files.has(part, each.documents)}
        if prepared_again := {
            part[0] for part, each in to_make.items() if files.file(part) is None and each.target.exists()
        }:
            why = "that was by other reference data or rules, on another day, or is damaged"
            session_log.info("%d archives that were prepared already are prepared again: %s", len(prepared_again), why)
        if sum(document.size_bytes for document in due) >= LARGE and to_make:
            number = min(work.settings.workers, os.cpu_count() or 1, len(to_make))
            self._processes = WorkerProcesses(number, preparing.begin, basis)
            for part, archive in to_make.items():
                self._being_made[part] = self._processes.submit(str(archive.key), preparing.prepare_archive, archive)

    def document(self, document: DueDocument) -> PreparedDocument:
        """A document, once it is prepared. Raises its problem: see `prepare_archive`.

        Raises HelperEndedError if its process ended, for example without memory, DiskFullError and SessionLostError.
        """
        part, name = part_of(document), document.name.file_name
        archive = self._parts.get(part)
        if archive is None:
            raise document_lost(document.key, name)
        if part not in self._failed:
            try:
                self._failed[part] = self._made(part, archive)
            except HelperEndedError as error:
                self._failed[part] = {one.file_name: error for one in archive.documents}
        if name in self._failed[part]:
            raise self._failed[part][name]
        prepared = self._files.find(document)
        if prepared is None:
            raise document_lost(document.key, name)
        return prepared

    def close(self) -> None:
        """Stop the processes, and close the files."""
        if self._processes is not None:
            self._processes.stop()
        self._files.close()

    def _made(self, part: _Part, archive: ArchiveToPrepare) -> dict[str, Exception]:
        future = self._being_made.pop(part, None)
        if future is None and self._files.has(part, archive.documents):
            return {}
        self._files.forget(part)
        if future is None:
            return prepare_archive(self._files.basis, archive)
        while not future.done():
            wait([future], _LOOK_SECONDS)
            self._work.session.raise_if_over()
        return future.result()


@contextmanager
def prepared_temporarily(
    staging: Staging, documents: Sequence[DueDocument], qc: Engine
) -> Iterator[Callable[[DueDocument], PreparedDocument]]:
    """Prepares documents of one archive for this block only, without the rules; yields a function that returns each.

    It raises a document's problem: see `prepare_archive`.
    """
    with TemporaryDirectory(prefix="dcc-prepared-") as folder:
        target = Path(folder) / "prepared.rows"
        parts = list(_parts(staging, documents).values())
        archive = parts[0]._replace(target=target, documents=[one for part in parts for one in part.documents])
        basis = PreparationBasis(ReferenceData(), "", utc_today(), columns_for(qc))
        failed = prepare_archive(basis, archive)

        def prepared(document: DueDocument) -> PreparedDocument:
            name = document.name.file_name
            if name in failed:
                raise failed[name]
            return file.document(name, document.md5 or "")

        file = PreparedFile(target)
        try:
            yield prepared
        finally:
            file.close()


def remove_prepared_files(staging: Staging, key: SubmissionKey) -> None:
    """Remove the prepared files of an archive."""
    try:
        for kind in DocumentKind:
            _place(staging, (key, kind)).unlink(missing_ok=True)
    except (OSError, BadFileNameError) as error:
        log.info("The prepared documents of %s were not removed: %s", key, error)


def part_of(document: DueDocument) -> _Part:
    """The part of an archive whose prepared file has the document."""
    return document.key, document.name.kind


def _place(staging: Staging, part: _Part) -> Path:
    key, kind = part
    return prepared_place(staging.contents(key), kind)


def _parts(staging: Staging, due: Sequence[DueDocument]) -> dict[_Part, ArchiveToPrepare]:
    """The documents of each kind of the archives, in the order of their first ones."""
    documents: dict[_Part, list[DocumentToPrepare]] = {}
    centres: dict[SubmissionKey, str | None] = {}
    for document in due:
        path = place_of_document(staging, document.key, document.name.file_name)
        # A name that no file can have is reported in its turn.
        if path is not None:
            name = document.name
            one = DocumentToPrepare(path, name.kind, name.centre, document.md5)
            documents.setdefault(part_of(document), []).append(one)
            centres[document.key] = document.centre
    return {
        part: ArchiveToPrepare(part[0], centres[part[0]], _place(staging, part), some)
        for part, some in documents.items()
    }
