"""The checksum of a file, by which it is known again."""

from __future__ import annotations

import hashlib
from functools import partial
from io import BufferedReader, FileIO
from pathlib import Path

_MD5 = partial(hashlib.md5, usedforsecurity=False)


def md5_of(path: Path) -> str:
    """The MD5 of a file, as 32 lower-case hexadecimal digits; other threads run meanwhile. Raises OSError."""
    with path.open("rb", buffering=0) as file:
        return md5_of_open_file(file)


def md5_of_open_file(file: BufferedReader | FileIO) -> str:
    """The MD5 of an open file from where it is read next, as `md5_of` tells it. Raises OSError."""
    return hashlib.file_digest(file, _MD5).hexdigest()
