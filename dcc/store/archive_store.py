"""The archive store: every archive that arrived, by its SHA-256, in one or more replicas; never changed.

A replica (DCC_ARCHIVE_REPLICAS) is a directory, a bucket or a directory on an SFTP server. It holds an archive as
`<first two digits>/<SHA-256>`. A copy counts once it was read back.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from dcc.errors import DccError, DiskFullError, StoredObjectLostError, StoreRefusedError, StoreUnreachableError
from dcc.messages import mark, size_detail
from dcc.runtime.checksums import sha256_of
from dcc.runtime.disk_space import disk_errors, free_bytes
from dcc.runtime.private_files import PRIVATE_FILE, make_directory, replacement_file, scratch_directory, write_nothing
from dcc.runtime.time_limits import call_with_timeout
from dcc.settings import Settings
from dcc.store.copies import Copy, CopyState, StoredCopies, default_replica, named_replicas
from dcc.store.filesystems import (
    Directory,
    is_unreachable,
    open_filesystem,
    reason_of,
    remove_parts,
    store_errors,
    upload_options,
)

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_LEFT_ALONE_SECONDS: Final = 300.0
_SLOWEST_DISK: Final = 1_000_000
"""Bytes a second below which a directory counts as away."""
_ALL_DIRECTORIES: Final = 1_000_000_000
"""To go through all directories may take as long as these bytes."""
_LEFTOVER: Final = timedelta(days=1)
_CLEAN: Final = "remove what copies that broke off left"
_REMEDY: Final = "Correct DCC_ARCHIVE_REPLICAS and its credentials, or have the rights there given."


@dataclass
class Replica:
    """One replica. Threads may share it. `url` has no password. `holds_copies`: whether copies were made there before.

    A replica that was away is left alone for some minutes. All methods raise StoreUnreachableError while it is away,
    StoreRefusedError, ConfigurationError, and DiskFullError if there is no room.
    """

    settings: Settings
    url: str
    required: bool = True
    holds_copies: Callable[[], bool] = bool
    _unreachable: tuple[float, str] = (0.0, "")
    _opened: dict[int, AbstractFileSystem] = field(default_factory=dict)
    _process: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._scheme, found, place = self.url.partition("://")
        self._login, self._root = "", place if found else self.url
        if not found:
            self._scheme = "file"
        elif self._scheme == "sftp":
            self._login, _, path = place.partition("/")
            self._root = f"/{path}"

    @property
    def is_unreachable(self) -> bool:
        """Whether it was away within the last minutes: it is not asked then."""
        since, reason = self._unreachable
        return bool(reason) and time.monotonic() - since < _LEFT_ALONE_SECONDS

    def put(self, sha256: str, path: Path) -> None:
        """Copy a file there, and read it back. A copy that is there already is checked, and not changed.

        Raises StoredObjectLostError if that has other bytes, and OSError if the file cannot be read.
        """
        size_bytes = path.stat().st_size

        def upload(files: AbstractFileSystem) -> bool:
            if self._is_there(files, sha256):
                return False
            self.require_room(size_bytes)
            files.put_file(str(path), self._place(sha256), **upload_options(files, self.settings, size_bytes))
            if self._digest(files, sha256) != sha256:
                files.rm_file(self._place(sha256))
                raise ConnectionError("other bytes came back")
            return True

        if self._do(f"store the archive {sha256}", upload, size_bytes=size_bytes):
            return
        if (found := self.check(sha256)).state is not CopyState.GOOD:
            raise _lost(sha256, f"{found.reason} ({self.url})")

    def replace(self, sha256: str, path: Path) -> None:
        """Put a good file in the place of a bad or missing copy; bytes that are there are put aside, below `bad`."""
        aside = f"{self._root}/bad/{sha256}.{datetime.now(UTC):%Y%m%dT%H%M%S%f}"

        def put_aside(files: AbstractFileSystem) -> None:
            if files.exists(self._place(sha256)):
                if self._scheme in ("file", "sftp"):
                    files.makedirs(f"{self._root}/bad", exist_ok=True)
                files.mv(self._place(sha256), aside)

        self._do(f"put a bad copy of {sha256} aside", put_aside)
        self.put(sha256, path)

    def exists(self, sha256: str) -> bool:
        """Whether there is a copy, whatever its bytes."""
        return self._do(f"look for the archive {sha256}", partial(self._is_there, sha256=sha256))

    def check(self, sha256: str) -> Copy:
        """Read a copy, and compare its checksum. One that cannot be read twice, though the replica answers, is bad."""
        self._require_answers()
        reason = ""
        for _ in range(2):
            try:
                found = self._do(f"read the archive {sha256}", partial(self._digest, sha256=sha256), reads=sha256)
            except FileNotFoundError:
                return Copy(CopyState.MISSING, "is missing")
            except (StoreUnreachableError, StoreRefusedError) as error:
                self.answer()
                reason = f"cannot be read: {error}"
            else:
                return Copy(CopyState.GOOD) if found == sha256 else Copy(CopyState.BAD, f"has the SHA-256 {found}")
        return Copy(CopyState.BAD, reason)

    def get(self, sha256: str, path: Path) -> None:
        """Write the bytes of a copy to a file, whose disk may be full.

        Raises StoredObjectLostError unless they are the right ones.
        """

        def download(files: AbstractFileSystem) -> None:
            with disk_errors(f"the archive {sha256}", path.parent):
                files.get_file(self._place(sha256), str(path))

        try:
            self._do(f"fetch the archive {sha256}", download, reads=sha256)
        except FileNotFoundError as error:
            raise _lost(sha256, f"is missing ({self.url})") from error
        if sha256_of(path) != sha256:
            raise _lost(sha256, f"has other bytes ({self.url})")

    def remove(self, sha256: str) -> None:
        """Remove a copy, if it exists."""
        with suppress(FileNotFoundError):
            self._do(f"remove the archive {sha256}", lambda files: files.rm_file(self._place(sha256)))

    def answer(self) -> None:
        """Ask for anything, to see whether it answers; a replica that was away is asked again."""
        self._unreachable = (0.0, "")
        self._do("look into it", partial(self._is_there, sha256="0" * 64))

    def require_writable(self) -> None:
        """Write into a directory, and leave nothing there; other kinds say it when they are to store something."""
        if self._scheme == "file":
            self._do("write into it", lambda _: _write_into(Path(self._root)))

    def require_room(self, size_bytes: int) -> None:
        """Raise DiskFullError if a directory's disk has no room; other kinds say so when they are full."""
        if self._scheme != "file":
            return
        free = free_bytes(Path(self._root))
        if free - size_bytes < self.settings.min_free_bytes:
            raise DiskFullError(
                mark(
                    "The archive store {store} has no room for {size}: {free} are free, and {reserve} must stay so. "
                    "Free some space on its disk."
                ),
                store=self.url,
                size=size_detail(size_bytes),
                free=size_detail(free),
                reserve=size_detail(self.settings.min_free_bytes),
            )

    def remove_parts(self) -> None:
        """Remove what killed processes left of copies more than a day ago, if the replica answers."""
        with suppress(FileNotFoundError, DccError):
            before = datetime.now(UTC) - _LEFTOVER
            self._do(_CLEAN, lambda files: remove_parts(files, self._root, before), size_bytes=_ALL_DIRECTORIES)

    def close(self) -> None:
        """Close its connections."""
        with self._lock:
            for files in self._opened.values():
                if hasattr(files, "close"):
                    files.close()
            self._opened.clear()

    def _place(self, sha256: str) -> str:
        if not _SHA256.fullmatch(sha256):
            raise _lost(sha256, "has no SHA-256 as its name")
        return f"{self._root}/{sha256[:2]}/{sha256}"

    def _is_there(self, files: AbstractFileSystem, sha256: str) -> bool:
        try:
            return bool(files.info(self._place(sha256))["type"] == "file")
        except FileNotFoundError:
            return False

    def _digest(self, files: AbstractFileSystem, sha256: str) -> str:
        if isinstance(files, Directory):
            return sha256_of(Path(self._place(sha256)))
        # On the disk of DCC_HOME: an archive may be large.
        with disk_errors(f"the archive {sha256}", self.settings.home), scratch_directory(self.settings.home) as folder:
            files.get_file(self._place(sha256), str(folder / "archive"))
            return sha256_of(folder / "archive")

    def _do(self, doing: str, ask: Callable[[AbstractFileSystem], _T], *, reads: str = "", size_bytes: int = 0) -> _T:
        """`ask` the file system. `reads` is the copy that it reads whole, `size_bytes` what else it takes time for."""
        self._require_answers()
        try:
            with store_errors(self.url, doing, _REMEDY):
                if self._scheme == "file":
                    return self._ask_directory(ask, reads, size_bytes)
                return self._ask(ask)
        except (StoreUnreachableError, StoreRefusedError) as error:
            # A server that refuses the login would refuse it for each archive.
            if isinstance(error, StoreUnreachableError) or not self._opened:
                self._unreachable = (time.monotonic(), str(error))
            raise

    def _require_answers(self) -> None:
        if self.is_unreachable:
            raise StoreUnreachableError(self._unreachable[1])

    def _ask(self, ask: Callable[[AbstractFileSystem], _T]) -> _T:
        files, is_new = self._files()
        try:
            return ask(files)
        except Exception as error:
            closed = not getattr(files, "is_open", True)
            if closed:
                with self._lock:
                    self._opened.pop(threading.get_ident(), None)
            if is_new or not (closed or is_unreachable(error)):
                if closed:
                    raise ConnectionError(reason_of(error)) from error
                raise
        # The server may have closed a connection that was not used for a while.
        return ask(self._files()[0])

    def _ask_directory(self, ask: Callable[[AbstractFileSystem], _T], reads: str, size_bytes: int) -> _T:
        """The disk of a directory may be away, too: a mount of NFS then answers nothing for ever."""

        def look() -> int:
            self._require_directory()
            with suppress(FileNotFoundError):
                return Path(self._place(reads)).stat().st_size if reads else size_bytes
            return 0

        seconds = self.settings.connect_timeout + self.settings.idle_timeout
        longest = seconds + call_with_timeout(look, seconds, "the disk") / _SLOWEST_DISK
        return call_with_timeout(lambda: ask(self._files()[0]), longest, "the disk")

    def _files(self) -> tuple[AbstractFileSystem, bool]:
        """The file system, and whether it is new. Connections of SFTP are a thread's own."""
        number = threading.get_ident() if self._scheme == "sftp" else 0
        with self._lock:
            if self._process != os.getpid():
                # Clients of servers have a thread, which a forked process lacks.
                self._opened, self._process = {}, os.getpid()
            if number in self._opened:
                return self._opened[number], False
        files = open_filesystem(self.settings, self._scheme, self._login)
        with self._lock:
            return self._opened.setdefault(number, files), True

    def _require_directory(self) -> None:
        """Make the default directory before its first copy. Any other that is missing, and one that held copies and is
        empty, may be a disk that is not mounted.
        """
        root = Path(self._root)
        is_there = root.is_dir()
        if not (is_there and any(root.iterdir())) and self.holds_copies():
            raise StoreUnreachableError(
                f"The archive store {self.url} is {'empty' if is_there else 'missing'}, and archives were in it: mount "
                "its disk, or put it back. If they are lost, begin again: dcc archive audit --all"
            )
        if is_there:
            return
        if root != default_replica(self.settings):
            raise ConnectionError("the directory does not exist; mount its disk, or make it")
        make_directory(root)


