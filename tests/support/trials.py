"""How much a test tries: `make test` tries a part, TESTS_EVERYWHERE=1 all."""

import os
from collections.abc import Collection
from typing import Final, TypeVar

_Case = TypeVar("_Case")

EVERYWHERE: Final = bool(os.environ.get("TESTS_EVERYWHERE"))
MANY: Final = 100_000 if EVERYWHERE else 20_000
"""How many files or archives are very many."""
_PART: Final = 3


def trials(number: int) -> int:
    """How many of so many trials to make."""
    return number if EVERYWHERE else -(-number // _PART)


def usually(usual: Collection[_Case], cases: Collection[_Case]) -> list[_Case]:
    """The cases of a test: the usual ones, which are enough for `make test`, or all of them, in their order."""
    unknown = [case for case in usual if case not in cases]
    if unknown:
        raise ValueError(f"No cases of this test: {unknown}")
    return [case for case in cases if EVERYWHERE or case in usual]
