"""What installed packages add to the platform, by entry points: rules (`dcc.rules`) and channels (`dcc.channels`)."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from dcc.errors import ConfigurationError


def load_added(group: str) -> list[Any]:
    """What the entry points of a group name, loaded. Raises ConfigurationError that names one that cannot be."""
    found = []
    for entry in entry_points(group=group):
        try:
            found.append(entry.load())
        except Exception as error:
            raise ConfigurationError(
                f"{entry.value}, which an installed package adds as {group}, cannot be loaded: {type(error).__name__}: "
                f"{error}. Correct or remove that package."
            ) from error
    return found
