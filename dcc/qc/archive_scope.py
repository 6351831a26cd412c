"""Which archives a session judges and builds, by their names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from dcc.naming import NamingConvention


@dataclass(frozen=True, slots=True)
class ArchiveScope:
    """The archives of some `centres` by their names, or (None) all, also without a centre; without those left out."""

    naming: NamingConvention
    centres: Collection[str] | None = None
    left_out_centres: Collection[str] = ()
    left_out_archives: Collection[str] = ()

    @property
    def is_everything(self) -> bool:
        """Whether it has every archive."""
        return self.centres is None and not self.left_out_centres and not self.left_out_archives

    def has(self, zip_file: str) -> bool:
        """Whether it has the archive of a name."""
        if self.is_everything:
            return True
        centre = self.naming.centre_of_archive(zip_file)
        is_of_centres = self.centres is None or centre in self.centres
        return is_of_centres and centre not in self.left_out_centres and zip_file not in self.left_out_archives


ALL_ARCHIVES: Final = ArchiveScope(NamingConvention())
