"""The page of docs/ that lists all settings: `python -m dcc.settings.settings_page > docs/settings.md`."""

from __future__ import annotations

import sys
from typing import Final

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from dcc.settings import variable_of
from dcc.settings.group import SettingsGroup
from dcc.settings.locations import LocationSettings
from dcc.settings.notifications import NotificationSettings
from dcc.settings.reference import ReferenceSettings
from dcc.settings.sessions import SessionSettings
from dcc.settings.store import StoreSettings
from dcc.settings.workers import WorkerSettings

_BEGINNING: Final = """\
# Settings

Settings are environment variables. Set them for every `dcc` process, in `/etc/dcc/dcc.env` for
[services](operations/install.md#as-a-service). An empty one counts as not set. `dcc settings` shows the values in use.

Commands refuse an unknown variable that begins with `DCC_`. Give your own variables other names, such as
`HARWELL_PASSWORD`.

Defaults are in brackets.
"""
_SECTIONS: Final = (
    ("Databases, files and staging", LocationSettings),
    ("Sessions", SessionSettings),
    ("Reference data", ReferenceSettings),
    ("Reports, notifications, logs and metrics", NotificationSettings),
    ("Workers", WorkerSettings),
    ("The object store", StoreSettings),
)


def settings_page() -> str:
    """The page, in Markdown."""
    return "\n".join([_BEGINNING, *(_section(title, group) for title, group in _SECTIONS)])


def _section(title: str, group: type[SettingsGroup]) -> str:
    lines = [
        f"- `{variable_of(name)}`{_default(field)}: {field.description}" for name, field in group.model_fields.items()
    ]
    return "\n".join([f"## {title}", "", *lines, ""])


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return " (`~/.dcc`)"
    value = field.default
    if value is None or value == "" or isinstance(value, SecretStr):
        return ""
    if isinstance(value, bool):
        return f" (`{str(value).lower()}`)"
    return f" (`{value:g}`)" if isinstance(value, float) else f" (`{value}`)"


if __name__ == "__main__":
    sys.stdout.write(settings_page())
