"""The centres whose data an archive may change."""

from __future__ import annotations

from dataclasses import dataclass


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
