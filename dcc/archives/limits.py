"""Limits for the unpacked content of an archive, over all archives inside it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from dcc.errors import DiskFullError, OversizedArchiveError
from dcc.messages import mark, size_detail

if TYPE_CHECKING:
    from dcc.settings import Settings

DEEPEST: Final = 2
"""Levels of archives inside the submitted one that are opened."""

_SMALLEST_BOMB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """The limits of an archive: bytes unpacked in all, as a multiple of its own size, and entries.

    The ratio does not matter below 1 MB unpacked. `min_free_bytes` stay free on the disk.
    """

    max_bytes: int
    max_ratio: int
    max_entries: int
    min_free_bytes: int = 0

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The limits of an installation."""
        return cls(
            settings.max_archive_bytes,
            settings.max_archive_ratio,
            settings.max_archive_entries,
            settings.min_free_bytes,
        )


class Allowance:
    """The remaining limits of one submitted archive, shared by all archives inside it."""

    def __init__(self, limits: ArchiveLimits, archive: Path) -> None:
        self._limits, self._label, self._size = limits, archive.name, archive.stat().st_size
        self._bytes = self._entries = 0

    @property
    def max_entries(self) -> int:
        """The most entries in all."""
        return self._limits.max_entries

    def take_entries(self, count: int) -> None:
        """Use up that many entries. Raises OversizedArchiveError."""
        self._entries += count
        self.check_entries(0)

    def check_entries(self, count: int) -> None:
        """Check that so many further entries are allowed. Raises OversizedArchiveError."""
        if self._entries + count > self._limits.max_entries:
            raise OversizedArchiveError(
                mark(
                    "{archive} holds {count} entries or more; {max_entries} are allowed. Split it into several "
                    "archives."
                ),
                archive=self._label,
                count=self._entries + count,
                max_entries=self._limits.max_entries,
            )

    def take_bytes(self, count: int) -> None:
        """Use up that many unpacked bytes. Raises OversizedArchiveError."""
        self._bytes += count
        if self._bytes > self._limits.max_bytes:
            raise OversizedArchiveError(
                mark("{archive} would unpack to more than the {max_bytes} that are allowed. Split it up."),
                archive=self._label,
                max_bytes=size_detail(self._limits.max_bytes),
            )
        if self._bytes > max(self._size * self._limits.max_ratio, _SMALLEST_BOMB):
            raise OversizedArchiveError(
                mark(
                    "{archive} of {size} would unpack to {total}, more than {max_ratio} times as much, as zip "
                    "bombs do. Split it into several archives, or have DCC_MAX_ARCHIVE_RATIO raised."
                ),
                archive=self._label,
                size=size_detail(self._size),
                total=size_detail(self._bytes),
                max_ratio=self._limits.max_ratio,
            )

    def check_room(self, directory: Path, needed: int) -> None:
        """Check that `needed` bytes can be written to the directory. Raises DiskFullError."""
        free = shutil.disk_usage(directory).free
        if free - needed < self._limits.min_free_bytes:
            raise DiskFullError(
                mark(
                    "{archive} unpacks to {needed}; {parent} has {free} free, of which {min_free_bytes} must stay "
                    "so. Free some space; the next session takes the archive up again."
                ),
                archive=self._label,
                needed=size_detail(needed),
                parent=directory,
                free=size_detail(free),
                min_free_bytes=size_detail(self._limits.min_free_bytes),
            )
