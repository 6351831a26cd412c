"""What a crawl tells about listed archives: the kinds of findings, the message of each, and which sizes are unusual."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from statistics import median
from typing import Final

from sqlalchemy import Connection, bindparam, select

from dcc.databases.list_parameters import IDS, rows_about
from dcc.databases.transactions import insert_rows
from dcc.messages import Message, mark, message, size_detail
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.runtime.clock import utc_now
from dcc.sources.base import ActionListing, DuplicateEntry, ListedFile, SourceAddress
from dcc.tracker.archive_names import stored_name
from dcc.tracker.crawls import FUTURE_DATE, MANIFEST_CHANGED, UNUSUAL_SIZE
from dcc.tracker.listings.comparing import AbsentHostings, KnownHosting, content_differs
from dcc.tracker.models import CrawlFinding, ZipFile
from dcc.tracker.problems import message_columns
from dcc.tracker.states import REFUSED

TAKEN_ANEW: Final = "taken_anew"
UPLOADING: Final = "uploading"
CLOCK_MOVED: Final = "clock_moved"
CONFIRMED_GONE: Final = "gone"
PROPOSED: Final = "withdrawal_proposed"
LISTED_TWICE: Final = "listed_twice"
FOLDER_TWICE: Final = "folder_twice"
ONLY_NOTED: Final = frozenset(
    {TAKEN_ANEW, MANIFEST_CHANGED, UPLOADING, CLOCK_MOVED, CONFIRMED_GONE, LISTED_TWICE, FOLDER_TWICE, FUTURE_DATE}
)
"""Kinds of findings that a crawl tells as notes."""


@dataclass(frozen=True, slots=True)
class ListingFinding:
    """A finding about a listed archive, or a directory (`add/`), for a wrangler."""

    kind: str
    key: SubmissionKey | str
    za_id: int | None
    translatable: Message


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
    key: SubmissionKey,
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
            "{new_modified}. No data of it were uploaded: the archive is fetched again by itself."
        )
    if loaded:
        # Otherwise the new documents would repeat existing data, and fail because of that.
        return mark(
            "{archive} has changed on {source}: it was {size}, modified {modified}, and is {new_size}, "
            "modified {new_modified}. The earlier download still counts, with its data. If the new content "
            "is meant, withdraw these with `dcc data undo`, then take it with: dcc retry {archive}"
        )
    return mark(
        "{archive} has changed on {source}: it was {size}, modified {modified}, and is {new_size}, "
        "modified {new_modified}. The new content is not taken by itself. If it is meant, take it with: dcc retry "
        "{archive}"
    )


def size_message(
    address: SourceAddress, key: SubmissionKey, before: int | None, file: ListedFile, *, loaded: bool = False
) -> Message:
    """The message about an archive with another size on another source than before; its data may be `loaded`."""
    text = mark(
        "{archive} is {size} on {source} but {new_size} where it was listed before. The copy of the preferred "
        "source is taken, the other only if that is bad. The centre says which one is right."
    )
    if loaded:
        text = mark(
            "{archive} is {size} on {source} but {new_size} where it was listed before. Its data were uploaded, and "
            "this copy is not taken. The centre says which one is right. If the archive has moved there and the new "
            "content is meant, withdraw the data with `dcc data undo`, then take it with: dcc retry {archive}"
        )
    sizes = {"size": _size(file.size_bytes), "new_size": _size(before)}
    return message(text, archive=str(key), source=address.label, **sizes)


def future_message(address: SourceAddress, key: SubmissionKey, day: date) -> Message:
    """The message about an archive with a date in its name that is in the future."""
    text = mark(
        "{archive} on {source} names the date {day}, which is in the future. It is processed anyway. The centre names "
        "its next archives after the day on which the data were exported."
    )
    return message(text, archive=str(key), source=address.label, day=day.isoformat())


def uploading_message(
    address: SourceAddress, key: SubmissionKey, first: ListedFile, second: ListedFile | None, *, looked: bool
) -> Message:
    """The message about an archive that changed between two listings; `second` is None if it was missing then.

    `looked`: whether there was a second listing.
    """
    known = {"archive": str(key), "source": address.label, "modified": _time(first.modified)}
    if not looked:
        text = mark(
            "{archive} may be being uploaded to {source}: it was modified {modified}, and could not be looked at once "
            "more. A later session takes it when it is complete."
        )
        return message(text, **known)
    known["size"] = _size(first.size_bytes)
    if second is None:
        text = mark(
            "{archive} is being uploaded to {source}: it was {size}, modified {modified}, and was not there a little "
            "later. A later session takes it when it is complete."
        )
        return message(text, **known)
    text = mark(
        "{archive} is being uploaded to {source}: it was {size}, modified {modified}, and {new_size}, modified "
        "{new_modified}, a little later. A later session takes it when it is complete."
    )
    return message(text, new_size=_size(second.size_bytes), new_modified=_time(second.modified), **known)


def shrunk_message(listing: ActionListing, lost: AbsentHostings) -> Message:
    """The message about a directory that lost too much to be believed."""
    listed = len(listing.zips)
    text = mark("the directory {directory} lists {number} archives, and held {before} before")
    if listing.missing:
        text = mark("the directory {directory} is gone, and held {before} before")
    elif listed == 1:
        text = mark("the directory {directory} lists one archive, and held {before} before")
    return message(text, directory=listing.action.value, number=listed, before=lost.known)


def confirmed_message(address: SourceAddress, listing: ActionListing, lost: int) -> Message:
    """The message about archives that two listings in a row did not have."""
    one = mark(
        "{directory}: one archive of {source} is gone. Two listings in a row did not show it. If the centre did not "
        "take it away on purpose, ask it to put it back."
    )
    several = mark(
        "{directory}: {number} archives of {source} are gone. Two listings in a row did not show them. If the centre "
        "did not take them away on purpose, ask it to put them back."
    )
    text = one if lost == 1 else several
    return message(text, directory=listing.action.value, number=lost, source=address.label)


def clock_message(address: SourceAddress, action: Action, number: int, seconds: int) -> Message:
    """The message about archives whose times all moved by some seconds."""
    text = mark(
        "{directory}: the times of {number} archives of {source} moved by {hours} h, and their sizes did not change. "
        "They count as the same archives: the clock of its server, or its time zone, was set."
    )
    hours = f"{seconds / 3600:+g}"
    return message(text, directory=action.value, number=number, source=address.label, hours=hours)


def twice_finding(address: SourceAddress, action: Action, twice: DuplicateEntry) -> ListingFinding:
    """The finding on an archive or folder that was found at two paths."""
    known = {"taken": f"{action}/{twice.taken}", "other": f"{action}/{twice.other}", "source": address.label}
    if twice.is_folder:
        text = mark("{other} of {source} is the folder {taken} over a link. Its archives are taken from {taken} alone.")
        return ListingFinding(FOLDER_TWICE, f"{action}/", None, message(text, **known))
    text = mark(
        "{source} has two archives of one name: {taken} and {other}. Only {taken} is taken. The centre removes or "
        "renames the other one."
    )
    key = SubmissionKey(action, stored_name(twice.taken.rpartition("/")[2]))
    return ListingFinding(LISTED_TWICE, key, None, message(text, **known))


def proposed_message(address: SourceAddress, action: Action, number: int) -> Message:
    """The message about archives whose withdrawal is proposed."""
    text = mark(
        "{directory}: {number} archives of {source} are gone, and the withdrawal of their data is proposed. Decide: "
        "dcc data proposals"
    )
    if number == 1:
        text = mark(
            "{directory}: one archive of {source} is gone, and the withdrawal of its data is proposed. Decide: dcc "
            "data proposals"
        )
    return message(text, directory=action.value, number=number, source=address.label)


LEAST_EARLIER: Final = 20
"""The number of earlier archives of a centre from which on an unusual size is noticed."""

_LAST = 50
"""The last archives of a centre that say what size is usual."""
_TIMES: Final = 10


@dataclass(frozen=True, slots=True)
class ArrivedArchive:
    """An archive whose bytes have arrived from a source."""

    zip_id: int
    za_id: int
    source_id: int
    key: SubmissionKey
    size_bytes: int


def unusual_size(key: SubmissionKey, size: int | None, earlier: Sequence[int]) -> Message | None:
    """A message about an archive ten times larger, or smaller, than the median of earlier ones of its centre, or None.

    Not without a size, nor without `LEAST_EARLIER` of them.
    """
    if size is None or len(earlier) < LEAST_EARLIER:
        return None
    usual = median(earlier)
    if usual / _TIMES <= size <= usual * _TIMES:
        return None
    text = mark(
        "{archive} has a size of {size}; the median of the last {count} archives of its centre is {usual}. It is "
        "processed anyway. The centre says whether it is what it meant to submit."
    )
    return message(text, archive=str(key), size=size_detail(size), count=len(earlier), usual=size_detail(round(usual)))


def earlier_sizes(connection: Connection, centre_id: int, but_not: Collection[str]) -> list[int]:
    """The sizes of the last archives of a centre, without those of some names."""
    known = connection.execute(_SIZES, {"centre": centre_id, "number": _LAST + len(but_not)})
    return [size or 0 for name, size in known if name not in but_not][:_LAST]


_SIZES: Final = (
    select(ZipFile.file_name, ZipFile.size_bytes)
    .where(ZipFile.centre_id == bindparam("centre"), ZipFile.size_bytes.is_not(None))
    .order_by(ZipFile.id.desc())
    .limit(bindparam("number"))
)
_UNSIZED: Final = select(ZipFile.id, ZipFile.centre_id).where(
    ZipFile.id.in_(IDS), ZipFile.size_bytes.is_(None), ZipFile.centre_id.is_not(None)
)


def note_arrived(connection: Connection, session_id: int, arrived: Collection[ArrivedArchive]) -> None:
    """Add findings about archives of unusual size that had no size before, which must be recorded afterwards."""
    by_zip = {one.zip_id: one for one in arrived}
    found: list[tuple[int, ListingFinding]] = []
    for zip_id, centre_id in list(rows_about(connection, _UNSIZED, by_zip)):
        one = by_zip[zip_id]
        text = unusual_size(one.key, one.size_bytes, earlier_sizes(connection, centre_id, [one.key.file_name]))
        if text is not None:
            found.append((one.source_id, ListingFinding(UNUSUAL_SIZE, one.key, one.za_id, text)))
    record_findings(connection, session_id, found, utc_now())


def record_findings(
    connection: Connection, session_id: int, found: Iterable[tuple[int, ListingFinding]], now: datetime
) -> None:
    """Record findings of a session, each with the id of its source."""
    rows = [
        {
            "session_id": session_id,
            "file_source_id": source_id,
            "za_id": one.za_id,
            "kind": one.kind,
            "file_name": str(one.key)[:160],
            "created": now,
            **message_columns(one.translatable),
        }
        for source_id, one in found
    ]
    insert_rows(connection, CrawlFinding, rows)
