"""Odd names, and what cannot be read, in a whole session: a state and a clear reason, and nothing lost.

Archives that are refused are in test_zip_processing.py, all that is hostile in tests/hostile.
"""

from __future__ import annotations

import os

import pytest
from sqlalchemy import select

from dcc.cli.demo import submissions
from dcc.tracker.models import SourceCrawlRow, ZipActionLog
from tests.support.databases import only_sqlite
from tests.support.installations import Installation, specimens
from tests.support.served_sources import logged, register
from tests.support.servers import Share

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"
GOOD_NAME = "H.2013-10-31.9.impc.zip"
GOOD = f"add/{GOOD_NAME}"
ODD_NAMES = {
    b"H.2013-10-31.1\xe9.impc.zip": "H.2013-10-31.1\\xe9.impc.zip",
    "H.2013-10-31.2é🐁.impc.zip".encode(): "H.2013-10-31.2é🐁.impc.zip",
    b"H.2013-10-31.1.impc.zip\x1b[2J.zip": "H.2013-10-31.1.impc.zip\\x1b[2J.zip",
    b"H.2013-10-31.1\\.impc.zip": "H.2013-10-31.1\\x5c.impc.zip",
    b"-rf .zip": "-rf .zip",
    b"'; DROP TABLE zip_file; --.zip": "'; DROP TABLE zip_file; --.zip",
}


@pytest.mark.servers
@pytest.mark.parametrize("protocol", ["sftp_server", "ftp_server", "local_folder"])
def test_odd_names_in_a_listing_are_recorded_legibly_and_refused(
    quick: Installation, protocol: str, request: pytest.FixtureRequest
) -> None:
    """Names matched in part; here also those that are not UTF-8."""
    share: Share = request.getfixturevalue(protocol)
    share.put(GOOD, submissions.archive(specimens(stem="2013-10-31.9")))
    for name in [*ODD_NAMES, b"x" * 240 + b".zip"]:
        (share.root / "add" / os.fsdecode(name)).write_bytes(b"PK")
    register(quick, share)
    result = quick.run_session()
    states = quick.states()
    assert states.pop(GOOD) == "xsd done"
    (long,) = [key for key in states if key.startswith("add/xxx")]
    assert len(long) <= len("add/") + 128
    assert states == dict.fromkeys([*(f"add/{name}" for name in ODD_NAMES.values()), long], "zip_name failed")
    with quick.tracker.connect() as connection:
        reasons = connection.scalars(select(ZipActionLog.message)).all()
    assert len(reasons) == len(states)
    assert all(reason and reason.isprintable() for reason in reasons)
    assert list(result.zips) == [GOOD]
    again = quick.run_session()
    assert [(crawled.new, crawled.known) for crawled in again.crawls.values()] == [(0, len(ODD_NAMES) + 2)]


@only_sqlite
@pytest.mark.servers
def test_an_unreadable_directory_costs_only_itself(quick: Installation, ftp_server: Share) -> None:
    """It was taken for an empty one."""
    archive = submissions.archive(specimens())
    ftp_server.put(KEY, archive)
    ftp_server.put(f"edit/{NAME}", archive)
    source_id = register(quick, ftp_server)
    (ftp_server.root / "add").chmod(0o700)
    quick.run_session()
    assert quick.states() == {f"edit/{NAME}": "xsd done"}
    with quick.tracker.connect() as connection:
        row = connection.execute(select(SourceCrawlRow.outcome, SourceCrawlRow.message)).one()
    assert row.outcome == "partial"
    assert row.message.startswith(f"file source {source_id} ")
    assert "/add" in row.message
    (ftp_server.root / "add").chmod(0o755)
    quick.run_session()
    assert set(quick.states().values()) == {"xsd done"}


@only_sqlite
@pytest.mark.servers
def test_an_unreadable_file_fails_until_it_can_be_read(quick: Installation, ftp_server: Share) -> None:
    path = ftp_server.put(KEY, submissions.archive(specimens()))
    ftp_server.put(GOOD, submissions.archive(specimens(stem="2013-10-31.9")))
    register(quick, ftp_server)
    path.chmod(0o600)
    quick.run_session()
    assert quick.states() == {KEY: "download failed", GOOD: "xsd done"}
    assert all(NAME in message for message in logged(quick))
    path.chmod(0o644)
    quick.run_session()
    assert set(quick.states().values()) == {"xsd done"}
