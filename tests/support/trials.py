"""How often a test tries at random: `make test` tries a part, TESTS_EVERYWHERE=1 all."""

from __future__ import annotations

import os
from typing import Final

EVERYWHERE: Final = bool(os.environ.get("TESTS_EVERYWHERE"))
MANY: Final = 100_000 if EVERYWHERE else 20_000
"""How many files or archives are very many."""
_PART: Final = 3


def trials(number: int) -> int:
    """How many of so many trials to make."""
    return number if EVERYWHERE else -(-number // _PART)
