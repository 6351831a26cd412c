"""The steps that an installation leaves out: of all documents, of those of a group of centres, or of a file source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dcc.outcomes import LEFT_OUT
from dcc.phases import Phase
from dcc.settings.centre_groups import CentreGroup

MAY_BE_LEFT_OUT: Final = {phase.short_name: phase for phase in LEFT_OUT}
"""The steps that may be left out: what is fetched, unpacked and validated is so in any case."""

_STEPS_EXAMPLE: Final = "write such as overview;europe=context;3=data,overview"


@dataclass(frozen=True, slots=True)
class LeftOutSteps:
    """The steps that are left out: of all documents, of those of centres by code, and of file sources by id."""

    everywhere: frozenset[Phase] = frozenset()
    of_centres: Mapping[str, frozenset[Phase]] = field(default_factory=dict)
    of_sources: Mapping[int, frozenset[Phase]] = field(default_factory=dict)

    def of(self, centre: str | None, source: int) -> frozenset[Phase]:
        """The steps that are left out of documents of a centre's archive from a file source."""
        nothing: frozenset[Phase] = frozenset()
        return self.everywhere | self.of_centres.get(centre or "", nothing) | self.of_sources.get(source, nothing)

    def has(self, phase: Phase) -> bool:
        """Whether a step is left out of any document."""
        return any(phase in some for some in (self.everywhere, *self.of_centres.values(), *self.of_sources.values()))


def parse_left_out_steps(text: str, groups: Mapping[str, CentreGroup]) -> LeftOutSteps:
    """The steps that a text such as `overview;europe=context;3=data,overview` says, of `groups` and file sources.

    Raises ValueError for a text of another form, a group that is none, and a step that cannot be left out.
    """
    everywhere: frozenset[Phase] = frozenset()
    of_centres: dict[str, frozenset[Phase]] = {}
    of_sources: dict[int, frozenset[Phase]] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        of, is_some, steps = part.rpartition("=")
        of, phases = of.strip(), _phases(steps)
        if not is_some:
            everywhere |= phases
        elif of.isascii() and of.isdigit():
            of_sources[int(of)] = of_sources.get(int(of), frozenset()) | phases
        elif of in groups:
            of_centres |= {centre: of_centres.get(centre, frozenset()) | phases for centre in groups[of].centres}
        else:
            raise ValueError(f"{of!r} is neither the id of a file source nor a group of DCC_GROUPS: {_STEPS_EXAMPLE}")
    return LeftOutSteps(everywhere, of_centres, of_sources)


def _phases(text: str) -> frozenset[Phase]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in MAY_BE_LEFT_OUT:
            steps = ", ".join(MAY_BE_LEFT_OUT)
            raise ValueError(f"{name!r} is no step that can be left out. These can: {steps}; {_STEPS_EXAMPLE}")
    return frozenset(MAY_BE_LEFT_OUT[name] for name in names)
