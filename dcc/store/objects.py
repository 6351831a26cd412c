"""The object store: archives and prepared files for several machines.

DCC_STORE names it: a directory, or a bucket (`s3://bucket/prefix`). An object never changes: its key is its name, a
point, and the MD5 of its bytes. It is complete or absent, its bytes are checked when they are read, and storing the
same bytes twice gives the same key.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_exponential_jitter

from dcc.errors import BadFileNameError, StoredObjectLostError, StoreRefusedError
from dcc.messages import mark
from dcc.runtime.checksums import md5_of
from dcc.runtime.private_files import PRIVATE_FILE, replacement_file
from dcc.settings import Settings
from dcc.store.filesystems import is_unreachable, open_filesystem, reason_of, remove_parts, store_errors, upload_options

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_MD5: Final = re.compile(r"[0-9a-f]{32}")
_UNFIT: Final = re.compile(r"[\\?]|(^|/)(\.|/|$)")
_LONGEST_NAME: Final = 255 - 33
"""Bytes of the last part of a name: with the MD5 it is a file's name."""
_LONGEST_KEY: Final = 1_024 - 33 - 200
"""Bytes of a name: with the MD5 and a prefix it is the key of an S3 object."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_REMEDY: Final = (
    "Correct DCC_STORE and its credentials (DCC_STORE_ACCESS_KEY_ID, DCC_STORE_SECRET_ACCESS_KEY), or have the rights "
    "there given."
)


def object_key(name: str, md5: str) -> str:
    """The key of the object with a name and the MD5 of its bytes. Raises BadFileNameError.

    A name is such as `archives/add/H.2013-10-31.1.impc.zip`: parts between slashes, none of which begins with a point.
    """
    if not _is_name(name):
        raise BadFileNameError(
            mark("'{name}' cannot be the name of an object in the store. Correct DCC_ZIP_PATTERN."), name=name
        )
    return f"{name}.{md5}"


def is_key(text: str) -> bool:
    """Whether a text can be the key of an object; a bucket may contain other files."""
    name, _, md5 = text.rpartition(".")
    return _MD5.fullmatch(md5) is not None and _is_name(name)


def _is_name(text: str) -> bool:
    whole, last = (len(part.encode("utf-8", "replace")) for part in (text, text.rpartition("/")[2]))
    return whole <= _LONGEST_KEY and last <= _LONGEST_NAME and text.isprintable() and not _UNFIT.search(text)


class ObjectStore:
    """The object store of the settings. Threads may share it, and a forked process may go on using it.

    All methods try again for DCC_STORE_RETRY seconds while the store is away. They raise StoreUnreachableError if it
    stays away, StoreRefusedError if it refuses, ConfigurationError for a wrong setting, and DiskFullError if its disk
    is full.
    """

    def __init__(self, settings: Settings) -> None:
        self.url = settings.store or str(settings.home / "store")
        scheme, found, place = self.url.partition("://")
        self._scheme, self._root = (scheme, place) if found else ("file", self.url)
        self._settings = settings
        self._files: AbstractFileSystem | None = None
        self._process = 0

    def put(self, name: str, path: Path) -> str:
        """Store a file. Returns the key of the object, which is then complete in the store.

        Raises BadFileNameError for an impossible name, and OSError if the file cannot be read.
        """
        size_bytes, md5 = path.stat().st_size, md5_of(path)
        key = object_key(name, md5)
        place = self._place(key)

        def upload(files: AbstractFileSystem) -> None:
            files.put_file(str(path), place, **upload_options(files, self._settings, size_bytes, md5))
            stored = files.info(place)["size"]
            if stored != size_bytes:
                raise ConnectionError(f"{stored} of {size_bytes} bytes arrived")

        try:
            self._do(f"put {key} there", upload)
        except FileNotFoundError as error:
            raise StoreRefusedError(
                f"The store {self.url} refused to put {key} there: {reason_of(error)}. {_REMEDY}"
            ) from error
        return key

    def get(self, key: str, path: Path) -> None:
        """Write the bytes of an object to a file, which appears once they are checked.

        Raises StoredObjectLostError if the object is missing or has other bytes than its key says, and OSError if the
        file cannot be written.
        """
        place = self._place(key)
        with replacement_file(path, PRIVATE_FILE) as part:
            try:
                self._do(f"get {key}", lambda files: files.get_file(place, str(part)))
            except FileNotFoundError as error:
                raise self._lost(key, "is not in the store") from error
            if not key.endswith(f".{md5_of(part)}"):
                raise self._lost(key, "has other bytes in the store than were put there")

    def exists(self, key: str) -> bool:
        """Whether an object exists."""
        place = self._place(key)
        try:
            found = self._do(f"look for {key}", lambda files: files.info(place)["type"])
        except FileNotFoundError:
            return False
        return bool(found == "file")

    def delete(self, key: str) -> None:
        """Delete an object, if it exists."""
        place = self._place(key)
        with suppress(FileNotFoundError):
            self._do(f"delete {key}", lambda files: files.rm_file(place))

    def keys(self, prefix: str = "") -> list[str]:
        """The keys with a prefix, in order: `<name>.` for one name, `<folder>/` for all below a folder."""
        folder, _, start = prefix.rpartition("/")
        place = f"{self._root}/{folder}".rstrip("/")
        try:
            found = self._do(f"list {prefix or 'everything'}", lambda files: files.find(place, prefix=start))
        except FileNotFoundError:
            return []
        keys = (path.removeprefix(f"{self._root}/") for path in found)
        return sorted(key for key in keys if key.startswith(prefix) and is_key(key))

    def remove_parts(self, older_than: timedelta) -> None:
        """Remove what killed processes left of uploads, older than that."""
        before = datetime.now(UTC) - older_than
        with suppress(FileNotFoundError):
            self._do("remove what uploads that broke off left", lambda files: remove_parts(files, self._root, before))

    def _place(self, key: str) -> str:
        """The path of an object. Raises BadFileNameError for an invalid key."""
        name, _, md5 = key.rpartition(".")
        return f"{self._root}/{object_key(name, md5)}"

    def _do(self, doing: str, ask: Callable[[AbstractFileSystem], _T]) -> _T:
        """Call the store, again while it is away. Raises FileNotFoundError, and as the class says."""
        tries = Retrying(
            retry=retry_if_exception(is_unreachable),
            stop=stop_after_delay(self._settings.store_retry),
            wait=wait_exponential_jitter(multiplier=_FIRST_PAUSE, max=_LONGEST_PAUSE, jitter=_FIRST_PAUSE),
            before_sleep=self._log_first,
            reraise=True,
        )
        # Clients of servers have a thread, which a forked process lacks.
        if self._files is None or self._process != os.getpid():
            self._files, self._process = open_filesystem(self._settings, self._scheme), os.getpid()
        with store_errors(self.url, doing, _REMEDY):
            return tries(ask, self._files)

    def _log_first(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if state.attempt_number == 1 and error is not None:
            seconds = self._settings.store_retry
            log.warning("The store %s is away and is tried again for %g s: %s", self.url, seconds, reason_of(error))

    def _lost(self, key: str, fault: str) -> StoredObjectLostError:
        return StoredObjectLostError(
            f"The object {key} {fault} ({self.url}). It must be made again: the next session does so."
        )
