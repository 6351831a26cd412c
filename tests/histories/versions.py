"""Which versions of animals and experiments are there in the model, by which documents, and what follows from that.

A document is refused, breaks rules, says nothing new, or has others build on it because of what is there. Experiments
count in data contexts, and wait for quality control.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from dcc.naming import Action, DocumentKind
from tests.histories.records import Applied
from tests.histories.submissions import (
    BAD,
    GROUPS,
    IN_USE,
    NO_ANIMAL,
    NOT_THERE,
    THERE,
    THINGS,
    UNREGISTERED,
    WRONG_UNIT,
    Thing,
)


@dataclass
class Versions:
    """The versions of all things.

    `logs` has, by thing, the documents that changed it, oldest first, and the variant that each left there; None where
    it left none. `applied` are the documents that took effect, or are the same as ones that did, oldest first.
    """

    logs: dict[Thing, list[tuple[Applied, int | None]]] = field(default_factory=lambda: {thing: [] for thing in THINGS})
    applied: list[Applied] = field(default_factory=list)

    def variant(self, thing: Thing) -> int | None:
        """The variant that is there."""
        log = self.logs[thing]
        return log[-1][1] if log else None

    def owner(self, thing: Thing) -> Applied | None:
        """The document that it is there by."""
        return None if self.variant(thing) is None else self.last(thing)

    def last(self, thing: Thing) -> Applied | None:
        """The document that changed it last."""
        log = self.logs[thing]
        return log[-1][0] if log else None

    def owned_by(self, name: str) -> Iterator[tuple[Thing, int]]:
        """What is there by a document, with its variant."""
        for thing in THINGS:
            variant, last = self.variant(thing), self.last(thing)
            if variant is not None and last is not None and last.name == name:
                yield thing, variant

    def forget(self, name: str) -> None:
        """A document did not take effect, or does so anew."""
        self.applied = [one for one in self.applied if one.name != name]

    def of_archive(self, number: int) -> list[Applied]:
        return [one for one in self.applied if one.number == number]

    def take_back(self, mine: Collection[Applied]) -> set[Thing]:
        """Remove what documents did; returns the things that they had changed."""
        changed = set()
        for thing, log in self.logs.items():
            left = [entry for entry in log if entry[0] not in mine]
            if left != log:
                changed.add(thing)
                self.logs[thing] = left
        self.applied = [one for one in self.applied if one not in mine]
        return changed

    def original(self, document: Applied) -> int | None:
        """The archive of a document that says the same and stands, if there is one."""
        owners = {self.owner(thing) for thing, _ in document.things}
        if document.action is Action.DELETE:
            deletions = [one for one in self.applied if one.action is Action.DELETE and one.things == document.things]
            return deletions[-1].number if owners == {None} and deletions else None
        (owner, *others) = owners
        return owner.number if not others and owner is not None and owner.things == document.things else None

    def refusal(self, document: Applied, thing: Thing) -> str | None:
        """The rule that keeps a document from changing something, None if none does."""
        is_there = self.owner(thing) is not None
        if document.action is Action.ADD:
            return THERE[thing.kind] if is_there else None
        if not is_there:
            return NOT_THERE
        has_experiments = thing == thing.animals and self.owner(thing.experiments) is not None
        return IN_USE if document.action is Action.DELETE and has_experiments else None

    def broken(self, things: Iterable[tuple[Thing, int | None]]) -> set[str]:
        """The rules that variants of things break now."""
        broken = set()
        for thing, variant in things:
            of_experiments = thing == thing.experiments
            if variant == BAD:
                broken.add(WRONG_UNIT if of_experiments else UNREGISTERED)
            if of_experiments and self.owner(thing.animals) is None:
                broken.add(NO_ANIMAL)
        return broken

    def are_built_on(self, mine: Collection[Applied]) -> bool:
        """Whether other, later documents build on these."""
        is_changed = any(_are_followed(log, mine) for log in self.logs.values())
        return is_changed or any(self._builds_on(mine, group) for group in range(GROUPS))

    def _builds_on(self, mine: Collection[Applied], group: int) -> bool:
        """Whether there are later experiments on animals that documents added; or later deletions of animals, missing
        since, whose experiments would come back.
        """
        of_animals, of_experiments = (self.logs[Thing(kind, group)] for kind in DocumentKind)
        added = [one for one, _ in of_animals if one in mine and one.action is Action.ADD]
        brought = [one for one, variant in of_experiments if one not in mine and variant is not None]
        if self._come_later(brought, added):
            return True
        left = [(one, variant) for one, variant in of_animals if one not in mine]
        are_missing = not left or left[-1][1] is None
        deleted = [one for one, variant in left if variant is None]
        ended = [one for one, _ in of_experiments if one in mine and one.action is not Action.ADD]
        return are_missing and self._come_later(deleted, ended)

    def _come_later(self, some: Iterable[Applied], others: Iterable[Applied]) -> bool:
        """Whether any of some documents took effect after one of others."""
        places = [self.applied.index(one) for one in others]
        return any(self.applied.index(one) > place for one in some for place in places)


Context = tuple[int | None, bool]
"""The colony of animals, None if these are missing, and whether it is bad."""


@dataclass
class Contexts:
    """What counted in each context when they were built last, and those that changed since a person finished them.

    `waived` are the rules that are waived or lowered to warnings now.
    """

    versions: Versions
    waived: Collection[str]
    contents: dict[Context, set[tuple[Thing, int | None]]] = field(default_factory=dict)
    unfinished: set[Context] = field(default_factory=set)

    def build(self) -> None:
        """Sort what counts now into contexts."""
        contents = defaultdict(set)
        for thing in THINGS:
            if self._counts(thing):
                contents[self._context(thing)].add((thing, self.versions.variant(thing)))
        of_any = self.contents.keys() | contents.keys()
        self.unfinished |= {context for context in of_any if self.contents.get(context) != contents.get(context)}
        self.contents = dict(contents)

    def counted(self, name: str) -> list[Thing]:
        """The experiments of a document that count."""
        return [thing for thing, _ in self.versions.owned_by(name) if self._counts(thing)]

    def has_unfinished(self, name: str) -> bool:
        """Whether an experiment of a document counts in a context that waits for quality control."""
        return not self.unfinished.isdisjoint(map(self._context, self.counted(name)))

    def _counts(self, thing: Thing) -> bool:
        concerned = (thing, thing.animals)
        broken = self.versions.broken((each, self.versions.variant(each)) for each in concerned)
        is_there = thing == thing.experiments and self.versions.owner(thing) is not None
        return is_there and broken <= set(self.waived)

    def _context(self, experiments: Thing) -> Context:
        variant = self.versions.variant(experiments.animals)
        return (None if variant is None else experiments.colony), variant == BAD


def _are_followed(log: list[tuple[Applied, int | None]], mine: Collection[Applied]) -> bool:
    """Whether a document that is not among these changed a thing after one of these."""
    ours = [place for place, (one, _) in enumerate(log) if one in mine]
    return bool(ours) and any(one not in mine for one, _ in log[ours[0] :])


def in_order_of_upload(due: Iterable[Applied]) -> Iterator[Applied]:
    """Documents that wait for the upload, in its order."""
    documents = sorted(due, key=lambda document: (document.number, document.name))
    experiments = [document for document in documents if not document.is_of_animals]
    for document in documents:
        if document.is_of_animals:
            while document.action is Action.DELETE and experiments and experiments[0].number <= document.number:
                yield experiments.pop(0)
            yield document
    yield from experiments
