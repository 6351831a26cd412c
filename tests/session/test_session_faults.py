"""Whole crawling sessions with servers and a database that do wrong: what it costs, and what is told."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import select, update

from dcc.cli.demo import submissions
from dcc.databases.transactions import writing
from dcc.operations.sessions import open_session
from dcc.outcomes import SourceCrawl
from dcc.session.crawling import crawl_file_sources
from dcc.tracker.models import AnException, FileSource, SourceCrawlRow
from tests.support.databases import only_sqlite
from tests.support.installations import Installation, specimens
from tests.support.sent_statements import sent_statements
from tests.support.served_sources import Relay, below, large_archive, put_many, register
from tests.support.servers import Share
from tests.support.trials import EVERYWHERE, usually

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


def crawls(installation: Installation) -> dict[int, tuple[str, str | None, str | None]]:
    """The latest crawl of each source as the tracker has it: outcome, kind of error, message."""
    query = (
        select(SourceCrawlRow.file_source_id, SourceCrawlRow.outcome, AnException.short_name, SourceCrawlRow.message)
        .outerjoin(AnException, AnException.id == SourceCrawlRow.exception_id)
        .order_by(SourceCrawlRow.id)
    )
    with installation.tracker.connect() as connection:
        return {row[0]: (row[1], row[2], row[3]) for row in connection.execute(query)}


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
        outcome, kind, message = crawls(quick)[refused]
        assert (outcome, kind) == ("failed", "LoginRefusedError")
        assert message is not None
        assert "Check the user name and password" in message
        assert "wrong horse" not in message
        assert result.zips[KEY].succeeded
        assert quick.attempts(KEY) == [(unaffected, "xsd done")]

    @only_sqlite
    def test_a_password_that_is_changed_after_the_crawl_gives_the_source_up_at_once(
        self, quick: Installation, faulty_ftp_server: Callable[..., Share]
    ) -> None:
        share = faulty_ftp_server()
        keys = put_many(share, "H", 40)
        register(quick, share)
        with open_session(quick.tracker, quick.settings) as session:
            list(crawl_file_sources(session))
        with writing(quick.tracker) as connection:
            connection.execute(update(FileSource).values(accesskey="wrong horse"))
        failed = quick.run_session(crawl=False).zips
        with writing(quick.tracker) as connection:
            connection.execute(update(FileSource).values(accesskey=share.accesskey))
        again = quick.run_session().zips
        assert {outcome.reasons[-1].kind for outcome in failed.values()} == {"LoginRefusedError"}
        assert sum(outcome.attempts for outcome in failed.values()) <= quick.settings.downloads_per_source
        assert sorted(again) == sorted(keys)
        assert set(quick.states().values()) == {"xsd done"}


@only_sqlite
def test_tens_of_thousands_of_entries_are_a_normal_session(
    quick: Installation, sftp_server: Share, tmp_path: Path
) -> None:
    """Seven queries in five sessions for each known file.

    Many more are listed from each kind of server, and recorded, by the tests of those.
    """
    number = 30_000 if EVERYWHERE else 10_000
    (tmp_path / "add").mkdir()
    for inc in range(number):
        name = tmp_path / "add" / f"H.2013-10-{inc % 28 + 1:02}.{inc}.impc.zip"
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
    register(quick, replace(sftp_server, base_path=str(tmp_path)))

    def crawl() -> tuple[SourceCrawl, float, int]:
        began = time.process_time()
        with open_session(quick.tracker, quick.settings) as session, sent_statements(quick.tracker) as sent:
            (found,) = crawl_file_sources(session)
        return found, time.process_time() - began, len(sent)

    first, seconds, statements = crawl()
    assert (seconds < number / 3_000, statements < 300) == (True, True)
    assert (first.outcome, first.listed, first.new) == ("ok", number, number)
    again, seconds_again, statements_again = crawl()
    assert (seconds_again < number / 6_000, statements_again < 30) == (True, True)
    assert (again.listed, again.known, again.new, again.changed) == (number, number, 0, 0)
