"""Processing submissions: to (xsd, done) or to a failure that says why; their MD5; and disks that are full."""

import hashlib
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO
from unittest.mock import Mock

import pytest
from sqlalchemy import select

from dcc.cli.demo import submissions
from dcc.documents.schema_set import SchemaSet
from dcc.errors import SourceUnreachableError
from dcc.naming import Action
from dcc.outcomes import EndReason, SubmissionKey
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.collecting import collect_submission
from dcc.reports.submissions.plain_text import render_text
from dcc.session.archives import waiting_attempts
from dcc.session.archives.coordination import Coordinator
from dcc.session.fetching import downloads
from dcc.settings import Settings
from dcc.sources.base import ActionListing, Connection, SourceAddress
from dcc.sources.folder import LocalConnection
from dcc.tracker.models import Reopening, ZipFile, ZipLog
from dcc.tracker.queries.submission_stories import submission_story
from tests.session.test_bad_copies import ENCRYPTED, WITH_ONE_TWICE
from tests.support import dying_session
from tests.support.asking import column_in, in_reading, rows_in
from tests.support.databases import only_sqlite
from tests.support.installations import Fetches, Folder, Installation, experiments, md5, specimens
from tests.support.prepared_processes import run_dying
from tests.support.served_sources import logged

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"
SPECIMENS = "H.2013-10-31.1.specimen.impc.xml"


INNER = "H.2013-10-31.2.experiment.impc.xml"


def test_where_a_document_lay_in_its_archive_is_told(installation: Installation, folder: Folder) -> None:
    inner = submissions.archive({f"weights/{INNER}": experiments(stem="2013-10-31.2")[INNER]})
    folder.put(KEY, {f"animals/{SPECIMENS}": specimens()[SPECIMENS], "more.zip": inner})
    assert installation.run_session().zips[KEY].succeeded
    told = {
        one.file_name: one
        for one in in_reading(installation.tracker, submission_story, SubmissionKey(Action.ADD, NAME)).documents
    }
    report = in_reading(
        installation.tracker, collect_submission, None, SubmissionKey(Action.ADD, NAME), installation.settings
    )
    assert {name: (one.place, one.archives) for name, one in told.items()} == {
        SPECIMENS: (f"animals/{SPECIMENS}", ()),
        INNER: (f"more.zip/weights/{INNER}", (("more.zip", hashlib.md5(inner).hexdigest()),)),
    }
    text = " ".join(render_text(report, load_catalogue("en", installation.settings)).split())
    assert f"lies in the archive at more.zip/weights/{INNER}" in text


def test_an_archive_that_holds_what_is_not_opened_or_named_wrongly_is_not_through(
    installation: Installation, folder: Folder
) -> None:
    """Its other documents are, and the reason is told."""
    folder.put(KEY, specimens() | {"more.7z": b"7z", "results.xml": b"<a/>"})
    assert installation.run_session().zips[KEY].failed
    assert installation.states() == {KEY: "xml_name failed"}
    refused = [("more.7z", "xml_name failed"), ("results.xml", "xml_name failed")]
    assert installation.documents() == [(SPECIMENS, "xsd done"), *refused]
    causes = in_reading(
        installation.tracker, collect_submission, None, SubmissionKey(Action.ADD, NAME), installation.settings
    ).causes
    assert "member-not-opened" in {cause.code for cause in causes}


def test_an_archive_that_is_refused_is_tried_nowhere_else(installation: Installation, folder: Folder) -> None:
    bomb = {SPECIMENS: b"<a>" + b" " * 30_000_000 + b"</a>"}
    contents = {
        "EncryptedArchiveError": ENCRYPTED,
        "OversizedArchiveError": submissions.archive(bomb),
        "DuplicateMemberError": WITH_ONE_TWICE,
        "UnsafeArchiveError": submissions.archive(specimens() | {"../../evil.xml": b"<a/>"}),
        "EmptyArchiveError": submissions.archive({"readme.txt": b"hello"}),
        "ManifestError": submissions.archive(specimens() | {"manifest.json": b"[]"}),
    }
    second = installation.add_folder("H", "second")
    keys = {kind: f"add/H.2013-10-31.{inc}.impc.zip" for inc, kind in enumerate(contents)}
    for kind, key in keys.items():
        for place in (folder, second):
            place.put(key, contents[kind])
    outcomes = installation.run_session().zips
    assert installation.states() == dict.fromkeys(keys.values(), "unzip failed")
    for kind, key in keys.items():
        assert [reason.kind for reason in outcomes[key].reasons] == [kind]
        assert installation.attempts(key) == [(folder.source_id, "unzip failed")]
    told = [reason.message for outcome in outcomes.values() for reason in outcome.reasons]
    assert sorted(logged(installation)) == sorted(told)
    assert not [path for path in installation.staged() if ".contents" in path]


