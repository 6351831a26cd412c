"""Receives one archive from one source: into its part in staging, checked, and given its name."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dcc.archives.manifest import MAX_MANIFEST_BYTES
from dcc.errors import ChecksumMismatchError, FileMissingError, SizeMismatchError, SourceTimeoutError
from dcc.messages import Message, mark, size_detail
from dcc.naming import manifest_beside
from dcc.outcomes import SubmissionKey
from dcc.runtime.checksums import md5_of
from dcc.runtime.disk_space import disk_errors, write_all
from dcc.session.fetching.transfer_speed import SpeedLimits
from dcc.sources.base import Block, Connection, NotModified, Validators
from dcc.sources.remote_names import path_below
from dcc.store.staging import PartOrigin, Staging
from dcc.tracker.hostings.hosting import CopyFault, EarlierCopy, Hosting

_PROGRESS_SECONDS = 1.0
_UNNOTED_BYTES = 1024 * 1024


class DownloadSink:
    """Writes one archive to its part; a context manager that closes it.

    `max_unsized` limits the bytes of an archive of unknown size; `written` is called with each block, and `on_bytes`
    with all bytes received so far, about once a second. The part's origin is recorded after a second or 1 MiB, else
    only after a failure. Making a file beside each small archive takes as long as the archive itself, and a killed
    process loses only the bytes of a second.
    """

    def __init__(
        self,
        staging: Staging,
        key: SubmissionKey,
        origin: PartOrigin,
        max_unsized: int,
        written: Callable[[int], object],
        on_bytes: Callable[[int], object],
    ) -> None:
        self.received = 0
        self.key = key
        self._staging, self._origin, self._expected = staging, origin, origin.size_bytes
        self._written, self._on_bytes = written, on_bytes
        self._most = max_unsized if self._expected is None else self._expected
        self._part: int | None = None
        self._noted = False
        self._reported_at = time.monotonic()
        self._begun_at = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._part is not None:
            os.close(self._part)
            if kind is not None:
                self._note_origin()
                if self.received > self._begun_at:
                    self._on_bytes(self.received)

    def take_in(self, length: int) -> None:
        """Continue after the bytes of an earlier attempt. Raises OSError if they are gone."""
        if length == 0:
            return
        self._part, self._noted = os.open(self._staging.part(self.key), os.O_WRONLY | os.O_CLOEXEC), True
        self.received = self._begun_at = os.lseek(self._part, 0, os.SEEK_END)

    def __call__(self, block: Block) -> None:
        """Take the next block. Raises SizeMismatchError if it exceeds the listed size."""
        if self._part is None:
            self._part = self._staging.begin_part(self.key)
        count = len(block)
        write_all(self._part, block)
        self._written(count)
        self.received += count
        if self.received > self._most:
            self._check_size()
        now = time.monotonic()
        late = now - self._reported_at >= _PROGRESS_SECONDS
        if late or self.received > _UNNOTED_BYTES:
            self._note_origin()
        if late:
            self._reported_at = now
            self._on_bytes(self.received)

    def _note_origin(self) -> None:
        if not self._noted:
            self._staging.note_origin(self.key, self._origin)
            self._noted = True

    def end(self) -> None:
        """End of the file. Raises SizeMismatchError if the size differs from the listed one."""
        if self._part is None:
            self._part = self._staging.begin_part(self.key)
        self._check_size()

    def _check_size(self) -> None:
        if self._expected is None and self.received > self._most:
            raise SizeMismatchError(
                mark(
                    "{archive}: more than {most} arrived, and the file source does not tell the size. Ask "
                    "whoever runs the server why it does not; DCC_MAX_UNSIZED_BYTES sets the limit."
                ),
                archive=self.key,
                most=size_detail(self._most),
            )
        if self._expected is not None and self.received != self._expected:
            raise SizeMismatchError(
                mark(
                    "{archive}: {received} bytes arrived where {expected} were listed. The file is fetched again; if "
                    "this happens once more, ask the centre whether it was still being uploaded."
                ),
                archive=self.key,
                received=self.received,
                expected=self._expected,
            )


@dataclass(frozen=True, slots=True)
class Transfer:
    """One download attempt that must be carried out: a row of `zip_download`; 0 for a worker, whose attempt has none.

    `published`: the MD5 that the archive's own centre published, which replaces one beside this copy. `earlier`: the
    copy that was fetched from there before; if staging still has it, it is not sent again. `is_staged_here`: the
    session's staging has it, which a worker does not see.
    """

    download_id: int
    key: SubmissionKey
    hosting: Hosting
    published: str | None = None
    earlier: EarlierCopy | None = None
    is_staged_here: bool = False

    @property
    def reads_checksum(self) -> bool:
        """Whether the checksum beside the copy is read, before the archive: other copies may depend on it."""
        return self.published is None and self.hosting.has_md5

    @property
    def path(self) -> str:
        """The path of the archive below the directory of its action."""
        return path_below(self.hosting.folder, self.key.file_name)


@dataclass(frozen=True, slots=True)
class ReceivedArchive:
    """A complete archive in staging: its size and checksum equal those of the source, as far as it has them.

    `md5` is None, unknown, if the source published none to compare with. `resumed`: its beginning came from an earlier
    attempt. `is_sent`: it is not the one that staging had. `validators`: the server's tag and time of it.
    """

    size_bytes: int
    md5: str | None
    seconds: float = 0.0
    resumed: bool = False
    is_sent: bool = True
    validators: Validators | None = None


def origin_of(hosting: Hosting) -> PartOrigin:
    """The origin of a part that is received from there."""
    return PartOrigin(hosting.source_id, hosting.size_bytes, hosting.modified)


def receive(
    connection: Connection,
    transfer: Transfer,
    staging: Staging,
    on_bytes: Callable[[int], object],
    *,
    speed_limits: SpeedLimits,
    max_unsized: int,
    on_published: Callable[[str], object],
) -> ReceivedArchive:
    """Fetch an archive into staging, continuing an interrupted attempt, and check it.

    `on_bytes` is called with the bytes received so far, about once a second. `max_unsized` limits the bytes of an
    archive of unknown size; `on_published` is called with the MD5 beside the copy. Raises SizeMismatchError and
    ChecksumMismatchError (after dropping the part), any SourceError of the connection and SourceTimeoutError if it is
    slower than `speed_limits` (the part is kept), and DiskFullError.
    """
    key, hosting = transfer.key, transfer.hosting
    began = time.monotonic()
    published = _published_md5(connection, transfer, on_published)
    _refuse_known_bad(transfer, published)
    manifest = _manifest(connection, transfer, speed_limits) if hosting.manifest else None
    origin = origin_of(hosting)
    with disk_errors(key, staging.root):
        staging.prepare(key)
        staging.put_manifest(key, hosting.manifest, manifest)
        offset = staging.resumable(key, origin)
        earlier = None if offset else _still_there(transfer, staging, published)
        try:
            with (
                staging.room_for(key, (hosting.size_bytes or 0) - offset) as written,
                DownloadSink(staging, key, origin, max_unsized, written, on_bytes) as sink,
            ):
                validators = _fetch_rest(connection, transfer, sink, offset, earlier, speed_limits)
                if published is not None:
                    _check_md5(key, staging.part(key), published, is_resumed=offset > 0)
        except (SizeMismatchError, ChecksumMismatchError):
            staging.drop_part(key)
            raise
        except NotModified:
            if earlier is None:
                raise
            return ReceivedArchive(earlier.size_bytes, earlier.md5, is_sent=False, validators=earlier.validators)
        staging.finish_part(key)
    seconds = time.monotonic() - began
    return ReceivedArchive(sink.received, published, seconds, resumed=offset > 0, validators=validators)


def _published_md5(connection: Connection, transfer: Transfer, on_published: Callable[[str], object]) -> str | None:
    """The MD5 that is published of the archive: beside this copy, or as it is known from another one."""
    if not transfer.reads_checksum:
        return transfer.published
    published = connection.read_md5(transfer.key.action, transfer.path)
    if published is not None:
        on_published(published)
    return published


def _fetch_rest(
    connection: Connection,
    transfer: Transfer,
    sink: DownloadSink,
    offset: int,
    earlier: EarlierCopy | None,
    speed_limits: SpeedLimits,
) -> Validators | None:
    """Fetch the bytes from `offset` on; returns what the server told of them.

    Raises NotModified if the source has the `earlier` copy still.
    """
    hosting, validators = transfer.hosting, None
    sink.take_in(offset)
    if hosting.size_bytes is None or offset < hosting.size_bytes:
        if earlier is not None:
            connection.expect(earlier.validators)
        with _watching_speed(speed_limits, transfer.key, lambda: sink.received, connection):
            connection.fetch(
                transfer.key.action,
                transfer.path,
                sink,
                size=hosting.size_bytes,
                offset=offset,
                modified=hosting.modified,
            )
        validators = connection.validators()
    sink.end()
    return validators


class _EnoughError(Exception):
    """More came than a manifest may have."""


def _manifest(connection: Connection, transfer: Transfer, speed_limits: SpeedLimits) -> bytes | None:
    """The manifest that lies beside a copy, or so much of it that it is too long; None where there is none any more."""
    key, hosting = transfer.key, transfer.hosting
    content = bytearray()

    def take(block: Block) -> None:
        content.extend(block)
        if len(content) > MAX_MANIFEST_BYTES:
            raise _EnoughError

    name = manifest_beside(transfer.path, hosting.manifest)
    try:
        with _watching_speed(speed_limits, key, lambda: len(content), connection):
            connection.fetch(key.action, name, take, size=None)
    except _EnoughError:
        pass
    except FileMissingError:
        return None
    return bytes(content)


def _still_there(transfer: Transfer, staging: Staging, published: str | None) -> EarlierCopy | None:
    """The copy that was fetched before, if staging has it, and the centre lists and publishes no other."""
    earlier = transfer.earlier
    if earlier is None or published not in {None, earlier.md5} or not earlier.may_be(transfer.hosting):
        return None
    is_there = transfer.is_staged_here or staging.holds(transfer.key, earlier.size_bytes, earlier.md5)
    return earlier if is_there else None


@contextlib.contextmanager
def _watching_speed(
    speed_limits: SpeedLimits, key: SubmissionKey, received: Callable[[], int], connection: Connection
) -> Iterator[None]:
    try:
        with speed_limits.watch(received, connection.close):
            yield
    except TimeoutError as error:
        raise SourceTimeoutError(
            mark(
                "{archive}: the download was given up ({error}). What arrived is kept; ask whoever runs the server "
                "why it is so slow."
            ),
            archive=key,
            error=Message(str(error)),
        ) from error


def _refuse_known_bad(transfer: Transfer, published: str | None) -> None:
    """Raise ChecksumMismatchError for a copy that is known to be damaged, or to differ from the published one."""
    bad = transfer.hosting.bad
    if bad is None:
        return
    if bad.fault is CopyFault.DAMAGED:
        raise ChecksumMismatchError(
            mark(
                "{archive} is listed as it was when it was damaged. It is not fetched again. The centre must correct "
                "the file."
            ),
            archive=transfer.key,
        )
    if published not in {None, bad.md5}:
        raise ChecksumMismatchError(
            mark(
                "{archive} is listed as it was when its MD5 was {md5}, and the centre still publishes {published}. "
                "It is not fetched again. The centre must correct the file or its .md5."
            ),
            archive=transfer.key,
            md5=bad.md5,
            published=published,
        )


def _check_md5(key: SubmissionKey, part: Path, published: str, *, is_resumed: bool) -> None:
    received = md5_of(part)
    if published != received:
        error = ChecksumMismatchError(
            mark(
                "{archive}: what arrived has the MD5 {received}, the centre published {published}. This copy is not "
                "fetched again until it changes. The centre must correct the file or its .md5."
            ),
            archive=key,
            received=received,
            published=published,
        )
        error.received, error.is_resumed = received, is_resumed
        raise error
