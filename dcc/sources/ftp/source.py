"""Sources that speak FTP, plain (`ftp`) or with explicit TLS (`ftps`). Data connections are always passive."""

from __future__ import annotations

import contextlib
import ftplib
from collections.abc import Generator, Iterator
from dataclasses import replace

from dcc.errors import ConfigurationError, FileMissingError, FileNotReadableError, SourceError, SourceUnreachableError
from dcc.messages import Message, mark, message
from dcc.naming import Action, manifest_beside
from dcc.settings import Settings
from dcc.sources.access import parse_hostname, resolve_accesskey
from dcc.sources.base import ActionListing, Block, ListedFile, SourceAddress
from dcc.sources.ftp.session import FAILURES, FtpSession, describe, open_ftp_session, parse_list_line, parse_mlsd_line
from dcc.sources.listing import MAX_ENTRIES, Entry, EntryKind, too_many
from dcc.sources.platform_connection import PlatformConnection
from dcc.sources.remote_names import join_base, joined, printable, raw

_NOT_AVAILABLE = "550"
"""The reply for a file that is missing or may not be read (RFC 959)."""

_MAX_TIMES = 200
"""The most archives of a directory whose times are requested one by one, if a listing lacks them."""


class FtpConnection(PlatformConnection):
    """A logged-in FTP connection; see `Connection`. By `ftps` it begins TLS, and transfers are encrypted too.

    Its constructor raises SourceTimeoutError, SourceUnreachableError, CertificateRefusedError, LoginRefusedError;
    ConfigurationError for an invalid address or access key. After an interrupted transfer the state of the control
    connection is unknown: the next request makes a new one.
    """

    _failures = FAILURES

    def __init__(self, address: SourceAddress, settings: Settings) -> None:
        super().__init__(address, settings)
        self._address = address
        self._endpoint = parse_hostname(address.hostname, address.traits.usual_port)
        self._credential = resolve_accesskey(address.accesskey)
        if self._credential.private_key is not None:
            raise ConfigurationError("The access key is a private key, but FTP logs in by password. Give a password.")
        self._base = _wire(join_base(address.base_path))
        self._home = "/"
        self._session: FtpSession | None = None
        self._connected()

    def close(self) -> None:
        """Close the connection; see `Connection.close`."""
        if self._session is not None:
            self._session.abandon()
            self._session = None

    def _connected(self) -> FtpSession:
        if self._session is None:
            session = open_ftp_session(self._address, self._settings, self._endpoint, self._credential)
            self._session = session
            if not self._base.startswith("/"):
                with (
                    self._translated(message(mark("telling its login directory")), SourceUnreachableError),
                    contextlib.suppress(ftplib.error_perm, ftplib.error_reply),
                ):
                    self._home = session.pwd() or "/"
        return self._session

    def _path(self, *parts: str) -> str:
        base = self._base if self._base.startswith("/") else f"{self._home.rstrip('/')}/{self._base}"
        path = "/".join([base.rstrip("/"), *(_wire(part) for part in parts)])
        if any(character in path for character in "\r\n\0"):
            text = mark("FTP knows no names with line breaks. Ask the centre to rename it.")
            raise FileMissingError(text, source=self._label)
        return path

    def _shown(self, *parts: str) -> str:
        return _printable_path(self._path(*parts))

    def _prepare(self) -> None:
        self._connected()

    def _interrupt(self) -> None:
        if self._session is not None:
            self._session.interrupt()

    def _listing(self, action: Action) -> ActionListing:
        session, path = self._connected(), self._path(action)
        try:
            session.cwd(path)
        except ftplib.error_perm:
            # The same code means that it does not exist and that it may not be entered.
            if self._is_there(session, action):
                raise
            raise FileNotFoundError(path) from None
        return self._with_times(session, path, super()._listing(action))

    def _real(self, action: Action, folder: bytes) -> bytes:
        session = self._connected()
        session.cwd(_in(self._path(action), folder))
        return session.pwd().encode("latin-1")

    def _is_there(self, session: FtpSession, action: Action) -> bool:
        """Whether the base path has an action directory. Raises as ftplib."""
        session.cwd(self._path() or "/")
        found = False
        # To the listing's end, or its last reply would be taken for that to the next command.
        for count, entry in enumerate(self._listed(session), 1):
            found = found or entry.name == action.encode()
            if count > MAX_ENTRIES:
                raise too_many(self._label, self._shown() or "/", f"{MAX_ENTRIES:,} entries") from None
        return found

    def _entries(self, _action: Action, _folder: bytes) -> Iterator[Entry]:
        # The session has entered a folder to learn its path; links are followed after all of its entries are known.
        return self._listed(self._connected())

    def _listed(self, session: FtpSession) -> Iterator[Entry]:
        """The entries of the folder that the session has entered."""
        by_facts = "MLST" in session.features or "MLSD" in session.features
        session.use_type("A")
        for line in session.lines("MLSD" if by_facts else "LIST"):
            entry = parse_mlsd_line(line) if by_facts else parse_list_line(line)
            if entry is not None:
                yield entry

    def _follow(self, action: Action, folder: bytes, link: Entry) -> Entry | None:
        session, target = self._connected(), _in(self._path(action), joined(folder, link.name))
        size = session.size_of(target)
        if size is not None:
            return Entry(link.name, EntryKind.FILE, size)
        if self._extent.depth:
            with contextlib.suppress(ftplib.error_perm):
                session.cwd(target)
                return Entry(link.name, EntryKind.DIRECTORY)
        return None

    def _with_times(self, session: FtpSession, path: str, listing: ActionListing) -> ActionListing:
        """Request the times of archives and manifests, if the listing lacks them and it does not take too long."""
        without = [file for file in listing.zips if file.modified is None]
        requests = len(without) + sum(bool(file.manifest) for file in without)
        if "MDTM" not in session.features or not 0 < requests <= _MAX_TIMES:
            return listing

        def timed(file: ListedFile) -> ListedFile:
            known = replace(file, modified=session.time_of(f"{path}/{_wire(file.path)}"))
            if not file.manifest:
                return known
            manifest_time = session.time_of(f"{path}/{_wire(manifest_beside(file.path, file.manifest))}")
            return replace(known, manifest_version=f"{file.manifest_version} {manifest_time}")

        return replace(listing, zips=tuple(timed(file) if file.modified is None else file for file in listing.zips))

    def _blocks(self, action: Action, name: str, offset: int, size: int | None) -> Generator[Block, None, None]:
        path = self._path(action, name)
        session = self._connected()
        received = offset
        with self._sending(action, name):
            try:
                for block in session.blocks(path, offset):
                    yield block
                    received += len(block)
                    if size is not None and received > size:
                        self.close()
                        return
            except ftplib.error_perm as error:
                kind: type[SourceError] = FileMissingError
                text = mark("{path} is not there ({reason}). Check whether it was moved.")
                if received > offset or session.size_of(path) is not None:
                    if received > offset or not str(error).startswith(_NOT_AVAILABLE):
                        raise
                    kind = FileNotReadableError
                    text = mark(
                        "the server lists {path} and does not send it ({reason}). Ask the centre to correct the "
                        "permissions."
                    )
                raise kind(
                    text,
                    source=self._label,
                    path=_printable_path(path),
                    reason=self._describe(error),
                ) from error
            except (TimeoutError, EOFError):
                # During a long transfer firewalls forget the control connection, over which its end is reported.
                self.close()
                if received != size:
                    raise

    def _settle(self, error: BaseException) -> None:
        is_about_file = isinstance(
            error, FileMissingError | FileNotReadableError | ftplib.error_perm | ftplib.error_temp
        )
        if not is_about_file or str(error).startswith("421"):
            # Replies may be outstanding, so that the next one would be taken for another's.
            self.close()

    def _describe(self, error: BaseException) -> Message:
        return Message(describe(error, self._credential))


def _in(path: str, below: bytes) -> str:
    return f"{path}/{below.decode('latin-1')}"


def _wire(name: str) -> str:
    """A printable name or path as the session's text."""
    return raw(name).decode("latin-1")


def _printable_path(path: str) -> str:
    return printable(path.encode("latin-1"))
