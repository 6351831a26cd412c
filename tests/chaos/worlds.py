"""What sequences of rounds share: servers, the proxy before them, a prepared home and a database server."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.chaos.installation import prepared_home, start_fork_server
from tests.chaos.proxy import FaultProxy
from tests.chaos.sequence import World
from tests.chaos.servers import running_servers
from tests.support.databases import MariaDb


class DurableMariaDb(MariaDb):
    """A server that has what it said it has, also when it is killed."""

    flush_at_commit = 2


@contextmanager
def world_of(database: str, *, own_disk: bool) -> Iterator[World]:
    """The servers and the prepared home that sequences on a kind of database share."""
    start_fork_server()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dcc-chaos-")))
        servers = stack.enter_context(running_servers())
        proxy = stack.enter_context(FaultProxy(servers.ports, servers.listeners))
        home = stack.enter_context(prepared_home(folder))
        mariadb = None
        if database == "mariadb":
            mariadb = DurableMariaDb()
            stack.callback(mariadb.remove)
        yield World(folder, servers, proxy, home, mariadb, own_disk)
