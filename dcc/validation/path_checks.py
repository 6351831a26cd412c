"""Checks archives and documents before their submission, with the verdict that a session would give.

It needs no database: a centre runs it on its own machine. All rules judge documents that follow the schema; rules about
other documents as far as these are checked together.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from dcc.archives.extraction import ignored_problem
from dcc.converters.base import Converter, SubmittedFile
from dcc.converters.conversion import all_converters, convert_file, converter_for, kinds_of
from dcc.documents.schema_set import SchemaSet
from dcc.errors import BadChecksumFileError, BadFileNameError, ChecksumMismatchError, ConfigurationError, NotFoundError
from dcc.messages import mark
from dcc.naming import KNOWN_CENTRES, MANIFEST_ENDINGS, Action, is_archive, is_document
from dcc.outcomes import Problem
from dcc.runtime.clock import utc_today
from dcc.runtime.disk_space import is_full
from dcc.runtime.processes import give_threads_their_own_memory
from dcc.session.prepare.archive_checks import ArchiveChecker, CheckedArchive, Setup, UnopenedArchive
from dcc.settings import Settings
from dcc.sources.md5_sidecar import MAX_SIDECAR_BYTES, parse_md5, sidecar
from dcc.validation.verdicts import DraftFile, PathVerdict

if TYPE_CHECKING:
    from dcc.reference.loading import ReferenceData
    from dcc.validation.judge import Judge


_NO_TABLE = mark(
    "'{name}' is not read as a table. Rename it: the name of a table begins with specimens or experiments and ends "
    "with .csv or .json."
)
_SPREADSHEET = mark(
    "'{name}' is a spreadsheet, which is not read. Save it as CSV, under a name that begins with specimens or "
    "experiments and ends with .csv."
)
_NO_TABLES = dict.fromkeys((".csv", ".json", ".tsv"), _NO_TABLE) | dict.fromkeys(
    (".xlsx", ".xls", ".ods"), _SPREADSHEET
)
"""What is said of files with these suffixes that no converter takes."""
_IN_FUTURE = mark(
    "'{name}' names the date {day}, which is in the future. Name archives after the day on which the data were "
    "exported."
)
_OF_TIME_ZONES = timedelta(days=1)
_ZIP_SIGNATURE = b"PK"
_MAX_AT_ONCE = 32
_SHARES = 8
_OF_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that are no fault of the file at which they are met."""


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
    only validated. The checksum and manifest of an archive are checked with it. As many threads as `settings` say check
    the files; all are done when this returns, and the verdicts are read from disk. A file or folder that cannot be read
    has a verdict that says so. Raises NotFoundError if there is nothing at a path to check.
    """
    known = frozenset(centre.short_name for centre in KNOWN_CENTRES) if centres is None else centres
    checker = ArchiveChecker(Setup.from_settings(settings.model_copy(update={"min_free_bytes": 0}), known), schemas)
    all_converters()
    named = list(paths)
    closed: list[PathVerdict] = []
    files = [file for path in named for file in _files_at(path, closed)]
    if not files and not closed:
        raise NotFoundError(f"{named[0]} is checked with the archive that it lies beside. Name the archive.")
    # Threads that get one document at a time wait for each other more than they work.
    at_once = min(_MAX_AT_ONCE, max(1, len(files) // (_SHARES * settings.workers)))
    shares = [files[first : first + at_once] for first in range(0, len(files), at_once)]
    give_threads_their_own_memory(settings.workers)
    with ExitStack() as stack:
        kept = DraftFile(stack.enter_context(tempfile.TemporaryFile(prefix="dcc-validate-")))
        with nullcontext() if reference is None else _judge_by(schemas, reference, settings) as judge:
            check = _Check(settings, known, checker, judge)
            with ThreadPoolExecutor(settings.workers, thread_name_prefix="check") as pool:
                try:
                    for draft in chain(closed, chain.from_iterable(pool.map(check.files, shares))):
                        kept.keep(draft)
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
            if judge is not None:
                judge.judge_together(kept)
        return _verdicts(kept, settings.max_document_errors, stack.pop_all())


def _judge_by(schemas: SchemaSet, reference: ReferenceData, settings: Settings) -> AbstractContextManager[Judge]:
    # Which loads what knows the QC database: that takes longer than checking a few files.
    from dcc.validation.judge import judge_by

    return judge_by(schemas, reference, settings.max_document_errors)


def _verdicts(kept: DraftFile, most: int, closing: ExitStack) -> Iterator[PathVerdict]:
    """The verdicts of the stored drafts, with `most` errors and warnings; their file is closed at the end."""
    with closing:
        for draft in kept.drafts(most):
            yield from draft.with_documents()


def skipped_files(paths: Iterable[Path]) -> list[Path]:
    """The files in directories whose names are of no archive, document or table, nor of what lies beside an archive."""
    below = [file for path in paths for file in _files_below(path)]
    return [file for file in below if not _is_submission(file.name) and not _lies_beside(file.name)]


def _files_at(path: Path, closed: list[PathVerdict]) -> list[Path]:
    """The files to check at a path; verdicts on folders that cannot be read are put into `closed`."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"{path} does not exist. Name an archive, a document, a table, or a directory of them."
        ) from None
    except OSError:
        # The reason is told where it is checked.
        return [path]
    if not path.is_dir():
        return [] if _lies_beside(path.name) else [path]
    closed_before = len(closed)
    below = _files_below(path, lambda error: closed.append(_unreadable(Path(error.filename), error)))
    files = [file for file in below if _is_submission(file.name)]
    if not files and len(closed) == closed_before:
        raise NotFoundError(f"{path} holds no archive, no .xml file and no table. Name the files to check.")
    return files


