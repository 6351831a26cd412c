"""Each attempt to fetch an archive is kept with how it ended, and a web server is not asked to send what is here."""

from datetime import date
from typing import Any

import pytest
from sqlalchemy import select

from dcc.cli.demo import submissions
from dcc.databases.transactions import writing
from dcc.outcomes import AttemptOutcome
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.collecting import collect_submission
from dcc.reports.submissions.sentences import attempt_sentence
from dcc.runtime.clock import utc_now
from dcc.session.leases import end_attempts
from dcc.store.staging import PartOrigin, Staging
from dcc.tracker import progress
from dcc.tracker.hostings.download_plan import cancel_orphans
from dcc.tracker.models import FileSourceHasZip, ZipDownload
from tests.support.asking import in_reading, rows_in
from tests.support.data_installations import key_of
from tests.support.databases import only_sqlite
from tests.support.installations import MODIFIED, Folder, Installation, md5, specimens
from tests.support.served_sources import Relay, Web, large_archive, register
from tests.support.servers import Share

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"
GOOD = submissions.archive(specimens())
OTHER = submissions.archive(specimens(), date(2013, 11, 1))
"""Another archive of as many bytes."""
BAD = submissions.archive({"H.2013-10-31.1.specimen.impc.xml": b"<a/>"})


def attempts(installation: Installation) -> list[Any]:
    """The rows of `zip_download`, oldest first."""
    return rows_in(installation.tracker, select(ZipDownload.__table__).order_by(ZipDownload.id))


def ended(installation: Installation) -> list[tuple[str | None, int, str | None]]:
    """How each attempt ended, the bytes that were sent, and the checksum of the archive that it had."""
    return [(one.outcome, one.downloaded_size_bytes, one.content_md5) for one in attempts(installation)]


def conditions(web: Web) -> list[dict[str, str]]:
    """What each request for an archive's bytes made them depend on, oldest first."""
    names = ("If-None-Match", "If-Modified-Since")
    return [{name: headers[name] for name in names if name in headers} for headers in web.archive_requests()]


@pytest.fixture
def hosted(installation: Installation, web: Web) -> Folder:
    """The folder of the web server, which tells the ETags of its archives."""
    web.server.etag = lambda content: f'"{md5(content)[:8]}"'
    return web.register(installation)


FINISHED, SENT_AGAIN = ("finished", len(GOOD), md5(GOOD)), ("finished", len(OTHER), md5(OTHER))
NOT_SENT = ("not_modified", 0, md5(GOOD))


