"""What the threads of a source tell about their transfers."""

from __future__ import annotations

from dataclasses import dataclass

from dcc.session.fetching.archive_transfer import ReceivedArchive, Transfer


@dataclass(frozen=True, slots=True)
class TransferStarted:
    """A transfer has begun."""

    transfer: Transfer


@dataclass(frozen=True, slots=True)
class TransferProgressed:
    """The bytes of a transfer received so far."""

    transfer: Transfer
    received: int


@dataclass(frozen=True, slots=True)
class ChecksumPublished:
    """The MD5 published beside the copy of a transfer."""

    transfer: Transfer
    md5: str


@dataclass(frozen=True, slots=True)
class TransferCompleted:
    """A transfer received its archive."""

    transfer: Transfer
    received: ReceivedArchive


@dataclass(frozen=True, slots=True)
class TransferFailed:
    """A transfer failed; `begun`: some of the archive had arrived."""

    transfer: Transfer
    error: Exception
    begun: bool = False


@dataclass(frozen=True, slots=True)
class TransferNotBegun:
    """The source was given up, a person paused it, or its window closed, before a transfer began."""

    transfer: Transfer


TransferEvent = (
    TransferStarted | TransferProgressed | ChecksumPublished | TransferCompleted | TransferFailed | TransferNotBegun
)
