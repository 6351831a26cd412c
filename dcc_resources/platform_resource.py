"""Common parts of all resources: their fields are settings, and fields left out have the settings' values.

So `dcc` and Dagster agree without being configured twice, and a value in the launchpad or in `dcc_definitions.py`
counts for the run. A secret is never given as text, which Dagster would store and show, but by reference.
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
from dcc.settings import Settings, load_settings, variable_of
from dcc.settings.secret_references import is_reference, read_reference

_SETTING = "setting"
_SECRET = "dagster__is_secret"  # noqa: S105 - what Dagster calls fields that its pages mask
_PLAIN = "plain"
_MASK = "********"
_WHERE = 'Say where a secret is: {env: NAME} in the launchpad, EnvVar("NAME") in Python, or file:PATH.'


def setting(name: str, description: str | None = None, *, secret: bool = False, plain: str | None = None) -> Any:
    """A resource's field for the setting `name`, with that setting's description unless one is given.

    `secret`: it may contain one, so Dagster's pages mask it, and it is not accepted as text unless the text matches the
    regular expression `plain`.
    """
    known = Settings.model_fields[name]
    default = known.get_default()
    usual = f"{default:g}" if isinstance(default, float) else str(default)
    left_out = f"Left out, it is as {variable_of(name)} says"
    if default not in (None, "") and isinstance(default, str | int | float):
        left_out += f", by default {usual.lower() if isinstance(default, bool) else usual}"
    parts = [description or str(known.description), _WHERE if secret else "", f"{left_out}."]
    return Field(
        default=None,
        description=" ".join(part for part in parts if part),
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
        """A resource with all values from these settings: for runs inside a process that has them."""
        resource = cls()
        resource._base = settings
        return resource

    def settings_with(self, *others: PlatformResource) -> Settings:
        """The settings with the changes of this resource and others. Raises ConfigurationError."""
        settings = self._base or load_settings()
        for resource in (self, *others):
            settings = resource.applied_to(settings)
        return settings

    def applied_to(self, settings: Settings) -> Settings:
        """These settings with the given fields. Raises ConfigurationError with the field's name."""
        return settings.changed(self._given_fields(), self._field_of)

    def _given_fields(self) -> dict[str, object]:
        """The given fields, by the names of their settings."""
        return {
            setting_of(field): self._value(name, field)
            for name, field in type(self).model_fields.items()
            if is_setting(field) and not self._is_left_out(name, field)
        }

    def _is_left_out(self, name: str, field: FieldInfo) -> bool:
        """Whether a field is left to the settings: the launchpad fills those of secrets in with Dagster's mask."""
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
            # An EnvVar's value is in the environment; anything else was written out.
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
    """Whether a resource's field is a setting."""
    return _SETTING in _extra(field)


def setting_of(field: FieldInfo) -> str:
    """The setting of a field."""
    return str(_extra(field)[_SETTING])


def is_secret(field: FieldInfo) -> bool:
    """Whether a field's value is masked."""
    return bool(_extra(field).get(_SECRET))


def _is_plain(value: str, field: FieldInfo) -> bool:
    """Whether a value contains no secret, although its field may."""
    plain = _extra(field).get(_PLAIN)
    return plain is not None and re.fullmatch(str(plain), value) is not None


def _extra(field: FieldInfo) -> Mapping[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
