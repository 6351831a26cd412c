"""Finding out which pattern a recorded sentence follows, and with what values: `The colony {colony} is not known.`

Values come from centres and may hold anything, so nothing here goes back on itself: every pattern is decided in time
that grows with the sentence's length alone.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

LONGEST: Final = 5_000
"""Characters of a sentence beyond which it is not looked at; nothing is recorded with as many."""

_REPR: Final = re.compile(r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"", re.S)
_MOST_PARTS: Final = 100
"""Parts that are looked up for one sentence, so that one made up of parts takes no longer than another."""

Translate = Callable[[str], str]


class Pattern:
    """A text with names in braces, taken apart: what stands before each value, and after the last one."""

    __slots__ = ("fixed", "names", "text")

    def __init__(self, text: str) -> None:
        self.text: Final = text
        fixed, names = [""], []
        for literal, name, _, _ in string.Formatter().parse(text):
            fixed[-1] += literal
            if name is not None:
                names.append(name)
                fixed.append("")
        self.fixed: Final = tuple(fixed)
        self.names: Final = tuple(names)

    @property
    def weight(self) -> int:
        """How much of a sentence it demands: that of two which demands more says more of it."""
        return sum(map(len, self.fixed))

    def begins_with_any(self, names: Collection[str]) -> bool:
        """Whether nothing stands before the first value, and that is one of these."""
        return not self.fixed[0] and bool(self.names) and self.names[0] in names

    def values(self, sentence: str, from_the_end: Collection[str] = ()) -> dict[str, str] | None:
        """The values that stand where the names are; None when the sentence does not follow the pattern.

        A value in quotes, as Python writes it, ends with its quote where what follows fits; another one ends where what
        follows is first found, or last found if its name is in `from_the_end`.
        """
        first, *middle, last = (*self.fixed, "") if len(self.fixed) == 1 else self.fixed
        end = len(sentence) - len(last)
        if not sentence.startswith(first) or not sentence.endswith(last) or end < len(first):
            return None
        if not self.names:
            return {} if sentence == first else None
        place, found = len(first), {}
        for index, following in enumerate(middle):
            name = self.names[index]
            if name in from_the_end:
                after = sentence.rfind(following, place, end)
            else:
                after = _end_of_value(sentence, place, following, end)
            if after < 0:
                return None
            found[name] = sentence[place:after]
            place = after + len(following)
        found[self.names[-1]] = sentence[place:end]
        return found


def _end_of_value(sentence: str, place: int, following: str, end: int) -> int:
    quoted = _REPR.match(sentence, place, end)
    if quoted is not None and sentence.startswith(following, quoted.end(), end):
        return quoted.end()
    return sentence.find(following, place, end)


class Patterns:
    """Patterns of whole sentences, and of parts that stand for a value in them; those that demand most go first.

    `part_names` are the names whose values are parts, `from_the_end` those whose values end where what follows is last
    found. A pattern that begins with a part goes before all that do not, and is followed only by a sentence whose part
    is known: else it would take anything that ends as it does.
    """

    def __init__(
        self,
        sentences: Iterable[str],
        parts: Iterable[str],
        part_names: Collection[str] = (),
        from_the_end: Collection[str] = (),
    ) -> None:
        self._part_names: Final = frozenset(part_names)
        self._from_the_end: Final = frozenset(from_the_end)
        self._sentences: Final = self._in_order(sentences)
        self._parts: Final = self._in_order([*parts, *sentences])

    def _in_order(self, texts: Iterable[str]) -> tuple[Pattern, ...]:
        taken_apart = map(Pattern, dict.fromkeys(texts))
        return tuple(sorted(taken_apart, key=lambda each: (not self._begins_with_part(each), -each.weight)))

    def _begins_with_part(self, pattern: Pattern) -> bool:
        return pattern.begins_with_any(self._part_names)

    def translated(self, sentence: str, translate: Translate) -> str | None:
        """A sentence by way of its pattern, which `translate` says in a language; None when no pattern fits.

        What has no full stop at its end may be a part by itself.
        """
        if len(sentence) > LONGEST:
            return None
        among = self._sentences if sentence.endswith(".") else self._parts
        return self._translated(sentence, among, translate, iter(range(_MOST_PARTS)))

    def _translated(
        self, text: str, among: tuple[Pattern, ...], translate: Translate, turns: Iterator[int]
    ) -> str | None:
        for pattern in among:
            values = pattern.values(text, self._from_the_end)
            if values is None:
                continue
            said = self._said(pattern, values, translate, turns)
            if said is not None:
                return translate(pattern.text).format_map(said)
        return None

    def _said(
        self, pattern: Pattern, values: dict[str, str], translate: Translate, turns: Iterator[int]
    ) -> dict[str, str] | None:
        """The values with their parts translated; None when the pattern begins with one that is not known."""
        said = dict(values)
        for number, name in enumerate(pattern.names):
            if name not in self._part_names:
                continue
            known = next(turns, None) is not None
            part = self._translated(values[name], self._parts, translate, turns) if known else None
            if part is not None:
                said[name] = part
            elif not number and self._begins_with_part(pattern):
                return None
        return said
