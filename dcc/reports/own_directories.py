"""The directories in which a DCC has files of its own in the place of the platform's: templates, catalogues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dcc.errors import ConfigurationError
from dcc.settings import Settings

TEMPLATES: Final = "DCC_TEMPLATES_DIRECTORY"
LANGUAGES: Final = "DCC_LANGUAGES_DIRECTORY"


def own_files(directory: Path, setting: str) -> list[Path]:
    """What is in such a directory. Raises ConfigurationError, which names the setting, if it cannot be read."""
    try:
        return list(directory.iterdir())
    except OSError as error:
        raise ConfigurationError(
            f"The directory {directory} cannot be read: {error.strerror}. Correct {setting} or make it."
        ) from error


def own_directories(settings: Settings) -> Iterator[tuple[str, Path]]:
    """The settings that name such a directory, and what they name."""
    named = {TEMPLATES: settings.templates_directory, LANGUAGES: settings.languages_directory}
    return ((setting, directory) for setting, directory in named.items() if directory is not None)
