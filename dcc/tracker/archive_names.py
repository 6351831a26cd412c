"""The names of archives as the tracker has them."""

from __future__ import annotations

import hashlib
from typing import Final

_LONGEST_NAME: Final = 128


def stored_name(name: str) -> str:
    """The archive's name in the tracker: shortened, with a digest, if the column is too short."""
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    return f"{name[: _LONGEST_NAME - 13]}~{digest}"
