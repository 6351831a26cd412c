"""What may happen to the archives of a centre between two crawls, and random histories of it.

Two folders are served: the centre's own, and one of another centre, which mirrors some of its archives. Each archive
has two versions that are good (a specimen document each; the second has one more animal) and one that the schema
refuses.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Place(StrEnum):
    """Where an archive is served: by the centre that made it, or by another."""

    OWN = "own"
    MIRROR = "mirror"


class Version(StrEnum):
    """What an archive says."""

    FIRST = "first"
    SECOND = "second"
    INVALID = "invalid"


class Form(StrEnum):
    """In which form it is served: whole, only its first half, or with a wrong byte in it."""

    WHOLE = "whole"
    HALF = "half"
    ROTTEN = "rotten"


@dataclass(frozen=True, slots=True)
class Copy:
    """The bytes of an archive at a place."""

    archive: int
    version: Version = Version.FIRST
    form: Form = Form.WHOLE


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A copy lies at a place, whatever was there before."""

    place: Place
    copy: Copy


@dataclass(frozen=True, slots=True)
class Uploading:
    """A copy begins to arrive, grows during the next session and is whole after it."""

    place: Place
    copy: Copy


@dataclass(frozen=True, slots=True)
class Removed:
    """An archive disappears from a place, with its checksum."""

    place: Place
    archive: int


@dataclass(frozen=True, slots=True)
class Published:
    """The checksum of a copy lies beside an archive at a place; None takes it away."""

    place: Place
    archive: int
    copy: Copy | None


@dataclass(frozen=True, slots=True)
class Away:
    """A place cannot be listed during the next session."""

    place: Place


@dataclass(frozen=True, slots=True)
class Delegated:
    """The centre lets the other one speak for it, or no longer."""

    in_force: bool


@dataclass(frozen=True, slots=True)
class LeftOut:
    """From now on the installation leaves out a step after validation; an empty one: no step."""

    step: str


@dataclass(frozen=True, slots=True)
class Crawled:
    """A session: `dcc crawl`."""


@dataclass(frozen=True, slots=True)
class Retried:
    """A session for one archive: `dcc retry`."""

    archive: int


Happening = Uploaded | Uploading | Removed | Published | Away | Delegated | LeftOut | Crawled | Retried

ARCHIVES: Final = 3
STEPS: Final = ("upload", "data", "context", "overview")
"""The steps that may be left out, in their order."""
_SESSIONS: Final = 7
_BETWEEN: Final = 3


def history(seed: int) -> Iterator[Happening]:
    """A random history: what happens, with a session now and then, and one at the end."""
    rng = random.Random(f"history {seed}")
    for _ in range(_SESSIONS):
        for _ in range(rng.randint(0, _BETWEEN)):
            yield _one(rng)
        if rng.random() < 0.25:
            yield Retried(rng.randrange(ARCHIVES))
        else:
            yield Crawled()
    yield Crawled()


def _one(rng: random.Random) -> Happening:
    place, archive = rng.choices(list(Place), (3, 2))[0], rng.randrange(ARCHIVES)
    match rng.choices(range(7), (10, 2, 2, 3, 1, 1, 3))[0]:
        case 0:
            return Uploaded(place, _copy(rng, archive))
        case 1:
            return Uploading(place, Copy(archive, rng.choice(list(Version))))
        case 2:
            return Removed(place, archive)
        case 3:
            version = rng.choice((None, Version.FIRST, Version.FIRST, Version.SECOND))
            return Published(place, archive, None if version is None else Copy(archive, version))
        case 4:
            return Away(place)
        case 5:
            return Delegated(rng.random() < 0.5)
        case _:
            return LeftOut(rng.choice(("", *STEPS)))


def _copy(rng: random.Random, archive: int) -> Copy:
    version = rng.choices(list(Version), (6, 3, 2))[0]
    return Copy(archive, version, rng.choices(list(Form), (6, 2, 2))[0])
