"""Prepares the documents of an archive: reads each once, checks it against the rules that need nothing else, makes
rows.

The result is a function of the documents, the reference data and the day. No database, setting or secret is used, so
that any process on any machine can do it.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date
from functools import cache, cached_property
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dcc.declarations import declared
from dcc.documents.contents import Content
from dcc.documents.origins import read_origin
from dcc.documents.reading import read_document
from dcc.naming import Action, DocumentKind
from dcc.outcomes import SubmissionKey
from dcc.qc.rows.prepared_file import Columns, DocumentWriter, PreparedWriter
from dcc.reference.loading import ReferenceData
from dcc.rules.accepted_elements import AcceptedElements
from dcc.rules.checking import ABOUT_SPECIMENS, all_rules, check_contents
from dcc.rules.context import DocumentContext
from dcc.rules.findings import packed
from dcc.runtime.checksums import md5_of
from dcc.runtime.disk_space import disk_errors, is_full
from dcc.runtime.installed_packages import RULES as ADDED_RULES
from dcc.runtime.installed_packages import added_entries
from dcc.runtime.log_context import logging_about
from dcc.runtime.processes import collect_cycles_rarely
from dcc.runtime.worker_processes import portable
from dcc.store.staging import document_lost

if TYPE_CHECKING:
    from dcc.session.prepare.archive_checks import CheckedArchive

MAX_FINDINGS: Final = 2_000
"""The most findings kept of a document; one with more is read and judged again by itself."""


@dataclass(frozen=True)
class PreparationBasis:
    """What documents are prepared by: reference data, a day in UTC, and the tables of the QC database.

    `signature` names the reference data.
    """

    reference: ReferenceData
    signature: str
    today: date
    columns: Columns
    accepted: AcceptedElements = field(default_factory=AcceptedElements, compare=False)

    @cached_property
    def name(self) -> str:
        """The name of this basis in prepared files, of the rules of this installation too."""
        return f"{self.today} {self.signature} {self.columns.checksum} {_rules_installed()}"


@cache
def _rules_installed() -> str:
    """A checksum of the codes of all rules, and of the versions of the platform and of the packages that add rules."""
    # Takes long to import for a short command.
    from importlib.metadata import version

    codes = sorted(code for rule in all_rules() for code in declared(rule))
    packages = sorted(package for package, _ in added_entries(ADDED_RULES))
    return blake2b(json.dumps([version("dcc"), packages, codes]).encode(), digest_size=6).hexdigest()


class DocumentToPrepare(NamedTuple):
    """A valid document in staging; `centre` is that of its name, `md5` that of its file."""

    path: str
    kind: DocumentKind
    centre: str
    md5: str | None

    @property
    def file_name(self) -> str:
        """Its name."""
        return Path(self.path).name


def valid_documents(checked: CheckedArchive) -> list[DocumentToPrepare]:
    """The documents of an archive that have no problem."""
    return [
        DocumentToPrepare(str(one.path), one.name.kind, one.name.centre, one.md5)
        for one, problems in checked.documents
        if not problems
    ]


class ArchiveToPrepare(NamedTuple):
    """The documents of an archive, and their prepared file; `centre` is the archive's, for the log."""

    key: SubmissionKey
    centre: str | None
    target: Path
    documents: Sequence[DocumentToPrepare]


def prepare_archive(basis: PreparationBasis, archive: ArchiveToPrepare) -> dict[str, Exception]:
    """Prepare the documents of an archive in its file; returns the reasons of those that could not be, by name.

    Reasons are StagedDocumentLostError for a document that changed since its validation, DocumentError for content that
    no row can hold, and other failures. Raises DiskFullError, and OSError if the file cannot be written.
    """
    with disk_errors(archive.key, archive.target.parent):
        try:
            writer = PreparedWriter(archive.target, basis.name, basis.columns)
        except FileNotFoundError as error:
            # Somebody removed the folder of the archive from staging.
            names = [document.file_name for document in archive.documents]
            return {name: portable(document_lost(archive.key, name, error)) for name in names}
        try:
            failed = prepare_into(writer, archive, basis)
            writer.close()
        except BaseException:
            writer.discard()
            raise
        return failed


def prepare_into(writer: PreparedWriter, archive: ArchiveToPrepare, basis: PreparationBasis) -> dict[str, Exception]:
    """Prepare the documents of an archive in a file that others may share; returns as `prepare_archive`.

    Raises what a full disk is reported by.
    """
    failed: dict[str, Exception] = {}
    # In a fixed order, so that the file is the same whoever makes it.
    for document in sorted(archive.documents, key=lambda one: one.file_name):
        name = document.file_name
        try:
            with logging_about(zip_action=archive.key, centre=archive.centre, document=name):
                _prepare(archive.key, document, writer, basis)
        except MemoryError:
            raise
        except Exception as error:
            if is_full(error):
                raise
            failed[name] = portable(error)
    return failed


def _prepare(key: SubmissionKey, document: DocumentToPrepare, writer: PreparedWriter, basis: PreparationBasis) -> None:
    path, name = Path(document.path), document.file_name
    try:
        md5 = md5_of(path)
    except OSError as error:
        raise document_lost(key, name, error) from error
    if document.md5 not in (md5, None):
        raise document_lost(key, name)
    origin = read_origin(path)
    rows = writer.document(document.kind)
    taken = _RowsOfContents(read_document(path, document.kind), rows)
    context = DocumentContext(key.action, document.centre, basis.today, basis.reference, origin=origin)
    with closing(taken.contents()) as contents:
        findings = None if key.action is Action.DELETE else _findings_of(contents, context, basis.accepted)
        # The rest of the document, after the rules stopped, has rows all the same.
        for _ in contents:
            pass
    if taken.error is not None:
        raise taken.error
    rows.finish(name, document.md5 or "", findings, origin)


def _findings_of(contents: Iterator[Content], context: DocumentContext, accepted: AcceptedElements) -> list[Any] | None:
    """The findings of the rules; None if there are too many, or a fault occurred: judging meets it again."""
    try:
        found = list(islice(check_contents(contents, context, ABOUT_SPECIMENS, accepted), MAX_FINDINGS + 1))
    except MemoryError:
        raise
    except Exception:
        return None
    return [packed(finding) for finding in found] if len(found) <= MAX_FINDINGS else None


class _RowsOfContents:
    """A document's content, turned into rows as it is read; `error` is what prevented that."""

    def __init__(self, contents: Iterator[Content], rows: DocumentWriter) -> None:
        self._contents, self._rows = contents, rows
        self.error: Exception | None = None

    def contents(self) -> Generator[Content]:
        """The document's content; each part is turned into rows before it is yielded."""
        try:
            for content in self._contents:
                self._rows.take(content)
                yield content
        except Exception as error:
            self.error = error
            raise


_LESS_URGENT: Final = 5
"""What is added to the niceness of the process."""


def begin(basis: PreparationBasis) -> PreparationBasis:
    """Prepare by this basis from now on."""
    # What is prepared waits for the session's own process, which therefore comes first.
    os.nice(_LESS_URGENT)
    # Loaded modules stay and need not be scanned for cycles; contents of documents have none.
    gc.freeze()
    collect_cycles_rarely()
    return basis
