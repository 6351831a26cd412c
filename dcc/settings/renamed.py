"""Settings that were renamed: the old name holds for one release, with a warning that names the new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NEW_NAMES: Final = {
    "DCC_THROUGH_WITHIN_DAYS": "DCC_OVERDUE_DAYS",
    "DCC_SLOWEST_DOWNLOAD": "DCC_MIN_DOWNLOAD_SPEED",
}
"""The new name of each environment variable that was renamed in this release."""


def old_names_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that are set by an old name, as they are spelt there, and their new names."""
    return {name: NEW_NAMES[name.upper()] for name, value in environment.items() if value and name.upper() in NEW_NAMES}


def warnings_of(environment: Mapping[str, str]) -> list[str]:
    """What to say of the old names in an environment, a sentence for each."""
    last = "The next release no longer reads the old name."
    return [
        f"{old} is now {new}. " + (f"{new} is set and counts: unset {old}." if _is_set(new, environment) else last)
        for old, new in old_names_in(environment).items()
    ]


def values_by_new_name(environment: Mapping[str, str]) -> dict[str, str]:
    """The values of variables that are set by their old name alone, by the new name."""
    found = old_names_in(environment)
    return {new: environment[old] for old, new in found.items() if not _is_set(new, environment)}


def _is_set(variable: str, environment: Mapping[str, str]) -> bool:
    return any(value and name.upper() == variable for name, value in environment.items())
