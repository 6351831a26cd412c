"""The names most similar to a text: what somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Final

from dcc.messages import Message, mark, message

LEAST_ALIKE: Final = 0.6
"""The least similarity (at most 1) of a near name."""


def nearest_names(text: str, names: Iterable[str], limit: int = 3, *, least_alike: float = LEAST_ALIKE) -> list[str]:
    """The names most similar to a text, ignoring case, the nearest first; none if none is similar.

    Of equally similar names, the first in `names` comes first.
    """
    matcher = SequenceMatcher(b=text.casefold())

    def likeness(name: str) -> float:
        matcher.set_seq1(name.casefold())
        is_possible = matcher.real_quick_ratio() >= least_alike and matcher.quick_ratio() >= least_alike
        return matcher.ratio() if is_possible else 0.0

    found = {name: likeness(name) for name in names}
    similar = [name for name in found if found[name] >= least_alike]
    return sorted(similar, key=found.__getitem__, reverse=True)[:limit]


def nearest_sentence(text: str, names: Iterable[str]) -> Message | str:
    """A sentence with the nearest names, after a space; empty if none is near."""
    return sentence_of(nearest_names(text, names))


def sentence_of(nearest: Sequence[str]) -> Message | str:
    """A sentence with nearest names, after a space; empty if there are none."""
    return message(mark(" The nearest: {names}."), names=nearest) if nearest else ""
