"""Sources that speak SFTP."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import paramiko

from dcc.errors import ListingFailedError, SourceError, SourceUnreachableError
from dcc.messages import Message, mark, message
from dcc.naming import Action
from dcc.runtime.time_limits import time_limit
from dcc.settings import Settings
from dcc.sources.base import Block, SourceAddress, UpcomingFile
from dcc.sources.listing import Entry
from dcc.sources.md5_sidecar import MAX_SIDECAR_BYTES, sidecar
from dcc.sources.platform_connection import PlatformConnection
from dcc.sources.remote_names import join_base, joined, printable, raw
from dcc.sources.sftp.client import FilePart, FileReader
from dcc.sources.sftp.ssh import describe, open_ssh_connection


class SftpConnection(PlatformConnection):
    """A logged-in SFTP connection; see `Connection`.

    Its constructor raises HostKeyUnknownError or HostKeyChangedError before anything secret is sent; LoginRefusedError,
    SourceTimeoutError, SourceUnreachableError; ConfigurationError for an invalid address or access key.
    """

    looks_ahead = True
    _failures = (paramiko.SSHException, paramiko.SFTPError, EOFError, OSError, ValueError)

    def __init__(self, address: SourceAddress, settings: Settings) -> None:
        super().__init__(address, settings)
        self._base = join_base(address.base_path)
        self._connection = connection = open_ssh_connection(address, settings, self._label)
        try:
            with (
                self._translated(message(mark("opening an SFTP session")), SourceUnreachableError),
                time_limit(connection.login_seconds, connection.close),
            ):
                self._client = connection.open_sftp(settings.idle_timeout)
        except BaseException:
            self.close()
            raise
        self._files = FileReader(self._client)

    def announce(self, upcoming: Sequence[UpcomingFile]) -> None:
        """Announce the next requests; see `Connection.announce`."""
        parts = []
        for file in upcoming:
            if file.has_md5:
                parts.append(FilePart(self._path(file.action, sidecar(file.name)), 0, MAX_SIDECAR_BYTES))
            parts.append(FilePart(self._path(file.action, file.name), file.offset, file.size))
        self._files.announce(parts)

    def close(self) -> None:
        """Close the connection; see `Connection.close`."""
        self._connection.close()

    def _path(self, *parts: str) -> bytes:
        return raw(join_base(self._base, *parts))

    def _shown(self, *parts: str) -> str:
        return printable(self._path(*parts))

    def _require_base(self) -> None:
        self._client.stat(self._path() or b".")

    def _entries(self, action: Action, folder: bytes) -> Iterator[Entry]:
        return self._client.entries(joined(self._path(action), folder))

    def _real(self, action: Action, folder: bytes) -> bytes:
        return self._client.real_path(joined(self._path(action), folder))

    def _follow(self, action: Action, folder: bytes, link: Entry) -> Entry | None:
        try:
            target = self._client.stat(joined(self._path(action), folder, link.name))
        except TimeoutError:
            raise
        except OSError:
            return None
        return Entry(link.name, target.kind, target.size, target.modified)

    def _blocks(self, action: Action, name: str, offset: int, size: int | None) -> Generator[Block, None, None]:
        with self._sending(action, name):
            yield from self._files.blocks(FilePart(self._path(action, name), offset, size))

    def _describe(self, error: BaseException) -> Message:
        return Message(describe(error))

    def _failed(self, error: BaseException, doing: Message, failed: type[SourceError]) -> SourceError:
        told = isinstance(error, TimeoutError | FileNotFoundError | PermissionError)
        if told or self._connection.transport.is_active():
            return super()._failed(error, doing, failed)
        # A reader gets only the end of the data: paramiko's thread knows why.
        reason = self._describe(self._connection.transport.get_exception() or error)
        kind = SourceUnreachableError if failed is ListingFailedError else failed
        text = mark("the connection broke off while {doing} ({reason}). Try again.")
        return kind(text, source=self._label, doing=doing, reason=reason)
