"""Processes, told apart for good by machine, id and start: what one had begun is taken up when it is surely gone."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

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
