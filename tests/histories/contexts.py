"""The data contexts of the model: which experiments count, and what waits for quality control."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from tests.histories.submissions import BAD, THINGS, Thing
from tests.histories.versions import Versions

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
