"""The page of docs/ that lists all settings; `make pages` writes it."""

from __future__ import annotations

import sys
from typing import Final

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from dcc.settings import GROUPS, variable_of
from dcc.settings.group import SettingsGroup

_BEGINNING: Final = """\
# Settings

The file `dcc.toml` in `DCC_HOME`, or the one that `DCC_CONFIG` names, holds settings; `DCC_DOWNLOADERS` is
`downloaders` there. Environment variables override it. `dcc settings` shows values and origins; with `--write` it
writes the file.

A secret can be `file:PATH` or `env:NAME`; a file that holds one has mode 0600 or 0640. DCC refuses unknown names: name
your own variables without `DCC_`, such as `HARWELL_PASSWORD`. Defaults are in brackets.
"""


def settings_page() -> str:
    """The page, in Markdown."""
    return "\n".join([_BEGINNING, *map(_section, GROUPS)])


def _section(group: type[SettingsGroup]) -> str:
    fields = group.model_fields.items()
    lines = [f"- `{variable_of(name)}`{_default(field)}: {field.description}" for name, field in fields]
    return "\n".join([f"## {group.title}", "", *lines, ""])


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
