"""The queue of a source's transfers, which its threads share."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class TransferQueue(Generic[T]):
    """A queue for `workers` threads, numbered from 0; `size_of` returns the bytes of an item, None if unknown.

    Items may be reserved for a thread, so that its connection can request them ahead. An idle thread takes another's
    reserved items anyway: a transfer that hardly moves delays no other.
    """

    def __init__(self, workers: int, size_of: Callable[[T], int | None]) -> None:
        self._size_of = size_of
        self._waiting: deque[T] = deque()
        self._kept: list[deque[T]] = [deque() for _ in range(workers)]
        self._first: deque[T] = deque()
        self._goes_first: Callable[[T], bool] = lambda _item: False
        self._stopped = False
        self._changed = threading.Condition()

    def put(self, item: T) -> None:
        """Add an item; first in, first out, but for those that go before all others."""
        with self._changed:
            (self._first if self._goes_first(item) else self._waiting).append(item)
            self._changed.notify()

    def put_first(self, is_wanted: Callable[[T], bool]) -> None:
        """Let items go before all others, reserved or not, and those that are put later too."""
        with self._changed:
            self._goes_first = is_wanted
            for items in (*self._kept, self._waiting):
                if wanted := [item for item in items if is_wanted(item)]:
                    self._first.extend(wanted)
                    others = [item for item in items if not is_wanted(item)]
                    items.clear()
                    items.extend(others)

    def put_back(self, item: T) -> None:
        """Let another thread take an item before all others."""
        with self._changed:
            self._waiting.appendleft(item)
            self._changed.notify()

    def stop(self) -> None:
        """Let nobody take anything more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def take(self, worker: int, patience: float | None = None) -> T | None:
        """Wait for a thread's next item: one to go first, reserved for it, free, or reserved for another.

        None at the end. Raises TimeoutError after the seconds of `patience`.
        """
        with self._changed:
            while not self._stopped:
                for items in (self._first, self._kept[worker], self._waiting):
                    if items:
                        return items.popleft()
                longest = max(self._kept, key=len)
                if longest:
                    return longest.pop()
                if not self._changed.wait(patience):
                    raise TimeoutError
            return None

    def keep(self, worker: int, limit: int, max_bytes: int) -> Sequence[T]:
        """Reserve items for a thread, up to `limit` and `max_bytes`, and no more than its share.

        Returns all that are reserved for it, in order; nothing while it has still half of its share.
        """
        with self._changed:
            kept = self._kept[worker]
            if len(kept) > limit // 2:
                return ()
            share = len(self._waiting) // len(self._kept)
            room = max_bytes - sum(self._size_of(item) or 0 for item in kept)
            added = 0
            while added < share and len(kept) < limit and room > 0:
                size = self._size_of(self._waiting[0])
                if size is None:
                    break
                kept.append(self._waiting.popleft())
                room -= size
                added += 1
            return tuple(kept) if added else ()
