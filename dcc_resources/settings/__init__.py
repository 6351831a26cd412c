"""Every setting of the platform, its default and its meaning.

Each field is read from the environment variable `DCC_` + its name in capitals (`DCC_DOWNLOADERS=8`); an empty one
counts as not set. Nothing else is read: no file, so that two processes with the same environment have the same
settings. They are in groups by subject, a module each: places, work, reference data, telling.
"""

from __future__ import annotations

from typing import Self

from pydantic import SecretStr, ValidationError, model_validator
from pydantic_settings import SettingsConfigDict

from dcc_resources.errors import ConfigurationError
from dcc_resources.redaction import keep_secret, keep_secrets_of_url
from dcc_resources.settings.places import PlaceSettings
from dcc_resources.settings.reference import ReferenceSettings
from dcc_resources.settings.telling import LANGUAGE_CODE, TellingSettings
from dcc_resources.settings.working import WorkSettings

__all__ = ["LANGUAGE_CODE", "Settings", "load_settings"]


# The fields of the last of these come first.
class Settings(TellingSettings, ReferenceSettings, WorkSettings, PlaceSettings):
    """Settings of one installation; immutable. Build with `load_settings`."""

    model_config = SettingsConfigDict(defer_build=False)

    @model_validator(mode="after")
    def _tell_nobody(self) -> Self:
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, SecretStr):
                secret = value.get_secret_value()
                if name.endswith("_url"):
                    keep_secrets_of_url(secret)
                else:
                    keep_secret(secret)
        return self


def load_settings(**overrides: object) -> Settings:
    """Read the settings from the environment; `overrides` (field names) win.

    Raises ConfigurationError that names each wrong setting and what it must be.
    """
    try:
        settings = Settings(**{name: value for name, value in overrides.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        problems = "; ".join(
            f"DCC_{str(item['loc'][0]).upper()}: {item['msg']}" for item in error.errors() if item["loc"]
        )
        raise ConfigurationError(f"{problems}. Correct the setting and start again.") from error
    _ = settings.naming
    return settings
