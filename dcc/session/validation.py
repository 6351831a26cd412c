"""The check of archives and documents before they are uploaded, with the verdict that the platform would give.

It needs no tracker: what a centre runs on its own machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from dcc.archives.extraction import ArchiveLimits, extract_archive, ignored_problem
from dcc.documents.schema_set import SchemaSet
from dcc.documents.validation import validate_document
from dcc.errors import (
    ArchiveError,
    BadFileNameError,
    ChecksumMismatchError,
    DocumentError,
    NotFoundError,
    TransferFailedError,
)
from dcc.messages import mark, message
from dcc.naming import DocumentKind
from dcc.outcomes import Problem
from dcc.phases import KNOWN_CENTRES
from dcc.runtime.checksums import md5_of
from dcc.settings import Settings
from dcc.sources.md5_sidecar import MAX_SIDECAR_BYTES, parse_md5, sidecar

_SUFFIXES = {".zip", ".xml"}
_ZIP_SIGNATURE = b"PK"
_MOST_AT_ONCE = 32
_SHARES = 8


@dataclass(frozen=True, slots=True)
class PathVerdict:
    """What the platform would say of one archive or document.

    `path` of a document in an archive is `<archive>/<document>`. An archive is valid when all its documents are.
    `warnings` are worth knowing and refuse nothing.
    """

    path: str
    valid: bool
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def check_path(path: Path, settings: Settings, centres: Container[str] | None, schemas: SchemaSet) -> list[PathVerdict]:
    """Check an archive, a document, or every `.zip` and `.xml` in a directory and below.

    An archive is held against the `.md5` beside it. It gives a verdict of its own, then one for each document in it.
    `centres` are the short names of the registered centres, by default those of the convention. A document that is not
    in an archive may have any name; one that does not conform is a warning, and the root element tells its kind. Raises
    NotFoundError when there is nothing at `path` to check, and OSError when it cannot be read. Files are checked by as
    many threads as `settings` say.
    """
    known = frozenset(centre.short_name for centre in KNOWN_CENTRES) if centres is None else centres
    check = _Check(settings, known, schemas)
    if not path.exists():
        raise NotFoundError(f"{path} does not exist. Name a zip archive, an XML document, or a directory of them.")
    if not path.is_dir():
        return list(check.file(path))
    files = sorted(
        (file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file()), key=lambda file: file.parts
    )
    if not files:
        raise NotFoundError(f"{path} holds no .zip and no .xml file. Name what is to be checked.")
    # Threads that are given one document after the other wait for one another more than they work.
    at_once = min(_MOST_AT_ONCE, max(1, len(files) // (_SHARES * settings.workers)))
    shares = [files[first : first + at_once] for first in range(0, len(files), at_once)]
    with ThreadPoolExecutor(settings.workers, thread_name_prefix="check") as pool:
        try:
            checked = list(pool.map(check.files, shares))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [verdict for verdicts in checked for verdict in verdicts]


@dataclass(frozen=True)
class _Check:
    settings: Settings
    centres: Container[str]
    schemas: SchemaSet

    def files(self, paths: Sequence[Path]) -> list[PathVerdict]:
        return [verdict for path in paths for verdict in self.file(path)]

    def file(self, path: Path) -> Iterator[PathVerdict]:
        if path.suffix == ".zip" or (path.suffix != ".xml" and _begins_as_zip(path)):
            yield from self._archive(path)
        else:
            yield self._document(path)

    def _archive(self, path: Path) -> Iterator[PathVerdict]:
        errors: list[Problem] = []
        warnings: list[Problem] = []
        documents: list[PathVerdict] = []
        try:
            self.settings.naming.parse_zip_name(path.name, self.centres)
        except BadFileNameError as error:
            errors.append(Problem.of(error))
        try:
            _check_md5(path)
        except (ChecksumMismatchError, TransferFailedError) as error:
            errors.append(Problem.of(error))
        try:
            with tempfile.TemporaryDirectory(prefix="dcc-validate-") as directory:
                documents.extend(self._documents(path, Path(directory) / "contents", warnings))
        except ArchiveError as error:
            errors.append(Problem.of(error))
        wrong = sum(not document.valid for document in documents)
        if wrong:
            refused = mark("{number} of its {documents} documents would be refused.")
            errors.append(Problem(DocumentError.short_name(), message(refused, number=wrong, documents=len(documents))))
        yield PathVerdict(str(path), not errors, tuple(errors), tuple(warnings))
        yield from documents

    def _documents(self, path: Path, target: Path, warnings: list[Problem]) -> Iterator[PathVerdict]:
        limits = replace(ArchiveLimits.from_settings(self.settings), min_free_bytes=0)
        archive = extract_archive(path, target, limits=limits, naming=self.settings.naming, centres=self.centres)
        for document in archive.documents:
            problems = self._validate(document.path, document.name.kind)
            yield PathVerdict(f"{path}/{document.name.file_name}", not problems, tuple(problems))
        for file_name, _, problem in archive.refused:
            yield PathVerdict(f"{path}/{file_name}", False, (problem,))
        for member, reason in archive.ignored:
            warnings.append(ignored_problem(member, reason))

    def _document(self, path: Path) -> PathVerdict:
        kind = None
        warnings: tuple[Problem, ...] = ()
        try:
            kind = self.settings.naming.parse_document_name(path.name, self.centres).kind
        except BadFileNameError as error:
            warnings = (Problem.of(error),)
        problems = self._validate(path, kind)
        return PathVerdict(str(path), not problems, tuple(problems), warnings)

    def _validate(self, path: Path, kind: DocumentKind | None) -> list[Problem]:
        return validate_document(
            path,
            kind,
            self.schemas,
            max_errors=self.settings.max_document_errors,
            max_tree_bytes=self.settings.max_tree_bytes,
        )


def _check_md5(path: Path) -> None:
    """Compare an archive with the checksum beside it, if there is one, as a session does with what it fetches."""
    beside = path.with_name(sidecar(path.name))
    if not beside.is_file():
        return
    with beside.open("rb") as file:
        published = parse_md5(file.read(MAX_SIDECAR_BYTES), path.name, str(path.parent))
    found = md5_of(path)
    if found != published:
        raise ChecksumMismatchError(
            mark(
                "{path} has the MD5 {found}, its .md5 says {published}. Correct the file or its .md5 before the upload."
            ),
            path=path,
            found=found,
            published=published,
        )


def _begins_as_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_ZIP_SIGNATURE)) == _ZIP_SIGNATURE
