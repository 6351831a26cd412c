"""Audits of the archive store: what is corrupted, lost or away is whole again, and what is gone everywhere is named."""

from __future__ import annotations

import getpass
import hashlib
import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import Engine, select, update

from dcc.errors import NotFoundError
from dcc.operations.archive_audits import audit_archives, repair_archives
from dcc.operations.archive_overview import store_overview
from dcc.operations.retention.cleanup import review_staging
from dcc.operations.retention.policy import Policy, Verdict
from dcc.phases import Phase
from dcc.settings import Settings
from dcc.store.archive_store import ArchiveStore
from dcc.store.copies import CopyState
from dcc.tracker.database import writing
from dcc.tracker.models import ArchiveCopy, StoredArchive, ZipDownload, utc_now
from dcc.tracker.stored_archives import audits, record_kept
from tests.store.test_archive_store import known_hosts
from tests.support.installations import Folder, Installation
from tests.support.s3_server import Bucket
from tests.support.servers import SftpServer

KEY = "add/H.2013-10-31.1.impc.zip"


def keep(tracker: Engine, settings: Settings, folder: Path, count: int) -> dict[str, bytes]:
    """Put so many tiny archives into the store; their bytes by SHA-256."""
    store, contents = ArchiveStore(settings), [f"archive {number}".encode() for number in range(count)]
    kept = []
    for content in contents:
        (folder / "archive").write_bytes(content)
        kept.append((None, store.put(folder / "archive")))
    store.close()
    with writing(tracker) as connection:
        record_kept(connection, kept)
    return {hashlib.sha256(content).hexdigest(): content for content in contents}


def replicas(settings: Settings, root: Path, count: int) -> tuple[Settings, list[Path]]:
    folders = [root / f"replica {number}" for number in range(count)]
    for folder in folders:
        folder.mkdir()
    return settings.model_copy(update={"archive_replicas": ", ".join(map(str, folders))}), folders


def test_200_corruptions_losses_and_outages_leave_every_archive_whole(
    tracker: Engine, settings: Settings, tmp_path: Path
) -> None:
    """At most all but one of an archive's copies at once."""
    settings, folders = replicas(settings, tmp_path, 3)
    contents = keep(tracker, settings, tmp_path, 12)
    random, faults = Random(29), Counter[str]()
    while faults.total() < 200:
        away = random.choice(folders) if random.random() < 0.3 else None
        if away is not None:
            away.rename(tmp_path / "away")
            faults["outage"] += 1
        there = [folder for folder in folders if folder != away]
        for sha256, content in random.sample(sorted(contents.items()), 6):
            for folder in random.sample(there, random.randint(1, len(there) - 1)):
                copy, kind = folder / sha256[:2] / sha256, random.choice(["corrupted", "cut", "emptied", "lost"])
                faults[kind] += 1
                if kind == "lost":
                    copy.unlink()
                else:
                    flipped = bytes([content[0] ^ 1]) + content[1:]
                    copy.write_bytes({"corrupted": flipped, "cut": content[:-1], "emptied": b""}[kind])
        done = audit_archives(tracker, settings, "tester", everything=True)
        assert (done.is_whole, done.is_away) == (True, away is not None)
        if away is not None:
            (tmp_path / "away").rename(away)
            assert not audit_archives(tracker, settings, "tester", everything=True).is_away
        for folder in folders:
            assert {copy.name: copy.read_bytes() for copy in folder.glob("??/*")} == contents
    assert min(faults.values()) > 5
    # The bad bytes were put aside.
    assert sum(len(list(folder.glob("bad/*"))) for folder in folders) == sum(faults.values()) - (
        faults["lost"] + faults["outage"]
    )
    with tracker.connect() as connection:
        history = audits(connection, limit=1_000)
    assert sum(one.repaired for one in history) == faults.total() - faults["outage"]
    assert sum(one.message is not None for one in history) == faults["outage"]


def test_a_copy_that_cannot_be_read_is_replaced_and_tried_again_each_night(
    tracker: Engine, settings: Settings, tmp_path: Path
) -> None:
    settings, (one, two) = replicas(settings, tmp_path, 2)
    (sha256,) = keep(tracker, settings, tmp_path, 1)
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
    assert done.is_whole
    assert [copy.read_bytes() for copy in copies] == [content, content]


