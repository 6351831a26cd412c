"""Random histories of submissions: what a centre submits and takes away, and what people decide about it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from dcc.naming import Action, DocumentKind
from tests.histories.happenings import STEPS, Crawled, LeftOut
from tests.histories.submissions import (
    GROUPS,
    IN_USE,
    NO_ANIMAL,
    NOT_THERE,
    THERE,
    UNREGISTERED,
    WRONG_UNIT,
    Document,
    Listing,
    Packing,
    Said,
    Submission,
)

_SESSIONS, _BETWEEN = 5, 3
_WAIVED: Final = (UNREGISTERED, UNREGISTERED, WRONG_UNIT, NO_ANIMAL, *THERE.values(), NOT_THERE, IN_USE)


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


@dataclass(frozen=True, slots=True)
class Finished:
    """A person finishes all data contexts: `dcc qc done`."""


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


Happening = (
    Submitted | Taken | Withdrawn | Confirmed | Waived | Restored | Finished | Wished | Decided | LeftOut | Crawled
)


class Theme(StrEnum):
    """What a history is about: how archives are packed, what becomes of their data, rules and waivers of them, or
    experiments.

    In the latter three, all animals come at first and archives are plain; the last two have bad data and leave no steps
    out. In the last, most experiments come at first, too: before the animals or together with them.
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
        sent.append(Submission(0, Action.ADD, _of_groups(DocumentKind.SPECIMEN, range(GROUPS))))
    if theme is Theme.EXPERIMENTS:
        sent.append(Submission(numbers.pop(), Action.ADD, _of_groups(DocumentKind.EXPERIMENT, range(1, GROUPS))))
    for first in reversed(sent):
        yield Submitted(first)
        if len(sent) > 1 and rng.random() < 0.3:
            yield Crawled()
    for _ in range(_SESSIONS):
        for _ in range(rng.randint(1, _BETWEEN)):
            for happening in _some(rng, theme, sent, numbers):
                yield happening
                if isinstance(happening, Submitted):
                    sent.append(happening.submission)
        yield Crawled()
    yield Crawled()


def _of_groups(kind: DocumentKind, groups: Iterable[int]) -> tuple[Document, ...]:
    return tuple(Document(kind, ((group, 0),)) for group in groups)


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
            waived = Waived(rng.choice(_WAIVED), only_warns=rng.random() < 0.4)
            yield rng.choices((waived, Restored(), Finished()), (5, 3, 3))[0]
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
