"""What waits to be fetched from one file source, shared out among the threads that fetch from it.

A thread may have some of it kept for itself, so that its connection can ask for it ahead. What is kept so is fetched by
another thread all the same when that has nothing else to do: a transfer that hardly moves holds up no other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class TransferQueue(Generic[T]):
    """A queue for `workers` threads, numbered from 0; `size_of` tells the bytes of an item, None where unknown."""

    def __init__(self, workers: int, size_of: Callable[[T], int | None]) -> None:
        self._size_of = size_of
        self._waiting: deque[T] = deque()
        self._spare: deque[T] = deque()
        self._kept: list[deque[T]] = [deque() for _ in range(workers)]
        self._stopped = False
        self._changed = threading.Condition()

    def put(self, item: T) -> None:
        """Add an item; what was added first is taken first."""
        with self._changed:
            self._waiting.append(item)
            self._changed.notify()

    def put_back(self, item: T) -> None:
        """Let another thread take an item before all that waits."""
        with self._changed:
            self._waiting.appendleft(item)
            self._changed.notify()

    def put_spare(self, item: T) -> None:
        """Add an item that is taken only by a thread that would have nothing to do."""
        with self._changed:
            self._spare.append(item)
            self._changed.notify()

    def stop(self) -> None:
        """Let nobody take anything more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def take(self, worker: int, patience: float | None = None) -> T | None:
        """Wait for the next item of a thread: one kept for it, or that waits, or kept for another, or spare.

        None at the end. Raises TimeoutError after the seconds of `patience`.
        """
        with self._changed:
            while not self._stopped:
                for items in (self._kept[worker], self._waiting):
                    if items:
                        return items.popleft()
                longest = max(self._kept, key=len)
                if longest:
                    return longest.pop()
                if self._spare:
                    return self._spare.popleft()
                if not self._changed.wait(patience):
                    raise TimeoutError
            return None

    def keep(self, worker: int, most: int, most_bytes: int) -> Sequence[T]:
        """Keep items for a thread, up to `most` and `most_bytes`, and no more than its share of what waits.

        Returns all that are kept for it, in order; nothing while it has still half of what it may have.
        """
        with self._changed:
            kept = self._kept[worker]
            if len(kept) > most // 2:
                return ()
            share = len(self._waiting) // len(self._kept)
            room = most_bytes - sum(self._size_of(item) or 0 for item in kept)
            added = 0
            while added < share and len(kept) < most and room > 0:
                size = self._size_of(self._waiting[0])
                if size is None:
                    break
                kept.append(self._waiting.popleft())
                room -= size
                added += 1
            return tuple(kept) if added else ()
