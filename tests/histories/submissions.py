"""What a centre may submit, in which form, and random histories of it: what comes, goes, is withdrawn and decided.

A document tells of groups of animals, of each in one of two variants or in one that is bad, as its colony is not
registered. It may be written otherwise. An archive has one to three documents and something to be done with them. They
lie at its top, in a folder, or in archives inside it, with or without a manifest, which may be wrong.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from dcc.naming import Action
from dcc.outcomes import ZipKey
from tests.histories.happenings import STEPS, Crawled, LeftOut

GROUPS: Final = 4
MICE: Final = 2
BAD: Final = 2
"""The variant that breaks a rule."""
UNREGISTERED: Final = "S4"
REFUSALS: Final = {Action.ADD: "S13", Action.EDIT: "Q3", Action.DELETE: "Q3"}
"""The rules that what is refused of a document breaks."""
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

    @property
    def key(self) -> ZipKey:
        """What is to be done and its name."""
        return ZipKey(self.action, self.file_name)

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
    """What a history is about: how archives are packed, what becomes of their data, or rules and waivers of them.

    In the latter two, all animals are there at first and archives are plain; the last has bad ones and leaves no steps
    out.
    """

    PACKED = "packed"
    PLAIN = "plain"
    JUDGED = "judged"


def history(seed: int) -> Iterator[Happening]:
    """A random history: what happens, with a session now and then, and one at the end."""
    rng = random.Random(f"submissions {seed}")
    theme = list(Theme)[seed % len(Theme)]
    sent: list[Submission] = []
    numbers = list(range(1, 40))
    rng.shuffle(numbers)
    if theme is not Theme.PACKED:
        sent.append(Submission(0, Action.ADD, tuple(((group, 0),) for group in range(GROUPS))))
        yield Submitted(sent[0])
    for _ in range(_SESSIONS):
        for _ in range(rng.randint(1, _BETWEEN)):
            happening = _one(rng, theme, sent, numbers)
            if isinstance(happening, Submitted):
                if theme is not Theme.PACKED:
                    plain = replace(happening.submission, packing=Packing.FLAT, listing=Listing.NONE)
                    happening = Submitted(plain)
                sent.append(happening.submission)
            yield happening
        yield Crawled()
    yield Crawled()


def _one(rng: random.Random, theme: Theme, sent: list[Submission], numbers: list[int]) -> Happening:
    what = rng.choices(range(8), (12, 2, 2, 2, 2, 3, 4, 6))[0] if sent else 0
    number = rng.choice(sent).number if sent else 0
    match what:
        case 0:
            return Submitted(_new(rng, theme, sent, numbers.pop()))
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
        case 5 if theme is Theme.JUDGED:
            rule = rng.choice((UNREGISTERED, UNREGISTERED, *REFUSALS.values()))
            return Waived(rule, only_warns=rng.random() < 0.4) if rng.random() < 0.6 else Restored()
        case 5:
            return LeftOut(rng.choice(("", "", *STEPS)))
        case 6:
            return Confirmed(oldest=rng.random() < 0.6)
        case _:
            return Wished(rng.choice(list(Wish)), number)


def _new(rng: random.Random, theme: Theme, sent: list[Submission], number: int) -> Submission:
    documents = tuple(_said(rng, theme, sent) for _ in range(rng.choices((1, 2, 3), (5, 3, 1))[0]))
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


def _said(rng: random.Random, theme: Theme, sent: list[Submission]) -> Said:
    if sent and rng.random() < 0.3:
        return rng.choice(rng.choice(sent).documents)
    groups = rng.sample(range(GROUPS), rng.choice((1, 2, 2)))
    return tuple((group, rng.randrange(3 if theme is Theme.JUDGED else 2)) for group in groups)


def _packing(rng: random.Random) -> Packing:
    return rng.choices(list(Packing), (6, 2, 2, 2, 2, 1))[0]


def _listing(rng: random.Random) -> Listing:
    return rng.choices(list(Listing), (8, 3, 3, 1, 1, 1, 1))[0]


def _day(number: int) -> str:
    return f"2014-{number // 28 + 1:02d}-{number % 28 + 1:02d}"
