"""Whole crawling sessions with servers and a database that do wrong: what it costs, and what is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from dcc_resources.tracker.models import utc_now
from tests.databases import only_sqlite
from tests.installations import Installation
from tests.served_sources import Relay, below, large_archive, logged, put_many, register
from tests.servers import Share

pytestmark = pytest.mark.servers

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"


class TestLies:
    @only_sqlite
    def test_a_file_that_is_shorter_than_listed_is_no_success(
        self, quick: Installation, faulty_ftp_server: Callable[..., Share]
    ) -> None:
        """existing_system_defects row 8: truncated transfers counted as success."""
        share = faulty_ftp_server(size_error=1_000)
        content = large_archive()
        share.put(KEY, content)
        source_id = register(quick, share)
        outcome = quick.run_session().zips[KEY]
        assert outcome.failed
        assert {reason.kind for reason in outcome.reasons} == {"SizeMismatchError"}
        assert f"{len(content):,} bytes arrived where {len(content) + 1_000:,} were listed" in logged(quick)[0]
        assert quick.attempts(KEY) == [(source_id, "download failed")] * 2
        assert not [path for path in quick.staged() if path.startswith(KEY)]

    @only_sqlite
    def test_a_server_that_calls_half_a_file_the_whole_is_not_believed(
        self, quick: Installation, faulty_ftp_server: Callable[..., Share], local_folder: Share
    ) -> None:
        """existing_system_defects row 8: a server cuts at 50 %."""
        content = large_archive()
        share = faulty_ftp_server(cut_after=len(content) // 2, claim_success=True)
        share.put(KEY, content)
        first = register(quick, share)
        once = quick.with_settings(max_retries=0)
        assert once.run_session().zips[KEY].failed
        assert quick.attempts(KEY) == [(first, "download failed")]
        assert KEY not in quick.staged()
        second = register(quick, local_folder)
        assert once.run_session().zips[KEY].succeeded
        assert quick.attempts(KEY)[-1] == (second, "xsd done")
        assert quick.staged()[KEY] == content


class TestServersThatStall:
    @only_sqlite
    def test_a_transfer_that_stalls_is_given_up_and_the_others_go_on_meanwhile(
        self, quick: Installation, share: Share, local_folder: Share
    ) -> None:
        """existing_system_defects row 23: one stalled transfer blocked the session for ever."""
        content = large_archive()
        share.put(KEY, content)
        healthy = below(local_folder, "healthy")
        others = put_many(healthy, "J", 20)
        with Relay(share, stall_after=300_000) as relay:
            stalling = register(quick, relay.share)
            register(quick, healthy, "J")
            began = time.monotonic()
            result = quick.with_settings(max_retries=0, idle_timeout=2.0).run_session()
            seconds = time.monotonic() - began
        assert seconds < 6
        assert list(result.zips)[-1] == KEY
        assert [result.zips[key].succeeded for key in others] == [True] * 20
        assert max(result.zips[key].finished for key in others) < result.zips[KEY].finished
        assert [reason.kind for reason in result.zips[KEY].reasons] == ["SourceTimeoutError"]
        assert quick.attempts(KEY) == [(stalling, "download failed")]

    @only_sqlite
    def test_however_many_stall_the_others_go_on(
        self, quick: Installation, sftp_server: Share, local_folder: Share
    ) -> None:
        """existing_system_defects row 23: what stalls does not keep the downloaders from what moves."""
        shares = [below(sftp_server, name) for name in ("first", "second")]
        for number, share in enumerate(shares):
            for inc in (1, 2):
                stem = f"2013-10-3{number}.{inc}"
                share.put(f"add/H.{stem}.impc.zip", large_archive(stem))
        healthy = below(local_folder, "healthy")
        others = put_many(healthy, "J", 20)
        with Relay(shares[0], stall_after=300_000) as one, Relay(shares[1], stall_after=300_000) as other:
            for share in (one.share, other.share):
                register(quick, share)
            register(quick, healthy, "J")
            limited = quick.with_settings(max_retries=0, idle_timeout=5.0, downloaders=4, downloads_per_source=2)
            began = utc_now()
            result = limited.run_session()
        assert [result.zips[key].succeeded for key in others] == [True] * 20
        assert len([outcome for outcome in result.zips.values() if outcome.failed]) == 4
        assert max(result.zips[key].finished for key in others) - began < timedelta(seconds=4.5)

    @only_sqlite
    def test_a_source_that_stalls_again_and_again_is_left_alone_until_the_next_session(
        self, quick: Installation, share: Share
    ) -> None:
        """existing_system_defects row 23: a session ends, however much waits at a source that stalls."""
        stems = [f"2013-10-31.{inc}" for inc in range(20)]
        for stem in stems:
            share.put(f"add/H.{stem}.impc.zip", large_archive(stem, size=100_000))
        with Relay(share, stall_after=50_000) as relay:
            source_id = register(quick, relay.share)
            began = time.monotonic()
            result = quick.with_settings(max_retries=0, idle_timeout=1.0, source_failure_limit=3).run_session()
            assert time.monotonic() - began < 6.5
            stalled = [key for key, outcome in result.zips.items() if outcome.attempts]
            assert 3 <= len(stalled) <= 5
            relay.stall_after = None
            quick.run_session()
        assert set(quick.states().values()) == {"xsd done"}
        assert quick.attempts(stalled[0]) == [(source_id, "download failed"), (source_id, "xsd done")]
