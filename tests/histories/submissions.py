"""What a centre may submit, in which form, and random histories of it: what comes, goes, is withdrawn and decided.

A document says of groups of animals, in one of two variants of each, and may be written otherwise. An archive has one
to three documents and something to be done with them. They lie at its top, in a folder, or in archives inside it, with
or without a manifest, which may be wrong.
"""

from __future__ import annotations

import csv
import gzip
import io
import random
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from lxml import etree

from dcc.archives.manifest import Counts, manifest_row, write_manifest
from dcc.cli.demo import submissions
from dcc.naming import Action
from tests.histories.happenings import STEPS, Crawled, LeftOut
from tests.support.rewritten_documents import written_otherwise

GROUPS: Final = 4
MICE: Final = 2
HOLD_ABOVE: Final = MICE
"""How many animals a document may change without being confirmed: those of one group."""
_SESSIONS, _BETWEEN = 5, 3


class Packing(StrEnum):
    """Where the documents of an archive lie in it: DEEP is deeper than archives inside it are opened."""

    FLAT = "flat"
    FOLDER = "folder"
    ZIP = "inner zip"
    TAR = "inner tar"
    TWICE = "tar in a zip"
    DEEP = "zip in a zip in a zip"


class Listing(StrEnum):
    """What manifest an archive has, and what is wrong with it."""

    NONE = "no manifest"
    JSON = "manifest.json"
    CSV = "manifest.csv"
    CHECKSUM = "wrong checksum"
    COUNT = "wrong count"
    MISSING = "a file missing"
    UNLISTED = "a file not listed"


RIGHT: Final = frozenset({Listing.NONE, Listing.JSON, Listing.CSV})
Said = tuple[tuple[int, int], ...]
"""The groups that a document tells of, each with its variant."""


@dataclass(frozen=True, slots=True)
class Submission:
    """An archive: its number, which dates it, what is to be done, what each document says, and how it is packed.

    `otherwise`: the documents are written otherwise. `are_tables`: they are CSV tables.
    """

    number: int
    action: Action
    documents: tuple[Said, ...]
    packing: Packing = Packing.FLAT
    listing: Listing = Listing.NONE
    otherwise: bool = False
    are_tables: bool = False
    suffix: str = ".zip"

    @property
    def file_name(self) -> str:
        """Its name, which differs from that of every other one."""
        return f"H.{_day(self.number)}.1.impc{self.suffix}"

    def document_name(self, place: int) -> str:
        """The name of a document."""
        return f"H.{_day(self.number)}.{place + 1}.specimen.impc.xml"

    def place_of(self, name: str) -> int:
        """The place of the document of that name."""
        return int(name.split(".")[2]) - 1

    def __str__(self) -> str:
        written = (" written otherwise" if self.otherwise else "") + (" as tables" if self.are_tables else "")
        return f"{self.action}/{self.file_name} {self.documents}{written}, {self.packing}, {self.listing}"


@dataclass(frozen=True, slots=True)
class Submitted:
    """An archive lies at the source, in the place of another one of its name."""

    submission: Submission


@dataclass(frozen=True, slots=True)
class Taken:
    """The archive of a number is taken away from the source."""

    number: int


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A person has what an archive brought withdrawn: `dcc data undo`."""

    number: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A person confirms what is held of an archive, the oldest or the youngest that has any: `dcc data confirm`."""

    oldest: bool


@dataclass(frozen=True, slots=True)
class Decided:
    """A person decides on all that is proposed: `dcc data proposals`."""

    accepts: bool


Happening = Submitted | Taken | Withdrawn | Confirmed | Decided | LeftOut | Crawled


def history(seed: int) -> Iterator[Happening]:
    """A random history: what happens, with a session now and then, and one at the end.

    In every second one, all animals are there at first, and all archives are plain: more happens to their data.
    """
    rng = random.Random(f"submissions {seed}")
    is_plain = seed % 2 == 0
    sent: list[Submission] = []
    numbers = list(range(1, 40))
    rng.shuffle(numbers)
    if is_plain:
        sent.append(Submission(0, Action.ADD, tuple(((group, 0),) for group in range(GROUPS))))
        yield Submitted(sent[0])
    for _ in range(_SESSIONS):
        for _ in range(rng.randint(1, _BETWEEN)):
            happening = _one(rng, sent, numbers)
            if isinstance(happening, Submitted):
                if is_plain:
                    plain = replace(happening.submission, packing=Packing.FLAT, listing=Listing.NONE)
                    happening = Submitted(plain)
                sent.append(happening.submission)
            yield happening
        yield Crawled()
    yield Crawled()


def _one(rng: random.Random, sent: list[Submission], numbers: list[int]) -> Happening:
    what = rng.choices(range(7), (12, 2, 2, 2, 2, 3, 4))[0] if sent else 0
    number = rng.choice(sent).number if sent else 0
    match what:
        case 0:
            return Submitted(_new(rng, sent, numbers.pop()))
        case 1:
            # Another archive of the name, which is taken while nothing of the first one was.
            former = rng.choice(sent)
            return Submitted(_packed_anew(rng, former))
        case 2:
            return Taken(number)
        case 3:
            return Withdrawn(number)
        case 4:
            return Decided(rng.random() < 0.6)
        case 5:
            return LeftOut(rng.choice(("", "", *STEPS)))
        case _:
            return Confirmed(oldest=rng.random() < 0.6)


