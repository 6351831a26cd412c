"""The configuration file, `dcc.toml`: settings that stand below the environment's and above the defaults.

It is the file that DCC_CONFIG names, else `dcc.toml` in DCC_HOME if there is one. Read without `dcc.settings`, whose
import takes longer than short commands do.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dcc.errors import ConfigurationError

NAME: Final = "dcc.toml"
VARIABLE: Final = "DCC_CONFIG"
"""The environment variable that names the file. It is no setting."""

_OPEN: Final = stat.S_IRWXO | stat.S_IWGRP


@dataclass(frozen=True, slots=True)
class FileValue:
    """What the file says of a setting, as an environment variable would; and in which section, "" for none."""

    text: str
    section: str


@dataclass(frozen=True, slots=True)
class ConfigurationFile:
    """A file that was read: its values by the settings' names, its sections, and its permissions.

    `is_named`: DCC_CONFIG names it; else it was found in DCC_HOME.
    """

    path: Path
    is_named: bool
    values: Mapping[str, FileValue]
    sections: frozenset[str]
    mode: int

    def variables(self) -> dict[str, str]:
        """What it says, by the names of environment variables, without empty texts."""
        return {f"DCC_{name.upper()}": given.text for name, given in self.values.items() if given.text}

    @property
    def is_open_to_others(self) -> bool:
        """Whether anybody but its owner and group may read it, or anybody but its owner may write it."""
        return bool(self.mode & _OPEN)


def configuration_path(environment: Mapping[str, str]) -> Path | None:
    """Where the file is, or would be; None if this user has no home directory."""
    variables = _variables(environment)
    try:
        if VARIABLE in variables:
            return Path(variables[VARIABLE]).expanduser().absolute()
        return Path(variables.get("DCC_HOME", "~/.dcc")).expanduser().absolute() / NAME
    except RuntimeError:
        return None


def read_configuration_file(environment: Mapping[str, str]) -> ConfigurationFile | None:
    """The file; None if there is none. Raises ConfigurationError if it is named and missing, or cannot be read."""
    path = configuration_path(environment)
    if path is None:
        return None
    is_named = VARIABLE in _variables(environment)
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
        if not is_named:
            return None
        raise ConfigurationError(
            f"The configuration file {path}, which {VARIABLE} names, is missing. Correct {VARIABLE}, or make the file: "
            f"unset {VARIABLE} and run dcc settings --write {shlex.quote(str(path))}"
        ) from None
    except OSError as error:
        if not is_named and not os.access(path.parent, os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            # A DCC_HOME of another user, which is refused as such.
            return None
        raise ConfigurationError(
            f"The configuration file {path} cannot be read ({error.strerror}). Correct its permissions."
        ) from error
    tables = _tables(content, path)
    sections = frozenset(name for name, value in tables.items() if isinstance(value, dict))
    return ConfigurationFile(path, is_named, _values(tables, path), sections, mode)


def _tables(content: bytes, path: Path) -> dict[str, Any]:
    import tomllib

    try:
        # Editors of Windows begin a file with a byte-order mark.
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _not_utf_8(content, error.start, path) from None
    except tomllib.TOMLDecodeError as error:
        if b"\0" in content:
            raise _not_utf_8(content, content.index(b"\0"), path) from None
        raise ConfigurationError(f"The configuration file {path} is not TOML: {error}. Correct it.") from None


def _not_utf_8(content: bytes, place: int, path: Path) -> ConfigurationError:
    line = content.count(b"\n", 0, place) + 1
    return ConfigurationError(
        f"The configuration file {path} is not text in UTF-8 (line {line}). Save it as UTF-8, and not as UTF-16 or in "
        "an encoding of one country."
    )


def configured_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment's variables by their names in capitals, without empty ones, over those of the file. As above."""
    file = read_configuration_file(environment)
    return ({} if file is None else file.variables()) | _variables(environment)


def _values(tables: Mapping[str, Any], path: Path) -> dict[str, FileValue]:
    found: dict[str, FileValue] = {}
    sections = [(name, table) for name, table in tables.items() if isinstance(table, dict)]
    flat = {name: value for name, value in tables.items() if not isinstance(value, dict)}
    for section, table in [("", flat), *sections]:
        for name, value in table.items():
            if name in found:
                raise ConfigurationError(f"The configuration file {path} sets {name} twice. Remove one of them.")
            if isinstance(value, list) and all(isinstance(each, str) for each in value):
                value = ",".join(value)
            if not isinstance(value, (str, int, float)):
                raise ConfigurationError(
                    f"The configuration file {path} sets {name} to something else than a text, a number, true, false "
                    "or a list of texts. Correct it."
                )
            found[name] = FileValue(str(value).lower() if isinstance(value, bool) else str(value), section)
    return found


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {name.upper(): text for name, text in environment.items() if text}
