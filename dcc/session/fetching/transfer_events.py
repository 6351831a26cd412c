"""What the threads of a source tell about their transfers."""

from __future__ import annotations

from dataclasses import dataclass

from dcc.session.fetching.archive_transfer import ReceivedArchive, Transfer


@dataclass(frozen=True)
class TransferEvent:
    """Something that happened to a transfer."""

    transfer: Transfer


class TransferStarted(TransferEvent):
    """A transfer has begun."""


@dataclass(frozen=True)
class TransferProgressed(TransferEvent):
    """The bytes of a transfer received so far."""

    received: int


@dataclass(frozen=True)
class ChecksumPublished(TransferEvent):
    """The MD5 published beside the copy of a transfer."""

    md5: str


@dataclass(frozen=True)
class TransferCompleted(TransferEvent):
    """A transfer received its archive."""

    received: ReceivedArchive


@dataclass(frozen=True)
class TransferFailed(TransferEvent):
    """A transfer failed; `begun`: some of the archive had arrived."""

    error: Exception
    begun: bool = False


class TransferNotBegun(TransferEvent):
    """The source was given up, a person paused it, or its window closed, before a transfer began."""
