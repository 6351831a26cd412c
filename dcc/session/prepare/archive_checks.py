"""Opens an archive and validates its documents, for a session that decides and records.

Uses no database, and loads no settings, so that a process for it starts in a tenth of a second.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dcc.archives.extraction import ExtractedArchive, ExtractedDocument, extract_archive
from dcc.archives.limits import ArchiveLimits
from dcc.converters.conversion import convert_files, converter_for
from dcc.documents.origins import read_origin
from dcc.documents.schema_set import SchemaSet
from dcc.documents.validation import validate_document
from dcc.errors import ArchiveError, BadFileNameError, InternalFaultError
from dcc.naming import ANY_CENTRE, DocumentKind, NamingConvention
from dcc.outcomes import Problem
from dcc.runtime.checksums import md5_of
from dcc.runtime.log_context import logging_about
from dcc.runtime.worker_processes import portable
from dcc.session.prepare.manifests import unlike_manifest
from dcc.store.staging import PREPARED_FILE, disk_errors

if TYPE_CHECKING:
    from dcc.settings import Settings

Problems = tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Setup:
    """How archives are checked: values of the settings, and the codes of all centres."""

    limits: ArchiveLimits
    naming: NamingConvention
    centres: Container[str]
    xsd_dir: Path | None
    max_document_errors: int
    max_tree_bytes: int

    @classmethod
    def from_settings(cls, settings: Settings, centres: Container[str]) -> Setup:
        """The values of `settings`; `centres` are the codes of all centres."""
        return cls(
            ArchiveLimits.from_settings(settings),
            settings.naming,
            centres,
            settings.xsd_dir,
            settings.max_document_errors,
            settings.max_tree_bytes,
        )


class CheckedArchive(NamedTuple):
    """An archive whose documents were extracted, its MD5, and the problems of each document, in their order."""

    archive: ExtractedArchive
    md5: str
    problems: tuple[Problems, ...]

    @property
    def documents(self) -> list[tuple[ExtractedDocument, Problems]]:
        """Each document with its problems."""
        return list(zip(self.archive.documents, self.problems, strict=True))


class EarlierResults(NamedTuple):
    """Earlier results for an archive with that MD5: the problems of each document, by its name.

    Files in `folder` whose names begin with that of prepared files belong to the archive.
    """

    md5: str
    problems: Mapping[str, Problems]
    folder: Path


class UnopenedArchive(NamedTuple):
    """The problem of an archive with that MD5."""

    error: ArchiveError | InternalFaultError
    md5: str


class ArchiveChecker:
    """Opens archives and validates their documents. Threads may share it."""

    def __init__(self, setup: Setup, schemas: SchemaSet | None = None) -> None:
        self._setup = setup
        self.schemas = schemas or SchemaSet.load(setup.xsd_dir)

    def check(
        self, archive: Path, target: Path, md5: str | None = None, ready: EarlierResults | None = None
    ) -> CheckedArchive | UnopenedArchive:
        """Compute an archive's MD5, unless it is known, extract its documents to `target`, and validate them.

        `ready` results for the same MD5 are used. Raises DiskFullError, and OSError if the disk fails.
        """
        taken = md5_of(archive) if md5 is None else md5
        try:
            found = self.extract(archive, target)
        except ArchiveError as error:
            return UnopenedArchive(portable(error), taken)
        found, known = self._converted(found, archive.name, target)
        if ready is not None and ready.md5 == taken:
            known = {**known, **ready.problems}
            for part in ready.folder.glob(f"{PREPARED_FILE}*"):
                shutil.move(part, target / part.name)
        problems = []
        for document in found.documents:
            of_document = known.get(document.name.file_name)
            if of_document is None:
                of_document = tuple(self.validate(document.path, document.name.kind))
            problems.append(of_document)
        difference = unlike_manifest(archive, taken, found, problems)
        for file in found.files:
            file.path.unlink()
        if difference is not None:
            shutil.rmtree(target)
            return UnopenedArchive(portable(difference), taken)
        # Which may be a lot, and is needed no more.
        return CheckedArchive(replace(found, sizes={}), taken, tuple(problems))

    def extract(self, archive: Path, target: Path) -> ExtractedArchive:
        """Extract an archive's documents to `target`. Raises ArchiveError, DiskFullError and OSError."""
        setup = self._setup
        return extract_archive(
            archive,
            target,
            limits=setup.limits,
            naming=setup.naming,
            centres=setup.centres,
            is_wanted=converter_for,
        )

    def _converted(
        self, found: ExtractedArchive, archive: str, target: Path
    ) -> tuple[ExtractedArchive, Mapping[str, Problems]]:
        """An archive with the documents made by converters, and the problems of files that could not be converted."""
        if not found.files:
            return found, {}
        setup = self._setup
        try:
            name = setup.naming.parse_zip_name(archive, ANY_CENTRE)
        except BadFileNameError as error:
            refused = [(file.place, file.path.stat().st_size, Problem.of(error)) for file in found.files]
            return replace(found, refused=(*found.refused, *refused)), {}
        with disk_errors(archive, target):
            conversion = convert_files(
                found.files,
                found.documents,
                target,
                name,
                setup.naming,
                max_bytes=setup.limits.max_bytes,
                max_problems=setup.max_document_errors,
            )
        documents = sorted(
            (*found.documents, *conversion.documents), key=lambda document: document.name.processing_order
        )
        taken = replace(found, documents=tuple(documents), refused=(*found.refused, *conversion.refused))
        return taken, conversion.problems

    def validate(self, document: Path, kind: DocumentKind | None) -> list[Problem]:
        """The problems of a document, of the kind of its root element unless one is given; raises OSError."""
        with logging_about(document=document.name):
            problems = validate_document(
                document,
                kind,
                self.schemas,
                max_errors=self._setup.max_document_errors,
                max_tree_bytes=self._setup.max_tree_bytes,
            )
            origin = read_origin(document) if problems else None
            return problems if origin is None else [origin.placed(problem) for problem in problems]


def begin(setup: Setup) -> ArchiveChecker:
    """What checks archives in this process from now on."""
    checker = ArchiveChecker(setup)
    # The parsers of prologs are cycles, each with some memory.
    gc.freeze()
    return checker
