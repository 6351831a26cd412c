"""Interrupts by SIGINT and SIGTERM: none is lost, whatever the process does when it comes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_REPEAT_SECONDS: Final = 0.05
_MAX_SIGNALS: Final = 65_536


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM interrupt the main thread during the block as Ctrl-C does, so that it can tidy up."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def repeat_lost_interrupts() -> None:
    """Interrupt the main thread again when Python has only printed an interrupt.

    What is raised in callbacks and finalisers goes nowhere: Ctrl-C would have no effect while garbage is collected.
    """
    print_error = sys.unraisablehook

    def repeat(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, (Exception, GeneratorExit, SystemExit)):
            print_error(lost)
            return
        # The handler may have turned itself off before it raised what was lost.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        # Later: at once it would be lost in here.
        repeating = threading.Timer(_REPEAT_SECONDS, os.kill, [os.getpid(), signal.SIGINT])
        repeating.daemon = True
        repeating.start()

    sys.unraisablehook = repeat


@contextmanager
def raise_missed_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt after the block if SIGINT or SIGTERM came and the block ended as if nothing had.

    For libraries that only note interrupts. Does nothing in other threads than the main one, which have none.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    received = b""
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        with suppress(BlockingIOError):
            received = os.read(reading, _MAX_SIGNALS)
        os.close(reading)
        os.close(writing)
    if not {signal.SIGINT, signal.SIGTERM}.isdisjoint(received):
        raise KeyboardInterrupt