def test_a_source_that_refuses_every_connection_is_left_alone_after_some(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"add/H.2013-10-31.{inc}.impc.zip" for inc in range(1, 31)]
    for inc, key in enumerate(keys, start=1):
        folder.put(key, specimens(stem=f"2013-10-31.{inc}"))

    with monkeypatch.context() as patched:
        connect = Mock(side_effect=SourceUnreachableError("No route. Ask the centre."))
        patched.setattr(downloads, "connect", connect)
        result = installation.with_settings(source_failure_limit=3, downloads_per_source=1).run_session()
    assert connect.call_count == 3
    assert result.ended is EndReason.FAULTS
    failed = [outcome for outcome in result.zips.values() if outcome.failed]
    assert 1 <= len(failed) <= 3
    assert all("No route" in outcome.reasons[-1].message for outcome in failed)
    assert list(installation.states().values()).count("zip_name done") == 30 - len(failed)
    again = installation.run_session()
    assert sorted(again.zips) == sorted(keys)
    assert set(installation.states().values()) == {"xsd done"}


def test_what_is_not_begun_at_a_source_that_is_left_alone_did_not_fail_there(
    installation: Installation, folder: Folder, fetches: Fetches, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = installation.add_folder("J", "refusing")
    keys = [f"add/H.2013-10-31.{inc}.impc.zip" for inc in range(1, 4)]
    for place, key in product((folder, refusing), keys):
        place.put(key)
    fetches.away.add("centre")
    connect = downloads.connect

    def refuse(address: SourceAddress, settings: Settings) -> Connection:
        if address.id == refusing.source_id:
            raise SourceUnreachableError("No route. Ask the centre.")
        return connect(address, settings)

    monkeypatch.setattr(downloads, "connect", refuse)
    once = installation.with_settings(source_failure_limit=1, downloads_per_source=1, max_retries=0)
    once.run_session()
    ends = sorted(installation.attempts(key)[1:] for key in keys)
    assert ends == [[(refusing.source_id, f"download {end}")] for end in ("cancelled", "cancelled", "failed")]


def _open_files(installation: Installation) -> int:
    """The open files, without the connections that the tracker's pool keeps: their number is a matter of chance."""
    installation.tracker.dispose()
    return len(list(Path("/proc/self/fd").iterdir()))


def test_many_zips_come_through_in_bounded_threads(installation: Installation, folder: Folder) -> None:
    """Bounded concurrency, and no file left open."""
    for inc in range(100):
        folder.put(f"add/H.2013-10-31.{inc}.impc.zip", specimens(stem=f"2013-10-31.{inc}", mice=1))
    open_before = _open_files(installation)
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
    assert len(result.zips) == 100
    assert set(installation.states().values()) == {"xsd done"}
    # Each of three transfers may have asked the archive store, which is done in a thread of its own: it may hang.
    assert most <= before + 3 * 3 + 2 + 2 + 4
    assert _open_files(installation) <= open_before + 5


@only_sqlite
def test_schemas_are_compiled_for_each_worker_and_not_for_each_document(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[Path | None] = []
    load = SchemaSet.load

    def counting(xsd_dir: Path | None = None) -> SchemaSet:
        compiled.append(xsd_dir)
        return load(xsd_dir)

    monkeypatch.setattr(SchemaSet, "load", counting)
    for inc in range(10):
        folder.put(f"add/H.2013-10-31.{inc}.impc.zip", specimens(stem=f"2013-10-31.{inc}", mice=1))
    installation.with_settings(workers=2).run_session()
    assert set(installation.states().values()) == {"xsd done"}
    assert 1 <= len(compiled) <= 2


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of which an MD5 was taken, by name."""
    names: list[str] = []
    digest = hashlib.file_digest

    def noting(file: BinaryIO, algorithm: str | Callable[[], Any]) -> Any:
        if algorithm != "sha256":
            names.append(str(file.name).rpartition("/")[2])
        return digest(file, algorithm)

    monkeypatch.setattr(hashlib, "file_digest", noting)
    return names


def recorded(installation: Installation) -> list[tuple[int | None, str | None]]:
    """Size and MD5 of each archive in the tracker."""
    return [tuple(row) for row in rows_in(installation.tracker, select(ZipFile.size_bytes, ZipFile.content_md5))]


def test_it_is_taken_once_and_recorded_of_good_archives_and_bad(
    installation: Installation, folder: Folder, hashed: list[str]
) -> None:
    contents = [submissions.archive(specimens()), b"no zip at all", b"", submissions.archive({"readme.txt": b"hello"})]
    names = [f"H.2013-10-31.{inc}.impc.zip" for inc, _ in enumerate(contents)]
    for name, content in zip(names, contents, strict=True):
        folder.put(f"add/{name}", content)

    outcomes = installation.run_session().zips

    assert [installation.states()[f"add/{name}"] for name in names] == ["xsd done", *["unzip failed"] * 3]
    expected = [(len(content), md5(content)) for content in contents]
    assert [(outcomes[f"add/{name}"].size_bytes, outcomes[f"add/{name}"].md5) for name in names] == expected
    assert sorted(map(str, recorded(installation))) == sorted(map(str, expected))
    assert sorted(hashed) == names


def test_an_archive_that_lost_bytes_before_it_was_taken_is_fetched_anew_before_the_centre_is_blamed(
    installation: Installation, folder: Folder, fetches: Fetches
) -> None:
    """A machine that loses its power may leave a file of the right size without what was written to it."""
    content = folder.put(KEY)
    run_dying(dying_session.main, "before a checksum is taken", installation.settings)
    assert installation.states() == {KEY: "unzip running"}
    assert [found for _, found in recorded(installation)] == [None]
    staged = installation.settings.staging_directory / KEY
    staged.write_bytes(bytes(len(content)))

    outcome = installation.run_session().zips[KEY]

    assert outcome.succeeded
    assert (outcome.reasons, column_in(installation.tracker, select(ZipLog.message))) == ((), [])
    assert fetches.offsets == [0]
    assert staged.read_bytes() == content
    assert recorded(installation) == [(len(content), md5(content))]
    assert installation.attempts(KEY) == [(folder.source_id, "unzip cancelled"), (folder.source_id, "xsd done")]
    assert column_in(installation.tracker, select(Reopening.reason)) == [
        "The archive in staging was damaged, perhaps not when it arrived."
    ]


@pytest.mark.parametrize(("in_all", "state"), [(0, "zip_name done"), (1, "download failed")])
def test_archives_too_large_for_the_disk_keep_no_other_from_arriving(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch, in_all: int, state: str
) -> None:
    """Three in a row that cannot fit, as a server may claim, at the head of each session's queue.

    Those that are larger than the disk in all fail: nobody can free enough.
    """
    size_bytes = shutil.disk_usage(installation.root).total + in_all
    keys = [f"add/H.2013-10-31.{inc}.impc.zip" for inc in range(1, 7)]
    for inc, key in enumerate(keys, start=1):
        folder.put(key, specimens(stem=f"2013-10-31.{inc}"))
    list_action = LocalConnection.list_action

    def lying(self: LocalConnection, action: Action) -> ActionListing:
        listing = list_action(self, action)
        zips = [
            replace(file, size_bytes=size_bytes) if f"add/{file.name}" in keys[:4] else file for file in listing.zips
        ]
        return replace(listing, zips=tuple(zips))

    monkeypatch.setattr(LocalConnection, "list_action", lying)
    monkeypatch.setattr(waiting_attempts, "MAX_QUEUED", 1)
    installation.with_settings(source_failure_limit=2, max_retries=0).run_session()
    states = installation.states()
    assert {states.pop(key) for key in keys[:4]} == {state}
    assert states == dict.fromkeys(keys[4:], "xsd done")


def test_a_disk_full_at_the_second_source_leaves_the_bad_copy_of_the_first_undecided(
    installation: Installation, folder: Folder, fetches: Fetches
) -> None:
    """The good mirror was not tried: nobody is blamed until there was room for it."""
    good = folder.put(KEY)
    mirror = installation.add_folder("J", "mirror")
    mirror.put(KEY, good)
    folder.put(KEY, good[:40] + bytes(byte ^ 0xFF for byte in good[40:60]) + good[60:])
    fetches.full.add("mirror")
    outcome = installation.run_session().zips[KEY]
    fetches.full.clear()
    assert outcome.lacks_room
    assert not outcome.failed
    assert installation.run_session().zips[KEY].succeeded