@only_sqlite
class TestOnAWebServer:
    def test_what_has_not_changed_is_not_sent_again(self, installation: Installation, web: Web, hosted: Folder) -> None:
        web.server.no_times = True
        hosted.put(KEY, GOOD)
        session = installation.run_session()
        outcome = installation.process_again(KEY).zips[KEY]
        assert (outcome.succeeded, outcome.transfer_seconds, outcome.fetched) == (True, None, "not_modified")
        assert ended(installation) == [FINISHED, NOT_SENT]
        assert conditions(web) == [{}, {"If-None-Match": f'"{md5(GOOD)[:8]}"'}]
        first, second = attempts(installation)
        assert (first.session_id, second.session_id) == (session.id, session.id + 1)
        assert installation.attempts(KEY) == [(hosted.source_id, "xsd done")] * 2
        assert installation.process_again(KEY).zips[KEY].succeeded
        assert ended(installation)[2:] == [NOT_SENT]
        report = in_reading(installation.tracker, collect_submission, None, key_of(KEY), installation.settings)
        catalogue = load_catalogue("en", installation.settings)
        unchanged = "It has not changed, so nothing was sent."
        assert [attempt_sentence(catalogue, one) for one in report.attempts] == ["It arrived.", unchanged, unchanged]

    @pytest.mark.parametrize("etag", ["strong", "weak", "none"])
    def test_what_another_content_is_told_of_is_sent(
        self, installation: Installation, web: Web, hosted: Folder, etag: str
    ) -> None:
        """A weak ETag may stand for other bytes, and so is not sent: the time is."""
        tags = {"strong": web.server.etag, "weak": lambda _: 'W/"1"', "none": None}
        web.server.etag = tags[etag]
        hosted.put(KEY, GOOD)
        installation.run_session()
        hosted.put(KEY, OTHER, MODIFIED + 1)
        assert installation.process_again(KEY).zips[KEY].succeeded
        assert ended(installation) == [FINISHED, SENT_AGAIN]
        assert web.archive_requests()[0]["If-Unmodified-Since"] == "Tue, 13 May 2014 16:53:20 GMT"
        time = {"If-Modified-Since": "Tue, 13 May 2014 16:53:20 GMT"}
        assert conditions(web)[1] == time | ({"If-None-Match": f'"{md5(GOOD)[:8]}"'} if etag == "strong" else {})

    def test_a_failed_archive_that_was_only_touched_is_taken_from_staging(
        self, installation: Installation, web: Web, hosted: Folder
    ) -> None:
        hosted.put(KEY, BAD)
        installation.run_session()
        hosted.put(KEY, BAD, MODIFIED + 1)
        assert installation.run_session().zips[KEY].failed
        assert ended(installation) == [("finished", len(BAD), md5(BAD)), ("not_modified", 0, md5(BAD))]
        assert installation.attempts(KEY) == [(hosted.source_id, "xsd failed")] * 2

    def test_a_retry_of_a_damaged_archive_has_it_sent_whatever_its_tag_and_time_say(
        self, installation: Installation, web: Web, hosted: Folder
    ) -> None:
        """Web servers make a tag of the size and the time, which an archive uploaded anew may have again."""
        web.server.etag = lambda _: '"the same"'
        damaged = b"#" * len(GOOD)
        hosted.put(KEY, damaged)
        installation.run_session()
        hosted.put(KEY, GOOD)
        assert installation.process_again(KEY).zips[KEY].succeeded
        assert ended(installation) == [("finished", len(GOOD), md5(damaged))] * 2 + [FINISHED]

    @pytest.mark.parametrize(
        ("content", "modified"), [(OTHER, MODIFIED - 3600), (submissions.archive(specimens(mice=3)), MODIFIED)]
    )
    def test_what_is_listed_as_older_or_with_another_size_is_sent(
        self, installation: Installation, web: Web, hosted: Folder, content: bytes, modified: int
    ) -> None:
        """By time alone a server says of such a file that it has not changed."""
        web.server.etag = None
        hosted.put(KEY, GOOD)
        installation.run_session()
        hosted.put(KEY, content, modified)
        assert installation.run_session().zips[KEY].succeeded
        assert ended(installation) == [FINISHED, ("finished", len(content), md5(content))]

    def test_what_had_arrived_before_has_no_tag_of_the_archive_that_was_sent_before_it(
        self, installation: Installation, web: Web, hosted: Folder
    ) -> None:
        """Its part was complete when its session was killed, so that nothing is asked for."""
        newer = KEY.replace(".1.impc", ".2.impc")
        hosted.put(KEY, GOOD)
        hosted.put(newer, specimens(stem="2013-10-31.2"))
        staging, key = Staging(installation.settings.staging_directory), key_of(KEY)
        staging.prepare(key)
        staging.part(key).write_bytes(GOOD)
        staging.note_origin(key, PartOrigin(hosted.source_id, len(GOOD), MODIFIED))
        once = installation.with_settings(downloads_per_source=1)
        assert {outcome.succeeded for outcome in once.run_session().zips.values()} == {True}
        assert len(conditions(web)) == 1
        sent, complete = attempts(installation)
        assert (sent.etag is not None, complete.etag, complete.last_modified) == (True, None, None)

    @pytest.mark.parametrize("lost", ["removed", "other bytes", "published"])
    def test_nothing_is_asked_of_it_where_the_bytes_are_not_to_be_had(
        self, installation: Installation, web: Web, hosted: Folder, lost: str
    ) -> None:
        web.server.no_times = True
        hosted.put(KEY, GOOD)
        installation.run_session()
        staged = installation.settings.staging_directory / KEY
        if lost == "removed":
            staged.unlink()
        elif lost == "other bytes":
            staged.write_bytes(b"#" * len(GOOD))
        else:
            (hosted.path / f"{KEY}.md5").write_text(f"{md5(OTHER)}  {NAME}\n")
        installation.process_again(KEY)
        assert not any(conditions(web))
        _, *later = attempts(installation)
        assert {one.outcome for one in later} == {"failed" if lost == "published" else "finished"}

    def test_a_condition_is_made_of_one_archive_alone(
        self, installation: Installation, web: Web, hosted: Folder
    ) -> None:
        """The next one over the same connection is sent whatever its time."""
        web.server.etag, other = None, KEY.replace(".1.impc", ".2.impc")
        hosted.put(KEY, BAD)
        installation.run_session()
        hosted.put(KEY, BAD, MODIFIED + 1)
        hosted.put(other, specimens(stem="2013-10-31.2"))
        installation.run_session()
        asked = [{}, {}, {"If-Modified-Since": "Tue, 13 May 2014 16:53:20 GMT"}]
        assert sorted(conditions(web), key=len) == asked
        assert [one.outcome for one in attempts(installation)] == ["finished"] * 3


@only_sqlite
@pytest.mark.servers
def test_what_broke_off_is_aborted_and_what_was_not_to_be_had_failed(
    installation: Installation, sftp_server: Share
) -> None:
    content = large_archive()
    sftp_server.put(KEY, content)
    once = installation.with_settings(max_retries=0)
    with Relay(sftp_server, cut_after=700_000) as relay:
        register(installation, relay.share)
        once.run_session()
    once.run_session(crawl=False)
    (broken, bytes_of, _), *later = ended(installation)
    assert (broken, 0 < bytes_of < len(content)) == ("aborted", True)
    assert later == [("failed", 0, None)]
    register(installation, sftp_server)
    once.run_session()
    assert ended(installation)[-1] == ("finished", len(content), md5(content))


def test_what_was_under_way_ends_with_its_session(installation: Installation, folder: Folder) -> None:
    """Cancelled where a person ended it; aborted where it died, also where the next one finds that out."""
    folder.put(KEY)
    installation.run_session()
    with writing(installation.tracker) as connection:
        hostings = list(connection.scalars(select(FileSourceHasZip.id)))
        for session in (7, 8, 9):
            progress.add_downloads(connection, hostings, utc_now(), more=[{"session_id": session}])
        end_attempts(connection, 7, AttemptOutcome.CANCELLED)
        end_attempts(connection, 8, AttemptOutcome.ABORTED)
        cancel_orphans(connection, None)
    assert [one.outcome for one in attempts(installation)] == ["finished", "cancelled", "aborted", "aborted"]
    assert [state for _, state in installation.attempts(KEY)] == ["xsd done", *["download cancelled"] * 3]
