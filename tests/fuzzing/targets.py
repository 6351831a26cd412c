"""What is fuzzed: each target takes any bytes and fails only for a fault of the platform.

A target may raise nothing: what the code promises to raise for bad input is caught here, and what it promises beside is
asserted. `TARGETS` has them by name.
"""

import functools
import http.client
import io
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import paramiko
from paramiko.sftp import CMD_NAME
from pydantic import SecretStr

from dcc.archives.extraction import extract_archive
from dcc.archives.limits import ArchiveLimits
from dcc.archives.manifest import MANIFEST_NAMES, read_manifest
from dcc.converters.base import SubmittedFile
from dcc.converters.conversion import convert_file
from dcc.converters.csv_tables import CsvTables
from dcc.converters.json_tables import JsonTables
from dcc.documents.reading import read_document
from dcc.documents.schema_set import SchemaSet
from dcc.documents.validation import validate_document
from dcc.errors import (
    ArchiveError,
    BadChecksumFileError,
    BadFileNameError,
    DocumentError,
    ManifestError,
    ReferenceDataError,
)
from dcc.naming import Action, DocumentKind, NamingConvention, is_archive
from dcc.reference.loading import SETS, read_set
from dcc.reference.snapshots import Provenance
from dcc.sources.access import Credential, Endpoint
from dcc.sources.ftp.session import parse_list_line, parse_mlsd_line
from dcc.sources.http.client import FAILURES, Site
from dcc.sources.http.index import read_index
from dcc.sources.http.source import read_attributes
from dcc.sources.listing import Entry, EntryKind, action_listing
from dcc.sources.md5_sidecar import parse_md5
from dcc.sources.remote_names import printable, raw
from dcc.sources.sftp.bounds import StrictMessage
from dcc.sources.sftp.client import SftpResponse
from dcc.tracker.archive_names import stored_name
from tests.support.memory import keep_temporary_files_in_memory

ARCHIVE = "H.2013-10-31.1.impc.zip"
CENTRES = {"H", "J", "a" * 200}
_NAMING = NamingConvention()
_LIMITS = ArchiveLimits(max_bytes=10_000_000, max_ratio=200, max_entries=100)
_SITE = Site("a source", "http", Endpoint("127.0.0.1", 80), "u", Credential(password=SecretStr("s3cret")))


@functools.cache
def _schemas() -> SchemaSet:
    return SchemaSet.load(None)


@functools.cache
def _folder() -> Path:
    keep_temporary_files_in_memory()
    return Path(tempfile.mkdtemp(prefix="dcc-fuzz-"))


def forget_files() -> None:
    shutil.rmtree(_folder(), ignore_errors=True)
    _folder.cache_clear()


def _legible(text: str, longest: int = 2_000) -> None:
    assert text.isprintable(), text[:200]
    assert len(text) <= longest, len(text)


def archive(data: bytes) -> None:
    """An archive: extracted whole into its folder, or refused with nothing left."""
    folder = _folder() / "archive"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path, target = folder / ARCHIVE, folder / "contents"
    path.write_bytes(data)
    try:
        found = extract_archive(path, target, limits=_LIMITS, naming=_NAMING, centres=CENTRES)
    except ArchiveError as error:
        _legible(str(error))
        assert {entry.name for entry in folder.iterdir()} == {ARCHIVE}
        return
    assert {entry.name for entry in target.iterdir()} == {document.path.name for document in found.documents}
    assert {entry.name for entry in folder.iterdir()} == {ARCHIVE, "contents"}
    assert sum(document.path.stat().st_size for document in found.documents) <= _LIMITS.max_bytes
    for name, _, reason in found.refused:
        _legible(stored_name(name))
        _legible(reason.message)
    for name, reason in found.ignored:
        _legible(f"{name}: {reason}")


def document(data: bytes) -> None:
    """A document: the same problems whether read as a tree or as a stream; a valid one can be taken over."""
    path = _folder() / "document.xml"
    path.write_bytes(data)
    for kind in DocumentKind:
        tree, stream = (
            validate_document(path, kind, _schemas(), max_errors=50, max_tree_bytes=limit) for limit in (1 << 20, 0)
        )
        assert tree == stream
        for problem in tree:
            _legible(problem.message)
            assert problem.line is not None
            assert problem.line >= 1
        if tree:
            continue
        try:
            for _ in read_document(path, kind):
                pass
        except DocumentError as error:
            _legible(str(error))


