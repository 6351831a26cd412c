"""Sources that speak FTP, plain (`ftp`) or with explicit TLS (`ftps`). Data connections are always passive."""

from __future__ import annotations

import contextlib
import ftplib
from collections.abc import Generator, Iterator
from dataclasses import replace

from dcc.errors import (
    ConfigurationError,
    FileMissingError,
    FileNotReadableError,
    ListingFailedError,
    SourceError,
    SourceTimeoutError,
    SourceUnreachableError,
    TransferFailedError,
)
from dcc.messages import Message, mark, message
from dcc.naming import Action, manifest_beside
from dcc.settings import Settings
from dcc.sources.access import USUAL_PORTS, parse_hostname, resolve_accesskey
from dcc.sources.base import (
    LISTING,
    SENDING,
    ActionListing,
    Block,
    BlockwiseConnection,
    ListedFile,
    SourceAddress,
    SourceProtocol,
)
from dcc.sources.ftp.session import FAILURES, FtpSession, describe, open_ftp_session, parse_list_line, parse_mlsd_line
from dcc.sources.listing import MAX_ENTRIES, Entry, EntryKind, SubfolderListing, action_listing, too_many
from dcc.sources.listing_watch import watch_listing
from dcc.sources.remote_names import join_base, printable, raw

FTP_PORT = USUAL_PORTS["ftp"]

_NOT_AVAILABLE = "550"
"""The reply for a file that is missing or may not be read (RFC 959)."""

_MAX_TIMES = 200
"""The most archives of a directory whose times are requested one by one, if a listing lacks them."""