@pytest.mark.servers
def test_a_bucket_and_an_sftp_server_repair_each_other(
    tracker: Engine, settings: Settings, bucket: Bucket, openssh: SftpServer, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    urls = f"s3://{bucket.name}/kept, sftp://{getpass.getuser()}@{openssh.hostname}{folder}"
    settings = settings.model_copy(
        update=bucket.variables
        | {
            "archive_replicas": urls,
            "archive_access_key": f"key:{openssh.key}",
            "known_hosts": known_hosts(openssh, tmp_path / "known_hosts"),
        }
    )
    settings = Settings(**settings.model_dump())
    contents = keep(tracker, settings, tmp_path, 4)
    first, second, third, _ = contents
    bucket.client.put_object(Bucket=bucket.name, Key=f"kept/{first[:2]}/{first}", Body=b"other")
    bucket.client.delete_object(Bucket=bucket.name, Key=f"kept/{second[:2]}/{second}")
    (folder / third[:2] / third).write_bytes(b"other")
    done = audit_archives(tracker, settings, "tester", everything=True)
    assert [(one.copies, one.bad, one.missing, one.repaired) for one in done.audits] == [(4, 1, 1, 2), (4, 1, 0, 1)]
    assert done.is_whole
    store = ArchiveStore(settings)
    assert {replica.check(sha256).state for replica in store.replicas for sha256 in contents} == {CopyState.GOOD}
    assert len(list(folder.glob("bad/*"))) == 1
    store.close()


@pytest.mark.both_databases
def test_an_archive_whose_copies_are_all_gone_is_fetched_again_or_named(
    installation: Installation, folder: Folder
) -> None:
    folder.put(KEY)
    installation.run_session()
    tracker, settings = installation.tracker, installation.settings
    shutil.rmtree(settings.staging_directory)
    (copy,) = (settings.home / "archive").glob("??/*")
    copy.write_bytes(b"other")
    done = audit_archives(tracker, settings, "tester", everything=True)
    assert (done.audits[0].bad, done.audits[0].repaired, done.lost) == (1, 1, ())
    copy.unlink()
    (folder.path / KEY).unlink()
    done = audit_archives(tracker, settings, "tester", everything=True)
    assert not done.is_whole
    assert str(done.lost[0]) == f"{KEY} (SHA-256 {copy.name})"
    with tracker.connect() as connection:
        overview = store_overview(connection, settings)
    assert (overview.lost, overview.missing) == (done.lost, 1)
    folder.put(KEY)
    assert repair_archives(tracker, settings, "tester").is_whole
    assert copy.exists()


def test_a_share_of_the_copies_is_read_each_night(tracker: Engine, settings: Settings, tmp_path: Path) -> None:
    settings, folders = replicas(settings, tmp_path, 2)
    settings = settings.model_copy(update={"archive_audit_days": 3})
    keep(tracker, settings, tmp_path, 9)
    for night in range(3):
        with writing(tracker) as connection:
            for number, checked in connection.execute(select(ArchiveCopy.id, ArchiveCopy.checked)).all():
                earlier = checked - timedelta(hours=23)
                connection.execute(update(ArchiveCopy).where(ArchiveCopy.id == number).values(checked=earlier))
        done = audit_archives(tracker, settings, "night")
        assert [one.copies for one in done.audits] == [3, 3], night
    with tracker.connect() as connection:
        assert min(connection.scalars(select(ArchiveCopy.checked))) > utc_now() - timedelta(days=2.5)
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
    with tracker.connect() as connection:
        assert list(connection.scalars(select(StoredArchive.sha256))) == names[1:]
        assert list(connection.scalars(select(ArchiveCopy.state))) == ["good"]


@pytest.mark.both_databases
def test_staging_keeps_what_is_not_stored_yet(installation: Installation, folder: Folder) -> None:
    folder.put(KEY, b"PK no archive")
    away = installation.with_settings(archive_replicas=str(installation.root / "missing"))
    away.run_session()
    at_once = Policy(keep_days=0, keep_failed_days=0, keep_part_days=0, phase=Phase.XSD)
    (decision,) = review_staging(away.tracker, away.settings, at_once)
    assert (decision.verdict, "not in the archive store yet" in decision.reason) == (Verdict.KEEP, True)
    (installation.root / "missing").mkdir()
    assert repair_archives(away.tracker, away.settings, "tester").caught_up.copies == 1
    (decision,) = review_staging(away.tracker, away.settings, at_once)
    assert decision.verdict is Verdict.REMOVE
