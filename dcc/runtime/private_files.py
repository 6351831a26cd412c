"""Directories and files that are nobody else's, whatever the umask, and not where a stranger's link leads."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from dcc.errors import ConfigurationError

PRIVATE_DIRECTORY: Final = 0o700
PRIVATE_FILE: Final = 0o600
SHARED_DIRECTORY: Final = 0o750
"""Of what is made for people to read, such as reports and exports: the directory's group may."""
SHARED_FILE: Final = 0o640
PART_NAMES: Final = ".*.part"
"""The names of files that are not yet whole, as a pattern; a process that is killed leaves such."""

_MOST_LINKS: Final = 40


def make_directory(path: Path, mode: int = PRIVATE_DIRECTORY) -> None:
    """Make a directory, with those above it, unless it is there; `mode` is for those that are made.

    Raises ConfigurationError where a link of another user stands on the way, else OSError.
    """
    refuse_links_of_others(path)
    missing = [path, *path.parents]
    for directory in reversed(missing[: missing.index(_nearest(path))]):
        directory.mkdir(mode=mode, exist_ok=True)
    # Says so where something else than a directory is there.
    path.mkdir(exist_ok=True)


def _nearest(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists() or place == place.parent)


def create_file(path: Path, mode: int) -> int:
    """Make a file, in place of one of the same name, and return it open for writing. Raises OSError.

    Nobody's link is followed, and nobody who has the old one open sees what is written to the new one.
    """
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


@contextmanager
def replacement_file(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """A new, empty file beside `path` to write to, which takes its place at once in the end; after an error it goes.

    The umask takes its share of `mode`. Raises OSError, and leaves what is at `path` as it was then.
    """
    # Of its own, for processes in containers have the same ids; and short, whatever the name of what it replaces.
    part = path.with_name(f".{uuid4().hex}.part")
    os.close(create_file(part, mode))
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        # What went wrong is more worth saying than that its part stays.
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def remove_access_of_others(path: Path) -> None:
    """Take the rights of others away from a file or directory of this user's, if they have any; the group keeps its."""
    status = path.stat()
    if status.st_uid == os.geteuid() and status.st_mode & stat.S_IRWXO:
        path.chmod(stat.S_IMODE(status.st_mode) & ~stat.S_IRWXO)


def refuse_links_of_others(path: Path) -> None:
    """Raise ConfigurationError if any link on the way to `path` belongs to neither this user nor root.

    Whoever made it could have files written, or read, wherever this user may.
    """
    here, pending, links = Path(path.anchor or "/"), list(reversed(path.absolute().parts[1:])), 0
    while pending and links < _MOST_LINKS:
        name = pending.pop()
        step = here.parent if name == ".." else here / name
        try:
            status = step.lstat()
        except OSError:
            # What is not there will be made, and what cannot be looked at cannot be used: its user says so.
            return
        if not stat.S_ISLNK(status.st_mode):
            here = step
            continue
        if status.st_uid not in (0, os.geteuid()):
            raise ConfigurationError(
                f"{step}, on the way to {path}, is a link that another user (number {status.st_uid}) has made, and is "
                "not followed. Name another directory, or have a link of your own."
            )
        links += 1
        target = step.readlink()
        here = Path(target.anchor) if target.is_absolute() else here
        pending += reversed(target.parts[1:] if target.is_absolute() else target.parts)
