"""An archive opened and its documents validated: all that the session, which decides and records, has to know of it.

Nothing here knows a database or the settings, so that a process that does it is there in a tenth of a second.
"""

from __future__ import annotations

import gc
import shutil
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dcc.archives.extraction import ExtractedArchive, extract_archive
from dcc.archives.limits import ArchiveLimits
from dcc.archives.manifest import Counts
from dcc.documents.contents import Experiment, Specimen
from dcc.documents.reading import read_document
from dcc.documents.schema_set import SchemaSet
from dcc.documents.validation import validate_document
from dcc.errors import ArchiveError, InternalFaultError, ManifestError
from dcc.messages import mark
from dcc.naming import DocumentKind, NamingConvention
from dcc.outcomes import Problem
from dcc.runtime.checksums import md5_of
from dcc.runtime.log_context import logging_about
from dcc.runtime.worker_processes import portable
from dcc.store.staged_documents import PREPARED_FILE

if TYPE_CHECKING:
    from dcc.settings import Settings

Problems = tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Setup:
    """What archives are checked by: of the settings, and the codes of all centres."""

    limits: ArchiveLimits
    naming: NamingConvention
    centres: Container[str]
    xsd_dir: Path | None
    max_document_errors: int
    max_tree_bytes: int

    @classmethod
    def from_settings(cls, settings: Settings, centres: Container[str]) -> Setup:
        """What `settings` say; `centres` are the codes of all centres."""
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


class Ready(NamedTuple):
    """What was found before in an archive of that MD5: the problems of each document, by its name.

    Files in `folder` whose names begin with that of prepared files are those of the archive.
    """

    md5: str
    problems: Mapping[str, Problems]
    folder: Path


class NotOpened(NamedTuple):
    """What is wrong with an archive of that MD5."""

    error: ArchiveError | InternalFaultError
    md5: str


class ArchiveChecker:
    """Opens archives and validates their documents. Safe to share between threads."""

    def __init__(self, setup: Setup, schemas: SchemaSet | None = None) -> None:
        self._setup = setup
        self.schemas = schemas or SchemaSet.load(setup.xsd_dir)

    def check(
        self, archive: Path, target: Path, md5: str | None = None, ready: Ready | None = None
    ) -> CheckedArchive | NotOpened:
        """Take an archive's MD5, unless that is known, extract its documents to `target`, and validate them.

        What is `ready` of the archive, if it has the same MD5, is not done again. Raises DiskFullError, and OSError
        when the disk fails.
        """
        taken = md5_of(archive) if md5 is None else md5
        try:
            found = self.extract(archive, target)
        except ArchiveError as error:
            return NotOpened(portable(error), taken)
        known: Mapping[str, Problems] = {}
        if ready is not None and ready.md5 == taken:
            known = ready.problems
            for part in ready.folder.glob(f"{PREPARED_FILE}*"):
                shutil.move(part, target / part.name)
        problems = []
        for document in found.documents:
            of_document = known.get(document.name.file_name)
            if of_document is None:
                of_document = tuple(self.validate(document.path, document.name.kind))
            problems.append(of_document)
        if (unlike := _unlike_manifest(found, problems, archive.name)) is not None:
            shutil.rmtree(target)
            return NotOpened(portable(unlike), taken)
        return CheckedArchive(found, taken, tuple(problems))

    def extract(self, archive: Path, target: Path) -> ExtractedArchive:
        """Extract an archive's documents to `target`. Raises ArchiveError, DiskFullError and OSError."""
        setup = self._setup
        return extract_archive(archive, target, limits=setup.limits, naming=setup.naming, centres=setup.centres)

    def validate(self, document: Path, kind: DocumentKind | None) -> list[Problem]:
        """What is wrong with a document, of the kind that its root element tells if none is given; raises OSError."""
        with logging_about(document=document.name):
            return validate_document(
                document,
                kind,
                self.schemas,
                max_errors=self._setup.max_document_errors,
                max_tree_bytes=self._setup.max_tree_bytes,
            )


def _unlike_manifest(found: ExtractedArchive, problems: Sequence[Problems], archive: str) -> ManifestError | None:
    """What to tell of an archive that does not hold what its manifest says; None where it does, or has none."""
    if found.manifest is None:
        return None
    documents = {document.place: document for document in found.documents}
    valid = {place for place, of_document in zip(documents, problems, strict=True) if not of_document}

    def count(place: str) -> Counts | None:
        return count_entities(documents[place].path, documents[place].name.kind) if place in valid else None

    paths = {place: document.path for place, document in documents.items()}
    differences = list(found.manifest.differences(paths, count, [path for path, _, _ in found.refused]))
    if not differences:
        return None
    return ManifestError(
        mark(
            "{archive} does not hold what its manifest says: {difference} ({number} differences in all). Correct the "
            "archive or its manifest, and put it in its place, under the same name."
        ),
        archive=archive,
        difference=differences[0],
        number=len(differences),
    )


def count_entities(document: Path, kind: DocumentKind) -> Counts:
    """How many specimens and experiments a valid document holds. Raises OSError."""
    counts = Counter(type(content) for content in read_document(document, kind))
    return Counts(counts[Specimen], counts[Experiment])


@dataclass
class _Process:
    checker: ArchiveChecker | None = None


_process = _Process()


def begin(setup: Setup) -> None:
    """Have this process check archives by this from now on."""
    _process.checker = ArchiveChecker(setup)
    # The parsers of prologs are cycles, each with some memory.
    gc.freeze()


def check_archive(archive: Path, target: Path, md5: str | None, ready: Ready | None) -> CheckedArchive | NotOpened:
    """Check an archive in this process: see `ArchiveChecker.check`."""
    if _process.checker is None:
        raise RuntimeError("A process was given an archive before what to go by.")
    return _process.checker.check(archive, target, md5, ready)
