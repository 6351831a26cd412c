"""What installed packages add to the platform, by entry points."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, Final

from dcc.errors import ConfigurationError

RULES: Final = "dcc.rules"
"""Modules that register rules."""
SOURCES: Final = "dcc.sources"
"""What opens a connection to a file source, each under the name of its protocol; see `dcc.sources.connect.Opener`."""
CHANNELS: Final = "dcc.channels"
"""Functions that make a channel of notifications from the settings; see `dcc.notify.channels.base`."""


def added_names(group: str) -> tuple[str, ...]:
    """The names of the entry points of a group, sorted; nothing is loaded."""
    return tuple(sorted(entry_points(group=group).names))


def load_added(group: str, *names: str) -> list[Any]:
    """What the entry points of a group name, or those of these `names`, loaded.

    Raises ConfigurationError that names one that cannot be.
    """
    found = []
    for entry in entry_points(group=group):
        if names and entry.name not in names:
            continue
        try:
            found.append(entry.load())
        except Exception as error:
            raise ConfigurationError(
                f"{entry.value}, which an installed package adds as {group}, cannot be loaded: {type(error).__name__}: "
                f"{error}. Correct or remove that package."
            ) from error
    return found
