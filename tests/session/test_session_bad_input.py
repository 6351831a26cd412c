"""What bad input gets in a whole session: a state and a clear reason in the tracker, and nothing lost.

Archives that are truncated, encrypted, bombs and the like are in test_zip_processing.py.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from dcc.cli.demo import submissions
from dcc.tracker.models import AnException, SourceCrawlRow, XmlLog, ZipActionLog
from tests.support.databases import only_sqlite
from tests.support.installations import Folder, Installation, specimens
from tests.support.served_sources import logged, register
from tests.support.servers import Share

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"
GOOD_NAME = "H.2013-10-31.9.impc.zip"
GOOD = f"add/{GOOD_NAME}"
SPECIMENS = "H.2013-10-31.1.specimen.impc.xml"
NAMESPACE = "http://www.mousephenotype.org/dcc/exportlibrary/datastructure/core/specimen"


def document(content: str = "", before: str = "", encoding: str = "UTF-8") -> bytes:
    """A specimen document with `before` between declaration and root, and a text that ought not to be there."""
    declaration = f'<?xml version="1.0" encoding="{encoding}"?>'
    return f'{declaration}{before}<centreSpecimenSet xmlns="{NAMESPACE}">{content}</centreSpecimenSet>'.encode()


def valid() -> bytes:
    return specimens()[SPECIMENS]


def laughs() -> bytes:
    entities = ['<!ENTITY lol0 "lol">']
    entities += [f'<!ENTITY lol{n} "{f"&lol{n - 1};" * 10}">' for n in range(1, 12)]
    return document("&lol11;", f"<!DOCTYPE centreSpecimenSet [{''.join(entities)}]>")


def in_latin_1() -> bytes:
    """Declared as UTF-8, and is not."""
    return valid().replace(b'litterId="', 'litterId="é'.encode("latin-1"), 1)


@pytest.fixture
def folder(installation: Installation) -> Folder:
    """The folder of centre H, with a good archive beside whatever else a test puts there."""
    made = installation.add_folder()
    made.put(GOOD, specimens(stem="2013-10-31.9"))
    return made


def recorded(installation: Installation) -> list[tuple[str, str]]:
    """What is recorded of documents: kind and message, in order."""
    query = select(AnException.short_name, XmlLog.message).join(XmlLog, XmlLog.exception_id == AnException.id)
    with installation.tracker.connect() as connection:
        return [(row[0], row[1] or "") for row in connection.execute(query.order_by(XmlLog.id))]


BAD: dict[str, tuple[bytes, str, str]] = {
    "empty": (b"", "NotWellFormedError", "empty"),
    "not XML": (b"\0\1\2 no XML at all" * 9, "NotWellFormedError", ""),
    "a PDF": (b"%PDF-1.4 ...", "NotWellFormedError", ""),
    "cut off": (valid()[:-40], "NotWellFormedError", ""),
    "not the declared encoding": (in_latin_1(), "NotWellFormedError", "UTF-8"),
    "unknown encoding": (document(encoding="KLINGON-8"), "NotWellFormedError", "KLINGON-8"),
    "declared as UTF-16": (document(encoding="UTF-16"), "NotWellFormedError", ""),
    "billion laughs": (laughs(), "ForbiddenMarkupError", "document type declaration"),
    "foreign DTD": (
        document(before='<!DOCTYPE centreSpecimenSet SYSTEM "http://127.0.0.1:9/evil.dtd">'),
        "ForbiddenMarkupError",
        "document type declaration",
    ),
    "deeply nested": (document(f"<a>{'<b>' * 5_000}{'</b>' * 5_000}</a>"), "SchemaViolationError", ""),
    "another root": (b'<?xml version="1.0"?><html/>', "WrongDocumentKindError", "root element is <html>"),
}
"""Contents of documents, with the kind of error that each gets, and words of its message."""


def test_bad_documents_fail_with_a_reason_and_nothing_else_does(installation: Installation, folder: Folder) -> None:
    keys = {what: f"add/H.2013-11-{day:02}.1.impc.zip" for day, what in enumerate(BAD, 1)}
    for day, (what, (content, *_)) in enumerate(BAD.items(), 1):
        folder.put(keys[what], {f"H.2013-11-{day:02}.1.specimen.impc.xml": content})
    result = installation.run_session()
    assert installation.states() == dict.fromkeys(keys.values(), "xsd failed") | {GOOD: "xsd done"}
    errors = {what: result.zips[key].documents[0].errors for what, key in keys.items()}
    for what, (_, kind, says) in BAD.items():
        assert kind in {error.kind for error in errors[what]}, what
        assert any(says in error.message for error in errors[what]), what
        assert all(len(error.message) < 1_000 for error in errors[what]), what
    told = [(error.kind, error.message) for found in errors.values() for error in found]
    assert sorted(told) == sorted(recorded(installation))
    assert installation.run_session().zips == {}


def test_a_file_that_an_entity_names_is_never_read(installation: Installation, folder: Folder, tmp_path: Path) -> None:
    """Text of local files appeared in the error stored for the centre."""
    secret = tmp_path / "secret"
    secret.write_text("the launch code is 0000")
    os.utime(secret, (1, 1))
    entity = f'<!DOCTYPE centreSpecimenSet [<!ENTITY xxe SYSTEM "{secret.as_uri()}">]>'
    folder.put(KEY, {SPECIMENS: document("&xxe;", entity)})
    installation.run_session()
    assert installation.states()[KEY] == "xsd failed"
    ((kind, message),) = recorded(installation)
    assert kind == "ForbiddenMarkupError"
    assert "launch code" not in message


def linked() -> bytes:
    """An archive in which a document is a link to a file of the machine."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo(SPECIMENS)
        entry.create_system = 3
        entry.external_attr = 0o120777 << 16
        archive.writestr(entry, "/etc/passwd")
    return buffer.getvalue()


