"""Catalogue files: GNU gettext's .po format, read with Babel and checked, so that a wrong one is told before use."""

from __future__ import annotations

import gettext
import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from babel.messages.catalog import Message
from babel.messages.pofile import PoFileError, read_po

from dcc.errors import ConfigurationError

_NUMBERS_TRIED: Final = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class PoFile:
    """What a catalogue file says: translations by their English text, and which plural form a number takes.

    `plurals` has the English text of one thing as its key, and all forms of the language as its value. Entries without
    a translation, and those marked as fuzzy, are left out.
    """

    path: Path
    texts: Mapping[str, str]
    plurals: Mapping[str, tuple[str, ...]]
    plural_form: Callable[[int], int]


def read_po_file(path: Path) -> PoFile:
    """Read a catalogue file; kept until the file changes. Raises ConfigurationError when it is wrong or unreadable."""
    try:
        status = path.stat()
        return _read(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise ConfigurationError(
            f"The catalogue {path} cannot be read: {error.strerror}. Correct its permissions, or remove it."
        ) from error


@lru_cache(maxsize=32)
def _read(path: Path, _modified: int, _size: int) -> PoFile:
    try:
        with path.open("rb") as file:
            catalog = read_po(file, abort_invalid=True)
        form = gettext.c2py(catalog.plural_expr)
        if {form(number) for number in range(_NUMBERS_TRIED)} - set(range(catalog.num_plurals)):
            raise ValueError("its plural expression gives more forms than nplurals says")
    except (PoFileError, ValueError, LookupError, ArithmeticError) as error:
        raise ConfigurationError(
            f"The catalogue {path} is no .po file as gettext makes them: {error}. Correct it, or remove it."
        ) from error
    texts, plurals = {}, {}
    for message in catalog:
        if not message.id or message.fuzzy or not all(strings(message.string)):
            continue
        _refuse_other_fields(path, message)
        if isinstance(message.id, str):
            texts[message.id] = "".join(strings(message.string))
        else:
            plurals[message.id[0]] = tuple(strings(message.string))
    return PoFile(path, texts, plurals, form)


def fields_of(text: str) -> frozenset[str]:
    """The names in braces of a text: `{colony}` has `colony`. Raises ValueError for anything but a plain name."""
    names = set()
    for _, name, form, conversion in string.Formatter().parse(text):
        if name is None:
            continue
        if not name.isidentifier() or form or conversion:
            raise ValueError(f"{{{name}}} is no plain name in braces")
        names.add(name)
    return frozenset(names)


def strings(texts: str | Iterable[str] | None) -> list[str]:
    """The one text, or all forms, of what Babel gives as a message's id or string; an empty one where there is none."""
    if texts is None:
        return [""]
    return [texts] if isinstance(texts, str) else list(texts)


def _refuse_other_fields(path: Path, message: Message) -> None:
    permitted = {"number"} if not isinstance(message.id, str) else set()
    try:
        for text in strings(message.id):
            permitted |= fields_of(text)
        unknown = {name for text in strings(message.string) for name in fields_of(text)} - permitted
    except ValueError as error:
        raise _wrong(path, message, f"cannot be used: {error}") from error
    if unknown:
        raise _wrong(path, message, f"has {{{'}, {'.join(sorted(unknown))}}}, which the English text has not")


def _wrong(path: Path, message: Message, what: str) -> ConfigurationError:
    original = strings(message.id)[0]
    place = f", line {message.lineno}" if message.lineno else ""
    return ConfigurationError(
        f"The catalogue {path}{place}: the translation of {original[:80]!r} {what}. Correct the translation."
    )
