"""Sources that are folders of this machine: the protocol `file`."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Generator, Iterator
from io import FileIO
from pathlib import Path

from dcc.errors import ConfigurationError, ListingFailedError, SourceError, SourceUnreachableError, TransferFailedError
from dcc.messages import Message, mark
from dcc.naming import Action
from dcc.settings import Settings
from dcc.sources.base import ActionListing, SourceAddress
from dcc.sources.listing import Entry, EntryKind
from dcc.sources.listing_watch import watch_listing
from dcc.sources.platform_connection import PlatformConnection
from dcc.sources.remote_names import joined, printable, raw

_BLOCK = 256 * 1024

# Not faults of a link, but of the disk, such as a mounted one that is away.
_DISK_FAULTS = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN)


_FOLDER = "folder"
"""The case of a source that is a missing folder of this machine."""


class LocalConnection(PlatformConnection):
    """A folder of this machine; see `Connection`. Links that lead out of the folder are not followed.

    The host name, user name and access key are ignored. Its constructor raises SourceUnreachableError if the folder
    does not exist; ConfigurationError for an invalid path.
    """

    _failures = (OSError,)

    def __init__(self, address: SourceAddress, settings: Settings) -> None:
        if not address.base_path.startswith(("/", "~")) or "\0" in address.base_path:
            raise ConfigurationError(
                f"The base path {address.base_path!r} is no absolute path. Give the folder's full path."
            )
        super().__init__(address, settings)
        path = Path(address.base_path)
        try:
            self._base = path.expanduser().resolve(strict=True)
        except (OSError, RuntimeError) as error:
            text = mark(
                "the folder {path} cannot be reached ({reason}). Check the base path, and that the disk is mounted."
            )
            reason = self._describe(error)
            raise SourceUnreachableError(text, source=self._label, path=path, reason=reason, case=_FOLDER) from error
        if not self._base.is_dir():
            text = mark("{path} is no folder. Check the base path.")
            raise SourceUnreachableError(text, source=self._label, path=path, case=_FOLDER)

    def close(self) -> None:
        """Nothing to close; see `Connection.close`. A blocked read of the disk goes on."""

    def _shown(self, *parts: str) -> str:
        return _printable_path(self._base.joinpath(*(os.fsdecode(raw(part)) for part in parts)))

    def _listing(self, action: Action) -> ActionListing:
        directory = self._base / action
        if not self._inside(directory):
            text = mark("{directory} leads out of the base path. Move it inside.")
            raise ListingFailedError(text, source=self._label, directory=self._shown(action))
        return super()._listing(action)

    def _require_base(self) -> None:
        if not self._base.is_dir():
            text = mark("the folder {base} is gone. Check that the disk is mounted.")
            raise SourceUnreachableError(text, source=self._label, base=self._shown(), case=_FOLDER)

    def _place(self, action: Action, path: bytes) -> Path:
        return self._base / action / os.fsdecode(path)

    def _real(self, action: Action, folder: bytes) -> bytes:
        return os.fsencode(self._place(action, folder).resolve())

    def _entries(self, action: Action, folder: bytes) -> Iterator[Entry]:
        directory, watch = self._place(action, folder), watch_listing(self._label, self._settings.list_timeout)
        with os.scandir(directory) as entries:
            for entry in entries:
                if time.monotonic() > watch.deadline:
                    raise watch.timeout_error(_printable_path(directory))
                try:
                    found = _entry(os.fsencode(entry.name), entry.stat(follow_symlinks=False))
                except FileNotFoundError:
                    # One that vanishes meanwhile counts as one that never existed.
                    continue
                yield found

    def _follow(self, action: Action, folder: bytes, link: Entry) -> Entry | None:
        path = self._place(action, joined(folder, link.name))
        try:
            return _entry(link.name, path.stat()) if self._inside(path) else None
        except OSError as error:
            if error.errno in _DISK_FAULTS:
                raise
            return None

    def _inside(self, path: Path) -> bool:
        try:
            return path.resolve().is_relative_to(self._base)
        except RuntimeError:  # links in a circle
            return False

    def _blocks(self, action: Action, name: str, offset: int, size: int | None) -> Generator[bytes, None, None]:
        path = self._place(action, raw(name))
        with self._sending(action, name), self._opened(path) as file:
            file.seek(offset)
            remaining = None if size is None else size - offset + 1
            while remaining is None or remaining > 0:
                block = file.read(_BLOCK if remaining is None else min(_BLOCK, remaining))
                if not block:
                    return
                if remaining is not None:
                    remaining -= len(block)
                yield block

    def _opened(self, path: Path) -> FileIO:
        """A regular file inside the base path; anything else counts as missing."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            # What is open is looked at: a link, a pipe or a folder may take the place of a file at any time.
            is_inside = self._inside(Path(f"/proc/self/fd/{descriptor}"))
            if not is_inside or not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise FileNotFoundError(str(path))
            # That of a folder would fail, and leave it open.
            return FileIO(descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def _failed(self, error: BaseException, doing: Message, failed: type[SourceError]) -> SourceError:
        of_file = NotADirectoryError if failed is TransferFailedError else FileNotFoundError
        if isinstance(error, FileNotFoundError | PermissionError | of_file):
            return super()._failed(error, doing, failed)
        # A mounted disk that does not answer in time is no server that stalls.
        text = mark("{doing} failed ({reason}). Check the disk that holds it.")
        return failed(text, source=self._label, doing=doing, reason=self._describe(error))

    def _describe(self, error: BaseException) -> Message:
        return Message((error.strerror if isinstance(error, OSError) else None) or "no such folder")


def _entry(name: bytes, status: os.stat_result) -> Entry:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return Entry(name, EntryKind.FILE, status.st_size, int(status.st_mtime))
    kind = EntryKind.DIRECTORY if stat.S_ISDIR(mode) else EntryKind.LINK if stat.S_ISLNK(mode) else EntryKind.OTHER
    return Entry(name, kind)


def _printable_path(path: Path) -> str:
    return printable(os.fsencode(path))
