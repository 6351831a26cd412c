"""List the directory `add` of a file source in a process of its own, and print how many archives it holds.

python -m benchmarks.list_source PROTOCOL HOSTNAME USERNAME ACCESSKEY KNOWN_HOSTS BASE_PATH
"""

from __future__ import annotations

import sys

from pydantic import SecretStr

from dcc.naming import Action
from dcc.settings import load_settings
from dcc.sources.base import SourceAddress, SourceProtocol
from dcc.sources.connect import connect


def list_source(protocol: str, hostname: str, username: str, accesskey: str, known_hosts: str, base_path: str) -> None:
    """List it as a crawl does."""
    settings = load_settings(known_hosts=known_hosts or None)
    address = SourceAddress(1, "H", SourceProtocol(protocol), hostname, username, SecretStr(accesskey), base_path)
    with connect(address, settings) as connection:
        print(len(connection.list_action(Action.ADD).zips))


if __name__ == "__main__":
    list_source(*sys.argv[1:])
