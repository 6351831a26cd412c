"""Messages as facts: an English text with names in braces, and the details that belong there.

A message is put into words only when somebody reads it, in English or by a catalogue in another language. It is kept as
JSON, and words are never taken apart again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any, Final

Details = Mapping[str, Any]
"""Details by name: texts, quantities, lists of texts, messages."""

LONGEST_SHOWN: Final = 500
"""Characters of a detail that messages show."""

_TEXT: Final = "text"
_LONGEST_KEPT: Final = 2_000
_MOST_KEPT: Final = 60_000


def mark(text: str) -> str:
    """The text itself: having it here puts it into the catalogues, and a catalogue translates it when it is read."""
    return text


def mark_plural(one: str, many: str) -> tuple[str, str]:
    """The two texts themselves, for tables of what is counted: `catalogue.say_plural(*THINGS["document"], number)`."""
    return one, many


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Message:
    """A text with the details for its names in braces; a message without details is words already.

    Details are texts, numbers (quantities, which a reader's language writes its own way), lists of texts, or messages.
    """

    text: str
    details: Details | None = None

    def __str__(self) -> str:
        """The message in English."""
        return said(self, str, english_number)

    def __repr__(self) -> str:
        return f"Message({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        """Whether it says the same in English as another message, or a text."""
        return str(self) == str(other) if isinstance(other, (Message, str)) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    @property
    def known(self) -> Details:
        """Its details, and those of the message that it is around as its `problem`."""
        details = self.details or {}
        return details if self.problem is self else {**self.problem.known, **details}

    @property
    def problem(self) -> Message:
        """The message that it is around as its `problem`, such as one without the name of its source; else itself."""
        inner = (self.details or {}).get("problem")
        return inner if isinstance(inner, Message) else self


def message(text: str, /, **details: Any) -> Message:
    """A message of a marked text with its details."""
    return Message(text, details)


def said(message: Message, translate: Callable[[str], str], number: Callable[[float], str]) -> str:
    """A message in words: its text by `translate`, quantities by `number`.

    A name that no detail is known for stands as it is, in braces.
    """
    if message.details is None:
        return translate(message.text)
    words = {name: _in_words(detail, translate, number) for name, detail in message.details.items()}
    return filled(translate(message.text), words)


def _in_words(detail: Any, translate: Callable[[str], str], number: Callable[[float], str]) -> str:
    """A detail in words. No function within `said`: one that calls itself is only freed by the garbage collector."""
    if isinstance(detail, Message):
        return said(detail, translate, number)
    if isinstance(detail, (int, float)) and not isinstance(detail, bool):
        return number(detail)
    if isinstance(detail, (list, tuple)):
        return ", ".join(_in_words(each, translate, number) for each in detail)
    return shown("" if detail is None else str(detail))


def filled(text: str, words: Mapping[str, str]) -> str:
    """A text with words for its names in braces; a name without a word stands as it is, and so does a broken text."""
    parts = []
    try:
        parsed = list(Formatter().parse(text))
    except ValueError:
        return text
    for literal, name, _, _ in parsed:
        parts.append(literal)
        if name is not None:
            parts.append(words.get(name, f"{{{name}}}"))
    return "".join(parts)


def names_in(text: str) -> frozenset[str]:
    """The names in braces of a text: `{colony}` has `colony`. Raises ValueError for anything but a plain name."""
    names = set()
    for _, name, form, conversion in Formatter().parse(text):
        if name is None:
            continue
        if not name.isidentifier() or form or conversion:
            raise ValueError(f"{{{name}}} is no plain name in braces")
        names.add(name)
    return frozenset(names)


def english_number(number: float) -> str:
    """A quantity in English: `1,234`, `12.5`."""
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def shown(text: str) -> str:
    """A detail as messages show it: shortened, with what cannot be printed escaped."""
    text = text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape", "replace").decode() for one in text)


def to_json(details: Details) -> str | None:
    """Details as they are kept; None where they are too many to be."""
    kept = json.dumps(_plain(details), ensure_ascii=False, separators=(",", ":"))
    return kept if len(kept.encode("utf-8", "surrogatepass")) <= _MOST_KEPT else None


def message_to_json(message: Message) -> str | None:
    """A message as it is kept, with its text; None for one that is words alone."""
    return None if message.details is None else to_json({_TEXT: message.text, **message.details})


def from_json(kept: str | None) -> dict[str, Any] | None:
    """Details that were kept; None where there are none."""
    if not kept:
        return None
    try:
        details = json.loads(kept)
    except ValueError:
        return None
    return {name: _detail(detail) for name, detail in details.items()} if isinstance(details, dict) else None


def message_from_json(kept: str | None, words: str) -> Message:
    """A message that was kept with its text; the `words` that were recorded where it was not."""
    details = from_json(kept)
    text = None if details is None else details.pop(_TEXT, None)
    return Message(words) if details is None or not isinstance(text, str) else Message(text, details)


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
        text = details.pop(_TEXT, "")
        return Message(str(text), details)
    return [_detail(each) for each in kept] if isinstance(kept, list) else kept
