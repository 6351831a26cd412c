"""What takes an archive in as it arrives: writes it to its part in staging and counts it on the way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Self

from dcc.errors import SizeMismatchError
from dcc.outcomes import ZipKey
from dcc.runtime.disk_space import write_all
from dcc.sources.base import Block
from dcc.store.staging import Origin, Staging

_PROGRESS_SECONDS = 1.0
_UNNOTED_BYTES = 1024 * 1024


class DownloadSink:
    """Writes one archive to its part; a context manager that closes it.

    `most_unsized` bytes are taken of an archive whose size is not known; `written` is told of each block, and
    `on_bytes` of all bytes received so far, about once a second. The part's origin is noted when a second has passed or
    more than 1 MiB arrived, else only if something fails: to make a file beside each small archive takes as long as to
    make the archive, and all that a killed process loses is what came in a second.
    """

    def __init__(
        self,
        staging: Staging,
        key: ZipKey,
        origin: Origin,
        most_unsized: int,
        written: Callable[[int], object],
        on_bytes: Callable[[int], object],
    ) -> None:
        self.received = 0
        self.key = key
        self._staging, self._origin, self._expected = staging, origin, origin.size_bytes
        self._written, self._on_bytes = written, on_bytes
        self._most = most_unsized if self._expected is None else self._expected
        self._part: int | None = None
        self._noted = False
        self._told = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._part is not None:
            os.close(self._part)
            if kind is not None:
                self._note_origin()

    def take_in(self, length: int) -> None:
        """Go on after what an earlier attempt received. Raises OSError when it is not there any more."""
        if length == 0:
            return
        self._part, self._noted = os.open(self._staging.part(self.key), os.O_WRONLY | os.O_CLOEXEC), True
        self.received = os.lseek(self._part, 0, os.SEEK_END)

    def __call__(self, block: Block) -> None:
        """Take the next block. Raises SizeMismatchError when that is more than was listed."""
        if self._part is None:
            self._part = self._staging.begin_part(self.key)
        count = len(block)
        write_all(self._part, block)
        self._written(count)
        self.received += count
        if self.received > self._most:
            self._check_size()
        now = time.monotonic()
        late = now - self._told >= _PROGRESS_SECONDS
        if late or self.received > _UNNOTED_BYTES:
            self._note_origin()
        if late:
            self._told = now
            self._on_bytes(self.received)

    def _note_origin(self) -> None:
        if not self._noted:
            self._staging.note_origin(self.key, self._origin)
            self._noted = True

    def end(self) -> None:
        """There is no more. Raises SizeMismatchError when what was received has not the size listed."""
        if self._part is None:
            self._part = self._staging.begin_part(self.key)
        self._check_size()

    def _check_size(self) -> None:
        if self._expected is None and self.received > self._most:
            raise SizeMismatchError(
                f"{self.key}: more than {self._most:,} bytes arrived, and the file source does not tell the size. Ask "
                "whoever runs the server why it does not; DCC_MAX_UNSIZED_BYTES sets the limit."
            )
        if self._expected is not None and self.received != self._expected:
            raise SizeMismatchError(
                f"{self.key}: {self.received:,} bytes arrived where {self._expected:,} were listed. The file is "
                "fetched anew; if this happens again, ask the centre whether it was still being uploaded."
            )
