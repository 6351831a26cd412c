"""What all groups of settings have in common, and kinds of values that several of them hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

MEGABYTE: Final = 1024 * 1024
PREFIX: Final = "DCC_"
"""What the environment variables of all settings begin with, and nothing else may."""


def _absolute(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError("Path should not begin with the home directory (~) of a user that is not known") from error


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
"""A path, absolute whatever the working directory becomes; `~` is the user's home directory."""


class SettingsGroup(BaseSettings):
    """Some of the settings, of one subject; `Settings` has those of all groups."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        hide_input_in_errors=True,
        # Only `Settings` is made, which has them all.
        defer_build=True,
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the environment and nothing else: to look for files that there are not takes half of the time."""
        return init_settings, env_settings
