"""What a command shows on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress


def seen_on_a_terminal(
    command: Sequence[object], columns: int, environment: Mapping[str, str], *, exit_code: int = 0
) -> list[str]:
    """The lines that a command shows on a terminal of so many columns, without colours; it ends with `exit_code`."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    plain = {name: value for name, value in environment.items() if name not in ("COLUMNS", "NO_COLOR")}
    with os.fdopen(outer, "rb", buffering=0) as terminal:
        words, own = [str(word) for word in command], plain | {"TERM": "xterm"}
        with subprocess.Popen(words, stdout=inner, stderr=inner, env=own) as process:
            os.close(inner)
            text = b""
            # Linux ends what a terminal gives with an error, when nobody holds its other end.
            with suppress(OSError):
                while piece := terminal.read(4096):
                    text += piece
        assert process.returncode == exit_code, text
    return re.sub(r"\x1b\[[0-9;]*m", "", text.decode()).splitlines()


def too_wide(lines: Sequence[str], columns: int) -> list[str]:
    """The lines that are wider than a terminal of so many columns, though they could be broken at a blank."""
    return [line for line in lines if len(line) > columns and " " in line.strip()]
