"""Checks archives and documents before their submission, with the verdict that a session would give.

It needs no database: a centre runs it on its own machine. All rules judge documents that follow the schema; rules about
other documents as far as these are checked together.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from dcc.archives.extraction import ignored_problem
from dcc.converters.base import Converter, SubmittedFile
from dcc.converters.conversion import all_converters, convert_file, converter_for, kinds_of
from dcc.declarations import message_of
from dcc.documents.origins import read_origin
from dcc.documents.reading import read_document
from dcc.documents.schema_set import SchemaSet
from dcc.errors import (
    BadFileNameError,
    ChecksumMismatchError,
    DocumentError,
    NotFoundError,
    TransferFailedError,
)
from dcc.messages import mark, message
from dcc.naming import ARCHIVE_SUFFIXES, Action, DocumentKind
from dcc.outcomes import Problem
from dcc.phases import KNOWN_CENTRES
from dcc.qc.apply.upload_findings import UploadFinding
from dcc.reference.loading import ReferenceData
from dcc.rules.checking import NEEDING_OTHERS, all_rules, check_contents
from dcc.rules.context import DocumentContext
from dcc.rules.findings import Finding, with_value
from dcc.session.prepare.archive_checks import ArchiveChecker, CheckedArchive, NotOpened, Setup
from dcc.session.validation.neighbours import MISSING, NO_NEIGHBOURS, Asking, Neighbours
from dcc.session.validation.text_limits import TextLimits
from dcc.settings import Settings
from dcc.sources.md5_sidecar import MAX_SIDECAR_BYTES, parse_md5, sidecar

_SUFFIXES = (*ARCHIVE_SUFFIXES, ".xml")
_ZIP_SIGNATURE = b"PK"
_MOST_AT_ONCE = 32
_SHARES = 8


@dataclass(frozen=True, slots=True)
class PathVerdict:
    """The platform's verdict on one archive or document.

    `path` of a document in an archive is `<archive>/<document>`. An archive is valid if all its documents are.
    `warnings` refuse nothing. `missing` names things that no checked document has, and that may have been submitted
    before: a session reports them if they were not.
    """

    path: str
    valid: bool
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    missing: tuple[Problem, ...] = ()


@dataclass
class _Draft:
    """A verdict to which other documents may add; of an archive, with those of its documents."""

    path: str
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    missing: list[Problem] = field(default_factory=list)
    documents: list[_Draft] = field(default_factory=list)

    def verdicts(self) -> Iterator[PathVerdict]:
        """The verdict, and those of its documents."""
        below = [verdict for document in self.documents for verdict in document.verdicts()]
        wrong = sum(not verdict.valid for verdict in below)
        if wrong:
            refused = mark("{number} of its {documents} documents would fail.")
            text = message(refused, number=wrong, documents=len(below))
            self.errors.append(Problem(DocumentError.short_name(), text))
        parts = (self.errors, self.warnings, self.missing)
        yield PathVerdict(self.path, not self.errors, *map(tuple, parts))
        yield from below


class _Later(NamedTuple):
    """What other documents add to a verdict; see `Asking.takes_no_effect`."""

    takes_no_effect: bool
    problems: list[Problem]


class _DraftFile:
    """Drafts in their order, and later additions, on disk: many documents may have many errors."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._drafts: list[int] = []
        self._later: dict[str, int] = {}

    def keep(self, draft: _Draft) -> None:
        """Store the next draft."""
        self._drafts.append(self._file.tell())
        pickle.dump(draft, self._file)

    def add(self, path: str, takes_no_effect: bool, problems: Iterable[Problem]) -> None:
        """Store an addition to a document's draft, one problem after the other, since there may be many."""
        self._later[path] = self._file.tell()
        for part in chain([takes_no_effect], problems, [None]):
            pickle.dump(part, self._file)

    def drafts(self) -> Iterator[tuple[_Draft, dict[str, _Later]]]:
        """The drafts, each with the additions for it or its documents, by path."""
        for place in self._drafts:
            self._file.seek(place)
            draft: _Draft = self._next()
            paths = [one.path for one in (draft, *draft.documents) if one.path in self._later]
            yield draft, {path: self._addition(path) for path in paths}

    def _addition(self, path: str) -> _Later:
        self._file.seek(self._later[path])
        return _Later(self._next(), list(iter(self._next, None)))

    def _next(self) -> Any:
        return pickle.load(self._file)  # noqa: S301 - written by this process, to a file that has no name


