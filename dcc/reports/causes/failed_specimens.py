"""Animals that experiments wait for (rule E4) and that are in documents that failed: they do not arrive by themselves.

No database has the animals of a failed document, so they are read from its bytes, in staging or the archive store.
Those of the archives with experiments that wait are read first, then the newest. How much is read is limited; a process
reads a document once.
"""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, select

from dcc.databases.list_parameters import rows_with
from dcc.errors import DccError, StagedDocumentLostError, StoreUnreachableError
from dcc.naming import Action, DocumentKind
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, Status
from dcc.qc.models import DOCUMENT, FINDING
from dcc.reports.causes.cause import Cause, FailedDocument
from dcc.reports.causes.scopes import Scope, document_conditions
from dcc.runtime.installed_packages import has_platform
from dcc.settings import Settings
from dcc.store.staging import Staging, staged_path
from dcc.tracker.archive_access import DocumentFailure, SubmittedDocument, failed_documents, fetched_document
from dcc.tracker.models import Centre, ZipAction, ZipFile
from dcc.tracker.submission_rows import KEY, latest_downloads, submission_key_of

log = logging.getLogger(__name__)

RULE: Final = "E4"
"""The rule whose findings wait for animals."""

MAX_DOCUMENTS: Final = 300
"""How many failed documents are read for a report."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""How much of them is read; a document or archive that is larger than the rest of it is left out."""
MAX_FETCHED: Final = 20
"""How many of them are fetched from the archive store, because staging has them no more."""
_MAX_ARCHIVES: Final = 500
_MAX_AWAITED: Final = 20_000
_MAX_IN_DOCUMENT: Final = 5_000
_MAX_KNOWN: Final = 500

_ANIMAL: Final = re.compile(
    rb"""<(?:[\w.-]+:)?(?:mouse|embryo)\s(?:[^<>]*?\s)?specimenID\s*=\s*(?:"([^"<]*)"|'([^'<]*)')"""
)
_known: dict[str, frozenset[str]] = {}
"""The animals of documents that were read, by the documents' MD5."""


def note_failed_documents(
    tracker: Connection, qc: Connection, scope: Scope, causes: Sequence[Cause], settings: Settings
) -> None:
    """Note in each cause of animals that did not arrive which failed documents of its centre have them."""
    reader = DocumentReader(settings)
    for cause in causes:
        if cause.kind == RULE and cause.centre is not None:
            awaited, zips = _awaited(qc, scope, cause.centre)
            found = failed_documents_with(tracker, reader, cause.centre, awaited, zips)
            cause.failed_documents = tuple(found)
            cause.others_awaited = len(awaited.difference(*(document.specimens for document in found)))


def failed_documents_with(
    tracker: Connection, reader: DocumentReader, centre: str, awaited: Collection[str], zips: Collection[SubmissionKey]
) -> list[FailedDocument]:
    """The failed documents of a centre with animals of these ids, each animal in one of them.

    The animals of documents that cannot be read are not known: such specimen documents are among them if their archive
    is one of `zips`, those with the experiments that wait.
    """
    left, found = set(awaited), []
    for document, phase in _candidates(tracker, centre, set(zips)):
        if not left:
            break
        ids = reader.animals(document)
        here = left & ids
        left -= here
        if here or (not ids and document.attempt.key in zips and not _has_experiments(document)):
            found.append(FailedDocument(str(document.attempt.key), document.file_name, phase, frozenset(here)))
    return sorted(found, key=lambda one: -len(one.specimens))


def _awaited(qc: Connection, scope: Scope, centre: str) -> tuple[set[str], set[SubmissionKey]]:
    """The ids of the animals that experiments of a scope and centre wait for, and the archives of these."""
    ids, zips = set(), set()
    for condition in document_conditions(scope):
        query = (
            select(FINDING.c.value, DOCUMENT.c.zip_action, DOCUMENT.c.zip_file)
            .join(DOCUMENT, DOCUMENT.c.id == FINDING.c.document_id)
            .where(FINDING.c.is_active.is_(True), FINDING.c.rule == RULE, scope.centre_of_document == centre, condition)
            .distinct()
            .limit(_MAX_AWAITED)
        )
        for value, action, file_name in qc.execute(query):
            ids.add(value)
            zips.add(SubmissionKey(Action(action), file_name))
    return ids, zips


def _candidates(tracker: Connection, centre: str, waiting: Collection[SubmissionKey]) -> list[DocumentFailure]:
    """Documents of a centre that failed before they were taken over, those with the animals probably first."""
    columns: tuple[Any, ...] = (ZipAction.id, *KEY)
    query = select(*columns).join(ZipFile).where(ZipAction.status_id == Status.FAILED)
    of_centre = query.join(Centre, Centre.id == ZipFile.centre_id).where(
        Centre.short_name == centre, ZipAction.phase_id <= Phase.UPLOAD
    )
    ids = set(tracker.scalars(of_centre.order_by(ZipAction.id.desc()).limit(_MAX_ARCHIVES)))
    first = set(sorted(waiting)[:_MAX_ARCHIVES])
    named = rows_with(tracker, query, ZipFile.__table__.c.file_name, {key.file_name for key in first})
    ids.update(row.id for row in named if submission_key_of(row) in first)
    downloads = [one.download_id for one in latest_downloads(tracker, ids)]
    return sorted(
        failed_documents(tracker, downloads),
        key=lambda one: (one.document.attempt.key not in waiting, _has_experiments(one.document)),
    )


def _has_experiments(document: SubmittedDocument) -> bool:
    """Whether a document is an experiment document, by its name."""
    return f".{DocumentKind.EXPERIMENT}." in document.file_name


class DocumentReader:
    """Reads the ids of animals from documents, within the limits."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._staging = Staging(settings.staging_directory)
        self._documents = MAX_DOCUMENTS
        self._bytes = MAX_BYTES
        self._fetches = MAX_FETCHED

    def animals(self, document: SubmittedDocument) -> frozenset[str]:
        """The ids of the animals in a document; none if it has none, cannot be read, or is beyond the limits."""
        known = _known.get(document.md5 or "")
        if known is not None:
            return known
        size = document.size_bytes or 0
        if not self._documents or size > self._bytes:
            return frozenset()
        self._documents -= 1
        self._bytes -= size
        content = self._content(document)
        found = frozenset(
            html.unescape((match[1] or match[2] or b"").decode(errors="replace")).strip()
            for match in islice(_ANIMAL.finditer(content), _MAX_IN_DOCUMENT)
        )
        if document.md5 is not None and content:
            while len(_known) >= _MAX_KNOWN:
                _known.pop(next(iter(_known)), None)
            _known[document.md5] = found
        return found

    def _content(self, document: SubmittedDocument) -> bytes:
        """The bytes of a document; none if they are not to be had."""
        key, name = document.attempt.key, document.file_name
        try:
            try:
                return staged_path(self._staging, key, name, document.md5).read_bytes()
            except StagedDocumentLostError:
                return self._fetched(document)
        except StoreUnreachableError as error:
            self._fetches = 0
            log.info("%s of %s is not read, nor are others: %s", name, key, error)
        except (DccError, OSError) as error:
            log.info("%s of %s is not read: %s", name, key, error)
        return b""

    def _fetched(self, document: SubmittedDocument) -> bytes:
        size = document.attempt.size_bytes or 0
        if not self._fetches or size > self._bytes or not has_platform():
            return b""
        self._fetches -= 1
        self._bytes -= size
        with fetched_document(self._settings, document) as path:
            return path.read_bytes()
