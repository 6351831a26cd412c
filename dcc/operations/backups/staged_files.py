"""Files in staging: listed for a set, copied into it, compared with it, and put back from it.

Archives and their documents are listed; incomplete downloads and leftovers of killed processes are not. Links are not
followed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Final

from dcc.errors import BackupError
from dcc.naming import Action
from dcc.runtime.checksums import md5_of_open_file
from dcc.runtime.private_files import PRIVATE_FILE, make_directory
from dcc.store.staging import CONTENTS, PART, PART_ORIGIN, PREPARED_FILE

FilesProgress = Callable[[int], None]
_PREPARED: Final = ".restored"
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file in staging: its path there, bytes, MD5, and time of change in nanoseconds since 1970."""

    path: str
    size_bytes: int
    md5: str
    modified_ns: int

    @property
    def is_archive(self) -> bool:
        """Whether the file is an archive, and not a document in a folder of its own."""
        return self.path.count("/") == 1


def list_files(staging: Path, copy_to: Path | None, on_progress: FilesProgress) -> Iterator[StagedFile]:
    """Every archive and document in staging; each is copied below `copy_to` if that is given.

    A file that disappears while it is read is left out. `on_progress` is called with the number of files so far. Raises
    BackupError for a file or folder that cannot be read.
    """
    number = 0
    for path in _paths(staging):
        found = _take(staging, path, copy_to)
        if found is not None:
            number += 1
            on_progress(number)
            yield found


def _paths(staging: Path) -> Iterator[Path]:
    for action in Action:
        for folder, folders, names in os.walk(staging / action, onerror=_refuse_unread):
            here = Path(folder)
            if here == staging / action:
                folders[:] = [name for name in folders if name.endswith(CONTENTS)]
                names = [name for name in names if not name.startswith(".") and not name.endswith((PART, PART_ORIGIN))]
            else:
                # A session makes these again.
                names = [name for name in names if not name.startswith(PREPARED_FILE)]
            yield from (here / name for name in names)


def _refuse_unread(error: OSError) -> None:
    # A folder may be removed while it is read, or may not exist yet.
    if not isinstance(error, FileNotFoundError):
        folder = error.filename or "A folder in staging"
        raise BackupError(
            f"{folder} could not be read: {error.strerror}. Check that it is a directory, its permissions and the disk."
        ) from error


def _take(staging: Path, path: Path, copy_to: Path | None) -> StagedFile | None:
    relative = path.relative_to(staging)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if path.is_symlink():
            return None
        raise BackupError(f"{path} could not be read: {error.strerror}. Check its permissions and the disk.") from error
    with os.fdopen(descriptor, "rb") as file:
        known = os.fstat(descriptor)
        if not stat.S_ISREG(known.st_mode):
            return None
        md5 = md5_of_open_file(file) if copy_to is None else _copied(file, copy_to / relative, known.st_mtime_ns)
        return StagedFile(relative.as_posix(), file.tell(), md5, known.st_mtime_ns)


def _copied(source: BufferedReader, place: Path, modified_ns: int) -> str:
    """Copy an open file to a new place, private to this user, and to the disk; returns the MD5 of what was copied."""
    md5 = hashlib.md5(usedforsecurity=False)
    make_directory(place.parent)
    with open(place, "xb", opener=_private) as copy:
        while block := source.read(_BLOCK):
            md5.update(block)
            copy.write(block)
        copy.flush()
        os.fsync(copy.fileno())
    os.utime(place, ns=(modified_ns, modified_ns))
    return md5.hexdigest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE_FILE)


def write_index(path: Path, files: Iterator[StagedFile]) -> tuple[int, int]:
    """Write a list of files, a JSON object a line; returns the number of files and their bytes."""
    number = size = 0
    with open(path, "xb", opener=_private) as raw, gzip.open(raw, "wt", encoding="utf-8", newline="\n") as index:
        for file in files:
            index.write(json.dumps(asdict(file)) + "\n")
            number, size = number + 1, size + file.size_bytes
    return number, size


def read_index(path: Path) -> Iterator[StagedFile]:
    """The files in a set's list. Raises BackupError if it cannot be read, or names a place outside staging."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as index:
            for line in index:
                file = StagedFile(**json.loads(line))
                parts = PurePosixPath(file.path).parts
                if len(parts) < 2 or parts[0] not in set(Action) or ".." in parts:
                    raise BackupError(f"{path} names a file outside staging. Use another backup.")
                yield file
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise BackupError(f"{path} is damaged ({error}). Use another backup.") from error


@dataclass
class StagingReport:
    """A set's list compared with staging, in numbers of archives and documents.

    `same`: unchanged in staging; `put_back`: copied from the set; `different`: in staging with other contents;
    `missing`: not in staging. `archives_missing` are the missing and the different archives.
    """

    same: int = 0
    put_back: int = 0
    different: int = 0
    missing: int = 0
    archives_missing: int = 0


def prepare_staging(index: Path, staging: Path, copies: Path | None, on_progress: FilesProgress) -> StagingReport:
    """Compare a set's list with staging; the report already counts what `put_back` will do.

    If the set has `copies`, those of missing files are written into staging under temporary names. Raises BackupError
    for a damaged copy, or if staging cannot be written to.
    """
    discard_prepared(staging)
    report = StagingReport()
    for number, file in enumerate(read_index(index), start=1):
        present = _md5_of(staging / file.path)
        if present == file.md5:
            report.same += 1
        elif copies is not None:
            _prepare(copies / file.path, staging, file)
            report.put_back += 1
        else:
            report.different += present is not None
            report.missing += present is None
            report.archives_missing += file.is_archive
        on_progress(number)
    return report


def put_back(index: Path, staging: Path) -> None:
    """Move the prepared files to their places in staging. Raises BackupError if staging cannot be written to."""
    prepared = staging / _PREPARED
    if not prepared.exists():
        return
    for file in read_index(index):
        try:
            if (prepared / file.path).exists():
                make_directory((staging / file.path).parent)
                (prepared / file.path).replace(staging / file.path)
        except OSError as error:
            raise _not_put_back(staging, file, error) from error


def discard_prepared(staging: Path) -> None:
    """Remove prepared files that were not moved, including those of a killed restoration."""
    shutil.rmtree(staging / _PREPARED, ignore_errors=True)


def _md5_of(path: Path) -> str | None:
    try:
        with open(path, "rb", opener=_no_link) as file:
            return md5_of_open_file(file)
    except OSError:
        return None


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _prepare(copy: Path, staging: Path, file: StagedFile) -> None:
    try:
        with open(copy, "rb", opener=_no_link) as source:
            md5 = _copied(source, staging / _PREPARED / file.path, file.modified_ns)
        if md5 != file.md5:
            raise BackupError(f"{copy} is damaged: it has not the MD5 that the set says. Use another backup.")
    except OSError as error:
        raise _not_put_back(staging, file, error) from error


def _not_put_back(staging: Path, file: StagedFile, error: OSError) -> BackupError:
    return BackupError(
        f"{staging / file.path} could not be put back: {error.strerror}. Check staging and its disk, then restore "
        "again."
    )


def check_copies(index: Path, copies: Path, on_progress: FilesProgress) -> None:
    """Raise BackupError unless every copy in a set is as its list says."""
    for number, file in enumerate(read_index(index), start=1):
        if _md5_of(copies / file.path) != file.md5:
            raise BackupError(f"{copies / file.path} is missing or damaged. Use another backup.")
        on_progress(number)
