"""Opens an archive, validates its documents, and compares it with its manifests: a session decides and records.

Uses no database, and loads no settings, so that a process for it starts in a tenth of a second.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from dcc.archives.extraction import ExtractedArchive, ExtractedDocument, extract_archive
from dcc.archives.limits import Allowance, ArchiveLimits
from dcc.archives.manifest import Counts, ManifestEntry, conflicts, differences, read_beside
from dcc.converters.base import SubmittedFile
from dcc.converters.conversion import FULL_LISTS, convert_file, convert_files, converter_for, kinds_of
from dcc.documents.contents import Experiment, Specimen
from dcc.documents.origins import read_origin
from dcc.documents.reading import read_document
from dcc.documents.schema_set import OWN_SCHEMAS, SchemaSet
from dcc.documents.validation import validate_document
from dcc.errors import (
    ArchiveError,
    BadFileNameError,
    ConfigurationError,
    ConversionError,
    InternalFaultError,
    ManifestError,
)
from dcc.messages import Message, mark
from dcc.naming import ANY_CENTRE, DocumentKind, NamingConvention
from dcc.outcomes import Problem
from dcc.runtime.checksums import md5_of
from dcc.runtime.disk_space import disk_errors
from dcc.runtime.installed_packages import CONVERTERS, added_entries
from dcc.runtime.log_context import logging_about
from dcc.runtime.worker_processes import portable
from dcc.store.staging import PREPARED_FILE

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

    @property
    def fingerprint(self) -> str:
        """A checksum of what decides the problems of documents: values, schemas, and the versions of the packages.

        Centres and limits of disks are left out, by which each process opens archives.
        """
        # Takes long to import, and most processes need none.
        from importlib.metadata import version

        values = self.naming, self.limits.max_bytes, self.max_document_errors, self.max_tree_bytes
        directory = self.xsd_dir or OWN_SCHEMAS
        schemas = sorted((f"{path.relative_to(directory)}", md5_of(path)) for path in directory.rglob("*.xsd"))
        packages = sorted(package for package, _ in added_entries(CONVERTERS))
        return blake2b(repr((version("dcc"), packages, schemas, values)).encode(), digest_size=8).hexdigest()


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
        try:
            found, known = self._converted(found, archive, target)
        except BaseException:
            # An archive without them is none, and what lacked room gives it back.
            shutil.rmtree(target, ignore_errors=True)
            raise
        if ready is not None and ready.md5 == taken:
            known = {**known, **ready.problems}
            for part in ready.folder.glob(f"{PREPARED_FILE}*"):
                shutil.move(part, target / part.name)
        problems = []
        most = self._setup.max_document_errors
        left = FULL_LISTS * most - sum(map(len, known.values()))
        for document in found.documents:
            of_document = known.get(document.name.file_name)
            if of_document is None:
                of_document = tuple(self.validate(document.path, document.name.kind, max(min(most, left), 1)))
                left -= len(of_document)
            problems.append(of_document)
        checked = CheckedArchive(found, taken, tuple(problems))
        difference = _unlike_manifest(archive, checked)
        for file in found.files:
            file.path.unlink()
        if difference is not None:
            shutil.rmtree(target)
            return UnopenedArchive(portable(difference), taken)
        # Which may be a lot, and is needed no more.
        return checked._replace(archive=replace(found, sizes={}))

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
        self, found: ExtractedArchive, archive: Path, target: Path
    ) -> tuple[ExtractedArchive, Mapping[str, Problems]]:
        """An archive with the documents made by converters, and the problems of files that could not be converted."""
        if not found.files:
            return found, {}
        setup = self._setup
        try:
            name = setup.naming.parse_archive_name(archive.name, ANY_CENTRE)
        except BadFileNameError as error:
            refused = [(file.place, file.path.stat().st_size, Problem.of(error)) for file in found.files]
            return replace(found, refused=(*found.refused, *refused)), {}
        with disk_errors(archive.name, target):
            return convert_files(
                found,
                target,
                name,
                setup.naming,
                max_bytes=setup.limits.max_bytes,
                max_problems=setup.max_document_errors,
                check_room=partial(Allowance(setup.limits, archive).check_room, target),
            )

    def validate(self, document: Path, kind: DocumentKind | None, most: int | None = None) -> list[Problem]:
        """The problems of a document, of the kind of its root element unless one is given; raises OSError.

        They are at most those of the setup, or `most`.
        """
        with logging_about(document=document.name):
            problems = validate_document(
                document,
                kind,
                self.schemas,
                max_errors=self._setup.max_document_errors if most is None else most,
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


_MAX_TOLD: Final = 5
_DIFFERS: Final = mark(
    "{archive} does not hold what its manifest says: {differences}. Correct the archive or its manifest, and replace "
    "it, under the same name."
)
_DIFFERS_MUCH: Final = mark(
    "{archive} does not hold what its manifest says: {differences} ({number} differences in all). Correct the archive "
    "or its manifest, and replace it, under the same name."
)


def _unlike_manifest(archive: Path, checked: CheckedArchive) -> ManifestError | None:
    """What to tell of an archive that is not as its manifests say; None where it is, or has none. Raises OSError."""
    try:
        manifest = read_beside(archive)
    except ManifestError as error:
        return error
    inside, md5 = checked.archive.manifest, checked.md5
    held = manifest if manifest is not None else inside
    if held is None:
        return None
    of_files = [one for one in held if one.file != archive.name]
    if (
        manifest is not None
        and inside is not None
        and (different := next(conflicts(inside, of_files), None)) is not None
    ):
        text = mark(
            "{archive} has a manifest in it that says something else of {file} than the one beside it. Have both say "
            "the same, or leave the inner one out."
        )
        return ManifestError(text, archive=archive.name, file=different)
    # Not read once more where the MD5 that is known already is the right one.
    known = [one._replace(checksum=None) if (one.file, one.checksum) == (archive.name, md5) else one for one in held]
    differing = list(_differing(known, archive, checked))
    if not differing:
        return None
    return ManifestError(
        _DIFFERS if len(differing) <= _MAX_TOLD else _DIFFERS_MUCH,
        archive=archive.name,
        differences=differing[:_MAX_TOLD],
        number=len(differing),
    )


def _differing(expected: Sequence[ManifestEntry], archive: Path, checked: CheckedArchive) -> Iterator[Message]:
    """What an archive and its files have otherwise than a manifest says, which may name the archive as a whole."""
    extracted = checked.archive
    documents: dict[str, list[tuple[ExtractedDocument, Problems]]] = defaultdict(list)
    for document, of_document in checked.documents:
        documents[document.place].append((document, of_document))

    def count(place: str) -> Counts | None:
        if place == archive.name or any(of_document for _, of_document in documents[place]):
            return None
        return _sum(count_entities(document.path, document.name.kind) for document, _ in documents[place])

    sizes, files = dict(extracted.sizes), {document.place: document.path for document in extracted.documents}
    files |= {file.place: file.path for file in extracted.files}
    if any(one.file == archive.name for one in expected):
        sizes[archive.name], files[archive.name] = archive.stat().st_size, archive
    expected = sorted(expected, key=lambda one: one.file != archive.name)
    return differences(expected, sizes, files, count, [path for path, _, _ in extracted.refused])


def count_entities(document: Path, kind: DocumentKind) -> Counts:
    """How many specimens and experiments a valid document holds. Raises OSError and DocumentError."""
    counts = Counter(type(content) for content in read_document(document, kind))
    return Counts(counts[Specimen], counts[Experiment])


def count_file(place: str, path: Path, schemas: SchemaSet) -> Counts:
    """How many specimens and experiments a document holds, or a file that becomes some; `place` is its path in words.

    Raises ConfigurationError for what is none, and DocumentError.
    """
    name = place.rpartition("/")[2]
    converter = converter_for(name)
    if converter is None:
        kind = schemas.kind_of_file(path)
        if kind is None:
            raise ConfigurationError(f"{place} is no document of the format. `dcc validate` says why.")
        return count_entities(path, kind)
    counted = []
    with tempfile.TemporaryDirectory(prefix="dcc-manifest-") as folder:
        for kind in kinds_of(converter, name):
            target, file = Path(folder) / kind, SubmittedFile(name, path, "any")
            if problems := convert_file(converter, file, kind, target, 2**40, 1):
                raise ConversionError(problems[0].message)
            counted.append(count_entities(target, kind))
    return _sum(counted)


def _sum(counts: Iterable[Counts]) -> Counts:
    return Counts(*(sum(some) for some in zip(Counts(0, 0), *counts, strict=True)))
