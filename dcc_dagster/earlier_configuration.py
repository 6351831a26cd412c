"""Updates a `dagster.yaml` of an earlier version of the platform in place.

Dagster's processes load the modules that such a file names, so names that have moved are replaced in it. Everything
else, which may be the operator's, stays byte for byte.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from pathlib import Path
from typing import Final

from dcc.errors import DagsterStorageError
from dcc.runtime.logging_setup import NOTICE
from dcc.runtime.private_files import replacement_file

log = logging.getLogger(__name__)

_MODULES: Final = {
    "dcc_assets.event_storage": "dcc_dagster.event_storage",
    "dcc_assets.mysql_storage": "dcc_dagster.mysql_storage",
}
"""The present places of modules that earlier versions named."""

_MODULE: Final = re.compile(r"""(\bmodule["']?\s*:\s*["']?)(dcc_assets\.(?:event|mysql)_storage)\b""")
_LOGGERS: Final = re.compile(r"""managed_python_loggers["']?\s*:(?:\s*\[[^]]*]|(?:\s*-[ \t]+\S+)+)""")
_FORMER_LOGGER: Final = "dcc_resources"
# The item, with what divides it from the one before.
_DIVIDED_LOGGER: Final = re.compile(r"""(,[ \t]*|\s*-[ \t]+)(["']?)dcc_assets\2(?![\w.])""")


def bring_up_to_date(path: Path) -> None:
    """Replace moved names in a `dagster.yaml`, in one step, and log it; no effect without such names.

    Raises DagsterStorageError if Dagster cannot work with the file as it is, and it cannot be changed.
    """
    text, updated = _read(path)
    names = _moved(text, updated)
    if not names:
        return
    try:
        _replace(path.resolve(), updated)
    except OSError as error:
        message = (
            f"{path} names what was moved by this version ({', '.join(names)}), and could not be changed ({error})."
        )
        if moved := " and ".join(f"{old} to {new}" for old, new in _MODULES.items() if old in names):
            raise DagsterStorageError(f"{message} See to its permissions, or change {moved} in it yourself.") from error
        log.warning("%s Change %s in it to dcc yourself.", message, _FORMER_LOGGER, extra={NOTICE: True})
        return
    message = f"{path} was brought up to date: it named {', '.join(names)}, which this version has moved."
    log.warning("%s", message, extra={NOTICE: True})


def moved_names(path: Path) -> list[str]:
    """The names in a `dagster.yaml` that `bring_up_to_date` would replace."""
    return _moved(*_read(path))


def _read(path: Path) -> tuple[str, str]:
    """The text of a file, and as it must become; Dagster reports a file that cannot be read."""
    try:
        # Not by read_text, which would change the line ends.
        text = path.read_bytes().decode("utf-8")
    except (OSError, ValueError):
        return "", ""
    return text, _LOGGERS.sub(_present_loggers, _MODULE.sub(lambda found: found[1] + _MODULES[found[2]], text))


def _present_loggers(found: re.Match[str]) -> str:
    """A list of loggers: the library's is renamed, and that of the assets is two."""
    loggers = found.group()
    if not re.search(rf"\b{_FORMER_LOGGER}(?![\w.])", loggers) or re.search(r"\bdcc(?![\w.])", loggers):
        return loggers
    if "dcc_dagster" not in loggers:
        loggers = _DIVIDED_LOGGER.sub(r"\g<0>\1\2dcc_dagster\2", loggers)
    return re.sub(rf"\b{_FORMER_LOGGER}(?![\w.])", "dcc", loggers)


def _moved(text: str, updated: str) -> list[str]:
    return [name for name in (*_MODULES, _FORMER_LOGGER) if text.count(name) != updated.count(name)]


def _replace(path: Path, text: str) -> None:
    """Replace a file's text; its owner and permissions stay. Raises OSError."""
    before = path.stat()
    if not os.access(path, os.W_OK):
        raise PermissionError(f"it is not writable for user {os.geteuid()}")
    with replacement_file(path, stat.S_IMODE(before.st_mode)) as draft:
        draft.write_bytes(text.encode())
        if (before.st_uid, before.st_gid) != (draft.stat().st_uid, draft.stat().st_gid):
            os.chown(draft, before.st_uid, before.st_gid)
        draft.chmod(stat.S_IMODE(before.st_mode))
