"""However large an archive is, receiving it takes little memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from dcc.session.fetching.archive_transfer import Transfer, receive
from dcc.settings import Settings
from dcc.sources.base import Hosting, SourceAddress
from dcc.sources.connect import connect
from dcc.store.staging import Staging
from tests.hostile.audited_session import peak_megabytes
from tests.support.prepared_processes import FORKED
from tests.support.served_from_memory import KEY
from tests.support.servers import Share

pytestmark = pytest.mark.servers

SIZE = 256_000_000
MOST_MEGABYTES = 64
"""More than an SFTP connection may have on the way, and a quarter of the archive."""


def receive_measured(address: SourceAddress, folder: Path, changes: Mapping[str, object]) -> None:
    """Receive the archive; write how many MB the peak of this process's memory rose."""
    settings = Settings(home=folder, min_free_bytes=0).model_copy(update=dict(changes))
    staging = Staging(folder / "staging")
    staging.make()
    before = peak_megabytes()
    with connect(address, settings) as connection:
        received = receive(connection, Transfer(1, KEY, Hosting(1, 1, SIZE, None, False)), staging, lambda _: None)
    assert received.size_bytes == SIZE
    (folder / "risen").write_text(f"{peak_megabytes() - before}")


@pytest.mark.parametrize("protocol", ["sftp_server", "ftp_server", "ftps_server", "web_folder"])
def test_a_large_archive_is_never_held_in_memory(protocol: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    share: Share = request.getfixturevalue(protocol)
    os.truncate(share.put(str(KEY)), SIZE)
    given = share.address(), tmp_path, {"tls_ca_file": share.ca_file}
    process = FORKED.Process(target=receive_measured, args=given)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert int((tmp_path / "risen").read_text()) < MOST_MEGABYTES
