"""What may happen to the archives of a centre between two crawls, and random histories of it.

Two folders are served: the centre's own, and one of another centre, which mirrors some of its archives. Each archive
has two versions that are good (a specimen document each; the second has one more animal) and one that the schema
refuses.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


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


Happening = tuple[Any, ...]
"""What happens: the name of a method that a model and the real installation have, and its arguments."""

ARCHIVES: Final = 3
STEPS: Final = ("upload", "data", "context", "overview")
"""The steps that may be left out, in their order."""
_SESSIONS: Final = 7
_BETWEEN: Final = 3


def history(seed: int) -> Iterator[Happening]:
    """A random history of `Life`: what happens, with a session now and then, and one at the end."""
    rng = random.Random(f"history {seed}")
    for _ in range(_SESSIONS):
        for _ in range(rng.randint(0, _BETWEEN)):
            yield _one(rng)
        if rng.random() < 0.25:
            yield "retry", rng.randrange(ARCHIVES)
        else:
            yield ("crawl",)
    yield ("crawl",)


def _one(rng: random.Random) -> Happening:
    place, archive = rng.choices(list(Place), (3, 2))[0], rng.randrange(ARCHIVES)
    match rng.choices(range(7), (10, 2, 2, 3, 1, 1, 3))[0]:
        case 0:
            return "upload", place, _copy(rng, archive)
        case 1:
            return "begin_upload", place, Copy(archive, rng.choice(list(Version)))
        case 2:
            return "remove", place, archive
        case 3:
            version = rng.choice((None, Version.FIRST, Version.FIRST, Version.SECOND))
            return "publish", place, archive, None if version is None else Copy(archive, version)
        case 4:
            return "go_away", place
        case 5:
            return "delegate", rng.random() < 0.5
        case _:
            return "leave_out", rng.choice(("", *STEPS))


def _copy(rng: random.Random, archive: int) -> Copy:
    version = rng.choices(list(Version), (6, 3, 2))[0]
    return Copy(archive, version, rng.choices(list(Form), (6, 2, 2))[0])
