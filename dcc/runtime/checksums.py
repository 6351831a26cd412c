"""Checksums of files."""

from __future__ import annotations

import hashlib
from functools import partial
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Final
from zlib import crc32

_MD5 = partial(hashlib.md5, usedforsecurity=False)
_CHUNK: Final = 1_000_000


def md5_of(path: Path) -> str:
    """The MD5 of a file, as 32 lower-case hexadecimal digits; releases the interpreter's lock. Raises OSError."""
    with path.open("rb", buffering=0) as file:
        return md5_of_open_file(file)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, as 64 lower-case hexadecimal digits; otherwise like `md5_of`. Raises OSError."""
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def md5_of_open_file(file: BufferedReader | FileIO) -> str:
    """The MD5 of an open file from its position on; otherwise like `md5_of`. Raises OSError."""
    return hashlib.file_digest(file, _MD5).hexdigest()


def crc32_of(path: Path) -> str:
    """The CRC-32 of a file in hexadecimal digits: detects damage at a fifth of the cost of an MD5. Raises OSError."""
    value = 0
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            value = crc32(chunk, value)
    return f"{value:08x}"
