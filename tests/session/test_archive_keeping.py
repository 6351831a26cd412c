"""Sessions keep each archive that arrived in the archive store, and catch up with what they could not keep."""

import hashlib
import shutil
from pathlib import Path

import pytest
from sqlalchemy import delete, select, update

from dcc.cli.demo import submissions
from dcc.naming import Action
from dcc.operations.archive_audits import audit_archives
from dcc.outcomes import EndReason, SubmissionKey
from dcc.tracker.crawls import list_sessions
from dcc.tracker.models import ArchiveCopy, StoredArchive, ZipDownload
from dcc.tracker.queries.submission_stories import submission_story
from tests.support.asking import column_in, execute_in, in_reading, rows_in
from tests.support.installations import Folder, Installation, md5, specimens

KEY = "add/H.2013-10-31.1.impc.zip"
DAMAGED = "add/H.2013-10-31.2.impc.zip"
INVALID = "add/H.2013-10-31.3.impc.zip"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def delivered(installation: Installation) -> list[str | None]:
    """The SHA-256 of each attempt, in order."""
    return column_in(installation.tracker, select(ZipDownload.sha256).order_by(ZipDownload.id))


def copies(installation: Installation) -> list[tuple[str, str, str]]:
    """SHA-256, name of the replica, and state of each copy."""
    query = select(StoredArchive.sha256, ArchiveCopy.replica, ArchiveCopy.state).join(
        ArchiveCopy, ArchiveCopy.archive_id == StoredArchive.id
    )
    return sorted((row.sha256, Path(row.replica).name, row.state) for row in rows_in(installation.tracker, query))


def in_store(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("??/*"))


def test_what_arrived_is_kept_also_if_it_is_bad(installation: Installation, folder: Folder) -> None:
    good = folder.put(KEY)
    damaged = folder.put(DAMAGED, b"PK no archive")
    invalid = folder.put(INVALID, {name: content[:-9] for name, content in specimens(stem="2013-10-31.3").items()})
    installation.run_session()
    kept = [sha256(content) for content in (good, damaged, invalid)]
    assert sorted(filter(None, delivered(installation))) == sorted(kept)
    assert copies(installation) == sorted((one, "archive", "good") for one in kept)
    assert in_store(installation.settings.home / "archive") == sorted(kept)
    assert all(column_in(installation.tracker, select(StoredArchive.stored)))


def test_a_replica_that_was_away_is_caught_up_with(installation: Installation, folder: Folder) -> None:
    one, two = installation.root / "one", installation.root / "two"
    one.mkdir()
    both = installation.with_settings(archive_replicas=f"{one}, {two}")
    content = sha256(folder.put(KEY))
    result = both.run_session()
    assert result.zips[KEY].succeeded
    assert any(f"lacks copies in {two}" in notice for notice in result.closing_notices)
    assert copies(both) == [(content, "one", "good"), (content, "two", "pending")]
    assert column_in(both.tracker, select(StoredArchive.stored)) == [None]
    two.mkdir()
    assert both.run_session().closing_notices == ()
    assert copies(both) == [(content, "one", "good"), (content, "two", "good")]
    assert in_store(two) == [content]
    assert all(column_in(both.tracker, select(StoredArchive.stored)))


def test_a_session_that_a_required_replica_kept_from_storing_archives_ends_by_faults(
    installation: Installation, folder: Folder
) -> None:
    needed, spare = installation.root / "needed", installation.root / "spare"
    needed.mkdir()
    content = sha256(folder.put(KEY))
    both = installation.with_settings(archive_replicas=f"{needed}, {spare} optional")
    assert (both.run_session().ended, both.run_session().ended) == (EndReason.FINISHED, EndReason.FINISHED)
    needed.rename(installation.root / "away")
    later = sha256(folder.put(DAMAGED, submissions.archive(specimens(stem="2013-10-31.2"))))
    result = both.run_session()
    assert (result.zips[DAMAGED].succeeded, result.ended) == (True, EndReason.FAULTS)
    (notice, _) = result.closing_notices
    assert f"The archive store {needed} is missing, and archives were in it: mount" in notice
    (session,) = in_reading(both.tracker, list_sessions, limit=1)
    (told,) = [task.comment or "" for task in session.tasks if task.outcome == "failed"]
    assert told.startswith(f"Archive store: The archive store {needed} is missing")
    (installation.root / "away").rename(needed)
    assert both.run_session().ended is EndReason.FINISHED
    assert in_store(needed) == sorted([content, later])


def test_a_session_keeps_what_earlier_versions_left_in_staging(installation: Installation, folder: Folder) -> None:
    """Also archives with one name under several actions."""
    keys = [SubmissionKey(action, KEY.removeprefix("add/")) for action in (Action.ADD, Action.EDIT)]
    contents = [folder.put(str(key), specimens(mice=mice)) for mice, key in enumerate(keys, start=2)]
    folder.put(INVALID, submissions.archive(specimens(stem="2013-10-31.3")))
    installation.run_session()
    stories = [in_reading(installation.tracker, submission_story, key) for key in keys]
    assert [(story.size_bytes, story.md5) for story in stories] == [(len(one), md5(one)) for one in contents]
    execute_in(installation.tracker, delete(StoredArchive), update(ZipDownload).values(sha256=None))
    shutil.rmtree(installation.settings.home / "archive")
    # What is not as it arrived is not kept.
    (installation.settings.staging_directory / INVALID).write_bytes(b"other")
    installation.run_session()
    kept = sorted(map(sha256, contents))
    assert copies(installation) == [(one, "archive", "good") for one in kept]
    assert sorted(filter(None, delivered(installation))) == kept


@pytest.mark.parametrize("empty", [True, False])
def test_a_store_whose_disk_is_not_mounted_is_left_alone_until_it_is_or_is_given_up(
    installation: Installation, folder: Folder, empty: bool
) -> None:
    first = sha256(folder.put(KEY))
    installation.run_session()
    store, elsewhere = installation.settings.home / "archive", installation.root / "elsewhere"
    store.rename(elsewhere)
    if empty:
        store.mkdir()
    second = sha256(folder.put(INVALID, specimens(stem="2013-10-31.3")))
    result = installation.run_session()
    assert result.zips[INVALID].succeeded
    (notice,) = result.closing_notices
    assert f"The archive store {store} is {'empty' if empty else 'missing'}, and archives were in it: mount" in notice
    assert result.ended is EndReason.FAULTS
    audited = audit_archives(installation.tracker, installation.settings, "nightly")
    assert audited.unreachable.keys() == {str(store)}
    assert in_store(store) == []
    assert copies(installation) == sorted([(first, "archive", "good"), (second, "archive", "pending")])

    if empty:
        store.rmdir()
    elsewhere.rename(store)
    assert installation.run_session().closing_notices == ()
    assert in_store(store) == sorted([first, second])

    shutil.rmtree(store)
    begun = audit_archives(installation.tracker, installation.settings, "operator", everything=True)
    assert (begun.is_intact, begun.unreachable) == (True, {})
    assert in_store(store) == sorted([first, second])
