"""What a setting must be, in words: `a whole number from 1 to 64`."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final, get_args

from pydantic.fields import FieldInfo

_WORDS: Final = {bool: "true or false", int: "a whole number", float: "a number", Path: "a path"}


def wanted_value(field: FieldInfo) -> str:
    """What a setting must be."""
    parts = list(_parts(field.annotation))
    choices = [str(part) for part in parts if isinstance(part, str)]
    if choices:
        return f"one of {', '.join(choices)}"
    bounds = {name: value for each in field.metadata for name, value in _bounds(each)}
    if "pattern" in bounds:
        return f"a text of the form {bounds['pattern']}"
    word = next((word for kind, word in _WORDS.items() if kind in parts), "a text")
    return " ".join([word, *_range(bounds)])


def _parts(annotation: Any) -> Iterator[object]:
    """The types of an annotation, and the texts that it names: of a Literal, of an enumeration."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from (str(each.value) for each in annotation)
    for one in get_args(annotation):
        yield from _parts(one)
    yield annotation


def _bounds(constraint: object) -> Iterator[tuple[str, Any]]:
    for name in ("ge", "gt", "le", "lt", "pattern"):
        if (value := getattr(constraint, name, None)) is not None:
            yield name, value


def _range(bounds: dict[str, Any]) -> Iterator[str]:
    if {"ge", "le"} <= bounds.keys():
        yield f"from {bounds['ge']:,.10g} to {bounds['le']:,.10g}"
        return
    named = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
    limits = [f"{word} {bounds[name]:,.10g}" for name, word in named.items() if name in bounds]
    if limits:
        yield " and ".join(limits)
