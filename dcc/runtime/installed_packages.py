"""What is installed: the whole platform or the light part of it, and what other packages add."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dcc.errors import ConfigurationError, DccError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

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

GROUPS: Final = (RULES, SOURCES, CONVERTERS, CHANNELS)
"""All that packages can add."""

_proposed: dict[str, str] = {}
_failed: dict[EntryPoint, ConfigurationError] = {}
_leaves_out = False


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

    Raises ConfigurationError with the name of the package that cannot be loaded.
    """
    found = []
    for _, entry in added_entries(group):
        if names and entry.name not in names:
            continue
        try:
            found.append(load_entry(entry, group))
        except ConfigurationError:
            if not _leaves_out:
                raise
    if group in _proposed:
        try:
            found.append(import_module(_proposed[group]))
        except Exception as error:
            raise ConfigurationError(
                f"The module {_proposed[group]}, proposed as {group}, cannot be loaded: {error_of(error)} Correct it, "
                "or name another one."
            ) from error
    return found


def added_entries(group: str) -> tuple[tuple[str, EntryPoint], ...]:
    """A group's entry points, each after the name and version of its package; nothing is loaded."""
    return tuple((_package(entry), entry) for entry in _added(group))


def load_entry(entry: EntryPoint, group: str) -> Any:
    """Load an entry point. Raises ConfigurationError, again for one that failed before in this process."""
    if entry in _failed:
        raise _failed[entry]
    try:
        return entry.load()
    except Exception as error:
        _failed[entry] = ConfigurationError(
            f"{entry.value}, which the package {_package(entry)} adds as {group}, cannot be loaded: {error_of(error)} "
            "Correct or remove that package."
        )
        raise _failed[entry] from error


@contextmanager
def leaving_out_broken() -> Iterator[None]:
    """Have `load_added` leave out what cannot be loaded, for a command that judges no data."""
    global _leaves_out
    _leaves_out = True
    try:
        yield
    finally:
        _leaves_out = False


def error_of(error: Exception) -> str:
    """The kind and words of an error of a package, as a sentence; of the platform's own errors the words."""
    words = str(error) if isinstance(error, DccError) else f"{type(error).__name__}: {error}"
    return words.rstrip(".") + "."


def package_of(thing: object) -> str | None:
    """The name and version of the package that adds a function, class or object; None for the platform's own."""
    module = str(getattr(thing, "__module__", None)).partition(".")[0]
    entries = (entry for group in GROUPS for entry in _added(group))
    return next((_package(entry) for entry in entries if entry.module.partition(".")[0] == module), None)


def _package(entry: EntryPoint) -> str:
    return entry.module if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


@cache
def _added(group: str) -> EntryPoints:
    # Takes long to import for a short command.
    from importlib.metadata import entry_points

    # Looks through the files of all installed packages, which would take a tenth of a small session's time.
    return entry_points(group=group)
