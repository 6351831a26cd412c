"""A listed archive beside what is known of it: whether it has changed, and what there is to say of that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from dcc_resources.file_sources.base import ListedFile, SourceAddress
from dcc_resources.outcomes import ZipKey
from dcc_resources.tracker.progress import WAITING, State
from dcc_resources.tracker.reference import Phase, Status

REFUSED = State(Phase.ZIP_NAME, Status.FAILED)
NOT_ARRIVED = frozenset({State(Phase.DOWNLOAD, Status.FAILED), State(Phase.ZIP_MD5, Status.FAILED)})
"""States of a zip action of which no file source has delivered the archive; each session tries again."""

_LARGEST_SIZE = 2**63 - 1
_LATEST_TIME = 253_402_300_799


@dataclass(frozen=True, slots=True)
class KnownHosting:
    """A zip action that a file source has hosted before, as it was listed last."""

    hosting_id: int
    za_id: int
    zip_id: int
    size_bytes: int | None
    modified: int | None
    has_md5: bool
    gone: bool
    state: State

    @property
    def to_download(self) -> bool:
        """Whether the archive is still to be downloaded, and so is taken as it is listed at present."""
        return self.state == WAITING or self.state in NOT_ARRIVED


def attributes(listed: ListedFile | KnownHosting) -> tuple[int | None, int | None, bool]:
    """What is listed of an archive beside its name: size, time and whether there is a checksum."""
    return listed.size_bytes, listed.modified, listed.has_md5


def credible(file: ListedFile) -> ListedFile:
    """The file without a size or time that no file can have: what a server says must not fail the crawl."""
    size, modified = file.size_bytes, file.modified
    if size is not None and not 0 <= size <= _LARGEST_SIZE:
        size = None
    if modified is not None and not 0 <= modified <= _LATEST_TIME:
        modified = None
    unchanged = (size, modified) == (file.size_bytes, file.modified)
    return file if unchanged else replace(file, size_bytes=size, modified=modified)


def completed(file: ListedFile, known: KnownHosting) -> ListedFile:
    """The file, which has not changed, with what the server told of it before where it does not tell it any more."""
    return replace(
        file,
        size_bytes=known.size_bytes if file.size_bytes is None else file.size_bytes,
        modified=known.modified if file.modified is None else file.modified,
    )


def differ(before: int | None, now: int | None) -> bool:
    """Whether two sizes or times, both of them known, differ."""
    return before is not None and now is not None and before != now


def _time(seconds: int | None) -> str:
    return "at an unknown time" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _size(size_bytes: int | None) -> str:
    return "of unknown size" if size_bytes is None else f"{size_bytes:,} bytes"


def change_message(address: SourceAddress, key: ZipKey, entry: KnownHosting, file: ListedFile) -> str:
    """What to say of an archive that changed on a source."""
    if entry.to_download:
        then = "It has not been downloaded yet; the new content is."
    elif entry.state == REFUSED:
        then = "Its name was refused."
    else:
        then = f"What was downloaded before stands. If the new content is meant, take it with: dcc retry {key}"
    return (
        f"{key} has changed on {address.label}: it was {_size(entry.size_bytes)}, modified {_time(entry.modified)}, "
        f"and is {_size(file.size_bytes)}, modified {_time(file.modified)}. {then}"
    )


def size_message(address: SourceAddress, key: ZipKey, before: int | None, file: ListedFile) -> str:
    """What to say of an archive that has another size on another source."""
    return (
        f"{key} is {_size(file.size_bytes)} on {address.label} but {_size(before)} where it was listed before. "
        "Only the copy of the preferred source is taken. Ask the centre which one is right."
    )
