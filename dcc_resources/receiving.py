"""Receiving one archive from one file source: into its part in staging, checked, and given its name."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dcc_resources.checksums import md5_of
from dcc_resources.download_sink import DownloadSink
from dcc_resources.errors import ChecksumMismatchError, SizeMismatchError, SourceTimeoutError
from dcc_resources.file_sources.base import Connection
from dcc_resources.file_sources.pace import Pace
from dcc_resources.outcomes import ZipKey
from dcc_resources.segmented_download import Helpers, SegmentedFetch, Wanted
from dcc_resources.staging import Origin, Staging, disk_errors

_MOST_UNSIZED = 4 * 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Hosting:
    """A zip action at one file source: a row of `file_source_has_zip` with what was listed there.

    `failed_before`: an earlier download from there failed, so that the next one counts as a retry; an archive that
    arrived and was bad does not.
    """

    id: int
    source_id: int
    size_bytes: int | None
    modified: int | None
    has_md5: bool
    failed_before: bool = False


@dataclass(frozen=True, slots=True)
class Transfer:
    """One download attempt: a row of `zip_download` that is to be carried out."""

    download_id: int
    key: ZipKey
    hosting: Hosting


@dataclass(frozen=True, slots=True)
class Received:
    """An archive that arrived whole: its size and checksum are those of the source, as far as it tells them.

    `md5` is None where the source published none to compare with: it is not known yet. `resumed`: its beginning came
    from an earlier attempt.
    """

    path: Path
    size_bytes: int
    md5: str | None
    seconds: float
    resumed: bool


def origin_of(hosting: Hosting) -> Origin:
    """What a part that is received from there is a part of."""
    return Origin(hosting.source_id, hosting.size_bytes, hosting.modified)


def receive(
    connection: Connection,
    transfer: Transfer,
    staging: Staging,
    on_bytes: Callable[[int], object],
    *,
    pace: Pace | None = None,
    most_unsized: int = _MOST_UNSIZED,
    helpers: Helpers | None = None,
) -> Received:
    """Fetch an archive into staging, going on where an earlier attempt broke off, and check what arrived.

    `on_bytes` is told the bytes received so far, about once a second. `most_unsized` bytes are taken of an archive
    whose size is not known; `helpers` may fetch segments of a large one. Raises SizeMismatchError and
    ChecksumMismatchError (the part is dropped then), any SourceError of the connection and SourceTimeoutError where
    `pace` is not kept (the part is kept), and DiskFullError.
    """
    key, hosting = transfer.key, transfer.hosting
    began = time.monotonic()
    origin = origin_of(hosting)
    with disk_errors(key):
        staging.prepare(key)
        offset = staging.resumable(key, origin)
        fetch = SegmentedFetch(
            connection, Wanted(key, hosting.size_bytes, hosting.modified, offset), staging.root, helpers
        )

        def on_received(received: int) -> None:
            on_bytes(received + fetch.ahead)

        try:
            with (
                staging.room_for(key, (hosting.size_bytes or 0) - offset + fetch.room) as written,
                DownloadSink(staging, key, origin, most_unsized, written, on_received) as sink,
            ):
                sink.take_in(offset)
                if hosting.size_bytes is None or offset < hosting.size_bytes:
                    with _kept(pace or Pace(), sink, fetch):
                        fetch.into(sink, lambda: on_received(sink.received))
                sink.end()
                md5 = _checked_md5(connection, key, staging.part(key)) if hosting.has_md5 else None
        except (SizeMismatchError, ChecksumMismatchError):
            staging.drop_part(key)
            raise
        path = staging.finish_part(key)
    return Received(path, sink.received, md5, time.monotonic() - began, resumed=offset > 0)


@contextlib.contextmanager
def _kept(pace: Pace, sink: DownloadSink, fetch: SegmentedFetch) -> Iterator[None]:
    try:
        with pace.kept(lambda: sink.received + fetch.helped, fetch.close):
            yield
    except TimeoutError as error:
        raise SourceTimeoutError(
            f"{sink.key}: the download was given up ({error}). What arrived is kept; ask whoever runs the server "
            "why it is so slow."
        ) from error


def _checked_md5(connection: Connection, key: ZipKey, part: Path) -> str | None:
    """The MD5 of an archive, which is the one published beside it; None where there is none after all."""
    published = connection.read_md5(key.action, key.file_name)
    if published is None:
        return None
    received = md5_of(part)
    if published != received:
        raise ChecksumMismatchError(
            f"{key}: what arrived has the MD5 {received}, the centre published {published}. The file is fetched anew; "
            "if this happens again, the centre must correct the file or its .md5."
        )
    return received
