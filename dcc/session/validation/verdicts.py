"""Verdicts on submissions, and their drafts until all files are checked."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from dcc.errors import DocumentError
from dcc.messages import mark, message
from dcc.naming import Action, DocumentName
from dcc.outcomes import Problem


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
class DraftVerdict:
    """A verdict to which other documents may add; of an archive, with those of its documents."""

    path: str
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    missing: list[Problem] = field(default_factory=list)
    documents: list[DraftVerdict] = field(default_factory=list)

    def verdicts(self) -> Iterator[PathVerdict]:
        """The verdict, and those of its documents."""
        below = [verdict for document in self.documents for verdict in document.verdicts()]
        wrong = sum(not verdict.valid for verdict in below)
        if wrong:
            refused = mark("Documents in it that would fail: {number} of {documents}.")
            text = message(refused, number=wrong, documents=len(below))
            self.errors.append(Problem(DocumentError.short_name(), text))
        parts = (self.errors, self.warnings, self.missing)
        yield PathVerdict(self.path, not self.errors, *map(tuple, parts))
        yield from below


class LaterFindings(NamedTuple):
    """What other documents add to a verdict; see `JudgedDocument.takes_no_effect`."""

    takes_no_effect: bool
    problems: list[Problem]


class DocumentToJudge(NamedTuple):
    """A document: its file, its action, its name if that conforms, and the archive that it is in, if any."""

    path: Path
    action: Action
    name: DocumentName | None = None
    archive: Path | None = None


class DraftFile:
    """Drafts in their order, and later additions, on disk: many documents may have many errors."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._drafts: list[int] = []
        self._later: dict[str, int] = {}

    def keep(self, draft: DraftVerdict) -> None:
        """Store the next draft."""
        self._drafts.append(self._file.tell())
        pickle.dump(draft, self._file)

    def add(self, path: str, takes_no_effect: bool, problems: Iterable[Problem]) -> None:
        """Store an addition to a document's draft, one problem after the other, since there may be many."""
        self._later[path] = self._file.tell()
        for part in chain([takes_no_effect], problems, [None]):
            pickle.dump(part, self._file)

    def drafts(self) -> Iterator[tuple[DraftVerdict, dict[str, LaterFindings]]]:
        """The drafts, each with the additions for it or its documents, by path."""
        for place in self._drafts:
            self._file.seek(place)
            draft: DraftVerdict = self._next()
            paths = [one.path for one in (draft, *draft.documents) if one.path in self._later]
            yield draft, {path: self._addition(path) for path in paths}

    def _addition(self, path: str) -> LaterFindings:
        self._file.seek(self._later[path])
        return LaterFindings(self._next(), list(iter(self._next, None)))

    def _next(self) -> Any:
        return pickle.load(self._file)  # noqa: S301 - written by this process, to a file that has no name
