"""The check of archives and documents before they are uploaded, with the verdict that a session would give.

It needs no database: what a centre runs on its own machine. Documents that follow the schema are judged by all rules
that need only the document and reference data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from dcc.archives.extraction import ArchiveLimits, extract_archive, ignored_problem
from dcc.declarations import message_of
from dcc.documents.prolog import Root, read_prolog
from dcc.documents.reading import read_document
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
from dcc.naming import Action, DocumentKind
from dcc.outcomes import Problem
from dcc.phases import KNOWN_CENTRES
from dcc.reference.loading import ReferenceData
from dcc.rules.checking import NEEDING_OTHERS, check_contents
from dcc.rules.context import DocumentContext, ExperimentKey, KnownSpecimen, Where
from dcc.rules.findings import with_value
from dcc.runtime.checksums import md5_of
from dcc.settings import Settings
from dcc.sources.md5_sidecar import MAX_SIDECAR_BYTES, parse_md5, sidecar

_SUFFIXES = {".zip", ".xml"}
_ZIP_SIGNATURE = b"PK"
_MOST_AT_ONCE = 32
_PROLOG = 65_536
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


def check_path(
    path: Path,
    settings: Settings,
    centres: Container[str] | None,
    schemas: SchemaSet,
    reference: ReferenceData | None = None,
) -> list[PathVerdict]:
    """Check an archive, a document, or every `.zip` and `.xml` in a directory and below.

    An archive is held against the `.md5` beside it. It gives a verdict of its own, then one for each document in
    it. `centres` are the short names of the registered centres, by default those of the convention. A document that
    is not in an archive may have any name; one that does not conform is a warning, and the root element tells its
    kind. The rules judge by `reference`; without any, documents are held against the schema alone. Raises
    NotFoundError when there is nothing at `path` to check, and OSError when it cannot be read. Files are checked by
    as many threads as `settings` say.
    """
    known = frozenset(centre.short_name for centre in KNOWN_CENTRES) if centres is None else centres
    check = _Check(settings, known, schemas, reference)
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
    reference: ReferenceData | None

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
            refused = mark("{number} of its {documents} documents would fail.")
            errors.append(Problem(DocumentError.short_name(), message(refused, number=wrong, documents=len(documents))))
        yield PathVerdict(str(path), not errors, tuple(errors), tuple(warnings))
        yield from documents

    def _documents(self, path: Path, target: Path, warnings: list[Problem]) -> Iterator[PathVerdict]:
        limits = replace(ArchiveLimits.from_settings(self.settings), min_free_bytes=0)
        archive = extract_archive(path, target, limits=limits, naming=self.settings.naming, centres=self.centres)
        for document in archive.documents:
            errors, found = self._judged(document.path, document.name.kind, document.name.centre)
            yield PathVerdict(f"{path}/{document.name.file_name}", not errors, tuple(errors), tuple(found))
        for file_name, _, problem in archive.refused:
            yield PathVerdict(f"{path}/{file_name}", False, (problem,))
        for member, reason in archive.ignored:
            warnings.append(ignored_problem(member, reason))

    def _document(self, path: Path) -> PathVerdict:
        kind = centre = None
        warnings: tuple[Problem, ...] = ()
        try:
            name = self.settings.naming.parse_document_name(path.name, self.centres)
            kind, centre = name.kind, name.centre
        except BadFileNameError as error:
            warnings = (Problem.of(error),)
        errors, found = self._judged(path, kind, centre)
        return PathVerdict(str(path), not errors, tuple(errors), (*warnings, *found))

    def _judged(self, path: Path, kind: DocumentKind | None, centre: str | None) -> tuple[list[Problem], list[Problem]]:
        """What fails a document, and what the rules say of it besides; of either as much as is recorded of it."""
        errors = self._validate(path, kind)
        if errors or self.reference is None:
            return errors, []
        with path.open("rb") as file:
            root = read_prolog(iter(lambda: file.read(_PROLOG), b""))
        actual = self.schemas.kind_of(root.namespace, root.name) if isinstance(root, Root) else None
        if actual is None:
            return errors, []
        # Without a name that tells the centre, none can be compared with it.
        without = NEEDING_OTHERS if centre is not None else NEEDING_OTHERS | {"X5"}
        today = datetime.now(UTC).date()
        document = DocumentContext(0, Action.ADD, centre or "", today, self.reference, _NOTHING_KNOWN)
        said: dict[bool, list[Problem]] = {True: [], False: []}
        for found in check_contents(read_document(path, actual), document, without):
            details = with_value(found.details, found.value)
            problem = Problem(
                found.rule, message_of(found.code, details), found.line, code=found.code, severity=found.severity
            )
            of_sort = said[problem.is_error]
            if len(of_sort) < self.settings.max_document_errors:
                of_sort.append(problem)
        return said[True], said[False]

    def _validate(self, path: Path, kind: DocumentKind | None) -> list[Problem]:
        return validate_document(
            path,
            kind,
            self.schemas,
            max_errors=self.settings.max_document_errors,
            max_tree_bytes=self.settings.max_tree_bytes,
        )


class _NothingKnown:
    """What rules are told of other submissions: nothing."""

    def known_specimens(self, centre: str, ids: Collection[str]) -> Mapping[str, tuple[KnownSpecimen, ...]]:  # noqa: ARG002
        return {}

    def known_experiments(
        self,
        centre: str,  # noqa: ARG002
        keys: Collection[ExperimentKey],  # noqa: ARG002
    ) -> Mapping[ExperimentKey, tuple[Where, ...]]:
        return {}


_NOTHING_KNOWN: Final = _NothingKnown()


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
