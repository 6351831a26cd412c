"""Verdicts on submissions, and their drafts until all files are checked."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import SEEK_END
from pathlib import Path
from typing import IO, NamedTuple

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
class Draft:
    """A verdict to which other documents may add; of an archive, with those of its documents.

    `number` is that of a document that is judged together with others.
    """

    path: str
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    missing: list[Problem] = field(default_factory=list)
    documents: list[Draft] = field(default_factory=list)
    number: int | None = None

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


class DocumentToJudge(NamedTuple):
    """A document: its file, its action, its name if that conforms, and the archive that it is in, if any."""

    path: Path
    action: Action
    name: DocumentName | None = None
    archive: Path | None = None


class DraftFile:
    """Drafts in their order, on disk: many documents may have many errors."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._drafts: list[list[int]] = []
        self._judged: dict[int, tuple[int, int]] = {}

    def keep(self, draft: Draft) -> None:
        """Store the next draft, and those of its documents."""
        together = [replace(draft, documents=[]), *draft.documents]
        for turn, one in enumerate(together):
            if one.number is not None:
                self._judged[one.number] = len(self._drafts), turn
        self._drafts.append([self._put(one) for one in together])

    @contextmanager
    def opened(self, number: int) -> Iterator[Draft]:
        """A stored draft by its number, which is stored again after the block."""
        place, turn = self._judged[number]
        draft = self._get(self._drafts[place][turn])
        yield draft
        self._drafts[place][turn] = self._put(draft)

    def drafts(self) -> Iterator[Draft]:
        """The drafts."""
        for places in self._drafts:
            draft, *documents = map(self._get, places)
            yield replace(draft, documents=documents)

    def _put(self, draft: Draft) -> int:
        place = self._file.seek(0, SEEK_END)
        pickle.dump(draft, self._file)
        return place

    def _get(self, place: int) -> Draft:
        self._file.seek(place)
        found: Draft = pickle.load(self._file)  # noqa: S301 - written by this process, to a file that has no name
        return found
