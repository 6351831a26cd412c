"""References to secrets: `env:NAME`, `file:PATH`.

A file that anybody but its owner and group may read, or anybody but its owner may write, is refused.
"""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path
from typing import Final

from dcc.errors import ConfigurationError

MAX_SECRET_BYTES: Final = 64 * 1024

_OTHERS: Final = stat.S_IRWXO | stat.S_IWGRP


def is_reference(text: str) -> bool:
    """Whether a text is a reference to a secret."""
    return text.startswith(("env:", "file:"))


def read_reference(reference: str, referrer: str) -> str:
    """The secret for `env:NAME` or `file:PATH`; of a file without surrounding blanks and line ends.

    `referrer` is what contains the reference. Raises ConfigurationError with the name of the variable or file, never
    with a secret.
    """
    kind, _, name = reference.partition(":")
    if kind == "env" and name:
        value = os.environ.get(name)
        if value is None:
            raise ConfigurationError(
                f"The environment variable {name}, to which {referrer} refers, is not set. Set it and try again."
            )
        return value
    if kind == "file" and name:
        return read_secret_file(Path(name).expanduser(), f"the file {name}, to which {referrer} refers,").strip()
    raise ConfigurationError(f"{referrer[0].upper()}{referrer[1:]} refers to nothing. Write env:NAME or file:PATH.")


def read_secret_file(path: Path, what: str) -> str:
    """The text of a file with a secret; messages call it `what`. Raises ConfigurationError."""
    try:
        with path.open("rb") as file:
            refuse_open_to_others(file.fileno(), path, what)
            content = file.read(MAX_SECRET_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its path holds a null character"
        raise ConfigurationError(
            f"{what[0].upper()}{what[1:]} cannot be read ({reason}). Correct its path or its permissions."
        ) from error
    if len(content) > MAX_SECRET_BYTES:
        raise ConfigurationError(f"{what[0].upper()}{what[1:]} is too large to hold a secret. Correct its path.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        # The cause would quote the contents.
        raise ConfigurationError(f"{what[0].upper()}{what[1:]} is not text in UTF-8. Correct its path.") from None


def refuse_open_to_others(file: int, path: Path, what: str) -> None:
    """Raise ConfigurationError for an open file that others may read or change."""
    mode = stat.S_IMODE(os.fstat(file).st_mode)
    if mode & _OTHERS:
        raise ConfigurationError(
            f"{what[0].upper()}{what[1:]} may be read or changed by others (its mode is {mode:04o}). "
            f"Take their rights away: chmod g-w,o= {shlex.quote(str(path))}"
        )
