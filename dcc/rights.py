"""The centres whose data an archive may change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Rights:
    """The centres whose data an archive may change: `own`, the centre in its name, and those that `delegated` to it.

    An archive without a centre in its name (`own` is None) may change no data.
    """

    own: str | None
    delegated: frozenset[str] = frozenset()

    def permit(self, centre: str) -> bool:
        """Whether the archive may change data of a centre."""
        return centre == self.own or centre in self.delegated


@dataclass(frozen=True, slots=True)
class Delegations:
    """The delegations in force: by delegate, the centres that delegated to it."""

    owners: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def rights_of(self, centre: str | None) -> Rights:
        """The centres whose data a centre's archive may change; None: its name has no centre."""
        return Rights(centre, frozenset() if centre is None else self.owners.get(centre, frozenset()))