def _files_below(folder: Path, on_error: Callable[[OSError], None] | None = None) -> list[Path]:
    """The files in a folder and those below it, also what cannot be seen; `on_error` takes why a folder is unread."""
    found = [Path(parent, name) for parent, _, names in os.walk(folder, onerror=on_error) for name in names]
    return sorted((file for file in found if _may_be_file(file)), key=lambda file: file.parts)


def _may_be_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return True


def _is_submission(name: str) -> bool:
    return is_archive(name) or is_document(name) or converter_for(name) is not None


def _lies_beside(name: str) -> bool:
    """Whether a file lies beside an archive and is checked with it: its checksum or manifest."""
    besides = (sidecar(""), *MANIFEST_ENDINGS)
    return any(name.endswith(ending) and is_archive(name.removesuffix(ending)) for ending in besides)


@dataclass
class _Check:
    settings: Settings
    centres: Container[str]
    checker: ArchiveChecker
    judge: Judge | None

    def files(self, paths: Sequence[Path]) -> list[PathVerdict]:
        return [self._verdict(path) for path in paths]

    def _verdict(self, path: Path) -> PathVerdict:
        try:
            return self._file(path)
        except OSError as error:
            # Without room or a folder for temporary files, none can be checked.
            if error.errno in _OF_MACHINE or is_full(error) or not str(error.filename or path).startswith(str(path)):
                raise
            return _unreadable(path, error)

    def _file(self, path: Path) -> PathVerdict:
        if is_document(path.name):
            return self._document(path)
        if is_archive(path.name):
            return self._archive(path)
        converter = converter_for(path.name)
        if converter is not None:
            return self._converted(path, converter)
        if (advice := _NO_TABLES.get(path.suffix.lower())) is not None:
            return PathVerdict(str(path), [Problem.of(BadFileNameError(advice, name=path.name))])
        return self._archive(path) if _begins_as_zip(path) else self._document(path)

    def _archive(self, path: Path) -> PathVerdict:
        draft = PathVerdict(str(path))
        try:
            created = self.settings.naming.parse_archive_name(path.name, self.centres).created
        except BadFileNameError as error:
            draft.errors.append(Problem.of(error))
        else:
            if created > utc_today() + _OF_TIME_ZONES:
                draft.warnings.append(Problem.of(BadFileNameError(_IN_FUTURE, name=path.name, day=created)))
        with tempfile.TemporaryDirectory(prefix="dcc-validate-") as directory:
            found = self.checker.check(path, Path(directory) / "contents")
            try:
                _compare_md5(path, found.md5)
            except (ChecksumMismatchError, BadChecksumFileError) as error:
                draft.errors.append(Problem.of(error))
            if isinstance(found, UnopenedArchive):
                draft.errors.append(Problem.of(found.error))
            else:
                self._opened(path, found, draft)
        return draft

    def _opened(self, path: Path, found: CheckedArchive, draft: PathVerdict) -> None:
        archive = found.archive
        is_taken = not draft.errors
        for document, problems in found.documents:
            of_document = PathVerdict(f"{path}/{document.place}", list(problems))
            if self.judge is not None:
                in_archive = document.path, _action_of(path), document.name, path
                self.judge.judge(of_document, *in_archive, takes_effect=is_taken)
            draft.documents.append(of_document)
        for file_name, _, problem in archive.refused:
            draft.documents.append(PathVerdict(f"{path}/{file_name}", [problem]))
        draft.warnings += (ignored_problem(member, reason) for member, reason in archive.ignored)

    def _converted(self, path: Path, converter: Converter) -> PathVerdict:
        """The verdict on a file outside of an archive; of several documents each is named after its kind."""
        draft = PathVerdict(str(path))
        kinds = kinds_of(converter, path.name)
        with tempfile.TemporaryDirectory(prefix="dcc-validate-") as directory:
            for kind in kinds:
                of_document = draft if len(kinds) == 1 else PathVerdict(f"{path}/{kind}")
                target = Path(directory) / kind
                file = SubmittedFile(path.name, path, None)
                limit = self.settings.max_archive_bytes, self.settings.max_document_errors
                of_document.errors += convert_file(converter, file, kind, target, *limit)
                if not of_document.errors:
                    of_document.errors += self.checker.validate(target, kind)
                if self.judge is not None:
                    self.judge.judge(of_document, target, _action_of(path))
                if of_document is not draft:
                    draft.documents.append(of_document)
        return draft

    def _document(self, path: Path) -> PathVerdict:
        draft = PathVerdict(str(path))
        name = None
        try:
            name = self.settings.naming.parse_document_name(path.name, self.centres)
        except BadFileNameError as error:
            draft.warnings.append(Problem.of(error))
        draft.errors += self.checker.validate(path, None if name is None else name.kind)
        if self.judge is not None:
            self.judge.judge(draft, path, _action_of(path), name)
        return draft


def _unreadable(path: Path, error: OSError) -> PathVerdict:
    text = mark("{path} cannot be read: {reason}. See that it is there and that you may read it, then check it again.")
    return PathVerdict(
        str(path), [Problem.of(ConfigurationError(text, path=error.filename or path, reason=error.strerror or error))]
    )


def _action_of(path: Path) -> Action:
    folder = path.absolute().parent.name
    return next((action for action in Action if action == folder), Action.ADD)


def _compare_md5(path: Path, found: str) -> None:
    """Compare an archive's MD5 with the checksum beside it, if there is one, as a session does after a download."""
    md5_file = path.with_name(sidecar(path.name))
    if not md5_file.is_file():
        return
    with md5_file.open("rb") as file:
        published = parse_md5(file.read(MAX_SIDECAR_BYTES), path.name)
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
