"""The platform's side of the benchmarks of listings, as a process of its own.

python -m benchmarks.listing_process PROTOCOL HOST:PORT USER ACCESSKEY KNOWN_HOSTS BASE_PATH

Lists the directory `add`, and prints how many archives it holds. Connections, waiting and checks are those of the
default settings; nothing is recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pydantic import SecretStr

from dcc.naming import Action
from dcc.runtime.processes import collect_cycles_rarely
from dcc.settings import Settings, load_settings
from dcc.sources.base import ListedFile, SourceAddress, SourceProtocol
from dcc.sources.connect import connect


def address_of(protocol: str, hostname: str, username: str, accesskey: str, base_path: str) -> SourceAddress:
    """The file source of the arguments of a process."""
    return SourceAddress(1, "H", SourceProtocol(protocol), hostname, username, SecretStr(accesskey), base_path)


def list_archives(address: SourceAddress, settings: Settings) -> Sequence[ListedFile]:
    """The archives in the directory `add`. Raises the first failure."""
    with connect(address, settings) as connection:
        return connection.list_action(Action.ADD).zips


def main(protocol: str, hostname: str, username: str, accesskey: str, known_hosts: str, base_path: str) -> None:
    """List the source; print how many archives it holds. Raises the first failure."""
    # As `dcc` does.
    collect_cycles_rarely()
    address = address_of(protocol, hostname, username, accesskey, base_path)
    print(len(list_archives(address, load_settings(known_hosts=known_hosts or None))))


if __name__ == "__main__":
    main(*sys.argv[1:])
