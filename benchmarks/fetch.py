"""Fetch every archive of a file source's `add` directory as a session does: the platform's side of the benchmark.

python -m benchmarks.fetch PROTOCOL HOST:PORT USER ACCESSKEY KNOWN_HOSTS BASE_PATH STAGING

Connections, waiting and checks are those of the default settings; the archives end in staging, resumable until then.
What a session does beside that, it does not: nothing is recorded, hashed or unpacked.
"""

from __future__ import annotations

import queue
import sys
import time
from collections import deque

from pydantic import SecretStr

from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.session.fetching.archive_transfer import Transfer
from dcc.session.fetching.download_slots import DownloadSlots
from dcc.session.fetching.downloads import (
    MOST_QUEUED,
    DownloadMessage,
    SourceDownloads,
    TransferCompleted,
    TransferFailed,
)
from dcc.settings import load_settings
from dcc.sources.base import SourceAddress, SourceProtocol
from dcc.sources.connect import connect
from dcc.sources.hosting import Hosting
from dcc.store.staging import Staging

_GATHER_SECONDS = 0.005


def fetch_all(
    protocol: str, hostname: str, username: str, accesskey: str, known_hosts: str, base_path: str, staging: str
) -> None:
    """List the source and fetch every archive into staging. Raises what the first failure was."""
    settings = load_settings(known_hosts=known_hosts or None, staging=staging)
    address = SourceAddress(1, "H", SourceProtocol(protocol), hostname, username, SecretStr(accesskey), base_path)
    with connect(address, settings) as connection:
        listing = connection.list_action(Action.ADD)
    waiting = deque(
        Transfer(
            number, ZipKey(Action.ADD, file.name), Hosting(number, 1, file.size_bytes, file.modified, file.has_md5)
        )
        for number, file in enumerate(listing.zips)
    )
    place = Staging(settings.staging_directory, min_free_bytes=settings.min_free_bytes)
    place.make()
    messages: queue.SimpleQueue[DownloadMessage] = queue.SimpleQueue()
    downloads = SourceDownloads(address, settings, place, DownloadSlots(settings.downloaders), messages.put)
    queued = 0
    while waiting or queued:
        while waiting and queued < MOST_QUEUED:
            downloads.put(waiting.popleft())
            queued += 1
        told = [messages.get()]
        # As a session does: to be woken for each message would keep those from working who send them.
        time.sleep(_GATHER_SECONDS)
        told += [messages.get_nowait() for _ in range(messages.qsize())]
        for message in told:
            if isinstance(message, TransferFailed):
                raise message.error
            queued -= isinstance(message, TransferCompleted)
    downloads.stop()
    downloads.join(5.0)


if __name__ == "__main__":
    fetch_all(*sys.argv[1:])
