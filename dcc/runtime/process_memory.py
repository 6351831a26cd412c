"""Has a process that works on and on take no more memory than one that has just begun, or than its next work needs."""

from __future__ import annotations

import gc
import os
from typing import Final

_M_ARENA_MAX: Final = -8
_ARENAS: Final = 2
_VARIABLE: Final = "MALLOC_ARENA_MAX"


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
