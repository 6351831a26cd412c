"""Processing submissions: from waiting to (xsd, done) or to a failure that says why."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from dcc.cli.demo import submissions
from dcc.errors import (
    InternalFaultError,
    SourceUnreachableError,
)
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.collecting import collect_submission
from dcc.reports.submissions.plain_text import render_text
from dcc.session.archives.coordination import Coordinator
from dcc.session.fetching import downloads
from dcc.session.prepare.archive_checks import ArchiveChecker
from dcc.tracker.models import (
    XmlLog,
)
from dcc.tracker.queries.zip_stories import zip_story
from tests.support.installations import Folder, Installation, experiments, specimens
from tests.support.served_sources import logged

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"
SPECIMENS = "H.2013-10-31.1.specimen.impc.xml"


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


@pytest.mark.both_databases
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


INNER = "H.2013-10-31.2.experiment.impc.xml"


def test_where_a_document_lay_in_its_archive_is_told(installation: Installation, folder: Folder) -> None:
    inner = submissions.archive({f"weights/{INNER}": experiments(stem="2013-10-31.2")[INNER]})
    folder.put(KEY, {f"animals/{SPECIMENS}": specimens()[SPECIMENS], "more.zip": inner})
    assert installation.run_session().zips[KEY].succeeded
    with installation.tracker.connect() as connection:
        told = {one.file_name: one for one in zip_story(connection, ZipKey(Action.ADD, NAME)).documents}
        report = collect_submission(connection, None, ZipKey(Action.ADD, NAME), installation.settings)
    assert {name: (one.place, one.archives) for name, one in told.items()} == {
        SPECIMENS: (f"animals/{SPECIMENS}", ()),
        INNER: (f"more.zip/weights/{INNER}", (("more.zip", hashlib.md5(inner).hexdigest()),)),
    }
    text = " ".join(render_text(report, load_catalogue("en", installation.settings)).split())
    assert f"lies in the archive at more.zip/weights/{INNER}" in text


def test_an_archive_that_holds_what_is_not_opened_is_not_through(installation: Installation, folder: Folder) -> None:
    """Its other documents are, and the reason is told."""
    folder.put(KEY, specimens() | {"more.7z": b"7z"})
    assert installation.run_session().zips[KEY].failed
    assert installation.states() == {KEY: "xml_name failed"}
    assert installation.documents() == [(SPECIMENS, "xsd done"), ("more.7z", "xml_name failed")]
    with installation.tracker.connect() as connection:
        (cause,) = collect_submission(connection, None, ZipKey(Action.ADD, NAME), installation.settings).causes
    assert cause.code == "member-not-opened"


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
        pytest.param(_encrypted, "EncryptedArchiveError", id="encrypted"),
        pytest.param(_bomb, "OversizedArchiveError", id="bomb"),
        pytest.param(_duplicates, "DuplicateMemberError", id="duplicates"),
        pytest.param(
            lambda: submissions.archive(specimens() | {"../../evil.xml": b"<a/>"}), "UnsafeArchiveError", id="traversal"
        ),
        pytest.param(lambda: submissions.archive({"readme.txt": b"hello"}), "EmptyArchiveError", id="nothing inside"),
        pytest.param(
            lambda: submissions.archive(specimens() | {"manifest.json": b"[]"}),
            "ManifestError",
            id="its manifest",
        ),
    ],
)
def test_an_archive_that_is_refused_is_tried_nowhere_else(
    installation: Installation, folder: Folder, make: Callable[[], bytes], kind: str
) -> None:
    """Every archive ends in a state, with the reason."""
    second = installation.add_folder("H", "second")
    for place in (folder, second):
        place.put(KEY, make())
    outcome = installation.run_session().zips[KEY]
    assert [reason.kind for reason in outcome.reasons] == [kind]
    assert installation.states() == {KEY: "unzip failed"}
    assert installation.attempts(KEY) == [(folder.source_id, "unzip failed")]
    assert logged(installation) == [reason.message for reason in outcome.reasons]
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

    def refuse(*_: object) -> None:
        raise SourceUnreachableError("No route. Ask the centre.")

    with monkeypatch.context() as patched:
        patched.setattr(downloads, "connect", refuse)
        result = installation.with_settings(source_failure_limit=3).run_session()
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
