"""Every setting of the platform, its default and its meaning.

Each field is read from the environment variable `DCC_` + its name in capitals (`DCC_DOWNLOADERS=8`), or by its name
from the configuration file (`downloaders = 8`). The environment counts first, and an empty variable as not set. A name
that is no setting is refused in both. They are in groups by subject, a module and a section of the file each
(`GROUPS`). One that was renamed (`NEW_NAMES`) is read by its old name for one release.
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import ConfigDict, PrivateAttr, SecretStr, ValidationError, model_validator
from pydantic_core import ErrorDetails

from dcc.configuration_file import VARIABLE, ConfigurationFile, read_configuration_file
from dcc.errors import ConfigurationError
from dcc.nearest_names import nearest_names
from dcc.redaction import keep_secret, keep_secrets_of_url
from dcc.settings.group import PREFIX, SettingsGroup
from dcc.settings.home import require_own_home
from dcc.settings.locations import LocationSettings
from dcc.settings.notifications import NotificationSettings, language_code
from dcc.settings.reference import ReferenceSettings
from dcc.settings.secret_references import is_reference, read_reference
from dcc.settings.sessions import SessionSettings
from dcc.settings.store import StoreSettings
from dcc.settings.workers import WorkerSettings

__all__ = ["Settings", "configured_settings", "language_code", "load_settings"]

_SHOWN: Final = 80
"""The most characters of a wrong value that are shown."""

NEW_NAMES: Final = {
    "DCC_THROUGH_WITHIN_DAYS": "DCC_OVERDUE_DAYS",
    "DCC_SLOWEST_DOWNLOAD": "DCC_MIN_DOWNLOAD_SPEED",
}
"""The new name of each environment variable that was renamed in this release."""

log = logging.getLogger(__name__)


# The fields of the last of these come first.
class Settings(
    NotificationSettings, ReferenceSettings, SessionSettings, StoreSettings, WorkerSettings, LocationSettings
):
    """Settings of one installation; immutable. Build with `load_settings`."""

    model_config = ConfigDict(defer_build=False)

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

    def differences(self, other: Settings) -> list[str]:
        """The names of the settings with other values than there, be it for the sources of one protocol only."""
        changed = {name for name in type(self).model_fields if getattr(self, name) != getattr(other, name)}
        return sorted(changed.union(*self._changed_by_protocol.values()))

    @model_validator(mode="before")
    @classmethod
    def _follow_references(cls, given: dict[str, object]) -> dict[str, object]:
        for name in (SECRETS - ACCESS_KEYS) & given.keys():
            value = given[name]
            text = value.get_secret_value() if isinstance(value, SecretStr) else value
            if isinstance(text, str) and is_reference(text):
                given[name] = read_reference(text, f"the setting {variable_of(name)}")
        return given

    @model_validator(mode="after")
    def _tell_nobody(self) -> Self:
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, SecretStr):
                secret = value.get_secret_value()
                if name.endswith("_url"):
                    keep_secrets_of_url(secret)
                elif not (name in ACCESS_KEYS and _is_named(secret)):
                    keep_secret(secret)
        return self


GROUPS: Final[tuple[type[SettingsGroup], ...]] = (
    LocationSettings,
    SessionSettings,
    ReferenceSettings,
    NotificationSettings,
    WorkerSettings,
    StoreSettings,
)
"""The groups in the order of the configuration file."""
SECTION_OF: Final = {name: group.section for group in GROUPS for name in group.model_fields}
"""The section of each setting."""

SECRETS: Final = frozenset(
    name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)
)
"""The settings whose values are secrets, or references to them."""


ACCESS_KEYS: Final = frozenset({"archive_access_key"})
"""Secrets whose references are followed when they are used: a reference says what kind of key it is."""


def _is_named(secret: str) -> bool:
    return is_reference(secret) or secret.startswith("key:")


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}{name.upper()}"


@dataclass(frozen=True, slots=True)
class ConfiguredSettings:
    """The settings that are given: in the environment, and by the configuration file where not there."""

    environment: Mapping[str, str]
    of_file: Mapping[str, str]
    file: ConfigurationFile | None

    def origin_of(self, name: str) -> Literal["environment", "file", "default"]:
        """Where the value of a setting comes from."""
        return "environment" if name in self.environment else "file" if name in self.of_file else "default"

    def named(self, name: str) -> str:
        """How messages name a setting: by its variable, or its name in the file."""
        if self.file is None or name not in self.of_file:
            return variable_of(name)
        return f"{name} in {self.file.path}"


def configured_settings(environment: Mapping[str, str]) -> ConfiguredSettings:
    """What is given, by the settings' names; old names count as new ones.

    Raises ConfigurationError for a name that is no setting, and for a secret in a file that others can read.
    """
    _refuse_unknown(environment)
    given = _by_new_name({name: text for name, text in environment.items() if _is_ours(name)})
    file = read_configuration_file(environment)
    if file is None:
        return ConfiguredSettings(given, {}, None)
    _refuse_unknown_in(file)
    _refuse_open_secrets(file)
    of_file = {name: text for name, text in _by_new_name(file.variables()).items() if name not in given}
    return ConfiguredSettings(given, of_file, file)


def _by_new_name(variables: Mapping[str, str]) -> dict[str, str]:
    """The texts of variables by the settings' names, without empty ones."""
    given = {_field_of(name): text for name, text in variables.items() if text and name.upper() != VARIABLE}
    for old, new in NEW_NAMES.items():
        if (text := given.pop(_field_of(old), None)) is not None:
            given.setdefault(_field_of(new), text)
    return given


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


