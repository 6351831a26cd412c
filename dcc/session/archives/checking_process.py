"""What a process does that opens archives and validates documents for a session, which decides and records.

It loads neither SQLAlchemy nor the settings, so that it is there in a tenth of a second, and ends with the session's
process, however that ends: the next session may be at the same archives at once.
"""

from __future__ import annotations

import gc
import os
import pickle
import threading
import traceback
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO, Any, Final

from dcc.archives.extraction import ArchiveLimits, ExtractedArchive, ExtractedDocument, extract_archive
from dcc.documents.schema_set import SchemaSet
from dcc.documents.validation import validate_document
from dcc.errors import ArchiveError
from dcc.messages import message_from_json, message_to_json
from dcc.naming import DocumentKind, DocumentName, NamingConvention
from dcc.outcomes import Problem
from dcc.runtime.checksums import md5_of
from dcc.runtime.helper_process import Out, read_message, serve, write_message
from dcc.runtime.processes import end_with_parent

_MOST_AT_ONCE: Final = 32
_MOST_BYTES_AT_ONCE: Final = 4_000_000

Problems = tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Setup:
    """What the process goes by: of the settings, and the codes of all centres; `parent` is the process to work for."""

    limits: ArchiveLimits
    naming: NamingConvention
    centres: Container[str]
    xsd_dir: Path | None
    max_document_errors: int
    max_tree_bytes: int
    threads: int
    parent: int


def main() -> None:
    """Do what the messages on standard input ask for, and write what came of it to standard output.

    `("open", number, archive, target, md5, whole)` is answered by `("opened", (number, md5, archive, problems))`, for
    `unpacked_archive` and `unpacked_problems`: those of its documents if `whole` and they are few and small, else None.
    `("validate", number, documents)`, pairs of path and kind, is answered by `("checked", (number, problems))`. Where
    one cannot be done the answer is `("failed", (number, error, md5))`, with the error pickled.
    """
    end_with_parent()
    serve(_serve)


def _serve(given: IO[bytes], out: Out) -> None:
    setup: Setup = pickle.loads(read_message(given))  # noqa: S301 - of the process that started this one
    if os.getppid() != setup.parent:
        raise EOFError
    work = _Work(setup)
    # The parsers of prologs are cycles, each with some memory.
    gc.freeze()
    gc.enable()
    reading = threading.Lock()

    def work_on() -> None:
        while True:
            with reading:
                task = read_message(given)
            write_message(out, work.answer(*task))

    def work_beside() -> None:
        with suppress(EOFError):
            work_on()

    for _ in range(setup.threads - 1):
        threading.Thread(target=work_beside, daemon=True).start()
    work_on()


class _Work:
    """The tasks, each of which has an answer. Safe to share between threads."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._schemas = SchemaSet.load(setup.xsd_dir)

    def answer(self, kind: str, number: int, *task: Any) -> tuple[Any, ...]:
        """The answer to a task."""
        try:
            return self._open(number, *task) if kind == "open" else ("checked", (number, self._checked(*task)))
        except Exception as error:  # whatever it is, the session must hear of it: it waits for the answer
            return "failed", (number, _pickled(error), None)

    def _open(self, number: int, archive: str, target: str, md5: str | None, whole: bool) -> tuple[Any, ...]:
        setup = self._setup
        taken = md5_of(Path(archive)) if md5 is None else md5
        try:
            found = extract_archive(
                Path(archive), Path(target), limits=setup.limits, naming=setup.naming, centres=setup.centres
            )
        except ArchiveError as error:
            return "failed", (number, _pickled(error), taken)
        checked = self._checked_at_once(found) if whole else None
        return "opened", (number, taken, _packed_archive(found), checked)

    def _checked_at_once(self, archive: ExtractedArchive) -> list[Any] | None:
        documents = archive.documents
        if len(documents) > _MOST_AT_ONCE or sum(each.size_bytes for each in documents) > _MOST_BYTES_AT_ONCE:
            return None
        try:
            return self._checked([(str(each.path), each.name.kind) for each in documents])
        except Exception:  # which document it is of is told when each is asked for by itself
            return None

    def _checked(self, documents: Sequence[tuple[str, str]]) -> list[Any]:
        return [self._problems(Path(path), DocumentKind(kind)) for path, kind in documents]

    def _problems(self, path: Path, kind: DocumentKind) -> list[tuple[Any, ...]]:
        found = validate_document(
            path,
            kind,
            self._schemas,
            max_errors=self._setup.max_document_errors,
            max_tree_bytes=self._setup.max_tree_bytes,
        )
        return [_packed_problem(problem) for problem in found]


def _pickled(error: Exception) -> bytes:
    """The error for the other process, with what a log is to tell of it; as text if it could not be raised there."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # noqa: S301 - made in the line above
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return pickled


def _packed_archive(archive: ExtractedArchive) -> tuple[Any, ...]:
    documents = [
        (
            each.name.file_name,
            each.name.centre,
            each.name.created.toordinal(),
            each.name.inc,
            str(each.name.kind),
            str(each.path),
            each.size_bytes,
            each.md5,
        )
        for each in archive.documents
    ]
    refused = [(name, size, _packed_problem(problem)) for name, size, problem in archive.refused]
    ignored = [tuple(message_to_json(each) or str(each) for each in pair) for pair in archive.ignored]
    return documents, refused, ignored


def _packed_problem(problem: Problem) -> tuple[Any, ...]:
    said = message_to_json(problem.fact) or problem.message
    return problem.kind, said, problem.line, problem.column, problem.code


def unpacked_archive(packed: tuple[Any, ...]) -> ExtractedArchive:
    """What the process found in an archive."""
    documents, refused, ignored = packed
    return ExtractedArchive(
        tuple(
            ExtractedDocument(
                DocumentName(name, centre, date.fromordinal(day), inc, DocumentKind(kind)), Path(path), size, md5
            )
            for name, centre, day, inc, kind, path, size, md5 in documents
        ),
        tuple((name, size, _unpacked_problem(problem)) for name, size, problem in refused),
        tuple((message_from_json(member, member), message_from_json(reason, reason)) for member, reason in ignored),
    )


def unpacked_problems(packed: Sequence[Sequence[tuple[Any, ...]]]) -> tuple[Problems, ...]:
    """What the process found wrong with each document."""
    return tuple(tuple(map(_unpacked_problem, problems)) for problems in packed)


def _unpacked_problem(packed: tuple[Any, ...]) -> Problem:
    kind, said, *rest = packed
    return Problem(kind, message_from_json(said, said), *rest)
