"""Verdicts on submissions, and where they are kept until all files are checked."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import IO, Any, Final, NamedTuple

from dcc.declarations import message_of, rule_of
from dcc.errors import DocumentError
from dcc.messages import mark, message
from dcc.outcomes import Problem
from dcc.rules.findings import MORE_RULE, further_findings
from dcc.vocabulary import EntityKind, Severity

_TOGETHER: Final = 200


class EntityInDocument(NamedTuple):
    """The kind of an entity, its position, and that of its centre element; None for what is in no entity."""

    block: int | None
    kind: EntityKind | None
    position: int | None


@dataclass(frozen=True, slots=True)
class RuleProblem(Problem):
    """A finding of a rule on the content of a document, with the entity that it is in.

    It `may_be_there`: what no checked document has may have been submitted before.
    """

    entity: EntityInDocument | None = field(default=None, compare=False)
    may_be_there: bool = field(default=False, compare=False)


@dataclass
class PathVerdict:
    """The platform's verdict on one archive or document, to which others may add until all files are checked.

    `path` of a document in an archive is `<archive>/<document>`. `warnings` refuse nothing. `missing` names things that
    no checked document has, and that may have been submitted before: a session reports them if they were not.
    `documents` are the verdicts on those of an archive, which is valid if all of them are. `unlisted` counts findings
    beyond the listed ones, by rule, severity and the entity that they are in.
    """

    path: str
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    missing: list[Problem] = field(default_factory=list)
    documents: list[PathVerdict] = field(default_factory=list)
    unlisted: Counter[tuple[str, Severity, EntityInDocument | None]] = field(default_factory=Counter)

    @property
    def valid(self) -> bool:
        """Whether nothing refuses it."""
        return not self.errors

    def add(self, problems: Iterable[Problem], most: int) -> None:
        """Add findings in the order of lines: of those that fail a document, and of the others, `most` in all."""
        for problem in problems:
            of_sort = self.errors if problem.is_error else self.warnings
            if isinstance(problem, RuleProblem) and problem.may_be_there:
                self.missing.append(problem)
            elif len(of_sort) < most:
                of_sort.append(problem)
            else:
                self.unlisted[problem.kind, problem.severity, _entity_of(problem)] += 1
        for of_sort in (self.errors, self.warnings):
            of_sort.sort(key=lambda problem: problem.line or 0)

    def add_later(self, later: LaterFindings, most: int) -> None:
        """Add what other documents add, as `add` does."""
        for some in (self.errors, self.warnings):
            if later.takes_no_effect:
                some[:] = [one for one in some if one.kind != rule_of(one.code)]
            else:
                some[:] = later.standing(some)
        for key in list(self.unlisted):
            if later.takes_no_effect or key[-1] in later.former:
                del self.unlisted[key]
        self.add(later.standing(later.problems), most)

    def with_documents(self) -> Iterator[PathVerdict]:
        """The verdict, with the error that documents of it fail, if any, and those on its documents.

        Each says how many findings it does not list.
        """
        for one in (self, *self.documents):
            one._tell_unlisted()
        wrong = sum(not document.valid for document in self.documents)
        if wrong:
            refused = mark("Documents in it that would fail: {number} of {documents}.")
            text = message(refused, number=wrong, documents=len(self.documents))
            self.errors.append(Problem(DocumentError.short_name(), text))
        yield self
        yield from self.documents

    def _tell_unlisted(self) -> None:
        if self.unlisted:
            excess: Counter[tuple[str, Severity]] = Counter()
            for (rule, severity, _), number in self.unlisted.items():
                excess[rule, severity] += number
            severity, details = further_findings(excess, len(self.errors) + len(self.warnings))
            problem = Problem(MORE_RULE, message_of(MORE_RULE, details), code=MORE_RULE, severity=severity)
            (self.errors if problem.is_error else self.warnings).append(problem)


class LaterFindings(NamedTuple):
    """What other documents add to a verdict. Of a document that `takes_no_effect`, no rule's other findings count.

    Nor do those in its `former` entities, which other documents replaced or deleted.
    """

    takes_no_effect: bool
    problems: list[Problem]
    former: Collection[EntityInDocument]

    def standing(self, problems: list[Problem]) -> list[Problem]:
        """Those of some problems that are in no former entity."""
        return [one for one in problems if _entity_of(one) not in self.former]


def _entity_of(problem: Problem) -> EntityInDocument | None:
    return problem.entity if isinstance(problem, RuleProblem) else None


class DraftFile:
    """Drafts in their order, and later additions, on disk: many documents may have many errors."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._drafts: list[int] = []
        self._later: dict[str, list[int]] = {}

    def keep(self, draft: PathVerdict) -> None:
        """Store the next draft."""
        self._drafts.append(self._file.tell())
        pickle.dump(draft, self._file)

    def add(
        self,
        path: str,
        problems: Iterable[Problem] = (),
        *,
        takes_no_effect: bool = False,
        former: Collection[EntityInDocument] = (),
    ) -> None:
        """Store one of the additions to a document's draft, some problems at a time, since there may be many."""
        self._later.setdefault(path, []).append(self._file.tell())
        pickle.dump((takes_no_effect, former), self._file)
        coming = iter(problems)
        while some := list(islice(coming, _TOGETHER)):
            pickle.dump(some, self._file)
        pickle.dump([], self._file)

    def drafts(self, most: int) -> Iterator[PathVerdict]:
        """The drafts, with the additions to them and their documents, of which each has `most` errors and warnings."""
        for place in self._drafts:
            self._file.seek(place)
            draft: PathVerdict = self._next()
            for one in (draft, *draft.documents):
                if one.path in self._later:
                    one.add_later(self._additions(one.path), most)
            yield draft

    def _additions(self, path: str) -> LaterFindings:
        takes_no_effect = False
        problems: list[Problem] = []
        former: set[EntityInDocument] = set()
        for place in self._later[path]:
            self._file.seek(place)
            has_no_effect, ended = self._next()
            takes_no_effect |= has_no_effect
            former.update(ended)
            problems += chain.from_iterable(iter(self._next, []))
        return LaterFindings(takes_no_effect, problems, former)

    def _next(self) -> Any:
        return pickle.load(self._file)  # noqa: S301 - written by this process, to a file that has no name