def renaming_warnings(environment: Mapping[str, str]) -> list[str]:
    """What to say of settings with an old name, a sentence for each."""
    file = read_configuration_file(environment)
    of_file = [] if file is None else [f"{file.path}: {warning}" for warning in warnings_of(file.variables())]
    return [*warnings_of(environment), *of_file]


def load_settings(**overrides: object) -> Settings:
    """Read the settings from the environment and the configuration file; `overrides` (field names) win.

    Old names of settings that were renamed are logged once in a process. Raises ConfigurationError that names each
    wrong setting and what it must be, or a name that is no setting.
    """
    given = configured_settings(os.environ)
    for warning in renaming_warnings(os.environ):
        _warn_once(warning)
    wanted = {name: value for name, value in overrides.items() if value is not None}
    try:
        settings = Settings(**{**given.of_file, **given.environment, **wanted})  # type: ignore[arg-type]
    except ValidationError as error:
        raise ConfigurationError(_problems(error, given.named)) from error
    _ = settings.naming
    require_own_home(settings.home)
    if given.file is not None:
        _refuse_other_home(given.file)
    return settings


@cache
def _warn_once(warning: str) -> None:
    log.warning("%s", warning)


def _field_of(variable: str) -> str:
    return variable.upper().removeprefix(PREFIX).lower()


def _problems(error: ValidationError, named: Callable[[str], str]) -> str:
    problems = "; ".join(_problem(each, named) for each in error.errors() if each["loc"])
    return f"{problems}. Correct the setting and start again."


def _problem(error: ErrorDetails, named: Callable[[str], str]) -> str:
    name = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return _unknown(variable_of(name))
    if (own := error.get("ctx", {}).get("error")) is not None:
        return f"{named(name)}: {own}"
    from dcc.settings.wanted_values import wanted_value

    text = f"{named(name)}: it must be {wanted_value(Settings.model_fields[name])}"
    return text if name in SECRETS else f"{text}, and is {str(error['input'])[:_SHOWN]!r}"


def _unknown(name: str) -> str:
    return f"{name}: there is no such setting; the nearest is {_nearest(name)}"


def _refuse_unknown(environment: Mapping[str, str]) -> None:
    """Raise ConfigurationError for variables with the prefix of settings that are none; values are not repeated."""
    known = {variable_of(name) for name in Settings.model_fields} | NEW_NAMES.keys() | {VARIABLE}
    unknown = sorted(
        name for name, value in environment.items() if value and _is_ours(name) and name.upper() not in known
    )
    if unknown:
        problems = "; ".join(map(_unknown, unknown))
        raise ConfigurationError(
            f"{problems}. Correct the name, or unset it; a variable of your own, such as one with the password of a "
            f"file source, must not begin with {PREFIX}."
        )


def _refuse_unknown_in(file: ConfigurationFile) -> None:
    """Raise ConfigurationError for sections and settings that are none, and settings in another's section."""
    sections = set(SECTION_OF.values())
    old_names = {_field_of(name) for name in NEW_NAMES}
    problems = [
        f"there is no section [{name}]; the nearest is [{nearest_names(name, sorted(sections), 1, least_alike=0.0)[0]}]"
        for name in sorted(file.sections - sections)
    ]
    for name, given in file.values.items():
        if name not in Settings.model_fields and name not in old_names:
            problems.append(f"there is no setting {name}; the nearest is {_field_of(_nearest(variable_of(name)))}")
        elif given.section in sections and given.section != SECTION_OF.get(name, given.section):
            problems.append(f"{name} is in [{given.section}], and belongs in [{SECTION_OF[name]}]")
    if problems:
        raise ConfigurationError(f"The configuration file {file.path}: {'; '.join(problems)}. Correct it.")


def _refuse_open_secrets(file: ConfigurationFile) -> None:
    """Raise ConfigurationError if the file holds a secret, and others can read or change it."""
    held = [name for name, given in file.values.items() if name in SECRETS and _is_secret(name, given.text)]
    if held and file.is_open_to_others:
        raise ConfigurationError(
            f"The configuration file {file.path} holds a secret ({', '.join(held)}), and others can read or change it "
            f"(its mode is {file.mode:04o}). Take their rights away (chmod g-w,o= {shlex.quote(str(file.path))}), or "
            "write file:PATH or env:NAME instead of the secret."
        )


def _is_secret(name: str, text: str) -> bool:
    """Whether the value of a secret setting is one, not a reference or an address without a password."""
    is_address = name.endswith("_url") or name == "broker"
    return bool(text) and not _is_named(text) and not (is_address and "@" not in text and "?" not in text)


def _refuse_other_home(file: ConfigurationFile) -> None:
    """Raise ConfigurationError if a file in one DCC_HOME names another, which no other command would find."""
    home = "" if file.is_named or "home" not in file.values else file.values["home"].text
    if home and Path(home).expanduser().absolute() != file.path.parent:
        raise ConfigurationError(
            f"The configuration file {file.path} names another DCC_HOME, {home}. Remove home from it, or name the file "
            f"in {VARIABLE}."
        )


def _is_ours(name: str) -> bool:
    return name.upper().startswith(PREFIX)


def _nearest(name: str) -> str:
    known = [variable_of(field) for field in Settings.model_fields]
    return nearest_names(name, known, 1, least_alike=0.0)[0]
