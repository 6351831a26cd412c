"""An archive on one source: its listing, and what is known of that copy."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from dcc.sources.base import Validators


class CopyFault(StrEnum):
    """The fault of a bad copy of an archive: it cannot be opened, or its MD5 is not the published one."""

    DAMAGED = "damaged"
    CHECKSUM = "checksum"


@dataclass(frozen=True, slots=True)
class KnownBadCopy:
    """A bad copy of an archive, with its MD5; its source lists it unchanged."""

    md5: str
    fault: CopyFault


class EarlierCopy(NamedTuple):
    """A copy of an archive that was fetched before, with its server's validators."""

    validators: Validators
    size_bytes: int
    md5: str

    def may_be(self, hosting: Hosting) -> bool:
        """Whether a listing may be that of this copy: else a server that knows times alone could say that it is.

        It calls every file unchanged that is not newer.
        """
        known, listed = self.validators.modified, hosting.modified
        is_older = known is not None and listed is not None and listed < known
        return not is_older and hosting.size_bytes in {None, self.size_bytes}


@dataclass(frozen=True, slots=True)
class Hosting:
    """A submission at one file source: a row of `file_source_has_zip` with what was listed there.

    `failed_before`: an earlier download from there failed, so that the next one counts as a retry; an archive that
    arrived and was bad does not. `own`: the source is one of the centre that the archive is named for. `bad`: the copy
    there is known to be bad. `folder`: where below the action directory it lies. `manifest`: the format of the manifest
    beside it, empty without one.
    """

    id: int
    source_id: int
    size_bytes: int | None
    modified: int | None
    has_md5: bool
    failed_before: bool = False
    own: bool = field(default=False, compare=False)
    bad: KnownBadCopy | None = field(default=None, compare=False)
    folder: str = field(default="", compare=False)
    manifest: str = field(default="", compare=False)

    def deserves_recheck(self, published: str | None) -> bool:
        """Whether a known bad copy deserves another look at its checksum, although it is unchanged.

        Only its checksum may have been wrong, and the checksum of the archive's own centre counts for other copies.
        `published` is the MD5 of that centre, which replaces one beside another centre's copy.
        """
        if self.bad is None:
            return False
        if self.bad.fault is CopyFault.DAMAGED:
            return self.own and self.has_md5 and published is None
        bound = None if self.own and self.has_md5 else published
        return bound in {None, self.bad.md5}
