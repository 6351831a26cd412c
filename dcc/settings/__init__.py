"""Every setting of the platform, its default and its meaning.

Each field is read from the environment variable `DCC_` + its name in capitals (`DCC_DOWNLOADERS=8`); an empty one
counts as not set, and one with that prefix that is no setting is refused. Nothing else is read: no file, so that two
processes with the same environment have the same settings. They are in groups by subject, a module each: locations,
store, sessions, reference data, notifications. One that was renamed (`renamed`) is read by its old name for one
release.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Self

from pydantic import PrivateAttr, SecretStr, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsConfigDict

from dcc.errors import ConfigurationError
from dcc.nearest_names import nearest_names
from dcc.redaction import keep_secret, keep_secrets_of_url
from dcc.settings.group import PREFIX
from dcc.settings.home import require_own_home
from dcc.settings.locations import LocationSettings
from dcc.settings.notifications import LANGUAGE_CODE, NotificationSettings
from dcc.settings.reference import ReferenceSettings
from dcc.settings.renamed import NEW_NAMES, values_by_new_name, warnings_of
from dcc.settings.sessions import SessionSettings
from dcc.settings.store import StoreSettings
from dcc.settings.workers import WorkerSettings

__all__ = ["LANGUAGE_CODE", "Settings", "load_settings"]

log = logging.getLogger(__name__)


# The fields of the last of these come first.
class Settings(
    NotificationSettings, ReferenceSettings, SessionSettings, StoreSettings, WorkerSettings, LocationSettings
):
    """Settings of one installation; immutable. Build with `load_settings`."""

    model_config = SettingsConfigDict(defer_build=False)

    _changed_by_protocol: dict[str, dict[str, object]] = PrivateAttr(default_factory=dict)

    def changed(self, changes: Mapping[str, object], named: Callable[[str], str] | None = None) -> Settings:
        """These settings with some values changed, by field names, and nothing read from the environment.

        `named` says how messages name a setting, by default as its environment variable. Raises ConfigurationError.
        """
        values = {name: getattr(self, name) for name in type(self).model_fields}
        # Making settings takes some milliseconds, and most resources say what the settings say.
        if all(values[name] == value for name, value in changes.items()):
            return self
        try:
            settings = type(self)(**(values | dict(changes)))
        except ValidationError as error:
            raise ConfigurationError(_problems(error, named or variable_of)) from error
        settings._changed_by_protocol = self._changed_by_protocol
        return settings

    def changed_for(
        self, protocols: Iterable[str], changes: Mapping[str, object], named: Callable[[str], str] | None = None
    ) -> Settings:
        """These settings with some values changed for the file sources of these protocols alone. As `changed`."""
        if not changes:
            return self
        self.changed(changes, named)
        settings = self.model_copy()
        settings._changed_by_protocol = self._changed_by_protocol | {name: dict(changes) for name in protocols}
        return settings

    def for_protocol(self, protocol: str) -> Settings:
        """The settings that hold for file sources of this protocol."""
        return self.changed(self._changed_by_protocol.get(protocol, {}))

    @model_validator(mode="after")
    def _tell_nobody(self) -> Self:
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, SecretStr):
                secret = value.get_secret_value()
                if name.endswith("_url"):
                    keep_secrets_of_url(secret)
                elif not secret.startswith(("env:", "file:")):
                    keep_secret(secret)
        return self


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}{name.upper()}"


def load_settings(**overrides: object) -> Settings:
    """Read the settings from the environment; `overrides` (field names) win.

    Old names of settings that were renamed are logged once in a process. Raises ConfigurationError that names each
    wrong setting and what it must be, or a variable that is none.
    """
    try:
        _refuse_unknown(os.environ)
        for warning in warnings_of(os.environ):
            _warn_once(warning)
        given: dict[str, object] = {_field_of(name): value for name, value in values_by_new_name(os.environ).items()}
        given |= {name: value for name, value in overrides.items() if value is not None}
        settings = Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        raise ConfigurationError(_problems(error, variable_of)) from error
    _ = settings.naming
    require_own_home(settings.home)
    return settings


@cache
def _warn_once(warning: str) -> None:
    """Log a warning, the first time in this process."""
    log.warning("%s", warning)


def _field_of(variable: str) -> str:
    return variable.removeprefix(PREFIX).lower()


def _problems(error: ValidationError, named: Callable[[str], str]) -> str:
    problems = "; ".join(_problem(each, named) for each in error.errors() if each["loc"])
    return f"{problems}. Correct the setting and start again."


def _problem(error: ErrorDetails, named: Callable[[str], str]) -> str:
    name = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return _unknown(variable_of(name))
    return f"{named(name)}: {error.get('ctx', {}).get('error', error['msg'])}"


def _unknown(name: str) -> str:
    return f"{name}: there is no such setting; the nearest is {_nearest(name)}"


def _refuse_unknown(environment: Mapping[str, str]) -> None:
    """Raise ConfigurationError for variables with the prefix of settings that are none; values are not repeated."""
    known = {variable_of(name) for name in Settings.model_fields} | NEW_NAMES.keys()
    unknown = sorted(
        name for name, value in environment.items() if value and _is_ours(name) and name.upper() not in known
    )
    if unknown:
        problems = "; ".join(map(_unknown, unknown))
        raise ConfigurationError(
            f"{problems}. Correct the name, or unset it; a variable of your own, such as one with the password of a "
            f"file source, must not begin with {PREFIX}."
        )


def _is_ours(name: str) -> bool:
    return name.upper().startswith(PREFIX)


def _nearest(name: str) -> str:
    known = [variable_of(field) for field in Settings.model_fields]
    return nearest_names(name, known, 1, least_alike=0.0)[0]
