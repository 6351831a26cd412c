"""Copies of archives in the archive store: their states, and the replicas that the settings name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from dcc.settings import Settings
from dcc.settings.store import NamedReplica, parse_replicas


class CopyState(StrEnum):
    """What is known of a copy: still to be made, as it was when last checked, with other bytes, or gone."""

    PENDING = "pending"
    GOOD = "good"
    BAD = "bad"
    MISSING = "missing"


class Copy(NamedTuple):
    """The state of a copy, and why it is not good."""

    state: CopyState
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class StoredCopies:
    """An archive that was put into the store: its copies by replica. `is_stored`: every required replica has it."""

    sha256: str
    size_bytes: int
    copies: Mapping[str, Copy]
    is_stored: bool


def default_replica(settings: Settings) -> Path:
    """The directory of the only replica if none is named."""
    return settings.home / "archive"


def named_replicas(settings: Settings) -> list[NamedReplica]:
    """The replicas that the settings name, or the only one by default."""
    return parse_replicas(settings.archive_replicas or str(default_replica(settings)))
