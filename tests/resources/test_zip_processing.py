"""Processing zip actions: from waiting to (xsd, done) or to a failure that says why."""

from __future__ import annotations

import errno
import gc
import hashlib
import itertools
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from dcc_cli.demo import submissions
from dcc_resources import downloading, source_queues, zip_coordination
from dcc_resources.crawling import crawl_file_sources
from dcc_resources.errors import (
    ConfigurationError,
    DiskFullError,
    InternalFaultError,
    NotFoundError,
    SourceUnreachableError,
    TrackerUnreachableError,
    TransferFailedError,
)
from dcc_resources.file_sources.base import ActionListing
from dcc_resources.file_sources.local import LocalConnection
from dcc_resources.naming import Action
from dcc_resources.outcomes import Problem
from dcc_resources.sessions import open_session
from dcc_resources.tracker.models import (
    CrawlingSession,
    FileSourceHasZip,
    Reopening,
    SessionTask,
    XmlFile,
    XmlLog,
    ZipDownload,
    ZipFile,
    ZipLog,
)
from dcc_resources.tracker.reference import Phase
from dcc_resources.zip_coordination import Coordinator
from dcc_resources.zip_jobs import Checker, Document, Job
from dcc_resources.zip_processing import process_zip_actions
from dcc_resources.zip_recording import Batch, Written
from tests.installations import Folder, Installation, experiments, specimens

NAME = "H.2013-10-31.1.impc.zip"
PATIENCE = 30.0
KEY = f"add/{NAME}"
SPECIMENS = "H.2013-10-31.1.specimen.impc.xml"


@pytest.fixture
def folder(installation: Installation) -> Folder:
    """The folder of centre H, served as a file source."""
    return installation.add_folder()


def logged(installation: Installation) -> list[str]:
    with installation.tracker.connect() as connection:
        return list(connection.scalars(select(ZipLog.message).order_by(ZipLog.id)))


def test_a_good_zip_ends_as_validated_with_its_documents_in_staging(installation: Installation, folder: Folder) -> None:
    documents = specimens() | experiments()
    archive = folder.put(KEY, documents)
    outcome = installation.run_session().zips[KEY]
    assert outcome.succeeded
    assert (outcome.downloaded, outcome.extracted, outcome.attempts) == (True, True, 1)
    assert installation.states() == {KEY: "xsd done"}
    assert installation.attempts(KEY) == [(folder.source_id, "xsd done")]
    assert installation.documents() == [(name, "xsd done") for name in sorted(documents)]
    contents = {f"{KEY}.contents/{name}": content for name, content in documents.items()}
    assert installation.staged() == {KEY: archive, **contents}


def test_size_and_checksum_are_those_of_the_archive(installation: Installation, folder: Folder) -> None:
    """existing_system_defects row 7: `content_md5` is written."""
    archive = folder.put(KEY)
    installation.run_session()
    with installation.tracker.connect() as connection:
        row = connection.execute(select(ZipFile.size_bytes, ZipFile.content_md5)).one()
        download = connection.execute(select(ZipDownload.__table__)).one()
    assert tuple(row) == (len(archive), hashlib.md5(archive).hexdigest())
    assert download.downloaded_size_bytes == len(archive)
    assert download.request <= download.received


def test_a_clean_session_is_recorded_as_a_success(installation: Installation, folder: Folder) -> None:
    """existing_system_defects rows 12 and 16: two sessions, one after the other, both succeed."""
    for inc in (1, 2):
        folder.put(f"add/H.2013-10-31.{inc}.impc.zip", specimens(stem=f"2013-10-31.{inc}"))
        installation.run_session()
    with installation.tracker.connect() as connection:
        assert list(connection.scalars(select(CrawlingSession.status))) == [0, 0]
        assert set(connection.scalars(select(SessionTask.status))) == {0}
        assert None not in set(connection.scalars(select(SessionTask.finish_time)))


