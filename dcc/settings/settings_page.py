"""The page of docs/ that lists all settings: `python -m dcc.settings.settings_page > docs/settings.md`."""

from __future__ import annotations

import sys
from typing import Final

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from dcc.settings import variable_of
from dcc.settings.groups import SECTIONS, Section

_BEGINNING: Final = """\
# Settings

Settings are in one file: `dcc.toml` in `DCC_HOME`, or the file that `DCC_CONFIG` names. `dcc settings --write` writes
it. In it, `DCC_DOWNLOADERS` is `downloaders = 8`. An environment variable that is not empty overrides the file.
`dcc settings` shows each value and its origin.

A secret can be `file:PATH` or `env:NAME`. If the file holds a secret, it must be private (mode 0600 or 0640).

DCC refuses unknown names. Give your own variables names without `DCC_`, such as `HARWELL_PASSWORD`. Defaults are in
brackets.
"""


def settings_page() -> str:
    """The page, in Markdown."""
    return "\n".join([_BEGINNING, *map(_section, SECTIONS)])


def _section(section: Section) -> str:
    fields = section.group.model_fields.items()
    lines = [f"- `{variable_of(name)}`{_default(field)}: {field.description}" for name, field in fields]
    return "\n".join([f"## {section.title}", "", *lines, ""])


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
