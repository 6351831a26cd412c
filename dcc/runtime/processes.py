"""Processes: whether one has ended, what each hides from others, and how it returns memory."""

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
from typing import Any, Final

from dcc.configuration_file import VARIABLE, configured_variables

_M_ARENA_MAX: Final = -8
_ARENAS: Final = 2
_VARIABLE: Final = "MALLOC_ARENA_MAX"


def keep_freed_memory_together() -> None:
    """Make the threads of this process, and of those that it starts, share freed memory.

    By default glibc gives each thread a pool (arena), up to eight for each core, and passes the pools on to later
    threads. Each session has new threads, so that one pool after the other grows to the most that any thread ever
    needed. That was 11 MB for 1,000 archives, with two pools 1.3 MB. Python mostly runs one thread at a time.

    Call before threads begin. Does nothing if MALLOC_ARENA_MAX or GLIBC_TUNABLES sets the number already, or with
    another C library than glibc.
    """
    is_said = _VARIABLE in os.environ or "glibc.malloc.arena_max" in os.environ.get("GLIBC_TUNABLES", "")
    if _is_glibc() and not is_said:
        _c_library().mallopt(_M_ARENA_MAX, _ARENAS)
        os.environ[_VARIABLE] = str(_ARENAS)


def collect_cycles_rarely() -> None:
    """Look for reference cycles less often than by default.

    Imports make many objects that stay: scanning them again and again costs a tenth of a short command.
    """
    gc.set_threshold(50_000, 20, 100)


@contextmanager
def importing_much() -> Iterator[None]:
    """Look for reference cycles rarely during the block, which imports much into a process that stays.

    Later as before, or its memory would grow; what was imported is never scanned.
    """
    before = gc.get_threshold()
    collect_cycles_rarely()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*before)


def give_threads_their_own_memory(threads: int) -> None:
    """Let so many threads, which parse documents at once, have a pool each, where there would be two for all.

    Two threads that parse with one pool take three times as long. Call before they begin. Does nothing where
    `keep_freed_memory_together` did nothing.
    """
    if _is_glibc() and os.environ.get(_VARIABLE) == str(_ARENAS):
        _c_library().mallopt(_M_ARENA_MAX, threads + 1)


def give_back_freed_memory() -> None:
    """Collect reference cycles, and return free memory to the system; takes a tenth of a second.

    Connections are such cycles, with a megabyte of buffers each; Python would collect them much later.
    """
    gc.collect()
    if _is_glibc():
        _c_library().malloc_trim(0)


def _is_glibc() -> bool:
    return "CS_GNU_LIBC_VERSION" in os.confstr_names


def _c_library() -> Any:
    # Takes long to import for a short command that needs none of it.
    import ctypes

    return ctypes.CDLL(None)


_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4

OTHERS: Final = 0o027
"""The umask of commands: others may read nothing, groups may write nothing."""


def forbid_core_dumps() -> None:
    """Prevent core dumps of this process, which would contain its passwords and keys.

    This also holds for processes that it starts, as far as a limit can. On Linux, other processes of the same user
    cannot read its memory or attach a debugger either.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        # If dumps are piped to a program, the limit alone does not hold.
        _c_library().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def end_with_parent() -> None:
    """Kill this process when the thread that started it ends, or its process; on Linux only.

    The parent may have ended already: check its id afterwards.
    """
    if sys.platform == "linux":
        _c_library().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def open_closed_streams() -> None:
    """Open closed standard streams on the null device.

    Otherwise the next opened file, such as a database, would get their numbers, and output would be written into it.
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
    """Let others read nothing that this process and those that it starts write, whatever the umask."""
    os.umask(os.umask(OTHERS) | OTHERS)


def environment_without_secrets() -> dict[str, str]:
    """The environment for a process that needs neither settings nor secrets: the log, and programs' own variables."""
    kept = ("COV", "LANG", "LC_", "LD_", "PYTHON")
    named = {"HOME", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"}
    of_programs = {name: value for name, value in os.environ.items() if name in named or name.upper().startswith(kept)}
    log = {name: value for name, value in configured_variables(os.environ).items() if name.startswith("DCC_LOG_")}
    # An empty configuration file, lest it reads that of the user's home directory.
    return of_programs | log | {VARIABLE: os.devnull}


_HOST_LENGTH = 128

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Process:
    """A process, described well enough to know on its machine whether it runs.

    `host` begins with the machine's name and distinguishes its boots and containers, each of which counts process ids
    from the beginning; it has at most 128 characters. `started` is in clock ticks since boot, empty if unknown.
    """

    host: str
    pid: int
    started: str

    @classmethod
    def this(cls) -> Process:
        """The present process."""
        return cls(_host(), os.getpid(), _look_up(os.getpid())[0])

    @property
    def is_gone(self) -> bool:
        """Whether it was on this machine and has certainly ended."""
        if not self.started or self.host != _host():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            # Another user's process, of which nothing else is visible.
            log.debug("Process %s cannot be asked for", self.pid)
        started, is_zombie = _look_up(self.pid)
        return is_zombie or started not in {"", self.started}

    @property
    def is_of_earlier_boot(self) -> bool:
        """Whether its machine was started again since, by the machine's name; then it has ended."""
        machine, _, boot = _parts_of(self.host)
        this_machine, _, this_boot = _parts_of(_host())
        return machine == this_machine and "" not in {boot, this_boot} and boot != this_boot


def _parts_of(host: str) -> tuple[str, str, str]:
    """The machine's name, the namespace and the boot of a `Process.host`; empty where it has none."""
    machine, namespace, boot = [*host.split(" "), "", ""][:3]
    return machine, namespace, boot


def _host() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot = namespace = ""
    return f"{socket.gethostname()} {namespace} {boot}".strip()[:_HOST_LENGTH]


def _look_up(pid: int) -> tuple[str, bool]:
    """When a process of this machine started, empty if unknown; and whether it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return "", False
    return fields[19], fields[0] == "Z"
