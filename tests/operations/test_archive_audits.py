"""Audits of the archive store: what is corrupted, lost or away is whole again, and what is gone everywhere is named."""

import hashlib
import os
import shutil
import threading
from collections import Counter
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import Engine, select, update

from dcc.databases.transactions import writing
from dcc.errors import NotFoundError
from dcc.operations.archive_audits import ArchiveCopies, CatchUpResult, audit_archives, repair_archives
from dcc.operations.platform_status import store_status
from dcc.operations.staging.cleanup import RetentionVerdict, review_staging
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.store.archive_store import ArchiveStore
from dcc.tracker.models import ArchiveCopy, StoredArchive, ZipDownload
from dcc.tracker.register.file_sources import change_source
from dcc.tracker.stored_archives import audits, record_stored_archives
from tests.support.asking import column_in, execute_in, in_reading, in_writing
from tests.support.installations import Folder, Installation
from tests.support.trials import EVERYWHERE

KEY = "add/H.2013-10-31.1.impc.zip"


def keep(tracker: Engine, settings: Settings, folder: Path, count: int) -> dict[str, bytes]:
    """Put so many tiny archives into the store; their bytes by SHA-256."""
    store, contents = ArchiveStore(settings), [f"archive {number}".encode() for number in range(count)]
    kept = []
    for content in contents:
        (folder / "archive").write_bytes(content)
        kept.append((None, store.put(folder / "archive")))
    store.close()
    in_writing(tracker, record_stored_archives, kept)
    return {hashlib.sha256(content).hexdigest(): content for content in contents}


def replicas(settings: Settings, root: Path, count: int) -> tuple[Settings, list[Path]]:
    folders = [root / f"replica {number}" for number in range(count)]
    for folder in folders:
        folder.mkdir()
    return settings.model_copy(update={"archive_replicas": ", ".join(map(str, folders))}), folders


def test_corruptions_losses_and_outages_leave_every_archive_whole(
    tracker: Engine, settings: Settings, tmp_path: Path
) -> None:
    """At most all but one of an archive's copies at once."""
    settings, folders = replicas(settings, tmp_path, 3)
    contents = keep(tracker, settings, tmp_path, 6)
    random, faults, elsewhere = Random(29), Counter[str](), tmp_path / "away"
    while faults.total() < (200 if EVERYWHERE else 30):
        away = random.choice(folders) if random.random() < 0.4 else None
        if away is not None:
            away.rename(elsewhere)
            faults["outage"] += 1
        there = [folder for folder in folders if folder != away]
        for sha256, content in contents.items():
            for folder in random.sample(there, random.randint(1, len(there) - 1)):
                copy, kind = folder / sha256[:2] / sha256, random.choice(["corrupted", "cut", "emptied", "lost"])
                faults[kind] += 1
                if kind == "lost":
                    copy.unlink()
                else:
                    flipped = bytes([content[0] ^ 1]) + content[1:]
                    copy.write_bytes({"corrupted": flipped, "cut": content[:-1], "emptied": b""}[kind])
        done = audit_archives(tracker, settings, "tester", everything=True)
        assert (done.is_intact, list(done.unreachable)) == (True, [] if away is None else [str(away)])
        if away is not None:
            elsewhere.rename(away)
            assert not audit_archives(tracker, settings, "tester", replica=str(away), everything=True).unreachable
        for folder in folders:
            assert {sha256: (folder / sha256[:2] / sha256).read_bytes() for sha256 in contents} == contents
    assert len(faults) == 5
    # The bad bytes were put aside.
    aside = [copy for folder in folders for copy in folder.glob("bad/*")]
    assert len(aside) == faults.total() - faults["lost"] - faults["outage"]
    history = in_reading(tracker, audits, limit=1_000)
    assert sum(one.repaired for one in history) == faults.total() - faults["outage"]
    assert sum(one.message is not None for one in history) == faults["outage"]


