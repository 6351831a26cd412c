"""How much of what centres and servers say a report shows, so that a page stays below two megabytes."""

from __future__ import annotations

from typing import Final

from dcc.runtime.legible_text import legible

LONGEST_MESSAGE: Final = 600
LONGEST_VALUE: Final = 200
MAX_PERMITTED: Final = 10
MAX_HOSTS: Final = 20
MAX_REASONS: Final = 3
"""Reasons of one download attempt: the last."""
MAX_PICTURE_BYTES: Final = 600_000
"""Of all pictures in a page, encoded; the page says how many more it leaves out."""


def shortened(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """The text, or the beginning of it with an ellipsis; no longer than `limit` when what is not seen is spelt out."""
    seen = legible(text[:limit])
    return text if len(text) <= limit and len(seen) <= limit else f"{seen[: limit - 1]}…"
