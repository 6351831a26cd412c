"""What processes have started, what everybody is shown of them, and what they have computed."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def children(pid: int) -> set[int]:
    """The processes that a process has started, and that are there."""
    return {child for child, parent in _parents().items() if parent == pid}


def descendants(pid: int) -> set[int]:
    """The processes that a process has started, directly or not."""
    parents = _parents()
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def _parents() -> dict[int, int]:
    """Each process of the machine, and the one that started it."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.parent.name)] = int(fields[1])
    return parents


@contextmanager
def command_lines() -> Iterator[set[str]]:
    """What everybody on the machine is shown meanwhile of what this process has started: their arguments."""
    shown: set[str] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.2):
            for pid in descendants(os.getpid()):
                with suppress(OSError):
                    shown.add(Path(f"/proc/{pid}/cmdline").read_text("latin-1"))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield shown
    finally:
        ended.set()
        thread.join()


def processor_seconds(pid: int) -> float:
    """The time that a process has computed, with all that it has started."""
    return sum(map(_seconds, {pid, *descendants(pid)}))


def _seconds(pid: int) -> float:
    """The time of one process, with that of the children it has waited for; none where it has ended meanwhile."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
