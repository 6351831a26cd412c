"""What the platform's own connections share: errors and texts for what a server does wrong.

A subclass says how its protocol lists and sends; what its library raises becomes an error of the source.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import ClassVar, Final

from dcc.errors import (
    FileMissingError,
    FileNotReadableError,
    ListingFailedError,
    SourceError,
    SourceTimeoutError,
    TransferFailedError,
)
from dcc.messages import Message, mark, message
from dcc.naming import Action
from dcc.settings import Settings
from dcc.sources.base import ActionListing, BlockwiseConnection, SourceAddress
from dcc.sources.listing import Entry, folder_listing
from dcc.sources.listing_watch import ListingWatch, watch_listing


class PlatformConnection(BlockwiseConnection):
    """A connection by one of the platform's own protocols: what its library raises becomes an error of the source."""

    _failures: ClassVar[tuple[type[BaseException], ...]]
    """What the library raises if a server breaks off, refuses, or answers with rubbish."""

    def __init__(self, address: SourceAddress, settings: Settings) -> None:
        self._label, self._extent, self._settings = address.label, address.extent, settings

    @abstractmethod
    def _shown(self, *parts: str) -> str:
        """The path of something below the base path, for messages."""

    @abstractmethod
    def _entries(self, action: Action, folder: bytes) -> Iterator[Entry]:
        """The entries of a folder, by its path below an action directory. Raises FileNotFoundError if it is missing."""

    def _follow(self, action: Action, folder: bytes, link: Entry) -> Entry | None:  # noqa: ARG002
        """The target of a link, under the link's name; None if it is missing or may not be read."""
        return None

    def _real(self, action: Action, folder: bytes) -> bytes | None:  # noqa: ARG002
        """The path of a folder without links; None if unknown."""
        return None

    @abstractmethod
    def _describe(self, error: BaseException) -> Message:
        """One of the failures for a message."""

    def _require_base(self) -> None:
        """Raise unless the base path exists."""

    def _prepare(self) -> None:
        """Connect again, if that is needed."""

    def _interrupt(self) -> None:
        """Make a wait of another thread fail."""
        self.close()

    def list_action(self, action: Action) -> ActionListing:
        """List one action directory; see `Connection.list_action`."""
        shown, watch = self._shown(action), watch_listing(self._label, self._settings.list_timeout)
        watch.require_time(shown)
        self._prepare()
        with self._translated(message(LISTING, directory=shown), ListingFailedError):
            with watch.directory(action, shown, self._interrupt):
                try:
                    listing = self._listing(action)
                except FileNotFoundError:
                    self._require_base()
                    return ActionListing(action, missing=True)
            return self._completed(listing, watch)

    def _listing(self, action: Action) -> ActionListing:
        """The listing of an action directory. Raises FileNotFoundError if it is missing."""
        return folder_listing(
            self._label,
            action,
            self._extent,
            partial(self._entries, action),
            partial(self._follow, action),
            partial(self._real, action),
        )

    def _completed(self, listing: ActionListing, watch: ListingWatch) -> ActionListing:  # noqa: ARG002
        """The listing with what takes further requests."""
        return listing

    @contextmanager
    def _sending(self, action: Action, name: str) -> Iterator[None]:
        with self._translated(message(SENDING, file=self._shown(action, name)), TransferFailedError):
            yield

    @contextmanager
    def _translated(self, doing: Message, failed: type[SourceError]) -> Iterator[None]:
        """Turn failures into the platform's errors: `doing` is the request to the server."""
        try:
            yield
        except BaseException as error:
            self._settle(error)
            if isinstance(error, (TimeoutError, *self._failures)):
                raise self._failed(error, doing, failed) from error
            raise

    def _settle(self, error: BaseException) -> None:
        """Close what cannot be used after an error."""

    def _failed(self, error: BaseException, doing: Message, failed: type[SourceError]) -> SourceError:
        if isinstance(error, TimeoutError):
            return SourceTimeoutError(STALLED, source=self._label, doing=doing)
        is_sent, kind = failed is TransferFailedError, failed
        text = mark("{doing} failed ({reason}). Ask whoever runs the server, or try again.")
        if isinstance(error, FileNotFoundError) or (is_sent and isinstance(error, NotADirectoryError)):
            kind = FileMissingError if is_sent else failed
            text = mark("{doing} failed: it is not there. Check the base path, and whether it was moved.")
        elif isinstance(error, PermissionError):
            kind, text = (FileNotReadableError if is_sent else failed), NOT_READABLE
        return kind(text, source=self._label, doing=doing, reason=self._describe(error))


LISTING: Final = mark("listing {directory}")
SENDING: Final = mark("sending {file}")
STALLED: Final = mark(
    "the server stalled while {doing}. Ask whoever runs it what it is doing; DCC_IDLE_TIMEOUT, DCC_LIST_TIMEOUT and "
    "DCC_LOGIN_TIMEOUT set the limits."
)
NOT_READABLE: Final = mark(
    "{doing} failed: this user may not read it ({reason}). Ask the centre to correct the permissions."
)
LOGIN_REFUSED: Final = mark(
    "the server refused the login of '{username}' ({reason}). Check the user name and password."
)

ANSWERS: Final = (
    mark("the server closed the connection"),
    mark("a packet was changed on its way"),
    mark("no answer in time"),
    mark("the SSH agent holds no key"),
    mark("no SSH agent is running"),
    mark("no valid host name"),
    mark("its greeting"),
    mark("the TLS handshake"),
    mark("the login"),
    mark("the protection of transfers"),
    mark("Check that the server offers explicit TLS."),
    mark("Try again later."),
    mark("Connection refused"),
    mark("Connection reset by peer"),
    mark("Broken pipe"),
    mark("No route to host"),
    mark("Network is unreachable"),
    mark("Too many open files"),
    mark("Permission denied"),
    mark("No such file or directory"),
    mark("Input/output error"),
)
"""Known reasons by their words, for catalogues; others stay as they are."""
