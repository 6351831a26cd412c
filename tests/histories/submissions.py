"""What a centre may submit, in which form, and random histories of it: what comes, goes, is withdrawn and decided.

A document tells of groups of animals, or of the experiments on them, of each in one of two variants or in one that is
bad: the colony is not registered, or the unit is wrong. It may be written otherwise. An archive has one to three
documents and something to be done with them. They lie at its top, in a folder, or in archives inside it, with or
without a manifest, which may be wrong.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from dcc.naming import Action, DocumentKind
from dcc.outcomes import ZipKey
from tests.histories.happenings import STEPS, Crawled, LeftOut

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
_SESSIONS, _BETWEEN = 5, 3
_WAIVED: Final = (UNREGISTERED, UNREGISTERED, WRONG_UNIT, NO_ANIMAL, *THERE.values(), NOT_THERE, IN_USE)


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
        """The animals of the group."""
        return Thing(DocumentKind.SPECIMEN, self.group)

    @property
    def experiments(self) -> Thing:
        """The experiments on the animals of the group."""
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
    def key(self) -> ZipKey:
        """What is to be done and its name."""
        return ZipKey(self.action, self.file_name)

    def document_name(self, place: int) -> str:
        """The name of a document."""
        return f"H.{_day(self.number)}.{place + 1}.{self.documents[place].kind}.impc.xml"

    def place_of(self, name: str) -> int:
        """The place of the document of that name."""
        return int(name.split(".")[2]) - 1

    def __str__(self) -> str:
        written = (" written otherwise" if self.otherwise else "") + (" as tables" if self.are_tables else "")
        said = ", ".join(map(str, self.documents))
        return f"{self.action}/{self.file_name} {said}{written}, {self.packing}, {self.listing}"


@dataclass(frozen=True, slots=True)
class Submitted:
    """An archive lies at the source, in the place of another one of its name."""

    submission: Submission

    def __str__(self) -> str:
        return f"Submitted {self.submission}"


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
class Waived:
    """A person waives a rule, or lowers it to a warning: `dcc rules waive`."""

    rule: str
    only_warns: bool


@dataclass(frozen=True, slots=True)
class Restored:
    """A person ends the oldest waiver: `dcc rules revoke`."""


class Wish(StrEnum):
    """What a person may want of an archive: the commands are named so."""

    HOLD = "hold"
    RELEASE = "release"
    CANCEL = "cancel"
    ACKNOWLEDGE = "acknowledge"
    REVOKE = "acknowledge --revoke"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Wished:
    """A person wants something of an archive; a retry is a session for it alone."""

    wish: Wish
    number: int


@dataclass(frozen=True, slots=True)
class Decided:
    """A person decides on all that is proposed: `dcc data proposals`."""

    accepts: bool


Happening = Submitted | Taken | Withdrawn | Confirmed | Waived | Restored | Wished | Decided | LeftOut | Crawled


class Theme(StrEnum):
    """What a history is about: how archives are packed, what becomes of their data, rules and waivers of them, or
    experiments.

    In the latter three, all animals are there at first and archives are plain; the last two have bad data and leave no
    steps out. The last begins with experiments, too.
    """

    PACKED = "packed"
    PLAIN = "plain"
    JUDGED = "judged"
    EXPERIMENTS = "experiments"


_WITH_WAIVERS: Final = frozenset({Theme.JUDGED, Theme.EXPERIMENTS})


def history(seed: int) -> Iterator[Happening]:
    """A random history: what happens, with a session now and then, and one at the end."""
    rng = random.Random(f"submissions {seed}")
    theme = list(Theme)[seed % len(Theme)]
    sent: list[Submission] = []
    numbers = list(range(1, 40))
    rng.shuffle(numbers)
    if theme is not Theme.PACKED:
        sent.append(Submission(0, Action.ADD, _first(theme)))
        yield Submitted(sent[0])
    for _ in range(_SESSIONS):
        for _ in range(rng.randint(1, _BETWEEN)):
            for happening in _some(rng, theme, sent, numbers):
                yield happening
                if isinstance(happening, Submitted):
                    sent.append(happening.submission)
        yield Crawled()
    yield Crawled()


def _first(theme: Theme) -> tuple[Document, ...]:
    every = tuple(((group, 0),) for group in range(GROUPS))
    animals = tuple(Document(DocumentKind.SPECIMEN, said) for said in every)
    if theme is not Theme.EXPERIMENTS:
        return animals
    return (*animals, *(Document(DocumentKind.EXPERIMENT, said) for said in every[1:]))


def _some(rng: random.Random, theme: Theme, sent: list[Submission], numbers: list[int]) -> Iterator[Happening]:
    """One happening, or some that are of interest together."""
    what = rng.choices(range(10), (12, 2, 2, 2, 2, 3, 4, 6, 1, 1))[0] if sent else 0
    number = rng.choice(sent).number if sent else 0
    match what:
        case 0:
            yield Submitted(_new(rng, theme, sent, numbers.pop()))
        case 1:
            # Another archive of the name, which is taken while nothing of the first one was.
            yield Submitted(_packed_anew(rng, theme, rng.choice(sent)))
        case 2:
            yield Taken(number)
        case 3:
            yield Withdrawn(number)
        case 4:
            yield Decided(rng.random() < 0.6)
        case 5 if theme in _WITH_WAIVERS:
            yield Waived(rng.choice(_WAIVED), only_warns=rng.random() < 0.4) if rng.random() < 0.6 else Restored()
        case 5:
            yield LeftOut(rng.choice(("", "", *STEPS)))
        case 6:
            yield Confirmed(oldest=rng.random() < 0.6)
        case 7:
            yield Wished(rng.choice(list(Wish)), number)
        case 8:
            # What is withdrawn while it is on hold does not come back when it is released.
            yield Wished(Wish.HOLD, number)
            if rng.random() < 0.5:
                yield Crawled()
            yield Withdrawn(number)
            yield Wished(Wish.RELEASE, number)
        case _:
            # Experiments that would come back without their animals.
            said = ((rng.randrange(GROUPS), 0),)
            archives = [_deletion(numbers.pop(), kind, said) for kind in reversed(DocumentKind)]
            for archive in archives:
                yield Submitted(archive)
            yield Crawled()
            yield Withdrawn(rng.choice(archives).number)


def _new(rng: random.Random, theme: Theme, sent: list[Submission], number: int) -> Submission:
    documents = tuple(_document(rng, theme, sent) for _ in range(rng.choices((1, 2, 3), (5, 3, 1))[0]))
    if sent and rng.random() < 0.2:
        documents = rng.choice(sent).documents
    action = rng.choices((Action.ADD, Action.EDIT, Action.DELETE), (4, 4, 2))[0]
    suffix = rng.choices((".zip", ".tar", ".tar.gz"), (4, 1, 1))[0]
    submission = Submission(number, action, documents, otherwise=rng.random() < 0.4, suffix=suffix)
    return _packed_anew(rng, theme, submission)


def _deletion(number: int, kind: DocumentKind, said: Said) -> Submission:
    return Submission(number, Action.DELETE, (Document(kind, said),))


def _packed_anew(rng: random.Random, theme: Theme, submission: Submission) -> Submission:
    """It says the same and is packed otherwise: a manifest would name what is too deep, and is of documents."""
    packing = _packing(rng)
    is_plain = packing is not Packing.DEEP
    of_animals = all(document.kind is DocumentKind.SPECIMEN for document in submission.documents)
    are_tables = is_plain and of_animals and rng.random() < 0.25
    listing = _listing(rng) if is_plain and not are_tables else Listing.NONE
    if theme is not Theme.PACKED:
        packing, listing = Packing.FLAT, Listing.NONE
    return replace(submission, packing=packing, listing=listing, are_tables=are_tables)


def _document(rng: random.Random, theme: Theme, sent: list[Submission]) -> Document:
    if sent and rng.random() < 0.3:
        return rng.choice(rng.choice(sent).documents)
    groups = rng.sample(range(GROUPS), rng.choice((1, 2, 2)))
    of_experiments = rng.random() < (0.5 if theme is Theme.EXPERIMENTS else 0.3)
    kind = DocumentKind.EXPERIMENT if of_experiments else DocumentKind.SPECIMEN
    return Document(kind, tuple((group, rng.randrange(3 if theme in _WITH_WAIVERS else 2)) for group in groups))


def _packing(rng: random.Random) -> Packing:
    return rng.choices(list(Packing), (6, 2, 2, 2, 2, 1))[0]


def _listing(rng: random.Random) -> Listing:
    return rng.choices(list(Listing), (8, 3, 3, 1, 1, 1, 1))[0]


def _day(number: int) -> str:
    return f"2014-{number // 28 + 1:02d}-{number % 28 + 1:02d}"
