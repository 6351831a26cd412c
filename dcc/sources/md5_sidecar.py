"""The checksum that a centre publishes beside an archive, as `<name>.md5`."""

from __future__ import annotations

import codecs
import re

from dcc.errors import BadChecksumFileError
from dcc.messages import Message, mark

MAX_SIDECAR_BYTES = 4 * 1024
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
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    found = []
    for line in content[:MAX_SIDECAR_BYTES].decode("utf-16" if is_utf16 else "utf-8-sig", "replace").splitlines():
        match = _DIGEST.search(line)
        if match is not None and not line.lstrip().startswith("#"):
            found.append((match[1].lower(), line[: match.start()] + line[match.end() :]))
    if len({digest for digest, _ in found}) == 1:
        return found[0][0]
    # The name may have a path before it.
    is_named = re.compile(rf"(?:^|[\s*(/\\]){re.escape(name)}(?:$|[\s)])")
    named = {digest for digest, rest in found if is_named.search(rest)}
    if len(named) == 1:
        return named.pop()
    text = mark("{name}.md5 holds no MD5 checksum. Write it with md5sum {name} > {name}.md5, or remove it.")
    if found:
        text = mark(
            "{name}.md5 holds several MD5 checksums and not one of {name}. Write it with md5sum {name} > {name}.md5, "
            "or remove it."
        )
    raise BadChecksumFileError(text, source=label, name=name)
