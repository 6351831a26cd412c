"""Text from outside, made safe to show: nothing in it controls a terminal or hides other text."""

from __future__ import annotations

import re
from typing import Final

UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
"""Control characters, including those that change the writing direction, and invisible characters."""


def legible(text: str) -> str:
    """The text with `\\xNN` or `\\uNNNN` in place of each character that would be invisible."""
    return UNSEEN.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def legible_json(text: str) -> str:
    """The same for a JSON document without changing values: only its strings have such characters."""
    return UNSEEN.sub(_escaped_in_json, text)


def _escaped_in_json(found: re.Match[str]) -> str:
    character = found.group()
    if character in "\t\n\r":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
