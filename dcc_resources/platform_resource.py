"""What all resources have in common: their fields are settings, and those left out are as the settings say.

So `dcc` and Dagster agree without being told twice, and a value that the launchpad or `dcc_definitions.py` gives counts
for the run. A secret is never given as text, which Dagster would store and show, but by where it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from dagster import ConfigurableResource
from pydantic import ConfigDict, Field, PrivateAttr
from pydantic.fields import FieldInfo

from dcc.errors import ConfigurationError
from dcc.redaction import keep_secret
from dcc.runtime.secret_references import is_reference, read_reference
from dcc.settings import Settings, load_settings, variable_of

_SETTING = "setting"
_SECRET = "dagster__is_secret"  # noqa: S105 - what Dagster calls fields that its pages mask
_PLAIN = "plain"
_MASK = "********"
_WHERE = 'Say where a secret is: {env: NAME} in the launchpad, EnvVar("NAME") in Python, or file:PATH.'


def setting(name: str, description: str | None = None, *, secret: bool = False, plain: str | None = None) -> Any:
    """A field of a resource that stands for the setting `name`, of which it has the description if none is given.

    `secret`: it may hold one, so the pages of Dagster mask it, and it is not given as text unless that matches the
    regular expression `plain`.
    """
    known = Settings.model_fields[name]
    default = known.get_default()
    usual = f"{default:g}" if isinstance(default, float) else str(default)
    left_out = f"Left out, it is as {variable_of(name)} says"
    if default not in (None, "") and isinstance(default, str | int | float):
        left_out += f", by default {usual.lower() if isinstance(default, bool) else usual}"
    told = [description or str(known.description), _WHERE if secret else "", f"{left_out}."]
    return Field(
        default=None,
        description=" ".join(part for part in told if part),
        repr=not secret,
        json_schema_extra={_SETTING: name, _SECRET: secret, _PLAIN: plain},
    )


class PlatformResource(ConfigurableResource["PlatformResource"]):
    """Some of the settings, as a resource."""

    model_config = ConfigDict(hide_input_in_errors=True)

    key: ClassVar[str]
    """The resource's name in the code location."""

    _base: Settings | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """One that takes all from these settings: for runs inside a process that has them."""
        resource = cls()
        resource._base = settings
        return resource

    def settings_with(self, *others: PlatformResource) -> Settings:
        """The settings, with what this resource and others change of them. Raises ConfigurationError."""
        settings = self._base or load_settings()
        for resource in (self, *others):
            settings = resource.applied_to(settings)
        return settings

    def applied_to(self, settings: Settings) -> Settings:
        """These settings with the fields that are given here. Raises ConfigurationError, which names the field."""
        return settings.changed(self._given(), self._field_of)

    def _given(self) -> dict[str, object]:
        """The fields that are given, by the names of their settings."""
        return {
            setting_of(field): self._value(name, field)
            for name, field in type(self).model_fields.items()
            if is_setting(field) and not self._is_left_out(name, field)
        }

    def _is_left_out(self, name: str, field: FieldInfo) -> bool:
        """Whether a field is as the settings say: the launchpad fills those of secrets in with Dagster's mask."""
        value = getattr(self, name)
        return value is None or (is_secret(field) and value == _MASK)

    def _value(self, name: str, field: FieldInfo) -> object:
        value: object = getattr(self, name)
        if not isinstance(value, str) or not is_secret(field):
            return value
        called = f"the field {name} of the resource {self.key}"
        if is_reference(value):
            value = read_reference(value, called)
        elif not _is_plain(value, field) and value not in os.environ.values():
            # What an EnvVar stood for is in the environment; anything else was written out.
            raise ConfigurationError(
                f"{called[0].upper()}{called[1:]} is given as text, which may hold a secret that Dagster would store "
                f"and show. {_WHERE} If a run was launched with it, delete that run."
            )
        if not _is_plain(value, field):
            keep_secret(value)
        return value

    def _field_of(self, name: str) -> str:
        fields = {setting_of(field): own for own, field in type(self).model_fields.items() if is_setting(field)}
        return f"The field {fields.get(name, name)} of the resource {self.key}"


def is_setting(field: FieldInfo) -> bool:
    """Whether a field of a resource stands for a setting."""
    return _SETTING in _extra(field)


def setting_of(field: FieldInfo) -> str:
    """The setting that a field stands for."""
    return str(_extra(field)[_SETTING])


def is_secret(field: FieldInfo) -> bool:
    """Whether the value of a field is masked."""
    return bool(_extra(field).get(_SECRET))


def _is_plain(value: str, field: FieldInfo) -> bool:
    """Whether a value can hold no secret, though its field is one for secrets."""
    plain = _extra(field).get(_PLAIN)
    return plain is not None and re.fullmatch(str(plain), value) is not None


def _extra(field: FieldInfo) -> Mapping[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
