"""Ports for servers that must be told theirs before they begin to listen.

They are none of those that the system gives to connections and to whoever lets it choose a port: until the server
listens, and while it is restarted, nobody takes them by chance, and no client that tries again and again where nobody
listens connects to itself.
"""

import os
import re
import secrets
import socket
from typing import Final

_LOOPBACK: Final = "127.0.0.1"
# The chaos suite takes those from 20,000 on, in rows.
_PORTS: Final = range(10_000, 20_000)
_given: Final[set[int]] = set()


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on, and that this test run has given to nobody."""
    while True:
        # Not of `random`, whose numbers are the same in all processes of the run when Hypothesis has seeded it.
        port = secrets.choice(_of_this_process())
        if port not in _given and _is_free(port):
            _given.add(port)
            return port


def _of_this_process() -> range:
    """Those of this process of a run by several: no two processes of a run have one in common."""
    number = re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "")) or "0"
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return _PORTS[int(number) % count :: count]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_LOOPBACK, port))
        except OSError:
            return False
    return True
