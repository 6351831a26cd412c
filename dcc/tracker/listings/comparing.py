"""Compares listed archives with the known hostings: which have changed, and the message about each."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import Connection, case, select

from dcc.messages import Message, mark, message
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.phases import ACTION_IDS, ACTIONS_BY_ID, Phase, Status
from dcc.sources.base import ActionListing, ListedFile, SourceAddress
from dcc.tracker.archive_names import stored_name
from dcc.tracker.models import FileSourceHasZip, ZipAction, ZipFile
from dcc.tracker.states import NOT_ARRIVED, REFUSED, WAITING, State
from dcc.tracker.submission_rows import IDS, rows_about

_WITHOUT_DATA = frozenset(State(Phase.UPLOAD, status) for status in (Status.PENDING, Status.FAILED, Status.CANCELLED))
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
        """Whether the archive was fetched, or a person set it aside before."""
        return not self.to_download and self.state != REFUSED

    @property
    def concerns_more_than_listing(self) -> bool:
        """Whether more than the listing depends on it: it waits, was refused, or counts as gone or incomplete."""
        return self.to_download or self.state == REFUSED or self.gone or self.missed or self.uploading


@dataclass(frozen=True, slots=True)
class Compared:
    """The number of `listed` archives of a source, compared with what is known of it.

    `new` are those that it has not hosted before. `noteworthy` are known ones that are listed differently than before,
    or were gone, missed, refused or being uploaded, or that are recent; both in the order of the listing. `absent` are
    known hostings that are not listed, by directory.
    """

    listed: int
    new: dict[ZipKey, ListedFile]
    noteworthy: dict[ZipKey, tuple[KnownHosting, ListedFile]]
    absent: dict[Action, Absent]


@dataclass(slots=True)
class Absent:
    """Hostings of `known` archives that a directory no longer lists, as ids.

    `first`: missing for the first time; `again`: missed already by a listing that was not believed.
    """

    known: int = 0
    first: list[int] = field(default_factory=list)
    again: list[int] = field(default_factory=list)

    @property
    def all(self) -> list[int]:
        """All of them."""
        return [*self.again, *self.first]


def compare_with_known(
    connection: Connection, source_id: int, listings: Sequence[ActionListing], recent_since: float = math.inf
) -> Compared:
    """Compare the listed directories of a source with the tracker, in one query.

    An unchanged archive that was not modified after `recent_since` takes no memory beyond its listing.
    """
    listed = {
        ACTION_IDS[listing.action]: {stored_name(file.name): file for file in listing.zips} for listing in listings
    }
    count = sum(len(files) for files in listed.values())
    found: dict[ZipKey, tuple[KnownHosting, ListedFile]] = {}
    absent = {ACTION_IDS[listing.action]: Absent() for listing in listings}
    rows = connection.execute(_KNOWN.where(FileSourceHasZip.file_source_id == source_id))
    for part in rows.partitions(_ROWS_AT_ONCE):
        for todo, name, standing, *known in part:
            if todo not in listed:
                continue
            file = listed[todo].pop(name, None)
            if standing != _GONE:
                absent[todo].known += 1
            if file is None:
                if standing != _GONE:
                    (absent[todo].again if standing == _MISSED else absent[todo].first).append(known[0])
                continue
            _, _, _, phase, status, *before = known
            if (
                standing
                or (phase, status) == REFUSED
                or tuple(before) != attributes(file)
                or (file.modified or 0) > recent_since
            ):
                found[ZipKey(ACTIONS_BY_ID[todo], name)] = _known_hosting(standing, *known), credible(file)
    new = {
        ZipKey(ACTIONS_BY_ID[todo], name): credible(file)
        for todo, files in listed.items()
        for name, file in files.items()
    }
    noteworthy = {key: found[key] for key in _in_order(listings, found)}
    return Compared(count, new, noteworthy, {ACTIONS_BY_ID[todo]: missing for todo, missing in absent.items()})


def known_hostings(connection: Connection, source_id: int, keys: Iterable[ZipKey]) -> dict[ZipKey, KnownHosting]:
    """The archives with the names of these keys as a source last listed them."""
    query = _KNOWN.where(FileSourceHasZip.file_source_id == source_id, ZipFile.file_name.in_(IDS))
    rows = rows_about(connection, query, (key.file_name for key in keys))
    return {ZipKey(ACTIONS_BY_ID[todo], name): _known_hosting(*rest) for todo, name, *rest in rows}


def _known_hosting(
    standing: int, hosting: int, za_id: int, zip_id: int, phase: int, status: int, *listed: Any
) -> KnownHosting:
    state = State(Phase(phase), Status(status))
    gone, missed, uploading = standing == _GONE, standing == _MISSED, standing == _UPLOADING
    return KnownHosting(hosting, za_id, zip_id, state, gone, missed, uploading, *listed)


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
"""What is listed of an archive, as a tuple."""

_KNOWN: Final = (
    select(
        ZipAction.todo_id,
        ZipFile.file_name,
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


def _in_order(listings: Sequence[ActionListing], keys: Collection[ZipKey]) -> Iterator[ZipKey]:
    """The keys that are listed, in the order of the listing."""
    if not keys:
        return
    for listing in listings:
        for file in listing.zips:
            key = ZipKey(listing.action, stored_name(file.name))
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


def _time(seconds: int | None) -> Message:
    if seconds is None:
        return message(mark("at an unknown time"))
    return Message(f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC")


def _size(size_bytes: int | None) -> Message:
    if size_bytes is None:
        return message(mark("of unknown size"))
    return message(mark("{number} bytes"), number=size_bytes)


def change_message(
    address: SourceAddress,
    key: ZipKey,
    entry: KnownHosting,
    file: ListedFile,
    *,
    taken_anew: bool = False,
    loaded: bool = False,
) -> Message:
    """The message about an archive that changed on a source: whether it is fetched again, or its data were `loaded`."""
    return message(
        _change_text(entry, file, taken_anew=taken_anew, loaded=loaded),
        archive=str(key),
        source=address.label,
        size=_size(entry.size_bytes),
        modified=_time(entry.modified),
        new_size=_size(file.size_bytes),
        new_modified=_time(file.modified),
    )


def _change_text(entry: KnownHosting, file: ListedFile, *, taken_anew: bool, loaded: bool) -> str:
    if not content_differs(entry, file):
        if taken_anew:
            return mark(
                "The manifest beside {archive} has changed on {source}. No data of it were uploaded: it is taken by "
                "itself, and held against the new manifest."
            )
        return mark(
            "The manifest beside {archive} has changed on {source}. The earlier download still counts. "
            "Compare it with the new manifest: dcc retry {archive}"
        )
    if entry.to_download:
        return mark(
            "{archive} has changed on {source}: it was {size}, modified {modified}, and is {new_size}, modified "
            "{new_modified}. It has not been downloaded yet; the new content is."
        )
    if entry.state == REFUSED:
        return mark(
            "{archive} has changed on {source}: it was {size}, modified {modified}, and is {new_size}, modified "
            "{new_modified}. Its name was refused."
        )
    if taken_anew:
        return mark(
            "{archive} has changed on {source}: it was {size}, modified {modified}, and is {new_size}, modified "
            "{new_modified}. No data of it were uploaded: the new content is taken by itself."
        )
    if loaded or (entry.state.phase >= Phase.UPLOAD and entry.state not in _WITHOUT_DATA):
        # Otherwise the new documents would repeat existing data, and fail because of that.
        return mark(
            "{archive} has changed on {source}: it was {size}, modified {modified}, and is {new_size}, "
            "modified {new_modified}. The earlier download still counts, with its data. If the new content "
            "is meant, withdraw these with `dcc data undo`, then take it with: dcc retry {archive}"
        )
    return mark(
        "{archive} has changed on {source}: it was {size}, modified {modified}, and is {new_size}, "
        "modified {new_modified}. The earlier download still counts. If the new content is meant, take "
        "it with: dcc retry {archive}"
    )


def size_message(address: SourceAddress, key: ZipKey, before: int | None, file: ListedFile) -> Message:
    """The message about an archive with another size on another source."""
    return message(
        mark(
            "{archive} is {size} on {source} but {new_size} where it was listed before. Only the copy of the preferred "
            "source is taken. Ask the centre which one is right."
        ),
        archive=str(key),
        source=address.label,
        size=_size(file.size_bytes),
        new_size=_size(before),
    )


def uploading_message(
    address: SourceAddress, key: ZipKey, first: ListedFile, second: ListedFile | None, *, looked: bool
) -> Message:
    """The message about an archive that changed between two listings; `second` is None if it was missing then.

    `looked`: whether there was a second listing.
    """
    known = {"archive": str(key), "source": address.label, "modified": _time(first.modified)}
    if not looked:
        return message(
            mark(
                "{archive} may be being uploaded to {source}: it was modified {modified}, and could not be looked at "
                "once more. A later session takes it when it is complete."
            ),
            **known,
        )
    if second is None:
        return message(
            mark(
                "{archive} is being uploaded to {source}: it was {size}, modified {modified}, and was not there a "
                "little later. A later session takes it when it is complete."
            ),
            size=_size(first.size_bytes),
            **known,
        )
    return message(
        mark(
            "{archive} is being uploaded to {source}: it was {size}, modified {modified}, and {new_size}, modified "
            "{new_modified}, a little later. A later session takes it when it is complete."
        ),
        size=_size(first.size_bytes),
        new_size=_size(second.size_bytes),
        new_modified=_time(second.modified),
        **known,
    )
