"""Entries of staging, read and moved without following links (see `dcc.store.staging` for the layout)."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from dcc.errors import ConfigurationError
from dcc.naming import MANIFEST_ENDINGS, Action
from dcc.outcomes import SubmissionKey
from dcc.session.batches.exchange import SESSION_SCRATCH, WORKER_SCRATCH
from dcc.store.staging import CONTENTS, PART, PART_ORIGIN, REMOVED, UNPACKING, is_locked, remove_tree

log = logging.getLogger(__name__)

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ASIDE: Final = f".cleaning{REMOVED}"
_FILE_SYSTEMS_OWN: Final = frozenset({"lost+found"})
_OF_WORKERS: Final = (WORKER_SCRATCH, SESSION_SCRATCH)
_TAKEN: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})


class StagedKind(StrEnum):
    """The kind of an entry in staging."""

    ARCHIVE = "archive"
    CONTENTS = "contents"
    PART = "part"
    ORIGIN = "origin"
    LEFT_OVER = "left-over"
    UNKNOWN = "unknown"


_ENDINGS: Final = {StagedKind.CONTENTS: CONTENTS, StagedKind.ORIGIN: PART_ORIGIN, StagedKind.PART: PART}


@dataclass(frozen=True, slots=True)
class StagedEntry:
    """A file or directory of staging.

    `folder` is its action directory, empty for staging itself; `name` its own name. `bytes` are those of all files in
    it, `modified` is in seconds since 1970, and `identity` distinguishes it from another entry of the same name.
    """

    folder: str
    name: str
    kind: StagedKind
    bytes: int
    modified: float
    identity: tuple[int, int]

    @property
    def place(self) -> str:
        """Its path below staging."""
        return f"{self.folder}/{self.name}" if self.folder else self.name

    @property
    def archive_name(self) -> str | None:
        """The name of its archive; None without one."""
        if self.kind is StagedKind.ARCHIVE:
            return self.name.removesuffix(next((each for each in MANIFEST_ENDINGS if self.name.endswith(each)), ""))
        ending = _ENDINGS.get(self.kind)
        return None if ending is None else self.name.removesuffix(ending)


@dataclass(frozen=True, slots=True)
class StagedArchive:
    """The entries of staging for one submission; or one entry without a submission (no key)."""

    key: SubmissionKey | None
    entries: tuple[StagedEntry, ...]

    @property
    def place(self) -> str:
        """The path below staging of the archive, or of the entry."""
        return self.entries[0].place if self.key is None else str(self.key)

    @property
    def bytes(self) -> int:
        """The bytes of all its entries."""
        return sum(entry.bytes for entry in self.entries)

    @property
    def modified(self) -> float:
        """The latest change of its entries, in seconds since 1970."""
        return max(entry.modified for entry in self.entries)

    def of(self, *kinds: StagedKind) -> StagedArchive | None:
        """Its entries of these kinds; None if there are none."""
        entries = tuple(entry for entry in self.entries if entry.kind in kinds)
        return StagedArchive(self.key, entries) if entries else None


def read_staging(root: Path, *, within: bool = True) -> list[StagedArchive]:
    """All entries of staging, by submission; none if staging does not exist yet. Links are not followed.

    Entries that a running process is removing, and scratch directories of workers, are left out. Without `within`,
    directories are not read: they have 0 bytes. Raises ConfigurationError if staging cannot be read.
    """
    try:
        entries = list(_entries(root, within=within))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigurationError(
            f"Staging ({root}) cannot be looked at: {os.strerror(error.errno or 0)}. Correct DCC_STAGING, or the "
            "permissions there."
        ) from error
    found: dict[tuple[str, str], list[StagedEntry]] = defaultdict(list)
    others = []
    for entry in entries:
        name = entry.archive_name
        if name:
            found[entry.folder, name].append(entry)
        else:
            others.append(StagedArchive(None, (entry,)))
    archives = [
        StagedArchive(SubmissionKey(Action(folder), name), tuple(group))
        for (folder, name), group in sorted(found.items())
    ]
    return archives + sorted(others, key=lambda other: other.place)


def _entries(root: Path, *, within: bool) -> Iterator[StagedEntry]:
    with os.scandir(root) as entries:
        for found in entries:
            if found.name in _FILE_SYSTEMS_OWN or found.name.startswith(_OF_WORKERS):
                continue
            if found.name in set(Action) and found.is_dir(follow_symlinks=False):
                with os.scandir(found) as below:
                    for each in below:
                        yield from _entry(each, found.name, _kind(each), within=within)
            else:
                kind = StagedKind.LEFT_OVER if _is_left_over(found.name) else StagedKind.UNKNOWN
                yield from _entry(found, "", kind, within=within)


def _is_left_over(name: str) -> bool:
    return name.startswith(".") and any(mark in name for mark in (UNPACKING, REMOVED))


def _kind(found: os.DirEntry[str]) -> StagedKind:
    name = found.name
    if _is_left_over(name):
        return StagedKind.LEFT_OVER
    if found.is_dir(follow_symlinks=False):
        return StagedKind.CONTENTS if name.endswith(_ENDINGS[StagedKind.CONTENTS]) else StagedKind.UNKNOWN
    if not found.is_file(follow_symlinks=False):
        return StagedKind.UNKNOWN
    unfinished = (StagedKind.ORIGIN, StagedKind.PART)
    return next((kind for kind in unfinished if name.endswith(_ENDINGS[kind])), StagedKind.ARCHIVE)


def _entry(found: os.DirEntry[str], folder: str, kind: StagedKind, *, within: bool) -> Iterator[StagedEntry]:
    if _is_being_removed(found.path):
        return
    # A running session may have moved it since the directory was read.
    with suppress(FileNotFoundError):
        status = found.stat(follow_symlinks=False)
        size = status.st_size
        if stat.S_ISDIR(status.st_mode):
            size = _bytes_below(found.path) if within else 0
        yield StagedEntry(folder, found.name, kind, size, status.st_mtime, (status.st_dev, status.st_ino))


def _bytes_below(directory: str) -> int:
    total = 0
    for _, _, files, descriptor in os.fwalk(directory, follow_symlinks=False):
        for name in files:
            with suppress(FileNotFoundError):
                total += os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_size
    return total


class RemovalDirectories:
    """Temporary directories for entries that are being removed: moving an entry is one step, deleting it is not.

    A context manager. At its end it deletes the moved entries, and raises OSError if it cannot; after an error it puts
    them back instead. Meanwhile its directories are locked, so that nobody takes them for leftovers. What a killed
    process leaves is a leftover, which the next session or cleaning removes.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._name = f"{_ASIDE}{uuid.uuid4().hex}"
        self._directories: dict[str, int] = {}
        self._taken: set[StagedEntry] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._remove()
            else:
                self._give_up()
        finally:
            for descriptor in self._directories.values():
                os.close(descriptor)
            self._directories.clear()

    def take(self, entries: Iterable[StagedEntry]) -> list[StagedEntry]:
        """Move entries aside; returns those that this call or an earlier one moved. Raises OSError."""
        taken = []
        with _opened(self._root) as root:
            for entry in entries:
                with _opened(entry.folder or ".", root) as folder:
                    if entry in self._taken or self._take(entry, folder):
                        self._taken.add(entry)
                        taken.append(entry)
        return taken

    def _take(self, entry: StagedEntry, folder: int) -> bool:
        try:
            status = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
            if (status.st_dev, status.st_ino) != entry.identity or _is_being_removed(entry.name, folder):
                return False
            if entry.folder not in self._directories:
                self._directories[entry.folder] = self._make(folder)
            os.rename(entry.name, entry.name, src_dir_fd=folder, dst_dir_fd=self._directories[entry.folder])
        except FileNotFoundError:
            return False
        return True

    def _make(self, folder: int) -> int:
        os.mkdir(self._name, mode=0o700, dir_fd=folder)
        descriptor = os.open(self._name, _DIRECTORY, dir_fd=folder)
        # On a file system without locks, it may be taken for a leftover, as if this process had been killed.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    def put_back(self) -> None:
        """Put back the moved entries; one whose place is taken by now stays aside.

        Raises OSError for entries that cannot be put back, after the others.
        """
        failed: OSError | None = None
        with _opened(self._root) as root:
            for folder, aside in self._directories.items():
                with _opened(folder or ".", root) as place:
                    for name in _names(aside):
                        try:
                            _move_back(name, aside, place)
                        except OSError as error:
                            failed = error
        self._taken.clear()
        if failed is not None:
            raise failed

    def _give_up(self) -> None:
        """Put back what can be, and raise an error about the rest."""
        reason = "others have its name by now"
        try:
            self.put_back()
        except OSError as error:
            reason = str(error)
        for folder, aside in self._directories.items():
            left = _names(aside)
            if left:
                log.warning(
                    "What cleaning had taken out of staging could not be put back (%s): %s in %s. The next session or "
                    "cleaning removes it; move it to another place if you need it.",
                    reason,
                    ", ".join(left),
                    self._root / folder / self._name,
                )
                continue
            # An empty directory that stays is a leftover like any other.
            with suppress(OSError):
                self._remove_from(folder)

    def _remove(self) -> None:
        for folder in sorted(self._directories):
            self._remove_from(folder)

    def _remove_from(self, name: str) -> None:
        # On a file system without locks, another process may have removed it or its directory.
        with suppress(FileNotFoundError), _opened(self._root) as root, _opened(name or ".", root) as folder:
            remove_tree(self._name, within=folder)


def _move_back(name: str, aside: int, place: int) -> None:
    """Move an entry back unless its name is taken by now (an empty directory is replaced)."""
    is_directory = stat.S_ISDIR(os.stat(name, dir_fd=aside, follow_symlinks=False).st_mode)
    try:
        if is_directory:
            os.rename(name, name, src_dir_fd=aside, dst_dir_fd=place)
        else:
            os.link(name, name, src_dir_fd=aside, dst_dir_fd=place, follow_symlinks=False)
            os.unlink(name, dir_fd=aside)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise


def _names(directory: int) -> list[str]:
    return sorted(os.listdir(directory))


def _is_being_removed(path: str, within: int | None = None) -> bool:
    return path.rpartition("/")[2].startswith(_ASIDE) and is_locked(path, within=within)


@contextmanager
def _opened(directory: Path | str, within: int | None = None) -> Iterator[int]:
    """Open a directory, which may be a link only if it is staging itself."""
    flags = _DIRECTORY if within is not None else _DIRECTORY & ~os.O_NOFOLLOW
    descriptor = os.open(directory, flags, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
