"""Archives and their contents on disk: `<staging>/<action>/<zip>` and `<zip>.contents/` beside it.

`<zip>.manifest.json` or `.csv` is the manifest that lay beside the archive at its source. `<zip>.contents/` has the
archive's documents and, beside them, their prepared files (`prepared.rows.<kind>`).

An archive gets its own name once it is complete. During the download it is `<zip>.part`, with its origin in
`<zip>.part.json`, so that a later attempt can continue it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from dcc.errors import BadFileNameError, ConfigurationError, DiskFullError, SizeMismatchError, StagedDocumentLostError
from dcc.messages import Message, mark, size_detail
from dcc.naming import MANIFEST_ENDINGS, Action, DocumentKind, manifest_beside
from dcc.outcomes import SubmissionKey
from dcc.runtime.checksums import md5_of
from dcc.runtime.disk_space import advice_on_writing
from dcc.runtime.private_files import make_directory

log = logging.getLogger(__name__)

CONTENTS: Final = ".contents"
PART: Final = ".part"
PART_ORIGIN: Final = ".part.json"
UNPACKING: Final = ".unpacking-"
REMOVED: Final = ".removed-"
"""Endings of what is beside an archive; the last two are within names that begin with a dot."""
PREPARED_FILE: Final = "prepared.rows"
"""What the names of the files beside an archive's documents begin with that have their rows."""

_UNFORESEEN = 64 * 1024 * 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_PART = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class PartOrigin:
    """The file that a part belongs to: a download may continue only from exactly this one."""

    source_id: int
    size_bytes: int | None
    modified: int | None