def _write_into(root: Path) -> None:
    write_nothing(root)
    for folder in root.iterdir():
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"{folder}: {os.strerror(errno.EACCES)}")


class ArchiveStore:
    """The archive store of the settings. Threads may share it. Raises ConfigurationError.

    `holding` says in which replicas copies were made before, as the tracker has it; whoever writes there gives it. It
    is asked once, before the first use of a directory that is missing or empty.
    """

    def __init__(self, settings: Settings, holding: Callable[[], Collection[str]] = frozenset) -> None:
        known = cache(holding)
        self.replicas = tuple(
            Replica(settings, url, required, lambda url=url: url in known())  # type: ignore[misc]
            for url, required in named_replicas(settings)
        )

    def put(self, path: Path) -> StoredCopies:
        """Copy an archive into every replica, and read each copy back. A replica that fails stops nothing.

        Raises OSError if the archive cannot be read.
        """
        sha256, size_bytes = sha256_of(path), path.stat().st_size
        copies = {replica.url: _copied(replica, sha256, path) for replica in self.replicas}
        stored = all(copies[replica.url].state is CopyState.GOOD for replica in self.replicas if replica.required)
        return StoredCopies(sha256, size_bytes, copies, stored)

    def fetch(self, sha256: str, path: Path, *, without: Replica | None = None) -> None:
        """Write the bytes of an archive to a file, which appears once they are checked; from the first good copy.

        The replica `without` is not asked. Raises StoredObjectLostError if no replica has a good copy,
        StoreUnreachableError if one that is away may have it, and DiskFullError or OSError if the file cannot be
        written.
        """
        reasons: list[str] = []
        is_away_somewhere = False
        with replacement_file(path, PRIVATE_FILE) as part:
            for replica in (one for one in self.replicas if one is not without):
                try:
                    replica.get(sha256, part)
                except DiskFullError:
                    raise
                except DccError as error:
                    is_away_somewhere |= not isinstance(error, StoredObjectLostError)
                    reasons.append(str(error))
                else:
                    return
            why = " ".join(reasons) or "none other is named in DCC_ARCHIVE_REPLICAS."
            text = f"No replica has a good copy of the archive {sha256}: {why}"
            raise StoreUnreachableError(text) if is_away_somewhere else StoredObjectLostError(text)

    def close(self) -> None:
        """Close all connections."""
        for replica in self.replicas:
            replica.close()


def _copied(replica: Replica, sha256: str, path: Path) -> Copy:
    try:
        replica.put(sha256, path)
    except StoredObjectLostError as error:
        log.warning("%s", error)
        return Copy(CopyState.BAD, str(error))
    except DccError as error:
        log.warning("An archive has no copy in %s yet: %s", replica.url, error)
        return Copy(CopyState.PENDING, str(error))
    return Copy(CopyState.GOOD)


def _lost(sha256: str, fault: str) -> StoredObjectLostError:
    return StoredObjectLostError(f"The archive {sha256} {fault}. To repair it: dcc archive repair.")
