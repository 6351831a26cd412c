"""What a centre may submit, and in which form.

A document tells of groups of animals, or of the experiments on them, of each in one of two variants or in one that is
bad: the colony is not registered, or the unit is wrong. It may be written otherwise. An archive has one to three
documents and something to be done with them. They lie at its top, in a folder, or in archives inside it, with or
without a manifest, which may be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from dcc.naming import Action, DocumentKind
from dcc.outcomes import SubmissionKey

GROUPS: Final = 4
MICE: Final = 2
BAD: Final = 2
"""The variant that breaks a rule."""
HOLD_ABOVE: Final = MICE
"""How many animals or experiments a document may change without being confirmed: those of one group."""
UNREGISTERED, WRONG_UNIT, NO_ANIMAL = "S4", "P11", "E4"
"""The rules that bad animals break, bad experiments, and experiments on animals that are missing."""
THERE: Final = {DocumentKind.SPECIMEN: "S13", DocumentKind.EXPERIMENT: "E9"}
NOT_THERE, IN_USE = "Q3", "Q4"
"""The rules that what is refused breaks: added though it is there, changed though it is not, deleted though in use."""


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


class Thing(NamedTuple):
    """The animals of a group, or the experiments on them."""

    kind: DocumentKind
    group: int

    @property
    def animals(self) -> Thing:
        return Thing(DocumentKind.SPECIMEN, self.group)

    @property
    def colony(self) -> int:
        """The colony of the animals: that of the first group and of the last is the same."""
        return self.group % (GROUPS - 1)

    @property
    def experiments(self) -> Thing:
        return Thing(DocumentKind.EXPERIMENT, self.group)


THINGS: Final = tuple(Thing(kind, group) for kind in DocumentKind for group in range(GROUPS))
Said = tuple[tuple[int, int], ...]
"""The groups that a document tells of, each with its variant."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a document tells of, and what it says of that."""

    kind: DocumentKind
    said: Said

    @property
    def things(self) -> tuple[tuple[Thing, int], ...]:
        """The things that it tells of, each with its variant."""
        return tuple((Thing(self.kind, group), variant) for group, variant in self.said)

    def __str__(self) -> str:
        return f"{self.kind}s {self.said}"


@dataclass(frozen=True, slots=True)
class Submission:
    """An archive: its number, which dates it, what is to be done, what each document says, and how it is packed.

    `otherwise`: the documents are written otherwise. `are_tables`: they are CSV tables.
    """

    number: int
    action: Action
    documents: tuple[Document, ...]
    packing: Packing = Packing.FLAT
    listing: Listing = Listing.NONE
    otherwise: bool = False
    are_tables: bool = False
    suffix: str = ".zip"

    @property
    def file_name(self) -> str:
        """Its name, which differs from that of every other one."""
        return f"H.{_day(self.number)}.1.impc{self.suffix}"

    @property
    def key(self) -> SubmissionKey:
        return SubmissionKey(self.action, self.file_name)

    def document_name(self, place: int) -> str:
        return f"H.{_day(self.number)}.{place + 1}.{self.documents[place].kind}.impc.xml"

    def place_of(self, name: str) -> int:
        return int(name.split(".")[2]) - 1

    def __str__(self) -> str:
        written = (" written otherwise" if self.otherwise else "") + (" as tables" if self.are_tables else "")
        said = ", ".join(map(str, self.documents))
        return f"{self.action}/{self.file_name} {said}{written}, {self.packing}, {self.listing}"


def _day(number: int) -> str:
    return f"2014-{number // 28 + 1:02d}-{number % 28 + 1:02d}"
