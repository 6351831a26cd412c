"""The text of a configuration file: the settings that are given, and all others in comments."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Final

from pydantic.fields import FieldInfo

from dcc.configuration_file import NAME
from dcc.settings import GROUPS, SECRETS, ConfiguredSettings, Settings

_BEGINNING: Final = """\
# Settings of the data coordination platform. Environment variables, DCC_ and the name in capitals, override them.
# To set one, remove the # before its name. A secret can be file:PATH or env:NAME.
"""


def configuration_text(given: ConfiguredSettings, settings: Settings, path: Path) -> str:
    """The file at `path`, in TOML. It holds the given secrets: keep it private."""
    texts = {**given.of_file, **given.environment}
    if path == settings.home / NAME:
        # It is found there by the home, and would still name this one after a move.
        texts.pop("home", None)
    lines = [_BEGINNING.rstrip()]
    for group in GROUPS:
        lines += ["", f"# {group.title}", f"[{group.section}]"]
        for name, field in group.model_fields.items():
            lines += ["", *textwrap.wrap(str(field.description), 118, initial_indent="# ", subsequent_indent="# ")]
            lines += [_line(name, texts[name], settings)] if name in texts else [_example(name, field)]
    return "\n".join([*lines, ""])


def _line(name: str, text: str, settings: Settings) -> str:
    value = getattr(settings, name)
    # A secret as it was given, because it may be a reference.
    return f"{name} = {_toml(value if isinstance(value, (int, float)) and name not in SECRETS else text)}"


def _example(name: str, field: FieldInfo) -> str:
    default = field.get_default()
    return f"#{name} = {_toml(default if isinstance(default, (str, int, float)) else '')}"


def _toml(value: str | float) -> str:
    # A text in JSON is one in TOML too, but for one control character.
    return json.dumps(str(value) if isinstance(value, str) else value, ensure_ascii=False).replace("\x7f", "\\u007f")
