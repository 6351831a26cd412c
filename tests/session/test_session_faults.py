"""Whole crawling sessions with servers and a database that do wrong: what it costs, and what is told."""

from __future__ import annotations

import time

import pytest
from pydantic import SecretStr

from dcc.cli.demo import submissions
from tests.support.databases import only_sqlite
from tests.support.installations import Installation, specimens
from tests.support.served_sources import Relay, below, large_archive, put_many, register
from tests.support.servers import Share
from tests.support.trials import usually

pytestmark = pytest.mark.servers

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"


class TestServersThatStall:
    @only_sqlite
    def test_a_transfer_that_stalls_is_given_up_and_the_others_go_on_meanwhile(
        self, quick: Installation, share: Share, local_folder: Share
    ) -> None:
        """One stalled transfer blocked the session for ever."""
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
        assert seconds < 20
        assert list(result.zips)[-1] == KEY
        assert [result.zips[key].succeeded for key in others] == [True] * 20
        assert max(result.zips[key].finished for key in others) < result.zips[KEY].finished
        assert [reason.kind for reason in result.zips[KEY].reasons] == ["SourceTimeoutError"]
        assert quick.attempts(KEY) == [(stalling, "download failed")]

    @only_sqlite
    @pytest.mark.parametrize("share", usually(["sftp_server"], ["sftp_server", "ftp_server"]), indirect=True)
    def test_a_source_that_stalls_again_and_again_is_left_alone_until_the_next_session(
        self, quick: Installation, share: Share
    ) -> None:
        """A session ends, however much waits at a source that stalls."""
        stems = [f"2013-10-31.{inc}" for inc in range(20)]
        for stem in stems:
            share.put(f"add/H.{stem}.impc.zip", large_archive(stem, size=100_000))
        with Relay(share, stall_after=50_000) as relay:
            source_id = register(quick, relay.share)
            began = time.monotonic()
            limited = quick.with_settings(downloads_per_source=2, source_failure_limit=3)
            result = limited.with_settings(max_retries=0, idle_timeout=1.0).run_session()
            assert time.monotonic() - began < 20
            stalled = [key for key, outcome in result.zips.items() if outcome.attempts]
            assert 3 <= len(stalled) <= 5
            relay.stall_after = None
            quick.run_session()
        assert set(quick.states().values()) == {"xsd done"}
        assert quick.attempts(stalled[0]) == [(source_id, "download failed"), (source_id, "xsd done")]


class TestServersThatAreNotTrusted:
    @only_sqlite
    @pytest.mark.parametrize("server", ["password_sftp_server", "faulty_ftp_server"])
    def test_a_wrong_password_costs_one_login_and_only_that_source(
        self, quick: Installation, server: str, local_folder: Share, request: pytest.FixtureRequest
    ) -> None:
        share: Share = request.getfixturevalue(server)()
        share.put(KEY, submissions.archive(specimens()))
        refused = register(quick, share, accesskey=SecretStr("wrong horse"))
        unaffected = register(quick, local_folder)
        result = quick.run_session()
        crawl = result.crawls[refused]
        assert crawl.error is not None
        assert (crawl.outcome, crawl.error.kind) == ("failed", "LoginRefusedError")
        assert "Check the user name and password" in crawl.error.message
        assert "wrong horse" not in crawl.error.message
        assert result.zips[KEY].succeeded
        assert quick.attempts(KEY) == [(unaffected, "xsd done")]
