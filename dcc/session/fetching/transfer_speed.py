"""Ends transfers that are too slow or take too long: a server may trickle without end."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Self

from dcc.messages import count_of
from dcc.runtime.time_limits import watchdog
from dcc.settings import Settings


@dataclass(frozen=True, slots=True)
class SpeedLimits:
    """At least `slowest` bytes a second over every `over` seconds, and no more than `longest` seconds in all."""

    slowest: int = 0
    over: float = 300.0
    longest: float = 24 * 3600.0

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The limits of the settings."""
        return cls(slowest=settings.min_download_speed, longest=settings.download_timeout)

    def watch(self, received: Callable[[], int], close: Callable[[], object]) -> AbstractContextManager[None]:
        """Watch a block; `received` returns the bytes so far. See `watchdog` for `close`, and for what is raised."""
        deadline = time.monotonic() + self.longest
        before: int | None = None

        def judge(now: float) -> str | float:
            nonlocal before
            count, earlier = received(), before
            before = count
            if now >= deadline:
                return f"it was not done within {count_of(self.longest, 'second')}; DCC_DOWNLOAD_TIMEOUT sets the limit"
            if earlier is not None and count - earlier < self.slowest * self.over:
                few = f"{count_of(count - earlier, 'byte')} arrived in {count_of(self.over, 'second')}"
                return f"{few}; DCC_MIN_DOWNLOAD_SPEED sets the limit"
            return min(now + self.over, deadline)

        return watchdog(judge, close)
