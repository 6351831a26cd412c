"""Whose data a document may change: its archive's centre, and centres that delegated to it.

Uses no database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from dcc.qc.rows.entity_keys import Key
from dcc.rights import Rights
from dcc.vocabulary import EntityKind


class OtherCentre(NamedTuple):
    """A centre other than the archive's, and the number of its entities in a document, by kind."""

    centre: str
    counts: dict[str, int]


class ForeignData(Enum):
    """What becomes of a document, by the data in it of centres that its archive may not change."""

    ALLOW = "allow"
    """It takes effect: there are none, or a person confirmed it."""
    NOTE = "note"
    """It takes effect, with a finding."""
    HOLD = "hold"
    """It waits until a person confirms it."""
    REFUSE = "refuse"
    """Its content is kept, and nothing of it takes effect."""


class OtherCentres:
    """Counts a document's entities of other centres than its archive's: all, and those that take effect."""

    def __init__(self, rights: Rights | None) -> None:
        self._rights = rights
        self._named, self._effective = Counter[tuple[str, str]](), Counter[tuple[str, str]]()

    def name(self, keys: Iterable[Key], kind: EntityKind) -> None:
        """Count entities in the document."""
        if self._rights is not None:
            self._named.update((str(key[0]), kind.value) for key in keys if key[0] != self._rights.own)

    def take_effect(self, keys: Iterable[Key], kind: EntityKind) -> None:
        """Count entities that take effect."""
        if self._named and self._rights is not None:
            self._effective.update((str(key[0]), kind.value) for key in keys if key[0] != self._rights.own)

    def counts(self, *, effective: bool) -> tuple[OtherCentre, ...]:
        """The other centres in the document; of each the entities that took effect, or all."""
        found: dict[str, dict[str, int]] = {}
        for (centre, kind), number in sorted((self._effective if effective else self._named).items()):
            found.setdefault(centre, {})[kind] = number
        return tuple(OtherCentre(*one) for one in found.items())
