"""All settings as texts: the page of docs/, which `make pages` writes, and a configuration file."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Final

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from dcc.configuration_file import NAME
from dcc.settings import GROUPS, ConfiguredSettings, Settings, variable_of
from dcc.settings.group import SettingsGroup

_FILE_BEGINNING: Final = """\
# Settings of the data coordination platform. Environment variables, DCC_ and the name in capitals, override them.
# To set one, remove the # before its name. A secret can be file:PATH or env:NAME.
"""


def configuration_text(given: ConfiguredSettings, settings: Settings, path: Path) -> str:
    """The configuration file at `path`, in TOML, with all other settings in comments.

    It holds the given secrets: keep it private.
    """
    texts = {**given.of_file, **given.environment}
    if path == settings.home / NAME:
        # It is found there by the home, and would still name this one after a move.
        texts.pop("home", None)
    lines = [_FILE_BEGINNING.rstrip()]
    for group in GROUPS:
        lines += ["", f"# {group.title}", f"[{group.section}]"]
        for name, field in group.model_fields.items():
            lines += ["", *textwrap.wrap(str(field.description), 118, initial_indent="# ", subsequent_indent="# ")]
            lines += [_line(name, texts[name], settings)] if name in texts else [_example(name, field)]
    return "\n".join([*lines, ""])


def _line(name: str, text: str, settings: Settings) -> str:
    value = getattr(settings, name)
    # Texts as they were given: a secret may be a reference.
    return f"{name} = {_toml(value if isinstance(value, (int, float)) else text)}"


def _example(name: str, field: FieldInfo) -> str:
    default = field.get_default()
    return f"#{name} = {_toml(default if isinstance(default, (str, int, float)) else '')}"


def _toml(value: str | float) -> str:
    # A text in JSON is one in TOML too, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


_PAGE_BEGINNING: Final = """\
# Settings

The file `dcc.toml` in `DCC_HOME`, or the one that `DCC_CONFIG` names, holds settings; `DCC_DOWNLOADERS` is
`downloaders` there. Environment variables override it. `dcc settings` shows values and origins; with `--write` it
writes the file.

A secret can be `file:PATH` or `env:NAME`; a file that holds one has mode 0600 or 0640. DCC refuses unknown names: name
your own variables without `DCC_`, such as `HARWELL_PASSWORD`. Defaults are in brackets.
"""


def settings_page() -> str:
    """The page, in Markdown."""
    return "\n".join([_PAGE_BEGINNING, *map(_section, GROUPS)])


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