def check_paths(
    paths: Iterable[Path],
    settings: Settings,
    centres: Container[str] | None,
    schemas: SchemaSet,
    reference: ReferenceData | None = None,
) -> Iterator[PathVerdict]:
    """Check archives, documents, files to be converted, and directories of them, as neighbours.

    An archive is compared with the `.md5` beside it. It has a verdict of its own, then one for each of its documents.
    `centres` are the short names of the registered centres, by default those of the convention. A document outside of
    an archive may have any name; a name that does not conform is a warning, and the root element decides its kind. A
    directory `edit` or `delete` around a file is its action. The rules judge by `reference`; without any, documents are
    only validated. Raises NotFoundError if there is nothing at a path to check, and OSError if it cannot be read. As
    many threads as `settings` say check the files; all are done when this returns, and the verdicts are read from disk.
    """
    known = frozenset(centre.short_name for centre in KNOWN_CENTRES) if centres is None else centres
    setup = Setup.from_settings(settings, known)
    checker = ArchiveChecker(replace(setup, limits=replace(setup.limits, min_free_bytes=0)), schemas)
    all_converters()
    check = _Check(settings, known, checker, reference)
    files = [file for path in paths for file in _files_at(path)]
    # Threads that get one document at a time wait for each other more than they work.
    at_once = min(_MOST_AT_ONCE, max(1, len(files) // (_SHARES * settings.workers)))
    shares = [files[first : first + at_once] for first in range(0, len(files), at_once)]
    with ExitStack() as stack:
        kept = _DraftFile(stack.enter_context(tempfile.TemporaryFile(prefix="dcc-validate-")))
        with ThreadPoolExecutor(settings.workers, thread_name_prefix="check") as pool:
            try:
                for draft in chain.from_iterable(pool.map(check.files, shares)):
                    kept.keep(draft)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        check.judge_together(kept)
        return check.verdicts(kept, stack.pop_all())


def _files_at(path: Path) -> list[Path]:
    if not path.exists():
        raise NotFoundError(f"{path} does not exist. Name an archive, a document, a table, or a directory of them.")
    if not path.is_dir():
        return [path]
    below = (file for file in path.rglob("*") if file.is_file() and _is_checked(file.name))
    files = sorted(below, key=lambda file: file.parts)
    if not files:
        raise NotFoundError(f"{path} holds no archive, no .xml file and no table. Name the files to check.")
    return files


def _is_checked(name: str) -> bool:
    return name.endswith(_SUFFIXES) or converter_for(name) is not None


@dataclass
class _Check:
    settings: Settings
    centres: Container[str]
    checker: ArchiveChecker
    reference: ReferenceData | None
    judged: dict[str, Asking] = field(default_factory=dict)

    def files(self, paths: Sequence[Path]) -> list[_Draft]:
        return [self._file(path) for path in paths]

    def judge_together(self, kept: _DraftFile) -> None:
        """Store the findings of the rules about other documents, and forget the documents."""
        for asking, findings in Neighbours(self.judged.values()).judge(_today()):
            kept.add(asking.name, asking.takes_no_effect, map(_problem_of, findings))
        self.judged.clear()

    def verdicts(self, kept: _DraftFile, closing: ExitStack) -> Iterator[PathVerdict]:
        """The verdicts of the stored drafts, whose file is closed at their end."""
        with closing:
            for draft, later in kept.drafts():
                for one in (draft, *draft.documents):
                    if one.path in later:
                        self._add_later(one, later[one.path])
                yield from draft.verdicts()

    def _add_later(self, draft: _Draft, later: _Later) -> None:
        if later.takes_no_effect:
            draft.errors = [error for error in draft.errors if error.kind not in all_rules()]
            draft.warnings = [warning for warning in draft.warnings if warning.kind not in all_rules()]
        self._add(draft, (problem for problem in later.problems if problem.kind not in MISSING))
        draft.missing += (problem for problem in later.problems if problem.kind in MISSING)

    def _file(self, path: Path) -> _Draft:
        if path.name.endswith(ARCHIVE_SUFFIXES) or (path.suffix != ".xml" and _begins_as_zip(path)):
            return self._archive(path)
        if path.suffix != ".xml" and (converter := converter_for(path.name)) is not None:
            return self._converted(path, converter)
        return self._document(path)

    def _archive(self, path: Path) -> _Draft:
        draft = _Draft(str(path))
        order: tuple[object, ...] = (date.max, 0, path.name)
        try:
            name = self.settings.naming.parse_zip_name(path.name, self.centres)
            order = (name.created, name.inc, path.name)
        except BadFileNameError as error:
            draft.errors.append(Problem.of(error))
        with tempfile.TemporaryDirectory(prefix="dcc-validate-") as directory:
            found = self.checker.check(path, Path(directory) / "contents")
            try:
                _compare_md5(path, found.md5)
            except (ChecksumMismatchError, TransferFailedError) as error:
                draft.errors.append(Problem.of(error))
            if isinstance(found, NotOpened):
                draft.errors.append(Problem.of(found.error))
            else:
                self._opened(path, found, draft, order)
        return draft

    def _opened(self, path: Path, found: CheckedArchive, draft: _Draft, order: tuple[object, ...]) -> None:
        archive = found.archive
        for number, (document, problems) in enumerate(zip(archive.documents, found.problems, strict=True)):
            of_document = _Draft(f"{path}/{document.place}", list(problems))
            place = _Place(document.path, document.name.kind, document.name.centre, _action_of(path), (*order, number))
            self._judge(place, of_document)
            draft.documents.append(of_document)
        for file_name, _, problem in archive.refused:
            draft.documents.append(_Draft(f"{path}/{file_name}", [problem]))
        draft.warnings += (ignored_problem(member, reason) for member, reason in archive.ignored)

    def _converted(self, path: Path, converter: Converter) -> _Draft:
        """The verdict on a file outside of an archive; of several documents each is named after its kind."""
        draft = _Draft(str(path))
        kinds = kinds_of(converter, path.name)
        with tempfile.TemporaryDirectory(prefix="dcc-validate-") as directory:
            for kind in kinds:
                of_document = draft if len(kinds) == 1 else _Draft(f"{path}/{kind}")
                target = Path(directory) / kind
                file = SubmittedFile(path.name, path, None)
                most = self.settings.max_archive_bytes, self.settings.max_document_errors
                of_document.errors += convert_file(converter, file, kind, target, *most)[2]
                if not of_document.errors:
                    of_document.errors += self.checker.validate(target, kind)
                order = (date.max, 0, path.name, 0)
                self._judge(_Place(target, kind, None, _action_of(path), order, loose=True), of_document)
                if of_document is not draft:
                    draft.documents.append(of_document)
        return draft

    def _document(self, path: Path) -> _Draft:
        draft = _Draft(str(path))
        place = _Place(path, None, None, _action_of(path), (date.max, 0, path.name, 0), loose=True)
        try:
            name = self.settings.naming.parse_document_name(path.name, self.centres)
            order = (name.created, name.inc, path.name, 0)
            place = place._replace(kind=name.kind, centre=name.centre, order=order)
        except BadFileNameError as error:
            draft.warnings.append(Problem.of(error))
        draft.errors += self.checker.validate(path, place.kind)
        self._judge(place, draft)
        return draft

    def _judge(self, place: _Place, draft: _Draft) -> None:
        """Add the rules' findings on a document, if it is valid, without rules about other documents."""
        if draft.errors or self.reference is None:
            return
        actual = self.checker.schemas.kind_of_file(place.path)
        if actual is None:
            return
        # Without a name that has the centre, none can be compared with it.
        without = NEEDING_OTHERS if place.centre is not None else NEEDING_OTHERS | {"X5"}
        origin = read_origin(place.path)
        asking = Asking(draft.path, place.action, place.order, place.loose, origin)
        limits = TextLimits(origin)
        contents = asking.keeping(read_document(place.path, actual), limits)
        document = DocumentContext(
            0, place.action, place.centre or "", _today(), self.reference, NO_NEIGHBOURS, origin=origin
        )
        if place.action is Action.DELETE:
            # A session checks no rule on documents that delete.
            deque(contents, maxlen=0)
        else:
            self._add(draft, map(_problem_of, asking.noting(check_contents(contents, document, without))))
        self._add(draft, map(_problem_of, limits.findings.all()))
        self.judged[draft.path] = asking

    def _add(self, draft: _Draft, problems: Iterable[Problem]) -> None:
        """Add findings: those that fail a document, and of others as many as are recorded, in order of lines."""
        for problem in problems:
            of_sort = draft.errors if problem.is_error else draft.warnings
            if len(of_sort) < self.settings.max_document_errors:
                of_sort.append(problem)
        for of_sort in (draft.errors, draft.warnings):
            of_sort.sort(key=lambda problem: problem.line or 0)


class _Place(NamedTuple):
    """A document to check: its file, the parts of its name, its action, its turn, and whether it is in no archive."""

    path: Path
    kind: DocumentKind | None
    centre: str | None
    action: Action
    order: tuple[object, ...]
    loose: bool = False


def _action_of(path: Path) -> Action:
    return next((action for action in Action if action == path.absolute().parent.name), Action.ADD)


def _today() -> date:
    return datetime.now(UTC).date()


def _problem_of(finding: Finding | UploadFinding) -> Problem:
    text = message_of(finding.code, with_value(finding.details, finding.value))
    return Problem(finding.rule, text, finding.line, code=finding.code, severity=finding.severity)


def _compare_md5(path: Path, found: str) -> None:
    """Compare an archive's MD5 with the checksum beside it, if there is one, as a session does after a download."""
    md5_file = path.with_name(sidecar(path.name))
    if not md5_file.is_file():
        return
    with md5_file.open("rb") as file:
        published = parse_md5(file.read(MAX_SIDECAR_BYTES), path.name, str(path.parent))
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