def test_an_invalid_document_fails_its_zip_and_not_its_sibling(installation: Installation, folder: Folder) -> None:
    """existing_system_defects row 15: the zip shows the worst of its documents."""
    documents = specimens() | experiments()
    documents[SPECIMENS] = submissions.damaged(documents[SPECIMENS], 'gender="', 'gender="un')
    folder.put(KEY, documents)
    outcome = installation.run_session().zips[KEY]
    assert outcome.failed
    assert installation.states() == {KEY: "xsd failed"}
    assert dict(installation.documents()) == {
        SPECIMENS: "xsd failed",
        SPECIMENS.replace("specimen", "experiment"): "xsd done",
    }
    with installation.tracker.connect() as connection:
        (error,) = connection.execute(select(XmlLog.line, XmlLog.col, XmlLog.message)).all()
    assert error.line is not None
    assert error.col is not None
    assert "gender" in error.message


def test_a_document_whose_name_does_not_conform_is_refused_with_the_reason(
    installation: Installation, folder: Folder
) -> None:
    folder.put(KEY, specimens() | {"results.xml": b"<a/>"})
    assert installation.run_session().zips[KEY].failed
    assert installation.states() == {KEY: "xml_name failed"}
    assert installation.documents() == [(SPECIMENS, "xsd done"), ("results.xml", "xml_name failed")]


def test_members_left_aside_are_accounted_for(installation: Installation, folder: Folder) -> None:
    """existing_system_defects row 10."""
    folder.put(KEY, specimens() | {"readme.txt": b"hello", "more/H.2013-10-31.2.specimen.impc.xml": b"<a/>"})
    assert installation.run_session().zips[KEY].succeeded
    assert any("readme.txt" in message for message in logged(installation))
    assert any("more/H.2013-10-31.2" in message for message in logged(installation))


def _encrypted() -> bytes:
    data = bytearray(submissions.archive(specimens()))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    return bytes(data)


def _bomb() -> bytes:
    return submissions.archive({SPECIMENS: b"<a>" + b" " * 30_000_000 + b"</a>"})


def _duplicates() -> bytes:
    twin = SPECIMENS.replace("H", "J", 1)
    archive = submissions.archive({SPECIMENS: b"<a/>", twin: b"<a/>"})
    return archive.replace(twin.encode(), SPECIMENS.encode())


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        pytest.param(lambda: submissions.archive(specimens())[:-200], "CorruptArchiveError", id="truncated"),
        pytest.param(lambda: b"no zip at all", "CorruptArchiveError", id="no zip"),
        pytest.param(lambda: b"", "CorruptArchiveError", id="empty file"),
        pytest.param(_encrypted, "EncryptedArchiveError", id="encrypted"),
        pytest.param(_bomb, "OversizedArchiveError", id="bomb"),
        pytest.param(_duplicates, "DuplicateMemberError", id="duplicates"),
        pytest.param(
            lambda: submissions.archive(specimens() | {"../../evil.xml": b"<a/>"}), "UnsafeArchiveError", id="traversal"
        ),
        pytest.param(lambda: submissions.archive({"readme.txt": b"hello"}), "EmptyArchiveError", id="nothing inside"),
    ],
)
def test_a_bad_archive_that_arrived_well_is_tried_nowhere_else(
    installation: Installation, folder: Folder, make: Callable[[], bytes], kind: str
) -> None:
    """existing_system_defects rows 9 and 11: every archive ends in a state, with the reason."""
    second = installation.add_folder("H", "second")
    for place in (folder, second):
        place.put(KEY, make())
    outcome = installation.run_session().zips[KEY]
    assert [reason.kind for reason in outcome.reasons] == [kind]
    assert installation.states() == {KEY: "unzip failed"}
    assert installation.attempts(KEY) == [(folder.source_id, "unzip failed")]
    assert logged(installation) == [reason.message for reason in outcome.reasons]
    assert not [path for path in installation.staged() if ".contents" in path]