class Staging:
    """The staging area below `root`; `min_free_bytes` stay free on its disk."""

    def __init__(self, root: Path, *, min_free_bytes: int = 0) -> None:
        self.root = root
        self._min_free = min_free_bytes
        self._held = 0
        self._prepared: set[Action] = set()
        self._lock = threading.Lock()

    def archive(self, key: SubmissionKey) -> Path:
        """The path of the complete archive. Raises BadFileNameError for a name that would lead elsewhere."""
        name = key.file_name
        if name in {"", ".", ".."} or "/" in name or "\\" in name or "\0" in name:
            raise BadFileNameError(
                mark("'{name}' cannot be the name of a file in staging. Correct DCC_ZIP_PATTERN."), name=name
            )
        return self.root / key.action / name

    def contents(self, key: SubmissionKey) -> Path:
        """The path of the directory with the archive's documents, private to the archive."""
        return self._beside(key, CONTENTS)

    def part(self, key: SubmissionKey) -> Path:
        """The path of the archive during its download."""
        return self._beside(key, PART)

    def _origin(self, key: SubmissionKey) -> Path:
        return self._beside(key, PART_ORIGIN)

    def _beside(self, key: SubmissionKey, ending: str) -> Path:
        archive = self.archive(key)
        return archive.with_name(archive.name + ending)

    def make(self) -> None:
        """Make the staging area, readable by this user only. Raises ConfigurationError if it cannot be written to."""
        try:
            make_directory(self.root)
            usable = os.access(self.root, os.R_OK | os.W_OK | os.X_OK)
        except OSError as error:
            raise ConfigurationError(
                f"Archives cannot be put into staging ({self.root}): {error.strerror or error}. Correct DCC_STAGING, "
                "or the permissions there."
            ) from error
        if not usable:
            raise ConfigurationError(
                f"Archives cannot be put into staging ({self.root}): it cannot be written to. "
                f"{advice_on_writing(self.root)}"
            )

    def prepare(self, key: SubmissionKey) -> None:
        """Make the directory for the archive, readable by this user only."""
        if key.action not in self._prepared:
            make_directory(self.root / key.action)
            self._prepared.add(key.action)

    def resumable(self, key: SubmissionKey, origin: PartOrigin) -> int:
        """How many bytes of exactly this archive are here already; 0 to begin at the beginning."""
        if origin.size_bytes is None or origin.modified is None:
            return 0
        try:
            known = json.loads(self._origin(key).read_text("utf-8"))
            received = self.part(key).stat().st_size
        except (FileNotFoundError, ValueError):
            return 0
        return received if known == asdict(origin) and received <= origin.size_bytes else 0

    def begin_part(self, key: SubmissionKey) -> int:
        """Begin a part without an origin, so that it cannot be continued yet. Returns it open for writing."""
        part = self.part(key)
        self._origin(key).unlink(missing_ok=True)
        try:
            return os.open(part, _NEW_PART, 0o600)
        except FileExistsError:
            # A thread of a stopped session may still write to the old file, which is separate then.
            part.unlink(missing_ok=True)
        except FileNotFoundError:
            make_directory(part.parent)
        return os.open(part, _NEW_PART, 0o600)

    def note_origin(self, key: SubmissionKey, origin: PartOrigin) -> None:
        """Record the part's origin, so that it can be continued."""
        self._origin(key).write_text(json.dumps(asdict(origin)), "utf-8")

    def has_manifest(self, key: SubmissionKey) -> bool:
        """Whether a manifest lies beside the archive."""
        return any(os.path.lexists(self._beside(key, ending)) for ending in MANIFEST_ENDINGS)

    def put_manifest(self, key: SubmissionKey, suffix: str, content: bytes | None) -> None:
        """Replace the manifest beside the archive by that at its source, in that format; None: there is none."""
        for ending in MANIFEST_ENDINGS:
            self._beside(key, ending).unlink(missing_ok=True)
        if content is not None:
            with os.fdopen(os.open(self._beside(key, manifest_beside("", suffix)), _NEW_PART, 0o600), "wb") as file:
                file.write(content)

    def finish_part(self, key: SubmissionKey) -> None:
        """Give the complete part the archive's name, and remove contents of an earlier one."""
        shutil.rmtree(self.contents(key), ignore_errors=True)
        self.part(key).replace(self.archive(key))
        self._origin(key).unlink(missing_ok=True)

    def drop_part(self, key: SubmissionKey) -> None:
        """Remove the part, so that the next attempt begins at the beginning."""
        self._origin(key).unlink(missing_ok=True)
        self.part(key).unlink(missing_ok=True)

    @contextmanager
    def room_for(self, key: SubmissionKey, needed: int) -> Iterator[Callable[[int], None]]:
        """Reserve `needed` bytes of the disk for one transfer.

        Raises DiskFullError if they are not free, and SizeMismatchError if it has not so many in all.

        Yields a function to be called with the number of bytes written, whose reservation can end.
        """
        with self._lock:
            self._require_room(key, needed)
            self._held += needed
        left = needed
        unforeseen = 0

        def written(count: int) -> None:
            nonlocal left, unforeseen
            held = min(count, left)
            left -= held
            unforeseen += count - held
            with self._lock:
                self._held -= held
            if unforeseen >= _UNFORESEEN:
                unforeseen = 0
                self._check_free(key)

        try:
            yield written
        finally:
            written(left)

    def _require_room(self, key: SubmissionKey, needed: int) -> None:
        disk = shutil.disk_usage(self.root)
        if needed > disk.total:
            raise SizeMismatchError(
                mark(
                    "{archive} needs {needed} by the size that its source lists, and the disk of staging "
                    "({root}) has {total} in all. Ask the centre whether that size is right: then staging needs "
                    "a larger disk."
                ),
                archive=key,
                needed=size_detail(needed),
                root=self.root,
                total=size_detail(disk.total),
            )
        free = disk.free - self._held
        if free - needed < self._min_free:
            raise DiskFullError(
                mark(
                    "{archive} needs {needed} in staging ({root}), where {free} are free and {min_free} "
                    "must stay so. Free some space; the next session takes the archive up again."
                ),
                archive=key,
                needed=size_detail(needed),
                root=self.root,
                free=size_detail(max(free, 0)),
                min_free=size_detail(self._min_free),
            )

    def _check_free(self, key: SubmissionKey) -> None:
        with self._lock:
            free = shutil.disk_usage(self.root).free - self._held
        if free < self._min_free:
            raise DiskFullError(
                mark(
                    "{archive} is larger than announced, and {free} are free in staging ({root}), where "
                    "{min_free} must stay free. Free some space; the next session takes the archive up again."
                ),
                archive=key,
                free=size_detail(max(free, 0)),
                root=self.root,
                min_free=size_detail(self._min_free),
            )

    def holds(self, key: SubmissionKey, size_bytes: int, md5: str | None) -> bool:
        """Whether the archive in staging has this size and, if known, this MD5, and can be read."""
        return self.matching_archive(key, md5, size_bytes) is not None

    def matching_archive(self, key: SubmissionKey, md5: str | None, size_bytes: int | None = None) -> Path | None:
        """The path of the archive, if it is here with this MD5 and size, where they are known; else None."""
        try:
            archive = self.archive(key)
            if size_bytes not in (None, archive.stat().st_size):
                return None
            # Even without an MD5 to compare: an unreadable archive could not be opened either.
            found = md5_of(archive)
        except (BadFileNameError, FileNotFoundError):
            return None
        except OSError as error:
            log.warning("The archive %s in staging cannot be read: %s", key, os.strerror(error.errno or 0))
            return None
        return archive if md5 in (None, found) else None


