"""Which of several names is most like a text: what somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

LEAST_ALIKE: Final = 0.6
"""How alike two texts are at least, of 1, to be called near."""


def nearest_names(text: str, names: Iterable[str], most: int = 3, *, least_alike: float = LEAST_ALIKE) -> list[str]:
    """The names that are most like a text, whatever their capitals, the nearest first; none where none is like it."""
    by_folded_name = {name.casefold(): name for name in names}
    return [by_folded_name[one] for one in get_close_matches(text.casefold(), by_folded_name, most, least_alike)]


def nearest_sentence(text: str, names: Iterable[str]) -> str:
    """A sentence with the nearest names, after a space; empty where none is like the text."""
    alike = nearest_names(text, names)
    return f" The nearest: {', '.join(alike)}." if alike else ""