def table(data: bytes) -> None:
    """A table of either kind and format: problems of its rows, or a document that can be validated."""
    path, document = _folder() / "table", _folder() / "converted.xml"
    path.write_bytes(data)
    for kind, converter in product(DocumentKind, (CsvTables(), JsonTables())):
        document.unlink(missing_ok=True)
        submitted = SubmittedFile("table", path, "H")
        problems = convert_file(converter, submitted, kind, document, 10_000_000, 50)
        # What XML cannot hold is found in the document.
        found = validate_document(document, kind, _schemas(), max_errors=50, max_tree_bytes=1 << 20)
        for problem in problems or found:
            _legible(problem.message)
            assert "The converter" not in problem.message, problem.message


def manifest(data: bytes) -> None:
    """A manifest of either format: the files that it names, or a reason."""
    for name in MANIFEST_NAMES:
        try:
            rows = read_manifest(data, name, ARCHIVE)
        except ManifestError as error:
            _legible(str(error))
        else:
            for row in rows:
                _legible(row.file, 4_000)


def ftp_list(data: bytes) -> None:
    """Lines of LIST and MLSD, gathered to a listing."""
    for parse in (parse_list_line, parse_mlsd_line):
        entries = []
        for line in data.splitlines():
            try:
                entry = parse(line)
            except ValueError as error:
                _legible(str(error), 100_000)
            else:
                entries.extend([entry] if entry is not None else [])
        _gathered(entries)


def _gathered(entries: list[Entry]) -> None:
    listing = action_listing("a source", Action.ADD, iter(entries), lambda link: Entry(link.name, EntryKind.FILE))
    for file in listing.zips:
        _legible(file.name, 1_100)
        assert is_archive(file.name)
        assert b"/" not in raw(file.name)
        assert len(stored_name(file.name)) <= 128
    for name, reason in listing.ignored_examples:
        _legible(name + reason)


def index_page(data: bytes) -> None:
    """An index page of a web server: only names directly below the directory."""
    charset, _, page = data.partition(b"\n")
    answer = SimpleNamespace(
        headers=SimpleNamespace(
            get_content_type=lambda: "text/html", get_content_charset=lambda: charset[:20].decode("latin-1") or None
        ),
        length=len(page),
        target="/data/add/",
        blocks=lambda: iter([page] if page else []),
    )
    try:
        entries = list(read_index(_SITE, answer))  # type: ignore[arg-type]
    except FAILURES as error:
        _legible(str(error))
        return
    for entry in entries:
        assert entry.name
    _gathered(entries)


def http_headers(data: bytes) -> None:
    try:
        headers = http.client.parse_headers(io.BytesIO(data))
    except http.client.HTTPException:
        return
    size = read_attributes(headers).size
    assert size is None or size >= 0
    for name in headers:
        try:
            target = _SITE.resolve("/data/add/", headers[name])
        except ValueError:
            continue
        assert target is None or target.startswith("/")


def sftp_names(data: bytes) -> None:
    """An answer with names of an SFTP server: no more entries than there are bytes."""
    entries: list[Entry] = []
    try:
        for entry in SftpResponse(CMD_NAME, StrictMessage(data)).names():
            entries.append(entry)
            assert len(entries) <= len(data)
    except (paramiko.SSHException, paramiko.SFTPError, EOFError, OSError):
        return
    finally:
        _gathered(entries)


def names(data: bytes) -> None:
    """Names: readable and back, and taken apart or refused."""
    text = printable(data)
    _legible(text, 4 * len(data) + 1)
    assert raw(text) == data
    for parse in (_NAMING.parse_archive_name, _NAMING.parse_document_name):
        try:
            name = parse(text, CENTRES)
        except BadFileNameError as error:
            _legible(str(error))
        else:
            assert name.centre in CENTRES
            assert "/" not in name.file_name


def md5_file(data: bytes) -> None:
    try:
        found = parse_md5(data, ARCHIVE, "a source")
    except BadChecksumFileError as error:
        _legible(str(error))
    else:
        assert len(found) == 32
        assert set(found) <= set("0123456789abcdef")


def reference(data: bytes) -> None:
    """Reference data: a table, or IMPReSS's answers, by the first byte."""
    name = SETS[data[0] % len(SETS)] if data else "impress"
    try:
        read_set(name, data[1:], Provenance("a source", datetime(2026, 1, 1, tzinfo=UTC), ""))
    except ReferenceDataError as error:
        said = str(error)
        assert said


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        archive,
        document,
        ftp_list,
        http_headers,
        index_page,
        manifest,
        md5_file,
        names,
        reference,
        sftp_names,
        table,
    )
}
CORPUS = Path(__file__).parent / "corpus"


def seeds(name: str) -> Iterator[tuple[str, bytes]]:
    """The corpus that is shipped for a target: what it is called and its bytes. Crashes of old are among it."""
    for path in sorted((CORPUS / name).iterdir()):
        yield path.name, path.read_bytes()
