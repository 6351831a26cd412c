"""The platform's side of the benchmarks of listings and transfers, as a process of its own.

python -m benchmarks.fetch PROTOCOL HOST:PORT USER ACCESSKEY KNOWN_HOSTS BASE_PATH [STAGING]

Lists the directory `add`, and prints how many archives it holds; with STAGING, each archive is fetched as a session
does. Connections, waiting and checks are those of the default settings; the archives end in staging, resumable until
then. What a session does beside that, it does not: nothing is recorded, hashed or unpacked.
"""

from __future__ import annotations

import queue
import sys
import time
from collections import deque
from collections.abc import Sequence

from pydantic import SecretStr

from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.runtime.processes import collect_cycles_rarely
from dcc.session.fetching.archive_transfer import Transfer
from dcc.session.fetching.download_slots import DownloadSlots
from dcc.session.fetching.downloads import MAX_QUEUED, SourceDownloads
from dcc.session.fetching.transfer_events import TransferCompleted, TransferEvent, TransferFailed
from dcc.settings import Settings, load_settings
from dcc.sources.base import ListedFile, SourceAddress
from dcc.sources.connect import connect
from dcc.sources.protocols import SourceProtocol
from dcc.store.staging import Staging
from dcc.tracker.hostings.hosting import Hosting

_GATHER_SECONDS = 0.005


def main(
    protocol: str, hostname: str, username: str, accesskey: str, known_hosts: str, base_path: str, staging: str = ""
) -> None:
    """List the source, and fetch every archive into staging if that is given. Raises the first failure."""
    # As `dcc` does.
    collect_cycles_rarely()
    settings = load_settings(known_hosts=known_hosts or None, staging=staging or None)
    address = SourceAddress(1, "H", SourceProtocol(protocol), hostname, username, SecretStr(accesskey), base_path)
    with connect(address, settings) as connection:
        files = connection.list_action(Action.ADD).zips
    print(len(files))
    if staging:
        fetch_all(address, settings, files)


def fetch_all(address: SourceAddress, settings: Settings, files: Sequence[ListedFile]) -> None:
    """Fetch every archive into staging. Raises what the first failure was."""
    waiting = deque(
        Transfer(
            number,
            SubmissionKey(Action.ADD, file.name),
            Hosting(number, 1, file.size_bytes, file.modified, file.has_md5),
        )
        for number, file in enumerate(files)
    )
    place = Staging(settings.staging_directory, min_free_bytes=settings.min_free_bytes)
    place.make()
    messages: queue.SimpleQueue[TransferEvent] = queue.SimpleQueue()
    downloads = SourceDownloads(address, settings, place, DownloadSlots(settings.downloaders), messages.put)
    queued = 0
    while waiting or queued:
        while waiting and queued < MAX_QUEUED:
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
    main(*sys.argv[1:])
