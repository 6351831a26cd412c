"""Guards a connection of an installed package: what the package does wrong becomes an error of the source."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from dcc.errors import DccError, ListingFailedError, SourceError, SourceMisconfiguredError, TransferFailedError
from dcc.messages import Message, mark
from dcc.naming import Action
from dcc.runtime.installed_packages import error_of
from dcc.settings import Settings
from dcc.sources.base import ActionListing, Block, Connection, NotModified, SourceAddress, UpcomingFile, Validators
from dcc.sources.listing import leave_out
from dcc.sources.listing_watch import watch_listing

Opener = Callable[[SourceAddress, Settings], Connection]
Kind = TypeVar("Kind")

log = logging.getLogger(__name__)

_FAULT: Final = mark("the package {package} met a fault: {error}. Correct the package, or tell those who maintain it.")


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