def remove_leftovers(root: Path, is_own: Callable[[str], bool] = lambda _: True) -> int:
    """Remove what killed processes left in staging, such as incomplete contents; returns their number.

    `is_own` says of an archive's name whether no other process unpacks it. Directories that a running process is
    removing are left out. Raises OSError for what cannot be removed.
    """
    removed = 0
    for pattern in (f"*/.*{UNPACKING}*", f"*/.*{REMOVED}*", f".*{REMOVED}*"):
        for leftover in root.glob(pattern):
            contents, unpacking, _ = leftover.name.removeprefix(".").rpartition(UNPACKING)
            is_others = bool(unpacking) and not is_own(contents.removesuffix(CONTENTS))
            if not (is_others or is_locked(leftover)):
                remove_tree(leftover)
                removed += 1
    return removed


def is_locked(directory: str | Path, *, within: int | None = None) -> bool:
    """Whether a process has locked a directory for removal; False for a missing one, and for a file.

    The path is relative to `within`, an open directory.
    """
    try:
        descriptor = os.open(directory, _DIRECTORY, dir_fd=within)
    except OSError:
        # A process that tries to remove it gets the reason.
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        # A file system without locks reports another error.
        return isinstance(error, BlockingIOError)
    finally:
        os.close(descriptor)
    return False


def remove_tree(path: str | Path, *, within: int | None = None) -> None:
    """Remove a directory with its content, which other processes may be removing too. Raises OSError.

    The path is relative to `within`, an open directory.
    """
    shutil.rmtree(path, dir_fd=within, onerror=_raise_unless_gone)


def _raise_unless_gone(_function: object, _path: str, raised: tuple[Any, BaseException, Any]) -> None:
    if not isinstance(raised[1], FileNotFoundError):
        raise raised[1]


def place_of_document(staging: Staging, key: SubmissionKey, file_name: str) -> str | None:
    """The path of an extracted document; None if its archive's name cannot be a file's name.

    As text, because there may be many: a Path takes 500 bytes.
    """
    try:
        return f"{staging.contents(key)}/{file_name}"
    except BadFileNameError:
        return None


def prepared_place(contents: Path, kind: DocumentKind) -> Path:
    """The path of the prepared file of an archive's documents of a kind, beside its `contents`."""
    return contents / f"{PREPARED_FILE}.{kind}"


def staged_path(staging: Staging, key: SubmissionKey, file_name: str, md5: str | None) -> Path:
    """The path of a document in staging.

    Raises StagedDocumentLostError if it is missing, cannot be read or has another MD5 than when it was extracted.
    """
    try:
        path = staging.contents(key) / file_name
        found = md5_of(path)
    except (OSError, BadFileNameError) as error:
        raise document_lost(key, file_name, error) from error
    if md5 is not None and found != md5:
        raise document_lost(key, file_name)
    return path


def document_lost(key: SubmissionKey, file_name: str, error: Exception | None = None) -> StagedDocumentLostError:
    """The error for a document that cannot be read, or that changed since its extraction."""
    fault = "is not in staging any more as it was extracted"
    if error is not None:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        fault = f"cannot be read in staging ({reason})"
    return StagedDocumentLostError(
        mark(
            "The document {file_name} of {archive} {fault}. Its archive has to be downloaded again: the next session "
            "does so; at once: dcc retry {archive}."
        ),
        file_name=file_name,
        archive=key,
        fault=Message(fault),
    )