def misnamed(name: str, stored: bytes) -> bytes:
    """An archive with a good document and another one, whose name stands as these bytes."""
    archive = submissions.archive(specimens() | {name: b"<a/>"})
    return archive.replace(name.encode(), stored)


@pytest.mark.parametrize(
    ("make", "state", "says"),
    [
        pytest.param(linked, "unzip failed", "is a link or a device", id="a link"),
        pytest.param(lambda: misnamed("é.xml", b"\xff\xfe.xml"), "unzip failed", "UTF-8", id="said to be UTF-8"),
        pytest.param(
            lambda: submissions.archive({"data\\" + SPECIMENS: valid()}),
            "unzip failed",
            "backslash",
            id="backslash",
        ),
        pytest.param(
            lambda: submissions.archive({"/etc/" + SPECIMENS: valid()}), "unzip failed", "absolute", id="absolute path"
        ),
    ],
)
def test_an_archive_with_odd_entries_fails_with_the_reason(
    installation: Installation, folder: Folder, make: Callable[[], bytes], state: str, says: str
) -> None:
    folder.put(KEY, make())
    installation.run_session()
    assert installation.states() == {KEY: state, GOOD: "xsd done"}
    assert [says in message for message in logged(installation)] == [True]
    assert not [path for path in installation.staged() if path.startswith(f"{KEY}.contents")]


ODD_NAMES = {
    b"H.2013-10-31.1\xe9.impc.zip": "H.2013-10-31.1\\xe9.impc.zip",
    "H.2013-10-31.2é🐁.impc.zip".encode(): "H.2013-10-31.2é🐁.impc.zip",
    b"H.2013-10-31.1.impc.zip\x1b[2J.zip": "H.2013-10-31.1.impc.zip\\x1b[2J.zip",
    b"H.2013-10-31.1\\.impc.zip": "H.2013-10-31.1\\x5c.impc.zip",
    b"-rf .zip": "-rf .zip",
    b"'; DROP TABLE zip_file; --.zip": "'; DROP TABLE zip_file; --.zip",
}


@pytest.mark.servers
@pytest.mark.parametrize("protocol", ["sftp_server", "ftp_server", "local_folder"])
def test_odd_names_in_a_listing_are_recorded_legibly_and_refused(
    quick: Installation, protocol: str, request: pytest.FixtureRequest
) -> None:
    """Names matched in part; here also those that are not UTF-8."""
    share: Share = request.getfixturevalue(protocol)
    share.put(GOOD, submissions.archive(specimens(stem="2013-10-31.9")))
    for name in [*ODD_NAMES, b"x" * 240 + b".zip"]:
        (share.root / "add" / os.fsdecode(name)).write_bytes(b"PK")
    register(quick, share)
    result = quick.run_session()
    states = quick.states()
    assert states.pop(GOOD) == "xsd done"
    (long,) = [key for key in states if key.startswith("add/xxx")]
    assert len(long) <= len("add/") + 128
    assert states == dict.fromkeys([*(f"add/{name}" for name in ODD_NAMES.values()), long], "zip_name failed")
    with quick.tracker.connect() as connection:
        reasons = connection.scalars(select(ZipActionLog.message)).all()
    assert len(reasons) == len(states)
    assert all(reason and reason.isprintable() for reason in reasons)
    assert list(result.zips) == [GOOD]
    again = quick.run_session()
    assert [(crawled.new, crawled.known) for crawled in again.crawls.values()] == [(0, len(ODD_NAMES) + 2)]


@only_sqlite
@pytest.mark.servers
def test_an_unreadable_directory_costs_only_itself(quick: Installation, ftp_server: Share) -> None:
    """It was taken for an empty one."""
    archive = submissions.archive(specimens())
    ftp_server.put(KEY, archive)
    ftp_server.put(f"edit/{NAME}", archive)
    source_id = register(quick, ftp_server)
    (ftp_server.root / "add").chmod(0o700)
    quick.run_session()
    assert quick.states() == {f"edit/{NAME}": "xsd done"}
    with quick.tracker.connect() as connection:
        row = connection.execute(select(SourceCrawlRow.outcome, SourceCrawlRow.message)).one()
    assert row.outcome == "partial"
    assert row.message.startswith(f"file source {source_id} ")
    assert "/add" in row.message
    (ftp_server.root / "add").chmod(0o755)
    quick.run_session()
    assert set(quick.states().values()) == {"xsd done"}


@only_sqlite
@pytest.mark.servers
def test_an_unreadable_file_fails_until_it_can_be_read(quick: Installation, ftp_server: Share) -> None:
    path = ftp_server.put(KEY, submissions.archive(specimens()))
    ftp_server.put(GOOD, submissions.archive(specimens(stem="2013-10-31.9")))
    register(quick, ftp_server)
    path.chmod(0o600)
    quick.run_session()
    assert quick.states() == {KEY: "download failed", GOOD: "xsd done"}
    assert all(NAME in message for message in logged(quick))
    path.chmod(0o644)
    quick.run_session()
    assert set(quick.states().values()) == {"xsd done"}
