"""The demonstration's FTP server: `python -m dcc.cli.demo.ftp_server`, driven by `dcc.cli.demo.servers`."""

from __future__ import annotations

import sys
import threading

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer

from dcc.cli.demo.servers import announce, read_accounts

_READ_ONLY = "elr"


def _serve() -> None:
    authorizer = DummyAuthorizer()
    for name, account in read_accounts().items():
        authorizer.add_user(name, account.password, str(account.folder), perm=_READ_ONLY)

    class Handler(FTPHandler):  # type: ignore[misc]
        """One login of the server."""

    Handler.authorizer = authorizer
    Handler.banner = "Demonstration FTP server"
    server = FTPServer(("127.0.0.1", 0), Handler)
    announce(server.address[1])

    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    _serve()
