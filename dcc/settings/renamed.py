"""Settings that were renamed: the old name holds for one release, with a warning that names the new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NEW_NAMES: Final = {
    "DCC_THROUGH_WITHIN_DAYS": "DCC_OVERDUE_DAYS",
    "DCC_SLOWEST_DOWNLOAD": "DCC_MIN_DOWNLOAD_SPEED",
}
"""The new name of each environment variable that was renamed in this release."""


def warnings_of(environment: Mapping[str, str]) -> list[str]:
    """What to say of the old names in an environment, a sentence for each."""
    given = {name.upper() for name, value in environment.items() if value}
    warnings = []
    for old in environment:
        if old.upper() in given and (new := NEW_NAMES.get(old.upper())):
            counts = f"{new} is set and counts: unset {old}."
            warnings.append(
                f"{old} is now {new}. {counts if new in given else 'The next release no longer reads the old name.'}"
            )
    return warnings
