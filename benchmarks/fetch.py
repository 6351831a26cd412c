"""Fetch every archive of a file source's `add` directory: the platform's side of the transfer benchmark.

python -m benchmarks.fetch HOST:PORT USER KEY KNOWN_HOSTS BASE_PATH LOCAL_FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import SecretStr

from dcc_resources.file_sources.base import SourceAddress, SourceProtocol
from dcc_resources.file_sources.connect import connect
from dcc_resources.naming import Action
from dcc_resources.settings import load_settings


def fetch_all(hostname: str, username: str, key: str, known_hosts: str, base_path: str, local_folder: str) -> None:
    """Fetch every archive to `local_folder` under its own name."""
    accesskey = SecretStr(f"key:{key}")
    address = SourceAddress(1, "H", SourceProtocol.SFTP, hostname, username, accesskey, base_path)
    with connect(address, load_settings(known_hosts=known_hosts)) as connection:
        for listed in connection.list_action(Action.ADD).zips:
            with Path(local_folder, listed.name).open("wb") as received:
                connection.fetch(Action.ADD, listed.name, received.write, size=listed.size_bytes)


if __name__ == "__main__":
    fetch_all(*sys.argv[1:])