def test_a_copy_that_cannot_be_read_is_replaced_and_tried_again_each_night(
    tracker: Engine, settings: Settings, tmp_path: Path
) -> None:
    settings, (one, two) = replicas(settings, tmp_path, 2)
    # The last of four, so that one due tonight is another one.
    *_, sha256 = keep(tracker, settings, tmp_path, 4)
    copies = [folder / sha256[:2] / sha256 for folder in (one, two)]
    content = copies[0].read_bytes()
    for copy in copies:
        copy.unlink()
        copy.mkdir()
    done = audit_archives(tracker, settings, "tester", everything=True)
    assert ([audit.bad for audit in done.audits], [lost.sha256 for lost in done.lost]) == ([1, 1], [sha256])
    copies[1].rmdir()
    copies[1].write_bytes(content)
    # Neither is due tonight, but both are known to be bad.
    for _ in range(2):
        done = audit_archives(tracker, settings.model_copy(update={"archive_audit_days": 9_999}), "night")
    assert done.is_intact
    assert [copy.read_bytes() for copy in copies] == [content, content]


def test_a_directory_that_hangs_is_away(
    tracker: Engine, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, (_, two) = replicas(settings, tmp_path, 2)
    settings = settings.model_copy(update={"connect_timeout": 0.3, "idle_timeout": 0.3})
    keep(tracker, settings, tmp_path, 3)
    (copy, *_) = two.glob("??/*")
    content = copy.read_bytes()
    copy.unlink()
    # To open it takes for ever, as on a mount whose server is away.
    os.mkfifo(copy)
    done = audit_archives(tracker, settings, "tester", everything=True)
    assert (copy.read_bytes(), [audit.bad for audit in done.audits], done.is_intact) == (content, [0, 1], True)
    is_dir = Path.is_dir

    def hanging(path: Path) -> bool:
        return is_dir(path) if path != two else threading.Event().wait()

    monkeypatch.setattr(Path, "is_dir", hanging)
    done = audit_archives(tracker, settings, "tester", everything=True)
    assert ([audit.copies for audit in done.audits], list(done.unreachable)) == ([3, 0], [str(two)])
    assert "the disk did not answer within 0.6 seconds" in str(done.audits[1].message)


def test_a_replica_that_stays_away_hides_no_archive_that_is_lost(
    tracker: Engine, settings: Settings, tmp_path: Path
) -> None:
    """It has no copy yet, and nothing can be copied there."""
    settings, (one, two) = replicas(settings, tmp_path, 2)
    two.rmdir()
    (sha256,) = keep(tracker, settings, tmp_path, 1)
    (one / sha256[:2] / sha256).write_bytes(b"other")
    for done in (
        audit_archives(tracker, settings, "tester", everything=True),
        repair_archives(tracker, settings, "tester"),
    ):
        assert ([lost.sha256 for lost in done.lost], list(done.unreachable), done.is_intact) == (
            [sha256],
            [str(two)],
            False,
        )
    one.rename(tmp_path / "away")
    assert not repair_archives(tracker, settings, "tester").is_intact


@pytest.mark.both_databases
def test_an_archive_whose_copies_are_all_gone_is_fetched_again_or_named(
    installation: Installation, folder: Folder
) -> None:
    content = folder.put(KEY)
    installation.run_session()
    tracker, settings = installation.tracker, installation.settings
    (settings.staging_directory / KEY).write_bytes(b"other")
    (copy,) = (settings.home / "archive").glob("??/*")
    copy.write_bytes(b"other")
    done = audit_archives(tracker, settings, "tester", everything=True)
    assert (done.audits[0].bad, done.audits[0].repaired, done.lost) == (1, 1, ())
    copy.unlink()
    (folder.path / KEY).unlink()
    done = audit_archives(tracker, settings, "tester", everything=True)
    assert not done.is_intact
    assert str(done.lost[0]) == f"{KEY} (SHA-256 {copy.name})"
    status = in_reading(tracker, store_status, settings)
    assert (status.lost, status.missing) == (done.lost, 1)
    # As it was listed, and yet another one.
    folder.put(KEY, content[:-1] + bytes([content[-1] ^ 1]))
    done = repair_archives(tracker, settings, "tester")
    assert ([str(lost) for lost in done.lost], copy.exists()) == ([f"{KEY} (SHA-256 {copy.name})"], False)
    folder.put(KEY)
    later = utc_now() + timedelta(hours=6)
    change(tracker, folder.source_id, windows=f"{later:%H}:00-{later:%H}:59")
    assert not repair_archives(tracker, settings, "tester").is_intact
    change(tracker, folder.source_id, windows="")
    assert repair_archives(tracker, settings, "tester").is_intact
    assert copy.exists()


@pytest.mark.both_databases
def test_what_an_audit_repairs_is_not_lacking(installation: Installation, folder: Folder) -> None:
    """As after `dcc restore` into another place: nothing is there, and the source still has it."""
    folder.put(KEY)
    installation.run_session()
    shutil.rmtree(installation.settings.staging_directory)
    shutil.rmtree(installation.settings.home / "archive")
    (installation.root / "new").mkdir()
    restored = installation.settings.model_copy(update={"archive_replicas": str(installation.root / "new")})
    done = audit_archives(installation.tracker, restored, "tester", everything=True)
    assert (done.audits[0].missing, done.audits[0].repaired, done.is_intact) == (1, 1, True)
    assert (done.caught_up.notices, dict(done.unreachable)) == ([], {})


def change(tracker: Engine, source_id: int, *, windows: str) -> None:
    """Have a source be used at these times only."""
    in_writing(tracker, change_source, source_id, windows=windows)


def test_a_copy_stays_known_as_good_while_its_replica_is_away(
    tracker: Engine, settings: Settings, tmp_path: Path
) -> None:
    """Also when another submission brings the same archive."""
    settings, (one, two) = replicas(settings, tmp_path, 2)
    keep(tracker, settings, tmp_path, 1)
    two.rename(tmp_path / "away")
    keep(tracker, settings, tmp_path, 1)
    assert column_in(tracker, select(ArchiveCopy.state)) == ["good", "good"]
    (copy,) = one.glob("??/*")
    copy.write_bytes(b"other")
    for _ in range(2):
        done = audit_archives(tracker, settings, "tester", everything=True)
        assert ([audit.copies for audit in done.audits], done.lost, done.is_intact) == ([1, 0], (), False)


def test_copies_are_caught_up_with_while_there_is_time_and_one_that_is_there_already_is_not_lacking(
    tracker: Engine, settings: Settings, tmp_path: Path
) -> None:
    settings, (folder,) = replicas(settings, tmp_path, 1)
    keep(tracker, settings, tmp_path, 1)
    execute_in(tracker, update(ArchiveCopy).values(state="pending"))
    with ArchiveCopies(tracker, settings) as copies:
        assert list(copies.catch_up(0).lacking) == [str(folder)]
        assert copies.catch_up() == CatchUpResult(copies=1)
    execute_in(tracker, update(ArchiveCopy).values(state="pending"))
    shutil.rmtree(folder)
    folder.mkdir()
    assert list(repair_archives(tracker, settings, "tester").caught_up.lacking) == [str(folder)]


def test_a_share_of_the_copies_is_read_each_night(tracker: Engine, settings: Settings, tmp_path: Path) -> None:
    settings, folders = replicas(settings, tmp_path, 2)
    settings = settings.model_copy(update={"archive_audit_days": 3})
    keep(tracker, settings, tmp_path, 9)
    # As a process leaves it that was killed long ago.
    part = folders[0] / ".copy.part"
    part.touch()
    os.utime(part, (0, 0))
    for night in range(3):
        with writing(tracker) as connection:
            for number, checked in connection.execute(select(ArchiveCopy.id, ArchiveCopy.checked)).all():
                earlier = checked - timedelta(hours=23)
                connection.execute(update(ArchiveCopy).where(ArchiveCopy.id == number).values(checked=earlier))
        done = audit_archives(tracker, settings, "night")
        assert [one.copies for one in done.audits] == [3, 3], night
    assert not part.exists()
    with tracker.connect() as connection:
        assert min(connection.scalars(select(ArchiveCopy.checked))) > utc_now() - timedelta(days=2.5)
    # What is late after nights without an audit, beside the share of a night.
    long_ago = utc_now() - timedelta(days=4)
    execute_in(tracker, update(ArchiveCopy).where(ArchiveCopy.archive_id <= 5).values(checked=long_ago))
    assert [one.copies for one in audit_archives(tracker, settings, "night").audits] == [5, 5]
    only = audit_archives(tracker, settings, "tester", replica=str(folders[1]), everything=True)
    assert [(one.replica, one.copies) for one in only.audits] == [(str(folders[1]), 9)]
    with pytest.raises(NotFoundError, match="no replica of the archive store"):
        audit_archives(tracker, settings, "tester", replica="/elsewhere")


@pytest.mark.both_databases
def test_archives_leave_the_store_only_by_a_rule_of_its_own(installation: Installation, folder: Folder) -> None:
    tracker, settings = installation.tracker, installation.settings
    old, new = folder.put(KEY), folder.put(KEY.replace("31.1", "31.2"), b"PK no archive")
    installation.run_session()
    names = [hashlib.sha256(content).hexdigest() for content in (old, new)]
    with writing(tracker) as connection:
        long_ago = utc_now() - timedelta(days=100)
        connection.execute(update(StoredArchive).values(created=long_ago))
        connection.execute(update(ZipDownload).where(ZipDownload.sha256 == names[0]).values(received=long_ago))
    assert audit_archives(tracker, settings, "tester").removed == 0
    rule = settings.model_copy(update={"archive_keep_days": 99})
    assert audit_archives(tracker, rule, "tester").removed == 1
    assert [copy.name for copy in (settings.home / "archive").glob("??/*")] == names[1:]
    assert column_in(tracker, select(StoredArchive.sha256)) == names[1:]
    assert column_in(tracker, select(ArchiveCopy.state)) == ["good"]


def test_no_copy_of_an_old_archive_is_removed_while_a_replica_is_away(
    tracker: Engine, settings: Settings, tmp_path: Path
) -> None:
    """The others would be missing."""
    settings, (one, two) = replicas(settings, tmp_path, 2)
    keep(tracker, settings, tmp_path, 2)
    execute_in(tracker, update(StoredArchive).values(created=utc_now() - timedelta(days=100)))
    rule = settings.model_copy(update={"archive_keep_days": 99})
    two.rename(tmp_path / "away")
    done = audit_archives(tracker, rule, "tester", everything=True)
    assert (done.removed, done.is_intact, len(list(one.glob("??/*")))) == (0, True, 2)
    (tmp_path / "away").rename(two)
    # A copy that cannot be removed: its archive stays known.
    copy, _ = two.glob("??/*")
    copy.unlink()
    copy.mkdir()
    assert audit_archives(tracker, rule, "tester").removed == 1
    assert column_in(tracker, select(StoredArchive.sha256)) == [copy.name]
    copy.rmdir()
    assert audit_archives(tracker, rule, "tester").removed == 1
    assert [*one.glob("??/*"), *two.glob("??/*")] == []


@pytest.mark.both_databases
def test_staging_keeps_what_is_not_stored_yet(installation: Installation, folder: Folder) -> None:
    folder.put(KEY, b"PK no archive")
    away = installation.with_settings(archive_replicas=str(installation.root / "missing"))
    away.run_session()
    at_once = away.with_settings(staging_keep_failed_days=0).settings
    (decision,) = review_staging(away.tracker, at_once)
    assert (decision.verdict, "not in the archive store yet" in decision.reason) == (RetentionVerdict.KEEP, True)
    (installation.root / "missing").mkdir()
    assert repair_archives(away.tracker, away.settings, "tester").caught_up.copies == 1
    (decision,) = review_staging(away.tracker, at_once)
    assert decision.verdict is RetentionVerdict.REMOVE
