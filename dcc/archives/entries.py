"""Common parts of all kinds of archives: their entries, and errors in them."""

from __future__ import annotations

import errno
import hashlib
import lzma
import os
import posixpath
import re
import struct
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dcc.errors import ArchiveError, CorruptArchiveError, DuplicateMemberError, UnsafeArchiveError
from dcc.messages import Message, mark, message
from dcc.runtime.disk_space import write_all
from dcc.sources.remote_names import printable

PIECE = 256 * 1024
"""Bytes of an entry that are in memory at once."""

_LONGEST_SHOWN = 120
_LONGEST_REASON = 300
_OF_MACOS = ("__MACOSX", "._")
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, slots=True)
class InnerArchive:
    """An archive inside another one: its path, from the submitted archive on, and its hexadecimal MD5."""

    path: str
    md5: str


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """A file in an archive: its path there, its size, and its content in pieces, to be read at most once.

    `place` is its path from the submitted archive on, as printable text: `data/inner.zip/folder/<name>`. `archives` are
    the inner archives around it, outermost first.
    """

    path: str
    size_bytes: int
    content: Callable[[], Iterator[bytes]] = field(repr=False)
    place: str = ""
    archives: tuple[InnerArchive, ...] = ()

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    @property
    def is_of_macos(self) -> bool:
        """Whether macOS put it there, beside a file."""
        return self.path.startswith(_OF_MACOS) or self.name.startswith(_OF_MACOS)


def write_pieces(pieces: Iterable[bytes], path: Path) -> str:
    """Write the content of an entry, or another in pieces, to a new file; returns its MD5. Raises OSError."""
    digest = hashlib.md5(usedforsecurity=False)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for piece in pieces:
            digest.update(piece)
            write_all(descriptor, piece)
    finally:
        os.close(descriptor)
    return digest.hexdigest()


@contextmanager
def damage(label: str) -> Iterator[None]:
    """Turn exceptions of archive readers about damage into CorruptArchiveError.

    EINVAL results from an offset before the file's beginning.
    """
    try:
        yield
    except NotImplementedError as error:
        raise CorruptArchiveError(
            mark("{archive} cannot be read: {reason}. Make it with the usual deflate method."),
            archive=label,
            reason=Message(_short(str(error))),
        ) from error
    except UnicodeDecodeError as error:
        text = mark("has a file name that claims to be UTF-8 and is not")
        raise bad_archive(CorruptArchiveError, label, text) from error
    except EOFError as error:
        raise damaged(label, mark("the data of an entry end too early")) from error
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error) as error:
        raise damaged(label, _short(str(error))) from error
    except (RuntimeError, ValueError, OverflowError) as error:
        raise damaged(label, _short(str(error))) from error
    except OSError as error:
        if error.errno not in {None, errno.EINVAL}:
            raise
        raise damaged(label, _short(str(error))) from error


def bad_archive(kind: type[ArchiveError], label: str, what: str, **details: object) -> ArchiveError:
    """The error for an archive to be replaced; `what` is translatable: what is wrong with it, by these details."""
    text = mark("{archive} {broken}. Replace it with a good archive, under the same name.")
    return kind(text, archive=label, broken=message(what, **details))


def damaged(label: str, how: str, **details: object) -> ArchiveError:
    """The error for a damaged archive; `how` is translatable."""
    return bad_archive(CorruptArchiveError, label, mark("is damaged: {how}"), how=message(how, **details))


def unsafe_path(path: str) -> str | None:
    """Why an entry of that path is refused, translatable; None if it is not."""
    if "\0" in path:
        return mark("has a NUL character in its name")
    if path.startswith("/") or _DRIVE.match(path):
        return mark("has an absolute path")
    if "\\" in path:
        return mark("has a backslash in its path")
    if ".." in path.split("/"):
        return mark("has a path that leads out of the archive's folder")
    return None


def unsafe_entry(label: str, path: str, reason: str) -> ArchiveError:
    """The error for an archive with an entry that could do harm."""
    text = mark("is refused whole: its entry {entry} {reason}")
    return bad_archive(UnsafeArchiveError, label, text, entry=printable_path(path), reason=Message(reason))


def plain_path(path: str) -> str:
    """A path without a `./` at its beginning, which `tar -c .` puts before each, or elsewhere."""
    return posixpath.normpath(path)


def check_distinct(paths: Sequence[str], label: str) -> None:
    """Check that no two entries of an archive have the same path. Raises DuplicateMemberError."""
    for path, number in Counter(map(plain_path, paths)).items():
        if number > 1:
            text = mark("holds {number} entries named {entry}; which one counts cannot be known")
            raise bad_archive(DuplicateMemberError, label, text, number=number, entry=printable_path(path))


def legible(path: str) -> str:
    """A path as printable text."""
    return printable(path.encode(errors="surrogateescape"))


def printable_path(path: str) -> str:
    """A path for messages."""
    return repr(shortened(path, _LONGEST_SHOWN))


def shortened(text: str, longest: int = _LONGEST_SHOWN) -> str:
    """The text, cut at this length."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _short(reason: str) -> str:
    """A message of zipfile, as a part of a sentence: it may contain a name of 64 kB."""
    return legible(shortened(reason.removesuffix("."), _LONGEST_REASON))
