"""Random histories of submissions: what a centre submits and takes away, and what people decide about it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Final

from dcc.naming import Action, DocumentKind
from tests.histories.happenings import STEPS, Happening
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
    Submission,
)

_SESSIONS, _BETWEEN = 5, 3
_WAIVED: Final = (UNREGISTERED, UNREGISTERED, WRONG_UNIT, NO_ANIMAL, *THERE.values(), NOT_THERE, IN_USE)


class Wish(StrEnum):
    """What a person may want of an archive: the commands are named so."""

    HOLD = "hold"
    RELEASE = "release"
    CANCEL = "cancel"
    ACKNOWLEDGE = "acknowledge"
    REVOKE = "acknowledge --revoke"
    RETRY = "retry"


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
    """A random history of `Centre`: what happens, with a session now and then, and one at the end."""
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
        yield "submit", first
        if len(sent) > 1 and rng.random() < 0.3:
            yield ("crawl",)
    for _ in range(_SESSIONS):
        for _ in range(rng.randint(1, _BETWEEN)):
            for happening in _some(rng, theme, sent, numbers):
                yield happening
                if happening[0] == "submit":
                    sent.append(happening[1])
        yield ("crawl",)
    yield ("crawl",)


def _of_groups(kind: DocumentKind, groups: Iterable[int]) -> tuple[Document, ...]:
    return tuple(Document(kind, ((group, 0),)) for group in groups)


def _some(rng: random.Random, theme: Theme, sent: list[Submission], numbers: list[int]) -> Iterator[Happening]:
    """One happening, or some that are of interest together."""
    what = rng.choices(range(10), (12, 2, 2, 2, 2, 3, 4, 6, 1, 1))[0] if sent else 0
    number = rng.choice(sent).number if sent else 0
    match what:
        case 0:
            yield "submit", _new(rng, theme, sent, numbers.pop())
        case 1:
            # Another archive of the name, which is taken while nothing of the first one was.
            yield "submit", _packed_anew(rng, theme, rng.choice(sent))
        case 2:
            yield "take_away", number
        case 3:
            yield "withdraw", number
        case 4:
            yield "decide", rng.random() < 0.6
        case 5 if theme in _WITH_WAIVERS:
            waived = ("waive", rng.choice(_WAIVED), rng.random() < 0.4)
            yield rng.choices((waived, ("restore",), ("finish",)), (5, 3, 3))[0]
        case 5:
            yield "leave_out", rng.choice(("", "", *STEPS))
        case 6:
            yield "confirm", rng.random() < 0.6
        case 7:
            yield "fulfil", rng.choice(list(Wish)), number
        case 8:
            # What is withdrawn while it is on hold does not come back when it is released.
            yield "fulfil", Wish.HOLD, number
            if rng.random() < 0.5:
                yield ("crawl",)
            yield "withdraw", number
            yield "fulfil", Wish.RELEASE, number
        case _:
            # Experiments that would come back without their animals.
            said = ((rng.randrange(GROUPS), 0),)
            archives = [
                Submission(numbers.pop(), Action.DELETE, (Document(kind, said),)) for kind in reversed(DocumentKind)
            ]
            for archive in archives:
                yield "submit", archive
            yield ("crawl",)
            yield "withdraw", rng.choice(archives).number


def _new(rng: random.Random, theme: Theme, sent: list[Submission], number: int) -> Submission:
    documents = tuple(_document(rng, theme, sent) for _ in range(rng.choices((1, 2, 3), (5, 3, 1))[0]))
    if sent and rng.random() < 0.2:
        documents = rng.choice(sent).documents
    action = rng.choices((Action.ADD, Action.EDIT, Action.DELETE), (4, 4, 2))[0]
    suffix = rng.choices((".zip", ".tar", ".tar.gz"), (4, 1, 1))[0]
    submission = Submission(number, action, documents, otherwise=rng.random() < 0.4, suffix=suffix)
    return _packed_anew(rng, theme, submission)


def _packed_anew(rng: random.Random, theme: Theme, submission: Submission) -> Submission:
    """It says the same and is packed otherwise: a manifest would name what is too deep, and is of documents."""
    packing = rng.choices(list(Packing), (6, 2, 2, 2, 2, 1))[0]
    is_plain = packing is not Packing.DEEP
    of_animals = all(document.kind is DocumentKind.SPECIMEN for document in submission.documents)
    are_tables = is_plain and of_animals and rng.random() < 0.25
    listing = Listing.NONE
    if is_plain and not are_tables:
        listing = rng.choices(list(Listing), (8, 3, 3, 1, 1, 1, 1))[0]
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
