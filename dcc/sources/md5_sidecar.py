"""The checksum that a centre publishes beside an archive, as `<name>.md5`."""

from __future__ import annotations

import codecs
import re

from dcc.errors import BadChecksumFileError
from dcc.messages import Message, mark

MAX_SIDECAR_BYTES = 4 * 1024
"""The most bytes of a checksum file."""

_DIGEST = re.compile(r"(?<![0-9A-Za-z])([0-9A-Fa-f]{32})(?![0-9A-Za-z])")


def sidecar(name: str) -> str:
    """The name of the checksum file of the archive `name`."""
    return f"{name}.md5"


def parse_md5(content: bytes, name: str, label: Message | str | None = None) -> str:
    """The MD5 of the archive `name`, as 32 lower-case hexadecimal digits, from its checksum file.

    Accepts a bare checksum, lines of `md5sum` (`<digits>  <name>`, `<digits> *<name>`), of BSD's md5 and `md5sum --tag`
    (`MD5 (<name>) = <digits>`), in UTF-8 or, as PowerShell writes it, UTF-16. Of several lines, the one that names the
    archive counts. Raises BadChecksumFileError (naming the source's `label`) without a checksum of it.
    """
    name = name.rpartition("/")[2]
    found = []
    for line in _text(content[:MAX_SIDECAR_BYTES]).splitlines():
        match = _DIGEST.search(line)
        if match is not None and not line.lstrip().startswith("#"):
            found.append((match[1].lower(), line[: match.start()] + line[match.end() :]))
    if len({digest for digest, _ in found}) == 1:
        return found[0][0]
    named = {digest for digest, rest in found if _names(rest, name)}
    if len(named) == 1:
        return named.pop()
    text = mark("{name}.md5 holds no MD5 checksum. Write it with md5sum {name} > {name}.md5, or remove it.")
    if found:
        text = mark(
            "{name}.md5 holds several MD5 checksums and not one of {name}. Write it with md5sum {name} > {name}.md5, "
            "or remove it."
        )
    raise BadChecksumFileError(text, source=label, name=name)


def _text(content: bytes) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    return content.decode("utf-8-sig", "replace")


def _names(rest: str, name: str) -> bool:
    """Whether the text beside the digits is this name, perhaps with a path before it."""
    return re.search(rf"(?:^|[\s*(/\\]){re.escape(name)}(?:$|[\s)])", rest) is not None
