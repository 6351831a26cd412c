"""Turns at the connection to a server, between the thread that waits for data and paramiko's.

Data that one thread takes off the connection and another waits for cost an awakening each time, and two threads that
contend for Python's lock. So who waits for data reads; what turns up that is for paramiko is handed over to its thread,
which reads by itself only while keys are changed, and while nobody else does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import paramiko

Handed: TypeAlias = "tuple[int, paramiko.Message] | Exception"
"""What paramiko's thread is to go on with: a message and its type, or what ended the connection."""

_PATIENCE: Final = 0.1


class Turns:
    """Whose turn it is. `changing_keys`: what arrives depends on what paramiko's thread does with each message."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._offered = False
        self._reading = False
        self._handed: Handed | None = None
        self._count = self._seen = 0
        self._changing_keys = False

    def claim(self, enough: Callable[[], bool], deadline: float) -> bool:
        """Take the turn, for the thread that waits for data; False when there is `enough` without it.

        Raises TimeoutError at the deadline (of `time.monotonic()`). After True, `give_back` must be called.
        """
        with self._condition:
            while not enough():
                if self._offered and self._handed is None and not self._changing_keys:
                    self._reading = True
                    self._count += 1
                    return True
                if time.monotonic() > deadline:
                    raise TimeoutError
                self._condition.wait(_PATIENCE)
        return False

    def give_back(self, handed: Handed | None) -> None:
        """End the turn, and have paramiko's thread go on with what turned up. It is done with it at the next turn."""
        with self._condition:
            self._reading = False
            if handed is not None:
                self._handed = handed
            if handed is not None or self._changing_keys:
                self._condition.notify_all()

    @contextmanager
    def offered(self) -> Iterator[None]:
        """While paramiko's thread is within, it waits for what is next, and the other may read."""
        with self._condition:
            self._offered = True
            self._condition.notify_all()
        try:
            yield
        finally:
            self.withdraw()

    def handed(self) -> Handed | None:
        """What was handed over to paramiko's thread; waits a moment for it if the other thread reads."""
        with self._condition:
            if self._handed is None and not self._free():
                self._seen = self._count
                self._condition.wait(_PATIENCE)
            handed, self._handed = self._handed, None
            if handed is not None:
                self.withdraw()
        return handed

    def withdraw(self) -> None:
        """Let nobody read until paramiko's thread waits again: it has something to go on with."""
        with self._condition:
            self._offered = False

    @contextmanager
    def own(self) -> Iterator[bool]:
        """A turn of paramiko's thread, while nobody else reads: whether it has it. It must not wait within."""
        with self._condition:
            yield self._free()
            self._condition.notify_all()

    def _free(self) -> bool:
        """Whether nobody else reads, nor has read since paramiko's thread looked last."""
        if self._reading or self._handed is not None:
            return False
        return self._changing_keys or self._count == self._seen

    @property
    def changing_keys(self) -> bool:
        """Whether keys are being changed."""
        return self._changing_keys

    @changing_keys.setter
    def changing_keys(self, changing: bool) -> None:
        with self._condition:
            self._changing_keys = changing
            self._condition.notify_all()

    def wake(self) -> None:
        """Have both threads look again: the connection was closed."""
        with self._condition:
            self._condition.notify_all()
