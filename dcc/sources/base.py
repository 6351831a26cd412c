"""What every file source can do, whatever its protocol: one small interface, `Connection`.

A `Connection` is used by one thread at a time. Opening, listing and fetching obey the time limits of the settings
and raise only SourceError (or DiskFullError and the caller's own errors out of `sink`). `BlockwiseConnection` has what
protocols that read files in blocks share.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase
from itertools import accumulate
from types import TracebackType
from typing import ClassVar, Final, Protocol, Self, TypeAlias

from pydantic import SecretStr

from dcc.errors import FileMissingError
from dcc.messages import Message, mark, message
from dcc.naming import Action
from dcc.sources.crawl_policy import Windows
from dcc.sources.md5_sidecar import MAX_SIDECAR_BYTES, parse_md5, sidecar
from dcc.sources.protocols import ProtocolTraits, traits_of
from dcc.sources.remote_names import path_below
from dcc.vocabulary import DeltaStrategy

Block: TypeAlias = bytes | bytearray | memoryview
"""Bytes of a file, valid only until the call that receives them returns: the memory may be reused then."""


LONGEST_FOLDER: Final = 1_000
"""The longest path of a folder, below an action directory, that is listed."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Which archives below an action directory are listed.

    Folders are listed `depth` levels deep, 0: none. With `include`, only archives that match one of its patterns are
    listed; archives that match one of `exclude` are not, nor are folders that match completely. Patterns are of
    `fnmatch`, on the path below the action directory (`2024/*`), and `*` matches `/` too.
    """

    depth: int = 0
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether exactly the archives in the action directory itself are listed."""
        return self == Extent()

    def takes(self, path: str) -> bool:
        """Whether an archive with this path is listed."""
        if self.include and not any(fnmatchcase(path, pattern) for pattern in self.include):
            return False
        return not any(fnmatchcase(path, pattern) for pattern in self.exclude)

    def enters(self, folder: str) -> bool:
        """Whether a folder with this path is listed."""
        reached = folder.count("/") < self.depth and len(folder) <= LONGEST_FOLDER
        return reached and not any(fnmatchcase(f"{folder}/", pattern) for pattern in self.exclude)

    def covers(self, folder: str, name: str) -> bool:
        """Whether an archive of that name in a folder, empty for the action directory, is listed."""
        around = accumulate(folder.split("/"), "{}/{}".format) if folder else ()
        return all(map(self.enters, around)) and self.takes(f"{folder}/{name}" if folder else name)


PLAIN: Final = Extent()


def label_of(number: int, centre: str, protocol: str, hostname: str) -> Message:
    """A source's name in messages: `file source 3 (H, sftp://host:port)`; a new one has no number yet, but 0."""
    known = {"centre": centre, "address": f"{protocol}://{hostname}"}
    if not number:
        return message(mark("new file source ({centre}, {address})"), **known)
    return message(mark("file source {number} ({centre}, {address})"), number=str(number), **known)


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """The address and credentials of a source; a row of `file_source`, ready to use.

    `protocol` is a SourceProtocol or one of an installed package. `hostname` may be `host`, `host:port` or
    `[ipv6]:port`. `accesskey` is a password, the path of a private key, `env:NAME` or `file:PATH`; its value never
    shows in a repr. `host_keys` are the pinned SSH host keys, each as `<type> <base64>`. `tls_authorities` are the
    certificates, in PEM, of authorities that replace the system's; `tls_fingerprints` those of the server's own
    certificate, one of which it must show. `delta`: which differences of its listings are recorded; `extent`: which
    archives are listed; `windows`: when downloads may begin, None for always.
    """

    id: int
    centre: str
    protocol: str
    hostname: str
    username: str
    accesskey: SecretStr
    base_path: str
    host_keys: tuple[str, ...] = ()
    tls_authorities: tuple[str, ...] = ()
    tls_fingerprints: tuple[str, ...] = ()
    delta: DeltaStrategy = DeltaStrategy.ADDITIVE
    extent: Extent = PLAIN
    windows: Windows | None = None

    @property
    def label(self) -> Message:
        """The source's name in messages."""
        return label_of(self.id, self.centre, self.protocol, self.hostname)

    @property
    def traits(self) -> ProtocolTraits:
        """The traits of its protocol."""
        return traits_of(self.protocol)


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One archive in an action directory, or in a folder below it.

    `size_bytes` and `modified` (whole seconds since 1970, UTC) are None if the server does not list them. `has_md5`:
    there is a file `<name>.md5` beside it. `name` is printable text: bytes that are not UTF-8 and control characters
    are `\\xNN` escapes. `folder` is the path of its folder below the action directory, escaped likewise; empty for the
    action directory itself. `manifest` is the format of the manifest beside it, empty without one, and
    `manifest_version` that one's size and time, empty if the server does not list them.
    """

    name: str
    size_bytes: int | None
    modified: int | None
    has_md5: bool = False
    folder: str = ""
    manifest: str = ""
    manifest_version: str = ""

    @property
    def path(self) -> str:
        """Its path below the action directory, for fetching it."""
        return path_below(self.folder, self.name)


@dataclass(frozen=True, slots=True)
class DuplicateEntry:
    """Something that was found at two paths below an action directory; the one `taken` counts.

    `is_folder`: a folder that was also reached through a link, perhaps inside itself, and not listed again. Otherwise
    two archives of one name.
    """

    taken: str
    other: str
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class ActionListing:
    """The listing of one of the three action directories.

    `missing`: the directory does not exist, which is no fault. `zips` are the archives, by name. `ignored` counts
    everything else (sub-directories, links to directories, other names); `ignored_examples` are up to 20 of their
    names, each with the reason: `("notes.txt", "not an archive")`. `.md5` files beside an archive are neither.
    `listed_twice` are up to 20 archives and folders that were found at two paths.
    """

    action: Action
    zips: tuple[ListedFile, ...] = ()
    missing: bool = False
    ignored: int = 0
    ignored_examples: tuple[tuple[str, str], ...] = field(default=())
    listed_twice: tuple[DuplicateEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class UpcomingFile:
    """A file that will be fetched, from `offset` on; with `has_md5`, its checksum will be read before it."""

    action: Action
    name: str
    size: int | None
    offset: int
    has_md5: bool


@dataclass(frozen=True, slots=True)
class Validators:
    """An HTTP server's tag and time of a file, with which it can tell whether the file has changed (RFC 9110)."""

    etag: str | None
    last_modified: str | None

    @property
    def modified(self) -> int | None:
        """The file's time, in seconds since 1970 (UTC)."""
        return None if self.last_modified is None else int(parsedate_to_datetime(self.last_modified).timestamp())


