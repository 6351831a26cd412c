"""Directories and files that only this user can read, whatever the umask, and that no stranger's link redirects."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final
from uuid import uuid4

from dcc.errors import ConfigurationError, DccError

PRIVATE_DIRECTORY: Final = 0o700
PRIVATE_FILE: Final = 0o600
SHARED_DIRECTORY: Final = 0o750
"""For files that people read, such as reports and exports: the directory's group may read them."""
SHARED_FILE: Final = 0o640
PART_NAMES: Final = ".*.part"
"""The pattern of the names of incomplete files; a killed process leaves such."""

_DEVICES: Final = Path("/dev")
_MAX_LINKS: Final = 40
_SCRATCH: Final = ".scratch-"
_LEFTOVER_SECONDS: Final = 24 * 3600.0


def make_directory(path: Path, mode: int = PRIVATE_DIRECTORY) -> None:
    """Make a directory and its parents if they are missing, with this `mode`.

    Raises ConfigurationError for a link of another user on the way, else OSError.
    """
    refuse_links_of_others(path)
    missing = [path, *path.parents]
    for directory in reversed(missing[: missing.index(_nearest(path))]):
        if directory.is_symlink():
            # The system says only that something exists.
            lost = f"{directory} is a link to {directory.readlink()}, which is missing: mount its disk, or correct it"
            raise FileExistsError(errno.EEXIST, lost)
        directory.mkdir(mode=mode, exist_ok=True)
    # Raises if something else than a directory is there.
    path.mkdir(exist_ok=True)


def _nearest(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists() or place == place.parent)


def create_file(path: Path, mode: int) -> int:
    """Make a file, replacing one of the same name, and open it for writing. Raises OSError.

    Does not follow a link, and a reader of the old file does not see the new content.
    """
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


@contextmanager
def replacement_file(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """A new, empty file beside `path`, which replaces `path` at the end of the block; after an error it is removed.

    The umask applies to `mode`. Raises OSError, also for a device or pipe, and leaves `path` as it was then.
    """
    if path.absolute().parent == _DEVICES or (path.exists() and not path.is_file() and not path.is_dir()):
        # Root would put a file in the place of such as /dev/null or /dev/stdout.
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
    # A random name, because processes in containers have the same ids; and a short one, whatever it replaces.
    part = path.with_name(f".{uuid4().hex}.part")
    os.close(create_file(part, mode))
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        # The first error matters more than an incomplete file that stays.
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


@contextmanager
def writing_errors(path: Path, kind: type[DccError] = ConfigurationError) -> Iterator[None]:
    """Raise an error of a kind if a file that a person named, or its folder, cannot be written in the block."""
    try:
        yield
    except OSError as error:
        raise kind(
            f"{path} cannot be written: {error.strerror or error}. See to its directory, its permissions and its disk, "
            "or name another."
        ) from error


def keep_earlier(path: Path) -> Path:
    """Give a file that will be replaced a further name, which is returned: NAME.before, or NAME.before.2 and so on.

    Raises OSError.
    """
    places = (path.with_name(f"{path.name}.before{f'.{number}' if number > 1 else ''}") for number in count(1))
    kept = next(place for place in places if not place.exists())
    kept.hardlink_to(path)
    return kept


@contextmanager
def scratch_directory(parent: Path) -> Iterator[Path]:
    """A directory below `parent` for files that are removed at the end of the block, as large as archives may be.

    Removes those that killed processes left more than a day ago. Raises OSError, and ConfigurationError as
    `make_directory`.
    """
    make_directory(parent)
    for left in parent.glob(f"{_SCRATCH}*"):
        # Another process may remove it at the same time.
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _LEFTOVER_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=parent) as folder:
        yield Path(folder)


def write_nothing(folder: Path) -> None:
    """Write into a folder, and leave nothing there. Raises OSError if that is not possible."""
    # A file without a name disappears with its descriptor, whatever happens.
    with tempfile.TemporaryFile(dir=folder):
        pass


def remove_access_of_others(path: Path) -> None:
    """Remove others' access to a file or directory of this user; the group keeps its own."""
    status = path.stat()
    if status.st_uid == os.geteuid() and status.st_mode & stat.S_IRWXO:
        path.chmod(stat.S_IMODE(status.st_mode) & ~stat.S_IRWXO)


def refuse_links_of_others(path: Path) -> None:
    """Raise ConfigurationError if a link on the way to `path` belongs to neither this user nor root.

    Its owner could redirect what this user writes and reads.
    """
    here, pending, links = Path("/"), list(reversed(path.absolute().parts[1:])), 0
    while pending and links < _MAX_LINKS:
        step = here / pending.pop()
        try:
            status = step.lstat()
        except OSError:
            # A missing directory will be made; an inaccessible one makes its user fail with a message.
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


@contextmanager
def locked(descriptor: int, fault: Exception) -> Iterator[None]:
    """Hold the lock of an open file, and close it at the end. Raises `fault` while another process holds the lock."""
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise fault from error
        yield
    finally:
        os.close(descriptor)
