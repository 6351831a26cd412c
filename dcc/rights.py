"""For which centres an archive speaks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rights:
    """For which centres an archive speaks: `own`, the centre of its name, and the centres that `delegated` to it.

    An archive whose name tells no centre (`own` is None) speaks for nobody.
    """

    own: str | None
    delegated: frozenset[str] = frozenset()

    def permit(self, centre: str) -> bool:
        """Whether the archive may change data of a centre."""
        return centre == self.own or centre in self.delegated
