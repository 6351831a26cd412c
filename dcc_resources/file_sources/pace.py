"""A lower bound for the speed of a transfer, and an upper one for its time: a server may trickle without end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

from dcc_resources.settings import Settings


@dataclass(frozen=True, slots=True)
class Pace:
    """At least `slowest` bytes a second over every `over` seconds, and no more than `longest` seconds in all."""

    slowest: int = 0
    over: float = 300.0
    longest: float = 24 * 3600.0

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """That of an installation."""
        return cls(slowest=settings.slowest_download, longest=settings.download_timeout)

    @contextlib.contextmanager
    def kept(self, received: Callable[[], int], close: Callable[[], object]) -> Iterator[None]:
        """Watch what is done within; `received` tells the bytes so far.

        Where the pace is not kept, `close`, called from another thread, must end it. Raises TimeoutError then, with
        the reason.
        """
        done = threading.Event()
        reasons: list[str] = []

        def watch() -> None:
            deadline = time.monotonic() + self.longest
            before = received()
            while not done.wait(max(min(self.over, deadline - time.monotonic()), 0)):
                count = received()
                if time.monotonic() >= deadline:
                    reasons.append(
                        f"it was not done within {self.longest:g} seconds; DCC_DOWNLOAD_TIMEOUT sets the limit"
                    )
                elif count - before < self.slowest * self.over:
                    few = f"{count - before:,} bytes arrived in {self.over:g} seconds"
                    reasons.append(f"{few}; DCC_SLOWEST_DOWNLOAD sets the limit")
                if reasons:
                    close()
                    return
                before = count

        watcher = threading.Thread(target=watch, name="pace", daemon=True)
        watcher.start()
        try:
            yield
        except Exception as error:
            if reasons:
                raise TimeoutError(reasons[0]) from error
            raise
        finally:
            done.set()
            watcher.join(1)
        if reasons:
            raise TimeoutError(reasons[0])
