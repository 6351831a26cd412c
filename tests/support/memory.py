"""Temporary files are kept in memory where it has room, as a test makes hundreds; and how much memory work takes."""

import os
import shutil
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/dev/shm")
_FREE_BYTES: Final = 4_000_000_000
_FOLDER: Final = "dcc-tests-"


def keep_temporary_files_in_memory() -> None:
    """Have this process and those that it starts make their temporary files there, unless TMPDIR says where.

    They are in a folder of this process. It stays, for a look at what failed, until another one begins after its end.
    """
    if "TMPDIR" in os.environ or not _MEMORY.is_dir() or not os.access(_MEMORY, os.W_OK):
        return
    memory = os.statvfs(_MEMORY)
    if memory.f_bavail * memory.f_frsize < _FREE_BYTES or memory.f_flag & os.ST_NOEXEC:
        return
    for folder in _MEMORY.glob(f"{_FOLDER}*"):
        if not Path("/proc", folder.name.removeprefix(_FOLDER)).exists():
            shutil.rmtree(folder, ignore_errors=True)
    own = _MEMORY / f"{_FOLDER}{os.getpid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(own)


@contextmanager
def little_memory(megabytes: float = 30) -> Iterator[None]:
    """What Python holds at any moment within stays below this."""
    tracemalloc.start()
    try:
        yield
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < megabytes * 1_000_000
