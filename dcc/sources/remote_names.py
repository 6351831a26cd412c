"""Names and paths on a source: bytes on the server, printable text everywhere else.

Servers know names as bytes in no particular encoding. `printable` turns any of them into text that can be stored and
shown, and `raw` turns that text back into the same bytes.
"""

from __future__ import annotations

import re

from dcc.errors import ConfigurationError

_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


def printable(name: bytes) -> str:
    """Text for a name: what is not UTF-8, not printable, or a backslash stands as `\\xNN` for each byte."""
    if name.isascii() and b"\\" not in name:
        text = name.decode("ascii")
        if text.isprintable():
            return text
    pieces = []
    for character in name.decode("utf-8", "surrogateescape"):
        if character.isprintable() and character != "\\":
            pieces.append(character)
        else:
            pieces.extend(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
    return "".join(pieces)


def raw(name: str) -> bytes:
    """The name that `printable` turned into this text."""
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), name.encode("utf-8", "surrogatepass"))


def join_base(base_path: str | None, *parts: str) -> str:
    """The path, on a server, of something below a source's base path.

    `base_path` may be None or empty, which is the directory after login, may begin with `/` or not, and end with any
    number of slashes. `~` is the login directory too. Repeated slashes count as one. Raises ConfigurationError for a
    base path with control characters.
    """
    base = base_path or ""
    if re.search(r"[\x00-\x1f\x7f]", base):
        raise ConfigurationError(f"The base path {base!r} holds control characters. Correct the file source.")
    if base == "~" or base.startswith("~/"):
        base = base[1:].lstrip("/")
    absolute = base.startswith("/")
    steps = [step for step in base.split("/") if step not in ("", ".")]
    return ("/" if absolute else "") + "/".join([*steps, *parts])


def path_below(folder: str, name: str) -> str:
    """The path of an entry in a folder; in the empty one, its name."""
    return f"{folder}/{name}" if folder else name


def joined(*parts: bytes) -> bytes:
    """The path of some parts, as the server's bytes; empty ones count for nothing."""
    return b"/".join(filter(None, parts))
