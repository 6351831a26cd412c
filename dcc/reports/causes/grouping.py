"""How findings of a rule, or errors of a kind, are told apart by what caused them: the faces of each.

A rule may object to several things, each of which has a remedy of its own. A face is one of them: it is recognised by
the message, says which parts of a finding its cause is known by, who must act, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dcc.reports.causes.cause import SHOWN_OF_VALUE, Actor
from dcc.runtime.legible_text import legible

VALUE: Final = "value"
"""The field that is the value of a finding, as the document has it."""

_QUOTE: Final = "_quote"


@dataclass(frozen=True, slots=True)
class Face:
    """One thing that a rule objects to, or that an error of a kind may be about.

    `by` are the names of the fields that findings of one cause share, none: all of them have one cause. A field is the
    finding's `value` or a group of `when`, which the whole message matches; None: any message. `title` and `remedy` are
    texts to be translated, with the fields in braces; they name no field that findings of one cause may differ in.
    `told` is what centres are told in place of a remedy that names commands of wranglers.
    """

    title: str
    remedy: str
    acts: Actor
    by: tuple[str, ...] = ()
    when: re.Pattern[str] | None = None
    told: str = ""

    @property
    def needs_message(self) -> bool:
        """Whether it can only be told by the message."""
        return self.when is not None

    def fields_of(self, value: str | None, message: str) -> Mapping[str, str] | None:
        """The fields of a finding; None when it is none of this face."""
        fields: dict[str, str] = {}
        if self.when is not None:
            match = self.when.fullmatch(message)
            if match is None:
                return None
            fields = {name: text or "" for name, text in match.groupdict().items() if not name.endswith(_QUOTE)}
        if VALUE in self.by:
            fields.setdefault(VALUE, "" if value is None else value)
        return fields


def face_among(faces: Sequence[Face], value: str | None, message: str) -> tuple[int, Face, Mapping[str, str]]:
    """What a finding is about: the first face that fits, with its number, and the finding's fields; else the last."""
    for number, face in enumerate(faces):
        fields = face.fields_of(value, message)
        if fields is not None:
            return number, face, fields
    return len(faces) - 1, faces[-1], {}


def pattern(text: str) -> re.Pattern[str]:
    """The pattern of a message; `<name>` stands for a group without blanks, `<name...>` for one of any text.

    `<'name'>` is one in quotes of either kind, as Python writes a text; `...` stands for anything, and may end early.
    """
    parts = re.split(r"(<'?[a-z]+'?>|<[a-z]+\.\.\.>|\.\.\.)", text)
    return re.compile("".join(map(_part, parts)), re.DOTALL)


def _part(part: str) -> str:
    if part == "...":
        return ".*"
    if part.startswith("<'"):
        name = part[2:-2]
        return rf"(?P<{name}{_QUOTE}>['\"])(?P<{name}>.*?)(?P={name}{_QUOTE})"
    if part.startswith("<") and part.endswith("...>"):
        return f"(?P<{part[1:-4]}>.*)"
    if part.startswith("<"):
        return rf"(?P<{part[1:-1]}>\S+?)"
    return re.escape(part)


def shown(value: str) -> str:
    """A value as titles show it: shortened, what cannot be seen of it escaped."""
    return legible(value if len(value) <= SHOWN_OF_VALUE else f"{value[: SHOWN_OF_VALUE - 3]}...")