class FtpConnection(BlockwiseConnection):
    """A logged-in FTP connection; see `Connection`. By `ftps` it begins TLS, and transfers are encrypted too.

    Its constructor raises SourceTimeoutError, SourceUnreachableError, CertificateRefusedError, LoginRefusedError;
    ConfigurationError for an invalid address or access key. After an interrupted transfer the state of the control
    connection is unknown: the next request makes a new one.
    """

    def __init__(self, address: SourceAddress, settings: Settings) -> None:
        self._address, self._settings = address, settings
        self._tls = address.protocol == SourceProtocol.FTPS
        self._label = address.label
        self._endpoint = parse_hostname(address.hostname, FTP_PORT)
        self._credential = resolve_accesskey(address.accesskey)
        if self._credential.private_key is not None:
            raise ConfigurationError("The access key is a private key, but FTP logs in by password. Give a password.")
        self._base = _wire(join_base(address.base_path))
        self._home = "/"
        self._session: FtpSession | None = None
        self._connected()

    def list_action(self, action: Action) -> ActionListing:
        """List one action directory; see `Connection.list_action`."""
        path = self._path(action)
        watch = watch_listing(self._label, self._settings.list_timeout)
        watch.require_time(_printable_path(path))
        session = self._connected()
        with (
            self._translated(message(LISTING, directory=_printable_path(path)), ListingFailedError),
            watch.directory(action, _printable_path(path), session.interrupt),
        ):
            if not self._enter(session, action):
                return ActionListing(action, missing=True)

            def entered(folder: bytes) -> bytes:
                session.cwd(_in(path, folder))
                return session.pwd().encode("latin-1")

            below = SubfolderListing(
                self._address.extent,
                # The session has entered a folder to learn its path; links are followed after all of its entries are
                # known.
                lambda _: self._entries(session),
                lambda folder, link: self._follow(session, _in(path, folder), link),
                entered,
            )
            entries = self._entries(session)
            listing = action_listing(
                self._label, action, entries, lambda link: self._follow(session, path, link), below
            )
            return self._with_times(session, path, listing)

    def close(self) -> None:
        """Close the connection; see `Connection.close`."""
        if self._session is not None:
            self._session.abandon()
            self._session = None

    def _connected(self) -> FtpSession:
        if self._session is None:
            session = open_ftp_session(self._address, self._settings, self._endpoint, self._credential, tls=self._tls)
            self._session = session
            if not self._base.startswith("/"):
                with (
                    self._translated(message(mark("telling its login directory")), SourceUnreachableError),
                    contextlib.suppress(ftplib.error_perm, ftplib.error_reply),
                ):
                    self._home = session.pwd() or "/"
        return self._session

    def _path(self, *parts: str) -> str:
        """Absolute path on the server, in the session's text."""
        base = self._base if self._base.startswith("/") else f"{self._home.rstrip('/')}/{self._base}"
        path = "/".join([base.rstrip("/"), *(_wire(part) for part in parts)])
        if any(character in path for character in "\r\n\0"):
            raise FileMissingError(
                mark("FTP knows no names with line breaks. Ask the centre to rename it."), source=self._label
            )
        return path

    def _enter(self, session: FtpSession, action: Action) -> bool:
        """Change into an action directory; False if it does not exist. Raises as ftplib."""
        try:
            session.cwd(self._path(action))
        except ftplib.error_perm:
            # The same code means that it does not exist and that it may not be entered.
            session.cwd(self._path() or "/")
            # To the listing's end, or its last reply would be taken for that to the next command.
            found = False
            for count, entry in enumerate(self._entries(session), 1):
                found = found or entry.name == action.encode()
                if count > MAX_ENTRIES:
                    raise too_many(
                        self._label, _printable_path(self._path() or "/"), f"{MAX_ENTRIES:,} entries"
                    ) from None
            if found:
                raise
            return False
        return True

    def _entries(self, session: FtpSession) -> Iterator[Entry]:
        """The entries of the present directory."""
        by_facts = "MLST" in session.features or "MLSD" in session.features
        session.use_type("A")
        for line in session.lines("MLSD" if by_facts else "LIST"):
            entry = parse_mlsd_line(line) if by_facts else parse_list_line(line)
            if entry is not None:
                yield entry

    def _follow(self, session: FtpSession, path: str, link: Entry) -> Entry | None:
        target = _in(path, link.name)
        size = session.size_of(target)
        if size is not None:
            return Entry(link.name, EntryKind.FILE, size)
        if self._address.extent.depth:
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
        with self._translated(message(SENDING, file=_printable_path(path)), TransferFailedError):
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
                    reason=Message(describe(error, self._credential)),
                ) from error
            except (TimeoutError, EOFError):
                # During a long transfer firewalls forget the control connection, over which its end is reported.
                self.close()
                if received != size:
                    raise

    @contextlib.contextmanager
    def _translated(self, doing: Message, failed: type[SourceError]) -> Iterator[None]:
        """Turn ftplib's exceptions into the platform's errors: `doing` is the request to the server."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, FileMissingError | FileNotReadableError | ftplib.error_perm | ftplib.error_temp):
                # Replies may be outstanding, so that the next one would be taken for another's.
                self.close()
            if isinstance(error, TimeoutError):
                raise SourceTimeoutError(
                    mark(
                        "the server stalled while {doing}. Ask whoever runs it what it is doing; "
                        "DCC_IDLE_TIMEOUT and DCC_LIST_TIMEOUT set the limits."
                    ),
                    source=self._label,
                    doing=doing,
                ) from error
            if isinstance(error, FAILURES):
                if str(error).startswith("421"):
                    self.close()
                raise failed(
                    mark("{doing} failed ({reason}). Ask whoever runs the server, or try again."),
                    source=self._label,
                    doing=doing,
                    reason=Message(describe(error, self._credential)),
                ) from error
            raise


def _in(path: str, below: bytes) -> str:
    """The path of an entry in a directory, in the session's text."""
    return f"{path}/{below.decode('latin-1')}"


def _wire(name: str) -> str:
    """A printable name or path as the session's text."""
    return raw(name).decode("latin-1")


def _printable_path(path: str) -> str:
    return printable(path.encode("latin-1"))
