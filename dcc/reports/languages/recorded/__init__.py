"""Sentences that the platform records in English, known by their patterns so that they can be said in a language.

Patterns are texts like any other: `{name}` stands for a value. A sentence that is recorded anew somewhere, such as the
message of a new integrity rule, gets its pattern here, or, in a DCC's own rule, in a DCC's own catalogue.
"""

from functools import lru_cache

from dcc.reports.languages.recorded import archives, documents, rules, sources
from dcc.reports.languages.recorded.matching import Patterns

__all__ = ["Patterns", "patterns"]

_MODULES = (rules, documents, archives, sources)


@lru_cache(maxsize=8)
def patterns(own: tuple[str, ...] = ()) -> Patterns:
    """The patterns of all recorded sentences, and further ones of a DCC's own."""
    return Patterns(
        [*own, *(text for module in _MODULES for text in module.SENTENCES)],
        [text for module in _MODULES for text in module.PARTS],
        frozenset().union(*(module.PART_NAMES for module in _MODULES)),
        frozenset().union(*(module.FROM_THE_END for module in _MODULES)),
    )
