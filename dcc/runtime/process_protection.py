"""Keeps what a process has in memory, and what it writes, from others."""

from __future__ import annotations

import os
import resource
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4

OTHERS: Final = 0o027
"""What no file or directory that a command makes is readable by, whatever the umask: others; nor written by groups."""


def forbid_core_dumps() -> None:
    """See that no core dump is ever written of this process, in which its passwords and keys would be.

    Neither are those of processes that it starts, as far as a limit can hold them. On Linux other processes of the
    same user cannot look into its memory either, nor attach a debugger.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        import ctypes

        # Where dumps are handed to a program, the limit alone does not hold.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def end_with_parent() -> None:
    """See that this process is killed when the thread that started it ends, or its process; on Linux only.

    Whoever started it may be gone by now: look at the id of the parent afterwards.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def open_closed_streams() -> None:
    """Open standard input, output and error where whoever started this process had closed them: on nothing.

    Otherwise the next file that is opened, such as a database, takes their numbers, and what this process or one that
    it starts prints is written into it.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            # So that processes started from here have it too.
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def keep_files_private() -> None:
    """See that others can read nothing that this process and those that it starts write, whatever the umask."""
    os.umask(os.umask(OTHERS) | OTHERS)


def environment_without_secrets() -> dict[str, str]:
    """The environment for a process that needs neither settings nor secrets: what programs themselves go by."""
    kept = ("COV", "DCC_LOG_", "LANG", "LC_", "LD_", "PYTHON")
    named = {"HOME", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"}
    return {name: value for name, value in os.environ.items() if name in named or name.upper().startswith(kept)}
