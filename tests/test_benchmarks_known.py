"""The benchmarks of what is known already: they know what they say, and sessions find nothing new in it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sqlalchemy import func, select

from benchmarks.known_archives import DOCUMENTS, KnownArchives
from benchmarks.openssh import openssh_server
from benchmarks.quiet_session import QuietSession
from dcc_resources.qc_database.database import open_qc_database
from dcc_resources.qc_database.models import Document
from dcc_resources.settings import load_settings
from dcc_resources.tracker.database import open_tracker
from dcc_resources.tracker.queries import StateCount, count_documents, count_zip_actions
from dcc_resources.tracker.reference import Phase, Status


@pytest.mark.servers
@pytest.mark.skipif(shutil.which("lftp") is None, reason="lftp is not installed: as root, make test installs it.")
def test_a_session_finds_nothing_new_in_what_the_benchmark_put_there(tmp_path: Path) -> None:
    with openssh_server(tmp_path / "sshd") as server:
        known = KnownArchives(tmp_path / "known", server, centres=("H", "J"))
        known.make()
        known.grow(21)
        quiet = QuietSession(known)
        assert quiet.list_alone().wall > 0
        assert quiet.list_alone(at_once=True).wall > 0
        timing = quiet.crawl(events=False)
    assert timing.peak_mb is not None
    assert timing.peak_mb > 10
    settings = load_settings(home=known.home)
    tracker, qc = open_tracker(settings), open_qc_database(settings)
    with tracker.connect() as connection:
        waiting, done = StateCount(Phase.QC, Status.PENDING, 10), StateCount(Phase.QC, Status.DONE, 11)
        assert count_zip_actions(connection) == [waiting, done]
        assert sum(one.count for one in count_documents(connection)) == 21 * DOCUMENTS
    with qc.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(Document)) == 21 * DOCUMENTS
    tracker.dispose()
    qc.dispose()
