"""What a command shows on a terminal."""

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest


def seen_on_a_terminal(columns: int, run: Callable[[int], object]) -> list[str]:
    """The lines shown on a terminal of so many columns, without colours, by what `run` runs on its descriptor."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(outer, "rb", buffering=0) as terminal, ThreadPoolExecutor(1) as reader:

        def read() -> str:
            text = b""
            # Linux ends what a terminal gives with an error, when nobody holds its other end.
            with suppress(OSError):
                while piece := terminal.read(4096):
                    text += piece
            return text.decode()

        shown = reader.submit(read)
        try:
            run(inner)
        finally:
            os.close(inner)
        return re.sub(r"\x1b\[[0-9;]*m", "", shown.result()).splitlines()


@contextmanager
def shown_on(terminal: int) -> Iterator[pytest.MonkeyPatch]:
    """What this process prints during the block is shown on a terminal, which has colours."""
    with os.fdopen(terminal, "w", closefd=False) as shown, pytest.MonkeyPatch.context() as patch:
        for name in ("COLUMNS", "NO_COLOR"):
            patch.delenv(name, raising=False)
        patch.setenv("TERM", "xterm")
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, shown)
            patch.setattr(sys, f"__{name}__", shown)
        yield patch


def too_wide(lines: Sequence[str], columns: int) -> list[str]:
    """The lines that are wider than a terminal of so many columns, though they could be broken at a blank."""
    return [line for line in lines if len(line) > columns and " " in line.strip()]
