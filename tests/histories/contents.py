"""What an archive of a history of submissions holds: documents or tables, where they lie in it, and its manifest."""

import csv
import io
import re
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from lxml import etree

from dcc.archives.manifest import Counts, manifest_row, write_manifest
from dcc.cli.demo import submissions
from dcc.naming import DocumentKind
from tests.histories.submissions import BAD, MICE, Document, Listing, Packing, Submission
from tests.hostile.compounds import packed, tarred, zipped
from tests.support.rewritten_documents import written_otherwise

PROCEDURE: Final = "IMPC_BWT_001"
PARAMETER: Final = "IMPC_BWT_001_001"
VALUE: Final = 20
"""What experiments measure, and its value in the first variant; it is one more in the next."""
_CREATED: Final = date(2014, 1, 1)


def animals_of(group: int) -> list[str]:
    """The names of the animals of a group."""
    first = _first_of(group)
    return [submissions.specimen_identifier("H", number) for number in range(first, first + MICE)]


@cache
def document_of(document: Document, otherwise: bool) -> bytes:
    of_group = _animals if document.kind is DocumentKind.SPECIMEN else _experiments
    documents = [of_group(group, variant) for group, variant in document.said]
    first, *others = (etree.fromstring(one) for one in documents)
    for other in others:
        first[0].extend(list(other[0]))
    content = etree.tostring(first)
    return written_otherwise(content) if otherwise else content


@cache
def table_of(animals: Document, otherwise: bool) -> bytes:
    """The table that says the same; `otherwise`: with its columns in another order, between semicolons."""
    rows = []
    for mouse in etree.fromstring(document_of(animals, otherwise=False)).iter("{*}mouse"):
        parts = ((f"{etree.QName(part).localname}.", part) for part in mouse)
        rows.append({f"{of}{name}": value for of, one in (("", mouse), *parts) for name, value in one.items()})
    columns = sorted({column for row in rows for column in row}, reverse=otherwise)
    written = io.StringIO()
    writer = csv.DictWriter(written, columns, restval="", delimiter=";" if otherwise else ",")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue().encode()


def _animals(group: int, variant: int) -> bytes:
    document = submissions.specimen_document("H", mice=MICE, first=_first_of(group), created=_CREATED)
    if variant == BAD:
        document = document.replace(b'colonyID="H-', b'colonyID="H-unregistered-')
    return document.replace(b'litterId="H-L', f'litterId="H-{variant}L'.encode())


def _experiments(group: int, variant: int) -> bytes:
    document = submissions.experiment_document(
        "H", procedure=PROCEDURE, animals=MICE, first=_first_of(group), created=_CREATED
    )
    if variant == BAD:
        document = document.replace(b'unit="g"', b'unit="kg"')
    return re.sub(rb"<value>\d+\.\d+</value>", f"<value>{VALUE + variant}</value>".encode(), document)


def _first_of(group: int) -> int:
    return 100 * (group + 1) + 1


def content_of(submission: Submission) -> bytes:
    written = table_of if submission.are_tables else document_of
    documents = {
        f"specimens-{place}.csv" if submission.are_tables else submission.document_name(place): written(
            document, submission.otherwise
        )
        for place, document in enumerate(submission.documents)
    }
    members, at = _packed(documents, submission.packing)
    if submission.listing is not Listing.NONE:
        members |= _manifest(documents, at, submission.listing)
    return {".zip": zipped, ".tar": tarred, ".tar.gz": packed}[submission.suffix](members)


def _packed(documents: dict[str, bytes], packing: Packing) -> tuple[dict[str, bytes], str]:
    """The members of an archive, and where in it the documents lie."""
    match packing:
        case Packing.FLAT:
            return documents, ""
        case Packing.FOLDER:
            return {f"data/new/{name}": content for name, content in documents.items()}, "data/new/"
        case Packing.ZIP:
            return {"inner.zip": zipped(documents)}, "inner.zip/"
        case Packing.TAR:
            inside = {f"folder/{name}": content for name, content in documents.items()}
            return {"data/inner.tgz": packed(inside)}, "data/inner.tgz/folder/"
        case Packing.TWICE:
            return {"outer.zip": zipped({"inner.tar": tarred(documents)})}, "outer.zip/inner.tar/"
        case Packing.DEEP:
            # The first lies at the top: the others are where nobody looks.
            name, *rest = documents
            inside = zipped({name: documents[name] for name in rest} or {"x.txt": b"x"})
            return {name: documents[name], "a.zip": zipped({"b.zip": zipped({"c.zip": inside})})}, ""


def _manifest(documents: Mapping[str, bytes], at: str, listing: Listing) -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        for name, content in documents.items():
            path = Path(folder) / at / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        files = sorted(Path(folder).rglob("*.xml"))
        rows = [manifest_row(file.relative_to(folder).as_posix(), file, _counts(file)) for file in files]
        first = rows[0]
        match listing:
            case Listing.CHECKSUM:
                first["checksum"] = "0" * 64
            case Listing.COUNT:
                first["specimens"] += 1
            case Listing.MISSING:
                rows.append({"file": "H.2013-01-01.1.specimen.impc.xml"})
            case Listing.UNLISTED:
                del rows[0]
        name = "manifest.csv" if listing is Listing.CSV else "manifest.json"
        path = Path(folder) / name
        write_manifest(rows, path, name.rpartition(".")[2])
        return {name: path.read_bytes()}


def _counts(path: Path) -> Counts:
    root = etree.fromstring(path.read_bytes())
    return Counts(len(root.findall(".//{*}mouse")), len(root.findall(".//{*}experiment")))
