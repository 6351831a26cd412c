"""Sources that speak SFTP."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Generator, Iterator, Sequence

import paramiko

from dcc.errors import (
    FileMissingError,
    FileNotReadableError,
    ListingFailedError,
    SourceError,
    SourceTimeoutError,
    SourceUnreachableError,
    TransferFailedError,
)
from dcc.messages import Message, mark, message
from dcc.naming import Action
from dcc.runtime.time_limits import time_limit
from dcc.settings import Settings
from dcc.sources.base import (
    LISTING,
    MAX_SIDECAR_BYTES,
    SENDING,
    ActionListing,
    Block,
    BlockwiseConnection,
    SourceAddress,
    UpcomingFile,
    sidecar,
)
from dcc.sources.listing import Entry, EntryKind, SubfolderListing, action_listing
from dcc.sources.listing_watch import watch_listing
from dcc.sources.remote_names import join_base, printable, raw
from dcc.sources.sftp.client import FilePart, FileReader
from dcc.sources.sftp.connection import describe, open_ssh_connection

# Exceptions of paramiko if a server breaks off, refuses, or answers with rubbish.
_FAILURES = (paramiko.SSHException, paramiko.SFTPError, EOFError, OSError, ValueError)


class SftpConnection(BlockwiseConnection):
    """A logged-in SFTP connection; see `Connection`.

    Its constructor raises HostKeyUnknownError or HostKeyChangedError before anything secret is sent; LoginRefusedError,
    SourceTimeoutError, SourceUnreachableError; ConfigurationError for an invalid address or access key.
    """

    looks_ahead = True

    def __init__(self, address: SourceAddress, settings: Settings) -> None:
        self._label = address.label
        self._base, self._extent = join_base(address.base_path), address.extent
        self._list_timeout = settings.list_timeout
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

    def list_action(self, action: Action) -> ActionListing:
        """List one action directory; see `Connection.list_action`."""
        path = self._path(action)
        watch = watch_listing(self._label, self._list_timeout)
        with (
            self._translated(message(LISTING, directory=printable(path)), ListingFailedError),
            watch.directory(action, printable(path), self._connection.close),
        ):
            try:
                return action_listing(
                    self._label,
                    action,
                    self._entries(path),
                    lambda link: self._follow(path, link),
                    SubfolderListing(
                        self._extent,
                        lambda folder: self._entries(path + b"/" + folder),
                        lambda folder, link: self._follow(path + b"/" + folder, link),
                        lambda folder: self._client.real_path(path + b"/" + folder),
                    ),
                )
            except FileNotFoundError:
                self._client.stat(self._path() or b".")
                return ActionListing(action, missing=True)

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

    def _entries(self, path: bytes) -> Iterator[Entry]:
        for name, mode, size, modified in self._client.entries(path):
            yield Entry(name, _kind(mode), size, modified)

    def _follow(self, directory: bytes, link: Entry) -> Entry | None:
        try:
            target = self._client.stat(directory + b"/" + link.name)
        except TimeoutError:
            raise
        except OSError:
            return None
        return Entry(link.name, _kind(target.mode), target.size, target.modified)

    def _blocks(self, action: Action, name: str, offset: int, size: int | None) -> Generator[Block, None, None]:
        path = self._path(action, name)
        with self._translated(message(SENDING, file=printable(path)), TransferFailedError, missing=FileMissingError):
            yield from self._files.blocks(FilePart(path, offset, size))

    @contextlib.contextmanager
    def _translated(
        self, doing: Message, failed: type[SourceError], missing: type[SourceError] | None = None
    ) -> Iterator[None]:
        """Turn paramiko's exceptions into the platform's errors: `doing` is the request to the server."""
        try:
            yield
        except TimeoutError as error:
            raise SourceTimeoutError(
                mark(
                    "the server stalled while {doing} ({error}). Ask whoever runs it what it is doing; "
                    "DCC_IDLE_TIMEOUT, DCC_LIST_TIMEOUT and DCC_LOGIN_TIMEOUT set the limits."
                ),
                source=self._label,
                doing=doing,
                error=Message(str(error) or "no answer in time"),
            ) from error
        except FileNotFoundError as error:
            text = mark("{doing} failed: it is not there. Check the base path, and whether it was moved.")
            raise (missing or failed)(text, source=self._label, doing=doing) from error
        except PermissionError as error:
            text = mark(
                "{doing} failed: the server does not let this user read it. Ask the centre to correct the permissions."
            )
            kind = FileNotReadableError if failed is TransferFailedError else failed
            raise kind(text, source=self._label, doing=doing) from error
        except _FAILURES as error:
            cause: Exception = error
            text = mark("{doing} failed ({reason}). Ask whoever runs the server, or try again.")
            if not self._connection.transport.is_active():
                failed = SourceUnreachableError if failed is ListingFailedError else failed
                text = mark("the connection broke off while {doing} ({reason}). Try again.")
                # A reader gets only the end of the data: paramiko's thread knows why.
                cause = self._connection.transport.get_exception() or error
            raise failed(text, source=self._label, doing=doing, reason=Message(describe(cause))) from error


def _kind(mode: int | None) -> EntryKind:
    """The kind of an entry; without one it is a file."""
    if mode is None or stat.S_ISREG(mode) or not stat.S_IFMT(mode):
        return EntryKind.FILE
    if stat.S_ISDIR(mode):
        return EntryKind.DIRECTORY
    return EntryKind.LINK if stat.S_ISLNK(mode) else EntryKind.OTHER