def test_what_failed_for_its_content_is_left_alone_by_later_sessions(
    installation: Installation, folder: Folder
) -> None:
    folder.put(KEY, b"no zip at all")
    installation.run_session()
    assert installation.run_session().zips == {}
    assert len(installation.attempts(KEY)) == 1


@pytest.fixture
def broken_fetch(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Folders (by name) whose next so many transfers break off half-way."""
    breaks: dict[str, int] = {}
    fetch = LocalConnection.fetch

    def breaking(self: LocalConnection, action, name, sink, *, size, offset=0, modified=None) -> None:  # type: ignore[no-untyped-def]
        folder = self._base.name
        if breaks.get(folder, 0) > 0:
            breaks[folder] -= 1
            with (self._base / action / name).open("rb") as archive:
                archive.seek(offset)
                sink(archive.read(10))
            raise TransferFailedError(f"{folder} broke off. The session tries again.")
        fetch(self, action, name, sink, size=size, offset=offset, modified=modified)

    monkeypatch.setattr(LocalConnection, "fetch", breaking)
    return breaks


def test_the_next_source_delivers_when_the_first_breaks(
    installation: Installation, folder: Folder, broken_fetch: dict[str, int]
) -> None:
    """existing_system_defects row 3: fail-over within the session."""
    second = installation.add_folder("H", "second")
    for place in (folder, second):
        place.put(KEY)
    broken_fetch["centre"] = 1
    outcome = installation.run_session().zips[KEY]
    assert outcome.succeeded
    assert installation.attempts(KEY) == [(folder.source_id, "download failed"), (second.source_id, "xsd done")]
    assert installation.states() == {KEY: "xsd done"}
    assert ["broke off" in message for message in logged(installation)] == [True]


def test_sources_are_tried_in_order_and_in_rounds(installation: Installation, broken_fetch: dict[str, int]) -> None:
    """existing_system_defects row 4: all tried, the producer's own first, ties to the older source."""
    foreign = installation.add_folder("J", "foreign")
    own, other = installation.add_folder("H", "own"), installation.add_folder("H", "other")
    for place in (foreign, own, other):
        place.put(KEY)
        broken_fetch[place.path.name] = 9
    outcome = installation.with_settings(max_retries=1).run_session().zips[KEY]
    ids = [own.source_id, other.source_id, foreign.source_id]
    assert installation.attempts(KEY) == [(number, "download failed") for number in ids * 2]
    assert outcome.failed
    assert outcome.attempts == 6
    assert installation.states() == {KEY: "download failed"}


def test_retries_are_counted_across_sessions(
    installation: Installation, folder: Folder, broken_fetch: dict[str, int]
) -> None:
    """existing_system_defects rows 5 and 34: a later session tries again by itself; `num_retries` counts it."""
    folder.put(KEY)
    broken_fetch["centre"] = 3
    once = installation.with_settings(max_retries=0)
    for _ in range(3):
        assert once.run_session().zips[KEY].failed
    assert once.run_session().zips[KEY].succeeded
    with installation.tracker.connect() as connection:
        assert connection.scalar(select(FileSourceHasZip.num_retries)) == 3
    assert [state for _, state in installation.attempts(KEY)] == ["download failed"] * 3 + ["xsd done"]


def test_an_archive_put_together_from_two_attempts_is_fetched_whole_before_the_centre_is_blamed(
    installation: Installation, folder: Folder, broken_fetch: dict[str, int]
) -> None:
    archive = folder.put(KEY)
    broken_fetch["centre"] = 1
    installation.with_settings(max_retries=0).run_session()
    part = installation.settings.staging_directory / f"{KEY}.part"
    part.write_bytes(b"#" * part.stat().st_size)
    outcome = installation.run_session().zips[KEY]
    assert outcome.succeeded
    assert [reason.kind for reason in outcome.reasons] == ["CorruptArchiveError"]
    assert [state for _, state in installation.attempts(KEY)] == ["download failed", "unzip failed", "xsd done"]
    assert installation.staged()[KEY] == archive


def test_documents_left_beside_a_failed_one_are_validated_by_the_next_session(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """existing_system_defects row 18: a zip action that has failed already may have documents to be validated yet."""
    wrong = experiments()
    (name,) = wrong
    wrong[name] = submissions.damaged(wrong[name], 'centreID="', 'centerID="')
    folder.put(KEY, specimens() | wrong | {"results.xml": b"<a/>"})
    write = Batch.write

    def breaking(self: Batch, connection: Connection) -> Written:
        # What follows is as if the process had died: with one document recorded as invalid, the other pending.
        partly = bool(self.checked)
        self.checked = [document for document in self.checked if document.file_name == name]
        written = write(self, connection)
        if partly:
            connection.commit()
            recorded.set()
            raise TrackerUnreachableError("Gone.")
        return written

    def one_after_the_other(self: Checker, document: Document) -> list[Problem]:
        if document.file_name == SPECIMENS:
            recorded.wait(PATIENCE)
        return validate(self, document)

    validate, recorded = Checker.validate, threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(Batch, "write", breaking)
        patched.setattr(Checker, "validate", one_after_the_other)
        with pytest.raises(TrackerUnreachableError):
            installation.with_settings(database_retry=0, workers=2).run_session()
    assert installation.states() == {KEY: "xml_name failed"}
    states = {SPECIMENS: "xsd pending", name: "xsd failed", "results.xml": "xml_name failed"}
    assert dict(installation.documents()) == states
    outcome = installation.run_session().zips[KEY]
    assert dict(installation.documents()) == states | {SPECIMENS: "xsd done"}
    errors = {document.file_name: document.errors for document in outcome.documents}
    assert (errors[SPECIMENS], len(errors["results.xml"])) == ((), 1)
    with installation.tracker.connect() as connection:
        query = select(XmlLog.message).join(XmlFile, XmlFile.id == XmlLog.xml_id).order_by(XmlLog.id)
        assert [error.message for error in errors[name]] == list(connection.scalars(query.where(XmlFile.fname == name)))
        assert errors[name]
        assert len(list(connection.scalars(query.where(XmlFile.fname == "results.xml")))) == 1
    assert installation.run_session().zips == {}


def test_such_an_archive_is_tried_again_by_the_next_session_when_its_source_is_left_alone(
    installation: Installation, folder: Folder, broken_fetch: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put(KEY)
    broken_fetch["centre"] = 1
    installation.with_settings(max_retries=0).run_session()
    part = installation.settings.staging_directory / f"{KEY}.part"
    part.write_bytes(b"#" * part.stat().st_size)
    fetch_anew = Coordinator._fetch_anew

    def given_up_meanwhile(self: Coordinator, job: Job) -> None:
        self._attempts.sources[folder.source_id].given_up = True
        fetch_anew(self, job)

    with monkeypatch.context() as patched:
        patched.setattr(Coordinator, "_fetch_anew", given_up_meanwhile)
        assert installation.run_session().zips[KEY].failed
    assert installation.states() == {KEY: "download failed"}
    assert installation.run_session().zips[KEY].succeeded


def test_an_archive_that_was_bad_is_no_failed_download(installation: Installation, folder: Folder) -> None:
    """Seed 000 section 5: `num_retries` counts attempts after a download error."""
    folder.put(KEY, b"no zip at all")
    installation.run_session()
    folder.put(KEY)
    installation.run_session()
    assert installation.process_again(KEY).zips[KEY].succeeded
    with installation.tracker.connect() as connection:
        assert connection.scalar(select(FileSourceHasZip.num_retries)) == 0


def test_seconds_are_those_since_the_download_was_requested(installation: Installation, folder: Folder) -> None:
    for inc in range(1, 9):
        folder.put(f"add/H.2013-10-31.{inc}.impc.zip", specimens(stem=f"2013-10-31.{inc}"))
    fetch = LocalConnection.fetch

    def slow(self: LocalConnection, *arguments: Any, **named: Any) -> None:
        time.sleep(0.2)
        fetch(self, *arguments, **named)

    one = installation.with_settings(downloaders=1, downloads_per_source=1)
    began = time.monotonic()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalConnection, "fetch", slow)
        *_, last = one.run_session().zips.values()
    # Those before it took five times as long, at the least.
    assert 0.2 <= last.seconds <= time.monotonic() - began - 5 * 0.2


def test_what_was_processed_is_not_kept_in_memory(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for inc in range(60):
        folder.put(f"add/H.2013-10-31.{inc}.impc.zip", specimens(stem=f"2013-10-31.{inc}", mice=1))
    monkeypatch.setattr(zip_coordination, "_COMMIT_SECONDS", 0)
    one = installation.with_settings(downloaders=1, downloads_per_source=1, workers=1)
    with open_session(one.tracker, one.settings) as session:
        list(crawl_file_sources(one.tracker, one.settings, session))
        outcomes = process_zip_actions(one.tracker, one.settings, session)
        assert len(list(itertools.islice(outcomes, 59))) == 59
        next(outcomes)
        assert sum(isinstance(thing, Job) for thing in gc.get_objects()) < 20


def test_a_session_with_a_zip_that_did_not_arrive_is_a_failed_one(
    installation: Installation, folder: Folder, broken_fetch: dict[str, int]
) -> None:
    folder.put(KEY)
    broken_fetch["centre"] = 9
    installation.run_session()
    with installation.tracker.connect() as connection:
        assert connection.scalar(select(CrawlingSession.status)) == 1


def test_a_truncated_transfer_is_no_success(installation: Installation, folder: Folder) -> None:
    """existing_system_defects row 8: what arrived has not the listed size, so there is no archive."""
    folder.put(KEY)
    with open_session(installation.tracker, installation.settings) as session:
        list(crawl_file_sources(installation.tracker, installation.settings, session))
    os.truncate(folder.path / KEY, 100)
    outcome = installation.run_session(crawl=False).zips[KEY]
    assert outcome.failed
    assert {reason.kind for reason in outcome.reasons} == {"SizeMismatchError"}
    assert KEY not in installation.staged()


def test_a_published_checksum_that_is_right_passes(installation: Installation, folder: Folder) -> None:
    archive = folder.put(KEY)
    (folder.path / f"{KEY}.md5").write_text(f"{hashlib.md5(archive).hexdigest()}  {NAME}\n")
    assert installation.run_session().zips[KEY].succeeded


def test_a_published_checksum_that_is_wrong_fails_the_zip(installation: Installation, folder: Folder) -> None:
    """existing_system_defects row 44: (zip_md5, failed) is reached."""
    folder.put(KEY)
    (folder.path / f"{KEY}.md5").write_text(f"{'0' * 32}  {NAME}\n")
    outcome = installation.run_session().zips[KEY]
    assert {reason.kind for reason in outcome.reasons} == {"ChecksumMismatchError"}
    assert installation.states() == {KEY: "zip_md5 failed"}
    assert KEY not in installation.staged()


def test_a_retry_fetches_the_changed_file_and_says_who_asked(installation: Installation, folder: Folder) -> None:
    folder.put(KEY, b"no zip at all")
    installation.run_session()
    folder.put(KEY)
    installation.run_session()
    assert installation.states() == {KEY: "unzip failed"}
    assert installation.process_again(KEY).zips[KEY].succeeded
    assert installation.states() == {KEY: "xsd done"}
    with installation.tracker.connect() as connection:
        assert connection.scalar(select(Reopening.requested_by)) == "tester"


def test_a_retry_of_what_no_source_hosts_says_so_and_changes_nothing(
    installation: Installation, folder: Folder
) -> None:
    folder.put(KEY)
    installation.run_session()
    (folder.path / KEY).unlink()
    installation.run_session()
    with pytest.raises(NotFoundError, match="No available file source hosts add/H"):
        installation.process_again(KEY)
    assert installation.states() == {KEY: "xsd done"}
    with pytest.raises(NotFoundError, match="dcc zips"):
        installation.process_again("add/J.2013-10-31.1.impc.zip")


def test_oldest_first(installation: Installation, folder: Folder) -> None:
    """existing_system_defects row 42: by the date of the name, then its increment."""
    stems = ["2013-11-02.1", "2013-11-01.10", "2013-11-01.9", "2012-01-01.5"]
    for stem in stems:
        folder.put(f"add/H.{stem}.impc.zip", specimens(stem=stem))
    one = installation.with_settings(downloaders=1, downloads_per_source=1, workers=1)
    assert [key.split("/H.")[1].removesuffix(".impc.zip") for key in one.run_session().zips] == [
        "2012-01-01.5",
        "2013-11-01.9",
        "2013-11-01.10",
        "2013-11-02.1",
    ]


def test_a_full_disk_costs_only_what_does_not_fit_and_the_next_session_goes_on(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put(KEY)
    full = installation.with_settings(min_free_bytes=1 << 60)
    outcome = full.run_session().zips[KEY]
    assert [reason.kind for reason in outcome.reasons] == ["DiskFullError"]
    assert installation.states() == {KEY: "download failed"}
    assert installation.run_session().zips[KEY].succeeded


def test_archives_too_large_for_the_disk_keep_no_other_from_arriving(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three in a row that cannot fit, as a server may claim, at the head of each session's queue."""
    keys = [f"add/H.2013-10-31.{inc}.impc.zip" for inc in range(1, 7)]
    for inc, key in enumerate(keys, start=1):
        folder.put(key, specimens(stem=f"2013-10-31.{inc}"))
    list_action = LocalConnection.list_action

    def lying(self: LocalConnection, action: Action) -> ActionListing:
        listing = list_action(self, action)
        zips = [replace(file, size_bytes=1 << 60) if f"add/{file.name}" in keys[:4] else file for file in listing.zips]
        return replace(listing, zips=tuple(zips))

    monkeypatch.setattr(LocalConnection, "list_action", lying)
    monkeypatch.setattr(source_queues, "MOST_QUEUED", 1)
    installation.with_settings(source_failure_limit=2).run_session()
    states = installation.states()
    assert states.pop(keys[0]) == "download failed"
    assert {states.pop(key) for key in keys[1:4]} <= {"download failed", "zip_name done"}
    assert states == dict.fromkeys(keys[4:], "xsd done")


def test_a_disk_too_full_to_extract_on_fails_the_session_and_not_the_zip(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put(KEY)

    def full(*_: object) -> None:
        raise DiskFullError("No room. Free some space.")

    with monkeypatch.context() as patched:
        patched.setattr(Checker, "extract", full)
        outcome = installation.run_session().zips[KEY]
    assert [reason.kind for reason in outcome.reasons] == ["DiskFullError"]
    assert not outcome.failed
    assert installation.run_session().zips[KEY].succeeded
    with installation.tracker.connect() as connection:
        statuses = list(connection.scalars(select(CrawlingSession.status).order_by(CrawlingSession.id)))
    assert statuses == [int(Phase.XSD), 0]


def test_a_disk_that_fills_up_while_writing_is_no_fault_of_the_centre(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put(KEY)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(LocalConnection, "fetch", full)
        outcome = installation.run_session().zips[KEY]
    assert [reason.kind for reason in outcome.reasons] == ["DiskFullError"]
    assert installation.run_session().zips[KEY].succeeded


def test_a_staging_area_that_cannot_be_used_is_said_before_anything_is_tried(
    installation: Installation, folder: Folder
) -> None:
    folder.put(KEY)
    (installation.root / "file").write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"Not a directory\. Correct DCC_STAGING"):
        installation.with_settings(staging=installation.root / "file" / "staging").run_session()
    assert (installation.states(), installation.attempts(KEY)) == ({KEY: "zip_name done"}, [])
    assert installation.run_session().zips[KEY].succeeded


def test_a_fault_of_the_platform_costs_one_zip_and_is_said(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "add/H.2013-10-31.2.impc.zip"
    folder.put(KEY)
    folder.put(other, specimens(stem="2013-10-31.2"))
    extract = Checker.extract

    def faulty(self: Checker, archive: Path, target: Path) -> object:
        if archive.name == NAME:
            raise ZeroDivisionError("oh")
        return extract(self, archive, target)

    with monkeypatch.context() as patched:
        patched.setattr(Checker, "extract", faulty)
        with pytest.raises(InternalFaultError, match=f"{KEY}: ZeroDivisionError"):
            installation.run_session()
    assert installation.states() == {KEY: "unzip running", other: "xsd done"}
    assert installation.run_session().zips[KEY].succeeded
    assert installation.states()[KEY] == "xsd done"


def test_a_source_that_refuses_every_connection_is_left_alone_after_some(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"add/H.2013-10-31.{inc}.impc.zip" for inc in range(1, 31)]
    for inc, key in enumerate(keys, start=1):
        folder.put(key, specimens(stem=f"2013-10-31.{inc}"))

    def refuse(*_: object) -> None:
        raise SourceUnreachableError("No route. Ask the centre.")

    with monkeypatch.context() as patched:
        patched.setattr(downloading, "connect", refuse)
        result = installation.with_settings(source_failure_limit=3).run_session()
    failed = [outcome for outcome in result.zips.values() if outcome.failed]
    assert failed
    assert all("No route" in outcome.reasons[-1].message for outcome in failed)
    again = installation.run_session()
    assert sorted(again.zips) == sorted(keys)
    assert set(installation.states().values()) == {"xsd done"}


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_hundreds_of_zips_come_through_in_bounded_threads(installation: Installation, folder: Folder) -> None:
    """existing_system_defects rows 27 and 28: bounded concurrency, and no file left open."""
    for inc in range(300):
        folder.put(f"add/H.2013-10-31.{inc}.impc.zip", specimens(stem=f"2013-10-31.{inc}", mice=1))
    open_before = _open_files()
    most = 0
    commit = Coordinator._commit

    def counting(self: Coordinator):  # type: ignore[no-untyped-def]
        nonlocal most
        most = max(most, threading.active_count())
        yield from commit(self)

    before = threading.active_count()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Coordinator, "_commit", counting)
        result = installation.with_settings(downloads_per_source=3, downloaders=3, workers=2).run_session()
    assert len(result.zips) == 300
    assert set(installation.states().values()) == {"xsd done"}
    assert most <= before + 2 * 3 + 2 + 2
    assert _open_files() <= open_before + 5


def test_the_report_of_a_session_is_sent_when_it_is_over(installation: Installation, folder: Folder) -> None:
    """existing_system_defects row 43."""
    folder.put(KEY, b"no zip at all")
    reported = installation.with_settings(report_directory=installation.root / "reports")
    result = reported.run_session()
    (report,) = (installation.root / "reports").iterdir()
    assert KEY in report.read_text("utf-8")
    assert any(str(report) in notice for notice in result.closing_notices)


def test_a_report_that_cannot_be_sent_fails_no_session(installation: Installation, folder: Folder) -> None:
    folder.put(KEY)
    (installation.root / "reports").write_text("a file where a directory should be")
    result = installation.with_settings(report_directory=installation.root / "reports").run_session()
    assert any("DCC_REPORT_DIRECTORY" in notice for notice in result.closing_notices)
    with installation.tracker.connect() as connection:
        assert connection.scalar(select(CrawlingSession.status)) == 0
