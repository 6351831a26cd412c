"""What is installed: the whole platform or the light part of it, and what other packages add."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dcc.errors import ConfigurationError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

RULES: Final = "dcc.rules"
"""Modules that register rules."""
SOURCES: Final = "dcc.sources"
"""Functions that open a connection to a source, named by protocol; see `dcc.sources.connect.Opener`."""
CONVERTERS: Final = "dcc.converters"
"""Functions that make a converter of submitted files; see `dcc.converters.base.Converter`."""
CHANNELS: Final = "dcc.channels"
"""Functions that make a channel of notifications from the settings; see `dcc.notify.channels.base`."""

OF_PLATFORM: Final = "dagster"
"""A package that only the whole platform has."""

_proposed: dict[str, str] = {}


@cache
def has_platform() -> bool:
    """Whether the whole platform is installed, and not the light part alone that centres use."""
    return find_spec(OF_PLATFORM) is not None


def propose(group: str, module: str) -> None:
    """Have `load_added` load a module that is not installed as one of a group, in this process; call it before.

    It is named, or is a file or a folder. It takes the place of an installed module of that name.
    """
    place = Path(module)
    if place.exists():
        sys.path.insert(0, str(place.absolute().parent))
        module = place.stem
    _proposed[group] = module


def added_names(group: str) -> tuple[str, ...]:
    """The sorted names of a group's entry points; nothing is loaded."""
    return tuple(sorted(_added(group).names))


def load_added(group: str, *names: str) -> list[Any]:
    """Load the entry points of a group, all or those of these `names`.

    Raises ConfigurationError with the name of one that cannot be loaded.
    """
    found = []
    for entry in _added(group):
        if names and entry.name not in names:
            continue
        try:
            found.append(entry.load())
        except Exception as error:
            raise ConfigurationError(
                f"{entry.value}, which an installed package adds as {group}, cannot be loaded: {type(error).__name__}: "
                f"{error}. Correct or remove that package."
            ) from error
    if group in _proposed:
        try:
            found.append(import_module(_proposed[group]))
        except Exception as error:
            raise ConfigurationError(
                f"The module {_proposed[group]}, proposed as {group}, cannot be loaded: {type(error).__name__}: "
                f"{error}. Correct it, or name another one."
            ) from error
    return found


@cache
def _added(group: str) -> EntryPoints:
    # Takes long to import for a short command.
    from importlib.metadata import entry_points

    # Looks through the files of all installed packages, which would take a tenth of a small session's time.
    return entry_points(group=group)
