"""Processing submissions: from waiting to (xsd, done) or to a failure that says why."""

import hashlib
import io
import threading
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest
from sqlalchemy import select

from dcc.cli.demo import submissions
from dcc.errors import InternalFaultError, SourceUnreachableError
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.collecting import collect_submission
from dcc.reports.submissions.plain_text import render_text
from dcc.session.archives.coordination import Coordinator
from dcc.session.fetching import downloads
from dcc.session.prepare.archive_checks import ArchiveChecker
from dcc.tracker.models import XmlLog
from dcc.tracker.queries.zip_stories import zip_story
from tests.support.asking import in_reading, row_in
from tests.support.installations import Folder, Installation, experiments, specimens
from tests.support.served_sources import logged

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"
SPECIMENS = "H.2013-10-31.1.specimen.impc.xml"


def test_an_invalid_document_fails_its_zip_and_not_its_sibling(installation: Installation, folder: Folder) -> None:
    """The zip shows the worst of its documents."""
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
    error = row_in(installation.tracker, select(XmlLog.line, XmlLog.col, XmlLog.message))
    assert error.line is not None
    assert error.col is not None
    assert "gender" in error.message


INNER = "H.2013-10-31.2.experiment.impc.xml"


def test_where_a_document_lay_in_its_archive_is_told(installation: Installation, folder: Folder) -> None:
    inner = submissions.archive({f"weights/{INNER}": experiments(stem="2013-10-31.2")[INNER]})
    folder.put(KEY, {f"animals/{SPECIMENS}": specimens()[SPECIMENS], "more.zip": inner})
    assert installation.run_session().zips[KEY].succeeded
    told = {
        one.file_name: one for one in in_reading(installation.tracker, zip_story, ZipKey(Action.ADD, NAME)).documents
    }
    report = in_reading(installation.tracker, collect_submission, None, ZipKey(Action.ADD, NAME), installation.settings)
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
        installation.tracker, collect_submission, None, ZipKey(Action.ADD, NAME), installation.settings
    ).causes
    assert "member-not-opened" in {cause.code for cause in causes}


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


def _linked() -> bytes:
    """An archive in which a document is a link to a file of the machine."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo(SPECIMENS)
        entry.create_system = 3
        entry.external_attr = 0o120777 << 16
        archive.writestr(entry, "/etc/passwd")
    return buffer.getvalue()


def test_an_archive_that_is_refused_is_tried_nowhere_else(installation: Installation, folder: Folder) -> None:
    documents = specimens()
    (valid,) = documents.values()
    cases = (
        ("EncryptedArchiveError", "", _encrypted()),
        ("OversizedArchiveError", "", _bomb()),
        ("DuplicateMemberError", "", _duplicates()),
        ("UnsafeArchiveError", "", submissions.archive(documents | {"../../evil.xml": b"<a/>"})),
        ("UnsafeArchiveError", "absolute", submissions.archive({f"/etc/{SPECIMENS}": valid})),
        ("UnsafeArchiveError", "backslash", submissions.archive({f"data\\{SPECIMENS}": valid})),
        ("UnsafeArchiveError", "is a link or a device", _linked()),
        ("EmptyArchiveError", "", submissions.archive({"readme.txt": b"hello"})),
        ("ManifestError", "", submissions.archive(documents | {"manifest.json": b"[]"})),
    )
    second = installation.add_folder("H", "second")
    keys = [f"add/H.2013-10-31.{inc}.impc.zip" for inc, _ in enumerate(cases)]
    for key, (_, _, content) in zip(keys, cases, strict=True):
        for place in (folder, second):
            place.put(key, content)
    outcomes = installation.run_session().zips
    assert installation.states() == dict.fromkeys(keys, "unzip failed")
    for key, (kind, said, _) in zip(keys, cases, strict=True):
        (reason,) = outcomes[key].reasons
        assert (reason.kind, said in reason.message) == (kind, True)
        assert installation.attempts(key) == [(folder.source_id, "unzip failed")]
    told = [reason.message for outcome in outcomes.values() for reason in outcome.reasons]
    assert sorted(logged(installation)) == sorted(told)
    assert not [path for path in installation.staged() if ".contents" in path]


def test_a_fault_of_the_platform_costs_one_zip_and_is_said(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "add/H.2013-10-31.2.impc.zip"
    folder.put(KEY)
    folder.put(other, specimens(stem="2013-10-31.2"))
    extract = ArchiveChecker.extract

    def faulty(self: ArchiveChecker, archive: Path, target: Path) -> object:
        if archive.name == NAME:
            raise ZeroDivisionError("oh")
        return extract(self, archive, target)

    with monkeypatch.context() as patched:
        patched.setattr(ArchiveChecker, "extract", faulty)
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

    with monkeypatch.context() as patched:
        connect = Mock(side_effect=SourceUnreachableError("No route. Ask the centre."))
        patched.setattr(downloads, "connect", connect)
        result = installation.with_settings(source_failure_limit=3, downloads_per_source=1).run_session()
    assert connect.call_count == 3
    failed = [outcome for outcome in result.zips.values() if outcome.failed]
    assert failed
    assert all("No route" in outcome.reasons[-1].message for outcome in failed)
    again = installation.run_session()
    assert sorted(again.zips) == sorted(keys)
    assert set(installation.states().values()) == {"xsd done"}


def _open_files(installation: Installation) -> int:
    """The open files, without the connections that the tracker's pool keeps: their number is a matter of chance."""
    installation.tracker.dispose()
    return len(list(Path("/proc/self/fd").iterdir()))


def test_hundreds_of_zips_come_through_in_bounded_threads(installation: Installation, folder: Folder) -> None:
    """Bounded concurrency, and no file left open."""
    for inc in range(300):
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
    assert len(result.zips) == 300
    assert set(installation.states().values()) == {"xsd done"}
    # Each of three transfers may have asked the archive store, which is done in a thread of its own: it may hang.
    assert most <= before + 3 * 3 + 2 + 2 + 4
    assert _open_files(installation) <= open_before + 5