def _new(rng: random.Random, sent: list[Submission], number: int) -> Submission:
    documents = tuple(_said(rng, sent) for _ in range(rng.choices((1, 2, 3), (5, 3, 1))[0]))
    if sent and rng.random() < 0.2:
        documents = rng.choice(sent).documents
    action = rng.choices((Action.ADD, Action.EDIT, Action.DELETE), (4, 4, 2))[0]
    suffix = rng.choices((".zip", ".tar", ".tar.gz"), (4, 1, 1))[0]
    return _packed_anew(rng, Submission(number, action, documents, otherwise=rng.random() < 0.4, suffix=suffix))


def _packed_anew(rng: random.Random, submission: Submission) -> Submission:
    """It says the same and is packed otherwise: a manifest would name what is too deep, and is of documents."""
    packing = _packing(rng)
    is_plain = packing is not Packing.DEEP
    are_tables = is_plain and rng.random() < 0.25
    listing = _listing(rng) if is_plain and not are_tables else Listing.NONE
    return replace(submission, packing=packing, listing=listing, are_tables=are_tables)


def _said(rng: random.Random, sent: list[Submission]) -> Said:
    if sent and rng.random() < 0.3:
        return rng.choice(rng.choice(sent).documents)
    groups = rng.sample(range(GROUPS), rng.choice((1, 2, 2)))
    return tuple((group, rng.randrange(2)) for group in groups)


def _packing(rng: random.Random) -> Packing:
    return rng.choices(list(Packing), (6, 2, 2, 2, 2, 1))[0]


def _listing(rng: random.Random) -> Listing:
    return rng.choices(list(Listing), (8, 3, 3, 1, 1, 1, 1))[0]


def _day(number: int) -> str:
    return f"2014-{number // 28 + 1:02d}-{number % 28 + 1:02d}"


def animals_of(group: int) -> list[str]:
    """The names of the animals of a group."""
    return [submissions.specimen_identifier("H", 100 * (group + 1) + number) for number in range(1, MICE + 1)]


@cache
def document_of(said: Said, otherwise: bool) -> bytes:
    """A document that tells of some groups of animals."""
    documents = [_of_group(group, variant) for group, variant in said]
    first, *others = (etree.fromstring(one) for one in documents)
    for other in others:
        first[0].extend(list(other[0]))
    content = etree.tostring(first)
    return written_otherwise(content) if otherwise else content


@cache
def table_of(said: Said, otherwise: bool) -> bytes:
    """The table that says the same; `otherwise`: with its columns in another order, between semicolons."""
    rows = []
    for mouse in etree.fromstring(document_of(said, otherwise=False)).iter("{*}mouse"):
        parts = ((f"{etree.QName(part).localname}.", part) for part in mouse)
        rows.append({f"{of}{name}": value for of, one in (("", mouse), *parts) for name, value in one.items()})
    columns = sorted({column for row in rows for column in row}, reverse=otherwise)
    written = io.StringIO()
    writer = csv.DictWriter(written, columns, restval="", delimiter=";" if otherwise else ",")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue().encode()


def _of_group(group: int, variant: int) -> bytes:
    first = 100 * (group + 1) + 1
    document = submissions.specimen_document("H", mice=MICE, first=first, created=date(2014, 1, 1))
    return document.replace(b'litterId="H-L', f'litterId="H-{variant}L'.encode())


def content_of(submission: Submission) -> bytes:
    """The bytes of an archive."""
    documents = {
        f"specimens-{place}.csv" if submission.are_tables else submission.document_name(place): (
            table_of(said, submission.otherwise) if submission.are_tables else document_of(said, submission.otherwise)
        )
        for place, said in enumerate(submission.documents)
    }
    members, at = _packed(documents, submission.packing)
    if submission.listing is not Listing.NONE:
        members |= _manifest(documents, at, submission.listing)
    return {".zip": _zipped, ".tar": _tarred, ".tar.gz": _tarred_and_packed}[submission.suffix](members)


def _packed(documents: dict[str, bytes], packing: Packing) -> tuple[dict[str, bytes], str]:
    """The members of an archive, and where in it the documents lie."""
    match packing:
        case Packing.FLAT:
            return documents, ""
        case Packing.FOLDER:
            return {f"data/new/{name}": content for name, content in documents.items()}, "data/new/"
        case Packing.ZIP:
            return {"inner.zip": _zipped(documents)}, "inner.zip/"
        case Packing.TAR:
            inside = {f"folder/{name}": content for name, content in documents.items()}
            return {"data/inner.tgz": _tarred_and_packed(inside)}, "data/inner.tgz/folder/"
        case Packing.TWICE:
            return {"outer.zip": _zipped({"inner.tar": _tarred(documents)})}, "outer.zip/inner.tar/"
        case Packing.DEEP:
            # The first lies at the top: the others are where nobody looks.
            name, *rest = documents
            inside = _zipped({name: documents[name] for name in rest} or {"x.txt": b"x"})
            return {name: documents[name], "a.zip": _zipped({"b.zip": _zipped({"c.zip": inside})})}, ""


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
        write_manifest(rows, path)
        return {name: path.read_bytes()}


def _counts(path: Path) -> Counts:
    return Counts(len(etree.fromstring(path.read_bytes()).findall(".//{*}mouse")), 0)


def _zipped(members: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


def _tarred(members: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def _tarred_and_packed(members: Mapping[str, bytes]) -> bytes:
    return gzip.compress(_tarred(members), mtime=0)
