"""Opens a connection to a source, of any protocol.

One of an installed package is guarded: what the package does wrong becomes an error of the source.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, Final, TypeVar

from dcc.errors import (
    ConfigurationError,
    DccError,
    ListingFailedError,
    SourceError,
    SourceMisconfiguredError,
    TransferFailedError,
)
from dcc.messages import Message, mark
from dcc.naming import Action
from dcc.runtime.installed_packages import SOURCES, added_protocols, error_of, load_added, package_of
from dcc.settings import Settings
from dcc.sources.base import (
    ActionListing,
    Block,
    Connection,
    NotModified,
    SourceAddress,
    SourceProtocol,
    UpcomingFile,
    Validators,
)
from dcc.sources.listing import leave_out
from dcc.sources.listing_watch import watch_listing

Opener = Callable[[SourceAddress, Settings], Connection]
Kind = TypeVar("Kind")

log = logging.getLogger(__name__)

_FAULT: Final = mark("the package {package} met a fault: {error}. Correct the package, or tell those who maintain it.")

OPENERS: Final[Mapping[str, tuple[str, str]]] = {
    SourceProtocol.SFTP: ("sftp.source", "SftpConnection"),
    SourceProtocol.FTP: ("ftp.source", "FtpConnection"),
    SourceProtocol.FTPS: ("ftp.source", "FtpConnection"),
    SourceProtocol.HTTP: ("http.source", "HttpConnection"),
    SourceProtocol.HTTPS: ("http.source", "HttpConnection"),
    SourceProtocol.FILE: ("folder", "LocalConnection"),
}
"""The module and class of each of the platform's protocols."""


def protocols() -> tuple[str, ...]:
    """The available protocols: the platform's, then those of installed packages."""
    return (*OPENERS, *(name for name in added_protocols() if name not in OPENERS))


def connect(address: SourceAddress, settings: Settings) -> Connection:
    """Connect to a source and log in, within the time limits of the settings.

    Raises only SourceError: SourceMisconfiguredError for a wrong address, access key or reference, and errors of the
    protocol's opener.
    """
    try:
        if address.protocol in OPENERS:
            module, name = OPENERS[address.protocol]
            # On first use: loading a protocol's library takes a tenth of a second.
            opener: Opener = getattr(import_module(f"dcc.sources.{module}"), name)
            return opener(address, settings)
        for added in load_added(SOURCES, address.protocol):
            return open_added(package_of(added) or added.__module__, added, address, settings)
    except ConfigurationError as error:
        raise SourceMisconfiguredError(str(error), source=address.label) from error
    text = mark(
        "nothing that is installed speaks the protocol {protocol}. Use one of {protocols}, or install the package that "
        "adds it."
    )
    known = {"protocol": address.protocol, "protocols": ", ".join(protocols())}
    raise SourceMisconfiguredError(text, source=address.label, **known)


def open_added(package: str, opener: Opener, address: SourceAddress, settings: Settings) -> Connection:
    """Open a connection with the opener of a package. Raises only SourceError."""
    with _faults(package, address.label, SourceMisconfiguredError):
        return AddedConnection(package, address, opener(address, settings), settings.list_timeout)


class AddedConnection(Connection):
    """Passes everything on to the connection of a package; see `Connection`.

    It leaves out archives as the source's patterns say, and ends a listing that takes longer than `list_timeout`.
    """

    def __init__(self, package: str, address: SourceAddress, connection: Connection, list_timeout: float) -> None:
        self._package, self._label, self._connection = package, address.label, connection
        self._extent, self._list_timeout = address.extent, list_timeout
        self._faults = partial(_faults, package, address.label)
        self.looks_ahead = connection.looks_ahead  # type: ignore[misc]

    def list_action(self, action: Action) -> ActionListing:
        """List one action directory."""
        watch = watch_listing(self._label, self._list_timeout)
        with self._faults(ListingFailedError), watch.directory(action, action, self.close):
            listing = _checked(self._connection.list_action(action), ActionListing, "list_action")
            return leave_out(listing, self._extent)

    def fetch(
        self,
        action: Action,
        name: str,
        sink: Callable[[Block], object],
        *,
        size: int | None,
        offset: int = 0,
        modified: int | None = None,
    ) -> None:
        """Pass the bytes of a file on to `sink`, whose own errors are not the package's."""
        of_sink: list[Exception] = []

        def watched(block: Block) -> None:
            _checked(block, (bytes, bytearray, memoryview), "fetch")
            try:
                sink(block)
            except Exception as error:
                of_sink.append(error)
                raise

        try:
            with self._faults(TransferFailedError):
                self._connection.fetch(action, name, watched, size=size, offset=offset, modified=modified)
        except TransferFailedError:
            if of_sink:
                raise of_sink[0] from None
            raise

    def read_md5(self, action: Action, name: str) -> str | None:
        """The published checksum of a file."""
        with self._faults(TransferFailedError):
            return _checked(self._connection.read_md5(action, name), (str, type(None)), "read_md5")

    def close(self) -> None:
        """Close the connection; a fault of the package in this costs nothing."""
        try:
            self._connection.close()
        except Exception as error:
            log.warning("%s: the package %s cannot close: %s", self._label, self._package, error)

    def announce(self, upcoming: Sequence[UpcomingFile]) -> None:
        """Announce the files that will be fetched next."""
        with self._faults(TransferFailedError):
            self._connection.announce(upcoming)

    def expect(self, known: Validators) -> None:
        """Let the next `fetch` raise NotModified."""
        with self._faults(TransferFailedError):
            self._connection.expect(known)

    def validators(self) -> Validators | None:
        """The validators of the file fetched last."""
        with self._faults(TransferFailedError):
            return self._connection.validators()


@contextmanager
def _faults(package: str, label: Message | str, kind: type[SourceError]) -> Iterator[None]:
    """Raise what a package raises as an error of a source, unless it is one already."""
    try:
        yield
    except (DccError, NotModified):
        raise
    except Exception as error:
        log.info("%s: the package %s met a fault", label, package, exc_info=error)
        raise kind(_FAULT, source=label, package=package, error=error_of(error).rstrip(".")) from error


def _checked(given: Kind, kind: Any, where: str) -> Kind:
    if not isinstance(given, kind):
        raise TypeError(f"{where} gave an object of the type {type(given).__name__}")
    return given
