"""Processes: which one is surely gone, what each hides from others, and how it gives memory back."""

from __future__ import annotations

import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

_M_ARENA_MAX: Final = -8
_ARENAS: Final = 2
_VARIABLE: Final = "MALLOC_ARENA_MAX"


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Have SIGTERM interrupt the main thread while the block runs, as Ctrl-C does, so that it can tidy up."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def keep_freed_memory_together() -> None:
    """See that the threads of this process, and of those that it starts, share what memory has been freed.

    glibc else gives each thread a pool (arena) of its own, up to eight for each core, and hands the pools on to the
    threads that come later. Each session has new threads: one pool after the other comes to hold the most that any
    thread ever needed, though nothing of it is in use (docs/reliability.md, "Soak"). Two are enough, as Python lets one
    thread work at a time, mostly.

    Call before threads begin. Does nothing where MALLOC_ARENA_MAX or GLIBC_TUNABLES says already how many there are to
    be, nor where the C library is another one than glibc.
    """
    if not _is_glibc() or _VARIABLE in os.environ:
        return
    if "glibc.malloc.arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    import ctypes

    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
    os.environ[_VARIABLE] = str(_ARENAS)


def give_back_freed_memory() -> None:
    """Let go of what is left in cycles, and give the system back what is free; takes a tenth of a second.

    Connections are such cycles, with a megabyte of buffers each. Python would come across them much later.
    """
    gc.collect()
    if _is_glibc():
        import ctypes

        ctypes.CDLL(None).malloc_trim(0)


def _is_glibc() -> bool:
    return "CS_GNU_LIBC_VERSION" in os.confstr_names


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


_HOST_LENGTH = 128

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Process:
    """A process, well enough described to tell from its machine whether it lives.

    `host` begins with the machine's name and tells its boots and containers apart, in each of which process ids begin
    anew; it has at most 128 characters. `started` is in clock ticks since boot, empty where that cannot be told.
    """

    host: str
    pid: int
    started: str

    @classmethod
    def this(cls) -> Process:
        """The present process."""
        return cls(_host(), os.getpid(), _look_up(os.getpid()).started)

    @property
    def is_gone(self) -> bool:
        """Whether it was of this machine and is surely no more."""
        if not self.started or self.host != _host():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            # Another user's, of which nothing else may be seen.
            log.debug("Process %s cannot be asked for", self.pid)
        seen = _look_up(self.pid)
        return seen.zombie or seen.started not in {"", self.started}


class _Seen(NamedTuple):
    """What this machine tells of a process; `started` is empty where it tells nothing."""

    started: str
    zombie: bool = False


def _host() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot = namespace = ""
    return f"{socket.gethostname()} {namespace} {boot}".strip()[:_HOST_LENGTH]


def _look_up(pid: int) -> _Seen:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return _Seen(started="")
    return _Seen(started=fields[19], zombie=fields[0] == "Z")
