"""Disks that are full or cannot be written to: detection, and how messages name them."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dcc.errors import DiskFullError
from dcc.messages import Message, byte_size, mark
from dcc.redaction import chain_of

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_LEAST: Final = 128 * 1024
"""Free bytes below which SQLite cannot open a database that others write to: it makes two files beside it."""
_SQLITE_FULL: Final = 13  # sqlite3.SQLITE_FULL; the module is not loaded for that


def is_full(error: BaseException) -> bool:
    """Whether the operating system or SQLite reports a full disk or quota."""
    if isinstance(error, OSError):
        return error.errno in _FULL
    return bool(getattr(error, "sqlite_errorcode", 0) & 0xFF == _SQLITE_FULL)


def lacks_room(error: BaseException) -> bool:
    """Whether an error is for want of room: in staging, or on a disk that is full."""
    return isinstance(error, DiskFullError) or stems_from_full_disk(error)


def comes_from_full_disk(error: BaseException, place: Path) -> bool:
    """Whether an error or one of its causes reports a full disk, or the disk of `place` is full by now.

    SQLite reports a full disk as an I/O error, or as a database that cannot be opened.
    """
    return stems_from_full_disk(error) or free_bytes(place) < _LEAST


def stems_from_full_disk(error: BaseException) -> bool:
    """Whether an error or one of its causes reports a full disk."""
    chain = (link for _, link in chain_of(error))
    return any(is_full(link) or is_full(getattr(link, "orig", None) or link) for link in chain)


def free_bytes(place: Path) -> int:
    """Bytes that this user may still write on the disk of `place`, which need not exist yet."""
    existing = next((path for path in (place, *place.parents) if path.exists()), Path("/"))
    return shutil.disk_usage(existing).free


def no_space_left(place: Path) -> str:
    """The words for a full disk: `no space left on the disk of /srv/dcc, 0 B free`."""
    return f"no space left on the disk of {place}, {byte_size(free_bytes(place))} free"


def advice_on_writing(place: Path) -> str:
    """What to do about a file or folder that this user cannot write to."""
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        return "The disk is mounted read-only, often after an error of it: see `dmesg`, mend it, and mount it again."
    return f"Give it to the user that runs dcc: chown {'-R ' if place.is_dir() else ''}USER {place}"


@contextmanager
def disk_errors(archive: object, place: Path) -> Iterator[None]:
    """Turn a full disk or quota, also one that SQLite met, into DiskFullError with the place; other errors pass."""
    try:
        yield
    except Exception as error:
        if not is_full(error):
            raise
        raise DiskFullError(
            mark(
                "The disk of {place} filled up while {archive} was being written ({reason}). Free some space; the next "
                "session takes the archive up again."
            ),
            place=place,
            archive=archive,
            reason=Message(os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)),
        ) from error


def write_all(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    """Write all of `data`; a disk that becomes full may take only its beginning at first. Raises OSError."""
    left = memoryview(data)
    while left:
        written = os.write(descriptor, left)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left = left[written:]
