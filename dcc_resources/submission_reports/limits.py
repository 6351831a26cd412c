"""How much of what centres and servers say a report shows: a page stays below two megabytes, whatever came."""

from __future__ import annotations

from typing import Final

LONGEST_MESSAGE: Final = 1_000
LONGEST_VALUE: Final = 200
MOST_PERMITTED: Final = 20
MOST_HOSTS: Final = 20
MOST_REASONS: Final = 3
"""Reasons of one download attempt: the last."""
MOST_PICTURE_BYTES: Final = 1_000_000
"""Of all pictures in a page, as they stand in it; what is beyond is left out, and that is said."""


def shortened(text: str, most: int = LONGEST_MESSAGE) -> str:
    """The text, or the beginning of it with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
