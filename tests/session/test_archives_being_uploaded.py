"""Archives that are listed while they are uploaded, or change after they were taken, on real servers."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import select, update

from dcc.cli.demo import submissions
from dcc.errors import ListingFailedError, NotFoundError
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, Status
from dcc.reports.causes.skipped_archives import SkipReason, skipped_entries
from dcc.runtime.clock import utc_now
from dcc.session import source_crawls, source_listings
from dcc.session.archives import archive_phases
from dcc.sources.base import ActionListing
from dcc.sources.folder import LocalConnection
from dcc.tracker.crawls import latest_findings
from dcc.tracker.models import FileSourceHasZip, Reopening, SourceCrawlRow, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.queries.submission_stories import submission_story
from dcc.tracker.register.file_sources import change_source
from dcc.tracker.register.source_schedules import load_crawl_dues
from tests.support.asking import column_in, execute_in, in_reading, in_writing, row_in, value_in
from tests.support.databases import only_sqlite
from tests.support.installations import MODIFIED, Folder, Installation, growing, md5, specimens
from tests.support.served_sources import Web, register
from tests.support.servers import KINDS_OF_SERVERS, Share
from tests.support.session_reports import session_report
from tests.support.trials import usually

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"
QUIET = 1.5
"""Longer than the whole seconds by which servers tell when a file was written last."""
BRIEF = 0.5


def now() -> int:
    """A time that is young whatever the quiet period: in whole seconds, as servers tell it, and a little ahead."""
    return int(time.time()) + 1


@pytest.fixture
def careful(quick: Installation) -> Installation:
    """The installation with a quiet period."""
    return quick.with_settings(quiet_seconds=QUIET)


def archive() -> bytes:
    return submissions.archive(specimens())


def publish(share: Share, content: bytes) -> None:
    """Publish the MD5 of a content beside the archive."""
    share.put(f"{KEY}.md5", f"{md5(content)}  {NAME}\n".encode())


def before_the_second_look(patch: pytest.MonkeyPatch, module: ModuleType, event: Callable[[], object]) -> None:
    """Have something happen before sources are listed once more."""
    look = source_listings.list_again

    def later(*arguments: Any) -> Any:
        event()
        return look(*arguments)

    patch.setattr(module, "list_again", later)


def uploading(installation: Installation) -> list[bool]:
    return [when is not None for when in column_in(installation.tracker, select(FileSourceHasZip.uploading_since))]


class TestYoungArchives:
    @pytest.mark.parametrize("share", usually(["local_folder"], KINDS_OF_SERVERS), indirect=True)
    def test_what_was_copied_right_before_is_taken_at_the_first_try(self, quick: Installation, share: Share) -> None:
        share.put(KEY, archive(), now())
        register(quick, share)
        began = time.monotonic()
        result = quick.with_settings(quiet_seconds=BRIEF).run_session()
        assert result.zips[KEY].succeeded
        assert time.monotonic() - began >= BRIEF
        assert uploading(quick) == [False]
        assert [crawl.notes for crawl in result.crawls.values()] == [()]

    @pytest.mark.parametrize("share", usually(["sftp_server", "web_folder"], KINDS_OF_SERVERS), indirect=True)
    def test_what_grows_is_not_taken_nor_failed_before_it_is_complete(
        self, careful: Installation, share: Share
    ) -> None:
        source_id = register(careful, share)
        with growing(share.root / KEY, archive()):
            result = careful.run_session()
        assert result.zips == {}
        crawl = result.crawls[source_id]
        assert (crawl.outcome, crawl.findings) == ("ok", ())
        assert [f"{KEY} is being uploaded to" in note for note in crawl.notes] == [True]
        with careful.tracker.connect() as connection:
            story = submission_story(connection, SubmissionKey(Action.ADD, NAME))
            assert story.hosts[0].uploading_since is not None
            assert [finding.kind for finding in story.findings] == ["uploading"]
            (said,) = [entry for entry in skipped_entries(connection, source_id) if entry.entry == KEY]
            assert said.why is SkipReason.UPLOADING
            assert [finding.kind for finding in latest_findings(connection)] == ["uploading"]
            assert "is being uploaded" in " ".join(session_report(connection, result.id).text.split())
        assert careful.states() == {KEY: "zip_name done"}
        assert careful.attempts(KEY) == []
        share.put(KEY, archive(), int(time.time()) - 60)
        result = careful.run_session()
        assert result.zips[KEY].succeeded
        crawl = result.crawls[source_id]
        assert (crawl.changed, crawl.findings, crawl.notes) == (0, (), ())
        assert uploading(careful) == [False]

    def test_what_grows_on_another_source_is_not_the_size_of_what_was_taken(self, careful: Installation) -> None:
        content = careful.add_folder("H", "centre").put(KEY)
        assert careful.run_session().zips[KEY].succeeded
        with growing(careful.add_folder("H", "other").path / KEY, content):
            careful.run_session()
        assert (careful.states(), uploading(careful)) == ({KEY: "xsd done"}, [False, True])
        assert value_in(careful.tracker, select(ZipFile.size_bytes)) == len(content)

    @pytest.mark.both_databases
    def test_a_source_with_an_age_is_listed_again_after_an_hour(
        self, careful: Installation, local_folder: Share
    ) -> None:
        source_id = register(careful, local_folder)
        in_writing(careful.tracker, change_source, source_id, every="7d")
        with growing(local_folder.root / KEY, archive()):
            crawl = careful.run_session().crawls[source_id]
        in_an_hour = utc_now() + timedelta(hours=1)
        due = in_reading(careful.tracker, load_crawl_dues, 3)[source_id]
        assert str(due) == crawl.then
        assert due.until is not None
        assert due.until < in_an_hour
        local_folder.put(KEY, archive(), int(time.time()) - 60)
        assert careful.run_session().crawls == {}
        execute_in(careful.tracker, update(SourceCrawlRow).values(start_time=utc_now() - timedelta(hours=1)))
        assert careful.run_session().zips[KEY].succeeded
        due = in_reading(careful.tracker, load_crawl_dues, 3)[source_id]
        assert due.until is not None
        assert due.until > in_an_hour

    def test_what_was_not_as_published_and_is_uploaded_anew_is_being_uploaded_and_not_failed(
        self, careful: Installation, local_folder: Share
    ) -> None:
        content = archive()
        local_folder.put(KEY, submissions.archive(specimens(mice=4)), int(time.time()) - 60)
        publish(local_folder, content)
        source_id = register(careful, local_folder)
        assert careful.run_session().zips[KEY].failed
        assert careful.states() == {KEY: "zip_md5 failed"}
        with growing(local_folder.root / KEY, content):
            result = careful.run_session()
        assert result.zips == {}
        assert [f"{KEY} is being uploaded to" in note for note in result.crawls[source_id].notes] == [True]
        assert (careful.states(), uploading(careful)) == ({KEY: "zip_name done"}, [True])
        local_folder.put(KEY, content, int(time.time()) - 60)
        assert careful.run_session().zips[KEY].succeeded

    @only_sqlite
    def test_a_second_look_that_fails_leaves_it_to_a_later_session(
        self, quick: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        careful = quick.with_settings(quiet_seconds=BRIEF)
        folder.put(KEY, modified=now())
        list_action, asked = LocalConnection.list_action, []

        def away(self: LocalConnection, action: Action) -> ActionListing:
            asked.append(action)
            if len(asked) > 3:
                raise ListingFailedError("The disk is away.")
            return list_action(self, action)

        monkeypatch.setattr(LocalConnection, "list_action", away)
        result = careful.run_session()
        assert result.zips == {}
        (note,) = result.crawls[folder.source_id].notes
        assert f"{KEY} may be being uploaded" in note
        monkeypatch.undo()
        time.sleep(BRIEF + 1)
        assert careful.run_session().zips[KEY].succeeded

    @only_sqlite
    def test_a_checksum_and_a_manifest_that_follow_the_archive_count_from_the_second_look_on(
        self, quick: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        careful = quick.with_settings(quiet_seconds=BRIEF)
        unlisted = "add/H.2013-10-31.2.impc.zip"

        def later() -> None:
            (folder.path / f"{KEY}.md5").write_text(f"{md5(b'another')}  {NAME}\n")
            (folder.path / f"{unlisted}.manifest.json").write_text('{"files": [{"file": "missing.xml"}]}')

        before_the_second_look(monkeypatch, source_crawls, later)
        for key in (KEY, unlisted):
            folder.put(key, modified=now())
        careful.run_session()
        assert careful.states() == {KEY: "zip_md5 failed", unlisted: "unzip failed"}

    @only_sqlite
    def test_a_session_that_died_before_the_second_look_costs_nothing(
        self, careful: Installation, folder: Folder
    ) -> None:
        folder.put(KEY, modified=int(time.time()) - 60)
        careful.crawl()
        since = FileSourceHasZip.last_update
        execute_in(careful.tracker, update(FileSourceHasZip).values(uploading_since=since))
        assert careful.run_session().zips[KEY].succeeded


class TestChangedWhileFetched:
    def test_an_archive_that_grew_since_it_was_listed_is_left_to_a_later_session(
        self, quick: Installation, local_folder: Share
    ) -> None:
        """Also where the server's clock is wrong, so that it seems old."""
        content = archive()
        local_folder.put(KEY, content[: len(content) // 2])
        register(quick, local_folder)
        quick.crawl()
        local_folder.put(KEY, content, 1_400_000_060)
        result = quick.run_session(crawl=False)
        assert result.zips == {}
        assert any(f"{KEY} is being uploaded to" in notice for notice in result.closing_notices)
        assert quick.states() == {KEY: "zip_name done"}
        assert uploading(quick) == [True]
        assert quick.run_session().zips[KEY].succeeded

    def test_a_retry_that_meets_a_growing_archive_keeps_what_it_was(
        self, quick: Installation, careful: Installation, local_folder: Share
    ) -> None:
        local_folder.put(KEY, broken_document(b""))
        register(quick, local_folder)
        quick.run_session()
        assert quick.states() == {KEY: "xsd failed"}
        (quick.settings.staging_directory / KEY).unlink()
        with (
            growing(local_folder.root / KEY, submissions.archive(specimens(mice=3))),
            pytest.raises(NotFoundError, match="still being uploaded"),
        ):
            careful.process_again(KEY)
        assert quick.states() == {KEY: "xsd failed"}
        local_folder.put(KEY, archive(), 1_400_000_060)
        assert quick.run_session().zips[KEY].succeeded

    @only_sqlite
    def test_what_a_retry_has_seen_changed_is_taken_by_a_later_session_if_the_retry_is_not_possible(
        self, quick: Installation, careful: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whether it was complete at once, or at the second look, which was its last change."""
        keys = [f"add/H.2013-10-31.{number}.impc.zip" for number in range(1, 5)]
        for key in keys:
            folder.put(key, broken_document(b"") if key != keys[3] else None)
        quick.run_session()
        looks = []

        def later() -> None:
            looks.append(1)
            if len(looks) == 2:
                folder.put(keys[1], modified=now())
                folder.put(keys[3], submissions.archive(specimens(mice=3)), now())

        before_the_second_look(monkeypatch, source_crawls, later)
        folder.put(keys[0], modified=MODIFIED + 60)
        folder.put(keys[1], b"the beginning", modified=now())
        folder.put(keys[2], modified=now())
        folder.put(keys[3], b"the beginning", modified=now())
        with pytest.raises(NotFoundError, match="still being uploaded"):
            careful.process_again(*keys)
        monkeypatch.undo()
        result = quick.run_session()
        assert {key: outcome.succeeded for key, outcome in result.zips.items()} == dict.fromkeys(keys, True)

    @pytest.mark.parametrize("has_md5", [False, True], ids=["no checksum", "checksum"])
    @pytest.mark.parametrize("share", usually(["local_folder"], KINDS_OF_SERVERS), indirect=True)
    def test_half_an_archive_is_being_uploaded_if_it_has_grown_since_also_without_a_quiet_period(
        self, quick: Installation, share: Share, has_md5: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = archive()
        share.put(KEY, half(content))
        if has_md5:
            publish(share, content)
        source_id = register(quick, share)
        before_the_second_look(monkeypatch, archive_phases, lambda: share.put(KEY, content, 1_400_000_060))
        result = quick.run_session()
        assert result.zips == {}
        assert any(f"{KEY} is being uploaded to" in notice for notice in result.closing_notices)
        assert (quick.states(), uploading(quick)) == ({KEY: "zip_name done"}, [True])
        monkeypatch.undo()
        result = quick.run_session()
        assert result.zips[KEY].succeeded
        assert result.crawls[source_id].findings == ()
        assert quick.staged()[KEY] == content

    def test_a_server_that_serves_one_connection_can_be_listed_again_after_the_downloads(
        self, quick: Installation, web: Web, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The connection of the last download must not be kept: half an archive would be taken for damaged."""
        web.server.one_connection = threading.Lock()
        content = archive()
        web.share.put(KEY, half(content))
        # The newest archive is fetched first.
        web.share.put(KEY.replace("10-31", "10-30"), submissions.archive(specimens(stem="2013-10-30.1")))
        web.register(quick)
        before_the_second_look(monkeypatch, archive_phases, lambda: web.share.put(KEY, content, 1_400_000_060))
        quick.with_settings(downloads_per_source=1, idle_timeout=1, list_timeout=2, login_timeout=1).run_session()
        assert quick.states()[KEY] == "zip_name done"

    def test_what_is_tried_again_and_still_being_uploaded_is_taken_by_a_later_session(
        self, quick: Installation, careful: Installation, local_folder: Share
    ) -> None:
        """Whether it failed to arrive before, or was damaged and another source has it."""
        content = archive()
        damaged = quick.add_folder("H", "damaged")
        damaged.put(KEY, half(content))
        quick.run_session()
        assert quick.states() == {KEY: "unzip failed"}
        register(quick, local_folder)
        with growing(local_folder.root / KEY, content):
            for installation in (careful, quick, careful):
                assert [outcome.succeeded for outcome in installation.run_session().zips.values()] in ([], [False])
        local_folder.put(KEY, content, int(time.time()) - 60)
        result = careful.run_session()
        assert result.zips[KEY].succeeded
        assert quick.staged()[KEY] == content


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def broken_document(_: bytes) -> bytes:
    return submissions.archive({name: content[:-20] for name, content in specimens().items()})


class TestChangedAfterwards:
    @pytest.mark.parametrize(
        ("first", "state"),
        [(half, "unzip failed"), (broken_document, "xsd failed"), (lambda content: content, "xsd done")],
        ids=["half", "invalid", "valid, not uploaded"],
    )
    def test_what_changed_before_its_data_were_uploaded_is_taken_anew(
        self, quick: Installation, local_folder: Share, first: Callable[[bytes], bytes], state: str
    ) -> None:
        local_folder.put(KEY, first(archive()))
        source_id = register(quick, local_folder)
        quick.run_session()
        assert quick.states() == {KEY: state}
        complete = submissions.archive(specimens(mice=3))
        local_folder.put(KEY, complete, 1_400_000_060)
        result = quick.run_session()
        assert result.zips[KEY].succeeded
        crawl = result.crawls[source_id]
        assert (crawl.changed, crawl.findings) == (1, ())
        assert ["fetched again by itself" in note for note in crawl.notes] == [True]
        assert quick.staged()[KEY] == complete
        entry = row_in(quick.tracker, select(Reopening.requested_by, Reopening.reason))
        assert entry == ("crawl", "The archive changed on its file source after its last download.")
        assert quick.run_session().zips == {}

    def test_what_was_withdrawn_by_a_person_or_failed_beside_what_was_uploaded_is_not(
        self, quick: Installation, folder: Folder
    ) -> None:
        failed = "add/H.2013-10-31.2.impc.zip"
        folder.put(KEY)
        quick.run_session()
        withdrawn = {"phase_id": Phase.UPLOAD, "status_id": Status.CANCELLED}
        execute_in(quick.tracker, *(update(model).values(withdrawn) for model in (XmlFile, ZipDownload, ZipAction)))
        folder.put(failed, broken_document(b""))
        quick.run_session()
        uploaded = update(XmlFile).where(XmlFile.phase_id != Phase.UPLOAD)
        execute_in(quick.tracker, uploaded.values(phase_id=Phase.QC, status_id=Status.PENDING))
        for key in (KEY, failed):
            folder.put(key, submissions.archive(specimens(mice=3)))
        result = quick.run_session()
        assert result.zips == {}
        of_withdrawn, of_failed = sorted(result.crawls[folder.source_id].findings)
        assert of_withdrawn.endswith(f"dcc retry {KEY}")
        assert "dcc data undo" not in of_withdrawn
        assert "dcc data undo" in of_failed

    @only_sqlite
    def test_a_mirror_that_changes_does_not_undo_what_came_from_elsewhere(
        self, quick: Installation, folder: Folder
    ) -> None:
        mirror = quick.add_folder("H", "mirror")
        folder.put(KEY)
        mirror.put(KEY)
        quick.run_session()
        mirror.put(KEY, b"something else")
        assert quick.run_session().zips == {}
        assert quick.states() == {KEY: "xsd done"}