class NotModified(Exception):  # noqa: N818 - not an error: what the server has is known
    """The file is unchanged, and nothing of it was sent."""


class Connection(Protocol):
    """A logged-in connection to a source. A context manager that closes it.

    A protocol need not know what follows `close`: unchanged files are then sent again, and each file is waited for.
    """

    @abstractmethod
    def list_action(self, action: Action) -> ActionListing:
        """List one action directory. Raises ListingFailedError, SourceTimeoutError, SourceUnreachableError."""
        ...

    @abstractmethod
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
        """Pass the bytes of a file from `offset` on to `sink`, in order, in blocks of at most 1 MiB.

        `name` is the archive's path below the action directory, here and elsewhere (`ListedFile.path`). A block is any
        bytes-like object whose items are bytes; `sink` keeps none, because its memory may be reused. `size` is the
        listed size, which saves a request; `modified` the listed time, which some protocols make a condition of the
        transfer. Never passes more than `size - offset` bytes plus one block (a server may send without end). Raises
        FileMissingError, TransferFailedError, SourceTimeoutError.
        """
        ...

    @abstractmethod
    def read_md5(self, action: Action, name: str) -> str | None:
        """The checksum (32 lower-case hexadecimal digits) in `<name>.md5`; None if there is no such file.

        Reads `md5sum`'s and BSD's format, at most 4 KiB. Raises BadChecksumFileError if there is no checksum in it, and
        as `fetch`.
        """
        ...

    @abstractmethod
    def close(self) -> None:
        """Close the connection; never raises and never waits longer than a second."""
        ...

    looks_ahead: ClassVar[bool] = False
    """Whether files may follow each other without a wait between them, if they are announced."""

    def announce(self, upcoming: Sequence[UpcomingFile]) -> None:  # noqa: ARG002 - for protocols that look ahead
        """Announce the files that will be fetched next, in this order, replacing earlier announcements.

        Nothing is sent for it before the next `fetch`, and nothing raised: errors are raised when a file is fetched.
        Memory for early data is bounded, and fetching in another way only costs time.
        """
        return

    def expect(self, known: Validators) -> None:  # noqa: ARG002 - for protocols that know conditions
        """Let the next `fetch` raise NotModified if the file still has these validators."""
        return

    def validators(self) -> Validators | None:
        """The validators of the file fetched last; None without reliable ones."""
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockwiseConnection(Connection):
    """A connection by a protocol that cannot make a file's listed time a condition of its transfer."""

    _label: Message | str

    @abstractmethod
    def _blocks(self, action: Action, name: str, offset: int, size: int | None) -> Generator[Block, None, None]:
        """The bytes of a file from `offset` on, up to the block that exceeds `size`. Raises as `Connection.fetch`."""

    def fetch(
        self,
        action: Action,
        name: str,
        sink: Callable[[Block], object],
        *,
        size: int | None,
        offset: int = 0,
        modified: int | None = None,  # noqa: ARG002 - the protocol cannot make it a condition
    ) -> None:
        """Pass the bytes of a file on to `sink`; see `Connection.fetch`."""
        # Closed at once if `sink` fails: later it would close what the next transfer is using.
        with closing(self._blocks(action, name, offset, size)) as blocks:
            for block in blocks:
                sink(block)

    def read_md5(self, action: Action, name: str) -> str | None:
        """The checksum published beside an archive; see `Connection.read_md5`."""
        content = bytearray()
        try:
            with closing(self._blocks(action, sidecar(name), 0, MAX_SIDECAR_BYTES)) as blocks:
                for block in blocks:
                    content += block
        except FileMissingError:
            return None
        return parse_md5(bytes(content), name, self._label)
