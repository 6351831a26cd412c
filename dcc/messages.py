"""Messages as facts: an English text with names in braces, and the details that belong there.

A message is rendered when somebody reads it, in English or by a catalogue in another language. It is stored as JSON,
and its text is never parsed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any, Final

Details = Mapping[str, Any]
"""Details by name: texts, numbers (quantities, written as the reader's language writes them), lists, messages."""

LONGEST_SHOWN: Final = 500
"""Characters of a detail that messages show."""

_TEXT: Final = "text"
_LONGEST_KEPT: Final = 2_000
_MAX_KEPT: Final = 60_000


def mark(text: str) -> str:
    """The text itself, which `make languages` puts into the catalogues for being here."""
    return text


def mark_plural(one: str, many: str) -> tuple[str, str]:
    """The two texts themselves, for tables of what is counted: `catalogue.say_plural(*THINGS["document"], number)`."""
    return one, many


def count_of(number: float, noun: str, plural: str | None = None) -> str:
    """`1 zip`, `2 zips`, in English; of a noun in a consonant and y `2 copies`; `plural` says any other."""
    if plural is None:
        plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{_in_english(number)} {noun if number == 1 else plural}"


def _in_english(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def byte_size(size: int | None) -> str:
    """A number of bytes for people, in English: `812 B`, `1.4 MB`; `-` if unknown. In a message: `size_detail`."""
    if size is None:
        return "-"
    text, number = in_unit(size)
    return filled(text, {"number": f"{number:.0f}" if text == _SIZES[0] else f"{number:.1f}"})


def in_unit(size: int) -> tuple[str, float]:
    """A number of bytes in the unit that fits: the text with that unit, and the number to one decimal."""
    value = float(size)
    for text in _SIZES[:-1]:
        if round(value, 1) < 1000:
            return text, round(value, 1)
        value /= 1000
    return _SIZES[-1], round(value, 1)


_SIZES: Final = (mark("{number} B"), mark("{number} kB"), mark("{number} MB"), mark("{number} GB"), mark("{number} TB"))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Message:
    """A text with the details for its names in braces; a message without details is plain text."""

    text: str
    details: Details | None = None

    def __str__(self) -> str:
        """The message in English."""
        return rendered(self, str, _in_english)

    def __repr__(self) -> str:
        return f"Message({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        """Whether it is the same in English as another message, or a text."""
        return str(self) == str(other) if isinstance(other, (Message, str)) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    @property
    def problem(self) -> Message:
        """The message that it has as its detail `problem`, such as one without the name of its source; else itself."""
        inner = (self.details or {}).get("problem")
        return inner if isinstance(inner, Message) else self

    @property
    def all_details(self) -> Details:
        """Its details, and those of its `problem`."""
        return (self.details or {}) if self.problem is self else {**self.problem.all_details, **(self.details or {})}


def message(text: str, /, **details: Any) -> Message:
    """A message of a marked text with its details."""
    return Message(text, details)


def size_detail(size: int) -> Message:
    """A number of bytes as a detail of a message, which tells it in the unit that fits: `812 B`, `1.4 MB`."""
    text, number = in_unit(size)
    return message(text, number=number, bytes=size)


def rendered(message: Message, translate: Callable[[str], str], number: Callable[[float], str]) -> str:
    """The text of a message by `translate`, with its details, quantities by `number`. Unknown names stay in braces."""
    if message.details is None:
        return translate(message.text)
    texts = {name: _rendered_detail(detail, translate, number) for name, detail in message.details.items()}
    return filled(translate(message.text), texts)


def _rendered_detail(detail: Any, translate: Callable[[str], str], number: Callable[[float], str]) -> str:
    # No function within `rendered`: one that calls itself is only freed by the garbage collector.
    if isinstance(detail, Message):
        return rendered(detail, translate, number)
    if isinstance(detail, (int, float)) and not isinstance(detail, bool):
        return number(detail)
    if isinstance(detail, (list, tuple)):
        return ", ".join(_rendered_detail(each, translate, number) for each in detail)
    return printable_detail("" if detail is None else str(detail))


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with values for its names in braces; unknown names stay in braces, and a malformed text as it is."""
    try:
        parsed = list(Formatter().parse(text))
    except ValueError:
        return text
    return "".join(
        literal if name is None else literal + values.get(name, f"{{{name}}}") for literal, name, _, _ in parsed
    )


def names_in(text: str) -> frozenset[str]:
    """The names in braces of a text: `{colony}` has `colony`. Raises ValueError for anything but a plain name."""
    names = set()
    for _, name, form, conversion in Formatter().parse(text):
        if name is not None and (not name.isidentifier() or form or conversion):
            raise ValueError(f"{{{name}}} is no plain name in braces")
        names.add(name)
    return frozenset(name for name in names if name is not None)


def printable_detail(text: str) -> str:
    """A detail as messages show it: with what cannot be printed escaped, and shortened."""
    shown = text[: LONGEST_SHOWN + 1]
    if not shown.isprintable():
        shown = "".join(one if one.isprintable() else one.encode("unicode_escape", "replace").decode() for one in shown)
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[: LONGEST_SHOWN - 3]}..."


def to_json(details: Details) -> str | None:
    """Details as they are stored; None where they are too many."""
    kept = json.dumps(_plain(details), ensure_ascii=False, separators=(",", ":"))
    return kept if len(kept.encode("utf-8", "surrogatepass")) <= _MAX_KEPT else None


def message_to_json(message: Message) -> str | None:
    """A message as it is stored, with its text; None for plain text."""
    return None if message.details is None else to_json({_TEXT: message.text, **message.details})


def from_json(kept: str | None) -> dict[str, Any] | None:
    """Stored details; None where there are none."""
    try:
        details = json.loads(kept or "null")
    except ValueError:
        return None
    return {name: _detail(detail) for name, detail in details.items()} if isinstance(details, dict) else None


def message_from_json(kept: str | None, recorded: str) -> Message:
    """A message that was stored with its text; the English text that was `recorded` where it was not."""
    details = from_json(kept)
    text = None if details is None else details.pop(_TEXT, None)
    return Message(text, details) if isinstance(text, str) else Message(recorded)


def _plain(detail: Any) -> Any:
    if isinstance(detail, Message):
        return {_TEXT: detail.text, **{name: _plain(each) for name, each in (detail.details or {}).items()}}
    if isinstance(detail, Mapping):
        return {name: _plain(each) for name, each in detail.items()}
    if isinstance(detail, (list, tuple)):
        return [_plain(each) for each in detail]
    if detail is None or isinstance(detail, (int, float)):
        return detail
    text = str(detail)
    return text if len(text) <= _LONGEST_KEPT else f"{text[: _LONGEST_KEPT - 1]}…"


def _detail(kept: Any) -> Any:
    if isinstance(kept, dict):
        details = {name: _detail(each) for name, each in kept.items()}
        # A message without details may be anybody's words, in which braces mean nothing.
        return Message(str(details.pop(_TEXT, "")), details or None)
    return [_detail(each) for each in kept] if isinstance(kept, list) else kept
