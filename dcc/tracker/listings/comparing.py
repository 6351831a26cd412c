"""Compares listed archives with what was known of the source: which are new, changed or missing."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, case, select

from dcc.databases.list_parameters import rows_with
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, State, Status
from dcc.sources.base import ActionListing, ListedFile, SourceAddress
from dcc.tracker.archive_names import stored_name
from dcc.tracker.models import FileSourceHasZip, ZipAction, ZipFile
from dcc.tracker.states import NOT_ARRIVED, REFUSED, WAITING
from dcc.tracker.submission_rows import KEY

_LARGEST_SIZE: Final = 2**63 - 1
_LATEST_TIME: Final = 253_402_300_799
_ROWS_AT_ONCE: Final = 2_000


@dataclass(frozen=True, slots=True)
class KnownHosting:
    """A submission that a source has hosted before, as last listed."""

    hosting_id: int
    za_id: int
    zip_id: int
    state: State
    gone: bool = False
    missed: bool = False
    uploading: bool = False
    size_bytes: int | None = None
    modified: int | None = None
    has_md5: bool = False
    folder: str = ""
    manifest: str = ""
    manifest_version: str = ""

    @property
    def to_download(self) -> bool:
        """Whether the archive is still to be downloaded, so that the present listing counts."""
        return self.state == WAITING or self.state in NOT_ARRIVED

    @property
    def was_fetched(self) -> bool:
        """Whether the archive was fetched, or a person cancelled it before."""
        return not self.to_download and self.state != REFUSED

    @property
    def concerns_more_than_listing(self) -> bool:
        """Whether more than the listing depends on it: it waits, was refused, or counts as gone or incomplete."""
        return self.to_download or self.state == REFUSED or self.gone or self.missed or self.uploading


class SeenArchive(NamedTuple):
    """A known archive as it was listed before, and as it is listed now."""

    known: KnownHosting
    file: ListedFile


@dataclass(frozen=True, slots=True)
class ListingComparison:
    """The number of `listed` archives of a source, compared with what is known of it.

    `new` are those that it has not hosted before. `noteworthy` are known ones that are listed differently than before,
    or were gone, missed, refused or being uploaded, or that are recent; both in the order of the listing. `absent` are
    known hostings that are not listed, by directory.
    """

    listed: int
    new: dict[SubmissionKey, ListedFile]
    noteworthy: dict[SubmissionKey, SeenArchive]
    absent: dict[Action, AbsentHostings]


@dataclass(slots=True)
class AbsentHostings:
    """Hostings of `known` archives that a directory no longer lists, as ids.

    `first`: missing for the first time; `again`: missed already by a listing that was not believed. `left_out`, not
    `known`: they lie where the source is no longer listed.
    """

    known: int = 0
    first: list[int] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)

    @property
    def all(self) -> list[int]:
        """All that are missing where the source is listed."""
        return [*self.again, *self.first]


def compare_with_known(
    connection: Connection, address: SourceAddress, listings: Sequence[ActionListing], recent_since: float = math.inf
) -> ListingComparison:
    """Compare the listed directories of a source with the tracker, in one query.

    An unchanged archive that was not modified after `recent_since` takes no memory beyond its listing.
    """
    listed = {listing.action: {stored_name(file.name): file for file in listing.zips} for listing in listings}
    count = sum(len(files) for files in listed.values())
    found: dict[SubmissionKey, SeenArchive] = {}
    absent = {listing.action: AbsentHostings() for listing in listings}
    rows = connection.execute(_KNOWN.where(FileSourceHasZip.file_source_id == address.id))
    for part in rows.partitions(_ROWS_AT_ONCE):
        for action, name, standing, *known in part:
            if action not in listed:
                continue
            file = listed[action].pop(name, None)
            if file is None and standing != _GONE:
                hosting = _known_hosting(standing, *known)
                if not address.extent.covers(hosting.folder, name):
                    absent[action].left_out.append(hosting.hosting_id)
                    continue
                (absent[action].again if hosting.missed else absent[action].first).append(hosting.hosting_id)
            if standing != _GONE:
                absent[action].known += 1
            if file is None:
                continue
            _, _, _, phase, status, *before = known
            if (
                standing
                or (phase, status) == REFUSED
                or tuple(before) != attributes(file)
                or (file.modified or 0) > recent_since
            ):
                key = SubmissionKey(action, name)
                found[key] = SeenArchive(_known_hosting(standing, *known), credible(file))
    new = {
        SubmissionKey(action, name): credible(file) for action, files in listed.items() for name, file in files.items()
    }
    noteworthy = {key: found[key] for key in _in_order(listings, found)}
    return ListingComparison(count, new, noteworthy, absent)


def known_hostings(
    connection: Connection, source_id: int, keys: Iterable[SubmissionKey]
) -> dict[SubmissionKey, KnownHosting]:
    """The archives with the names of these keys as a source last listed them."""
    query = _KNOWN.where(FileSourceHasZip.file_source_id == source_id)
    rows = rows_with(connection, query, ZipFile.file_name, (key.file_name for key in keys))
    return {SubmissionKey(action, name): _known_hosting(*rest) for action, name, *rest in rows}


def _known_hosting(
    standing: int, hosting: int, za_id: int, zip_id: int, phase: Phase, status: Status, *listed: Any
) -> KnownHosting:
    gone, missed, uploading = standing == _GONE, standing == _MISSED, standing == _UPLOADING
    return KnownHosting(hosting, za_id, zip_id, State(phase, status), gone, missed, uploading, *listed)


_GONE, _MISSED, _UPLOADING = 1, 2, 3
_STANDING: Final = case(
    (FileSourceHasZip.gone_since.is_not(None), _GONE),
    (FileSourceHasZip.missed_since.is_not(None), _MISSED),
    (FileSourceHasZip.uploading_since.is_not(None), _UPLOADING),
    else_=0,
)


ATTRIBUTES: Final = ("size_bytes", "modified", "has_md5", "folder", "manifest", "manifest_version")
"""What is listed of an archive: attributes of a ListedFile and a KnownHosting, and columns of FileSourceHasZip."""

attributes: Final = attrgetter(*ATTRIBUTES)
_KNOWN: Final = (
    select(
        *KEY,
        _STANDING,
        FileSourceHasZip.id,
        ZipAction.id,
        ZipFile.id,
        ZipAction.phase_id,
        ZipAction.status_id,
        *attributes(FileSourceHasZip),
    )
    .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
    .join(ZipFile)
)


def _in_order(listings: Sequence[ActionListing], keys: Collection[SubmissionKey]) -> Iterator[SubmissionKey]:
    """The keys that are listed, in the order of the listing."""
    if not keys:
        return
    for listing in listings:
        for file in listing.zips:
            key = SubmissionKey(listing.action, stored_name(file.name))
            if key in keys:
                yield key


def credible(file: ListedFile) -> ListedFile:
    """The file without an impossible size or time: a server's answer must not fail the crawl."""
    size, modified = file.size_bytes, file.modified
    if size is not None and not 0 <= size <= _LARGEST_SIZE:
        size = None
    if modified is not None and not 0 <= modified <= _LATEST_TIME:
        modified = None
    unchanged = (size, modified) == (file.size_bytes, file.modified)
    return file if unchanged else replace(file, size_bytes=size, modified=modified)


def completed(file: ListedFile, known: KnownHosting) -> ListedFile:
    """An unchanged file, with attributes that the server listed before and does not list any more."""
    return replace(
        file,
        size_bytes=known.size_bytes if file.size_bytes is None else file.size_bytes,
        modified=known.modified if file.modified is None else file.modified,
    )


def differ(before: int | None, now: int | None) -> bool:
    """Whether two known sizes or times differ."""
    return before is not None and now is not None and before != now


def content_differs(known: KnownHosting, file: ListedFile) -> bool:
    """Whether an archive is listed with another size or time than before."""
    return differ(known.size_bytes, file.size_bytes) or differ(known.modified, file.modified)


def manifest_differs(known: KnownHosting, file: ListedFile) -> bool:
    """Whether another manifest lies beside an archive than before, as far as listings tell, or none any more."""
    if known.manifest != file.manifest:
        return True
    versions = known.manifest_version, file.manifest_version
    return "" not in versions and versions[0] != versions[1]
