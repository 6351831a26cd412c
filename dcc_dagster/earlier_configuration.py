"""Updates a `dagster.yaml` of an earlier version of the platform in place.

Dagster's processes load the modules that such a file names, so names that have moved are replaced in it. Everything
else, which may be the operator's, stays byte for byte.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml  # type: ignore[import-untyped]

from dcc.errors import DagsterStorageError
from dcc.runtime.logging_setup import NOTICE
from dcc.runtime.private_files import replacement_file

log = logging.getLogger(__name__)

_MODULES: Final = {
    "dcc_assets.event_storage": "dcc_dagster.event_storage",
    "dcc_assets.mysql_storage": "dcc_dagster.mysql_storage",
}
"""The present places of modules that earlier versions named."""

_LOGGERS: Final = "managed_python_loggers"
_FORMER_LOGGER: Final = "dcc_resources"
_LOGGER: Final = "dcc"
_DIVIDED_LOGGER: Final = "dcc_assets"
_ITS_OTHER_PART: Final = "dcc_dagster"

Change = tuple[int, int, str]
"""A replacement: start and end in the text, and the new text."""


def bring_up_to_date(path: Path) -> None:
    """Replace moved names in a `dagster.yaml`, in one step, and log it; no effect without such names.

    Raises DagsterStorageError if Dagster cannot work with the file as it is, and it cannot be changed.
    """
    try:
        # Not by read_text, which would change the line ends.
        text = path.read_bytes().decode("utf-8")
        changes = sorted(set(_changes(text)))
    except (OSError, ValueError, yaml.YAMLError):
        # Dagster reports errors in it.
        return
    if not changes:
        return
    names = sorted({text[begin:end] for begin, end, _ in changes if begin < end})
    try:
        _replace(path.resolve(), _changed(text, changes))
    except OSError as error:
        message = (
            f"{path} names what was moved by this version ({', '.join(names)}), and could not be changed ({error})."
        )
        if any(name in text for name in _MODULES):
            moved = " and ".join(f"{old} to {new}" for old, new in _MODULES.items() if old in text)
            raise DagsterStorageError(f"{message} See to its permissions, or change {moved} in it yourself.") from error
        log.warning("%s Change %s in it to %s yourself.", message, _FORMER_LOGGER, _LOGGER, extra={NOTICE: True})
        return
    message = f"{path} was brought up to date: it named {', '.join(names)}, which this version has moved."
    log.warning("%s", message, extra={NOTICE: True})


def moved_names(path: Path) -> list[str]:
    """The names in a `dagster.yaml` that `bring_up_to_date` would replace."""
    try:
        text = path.read_bytes().decode("utf-8")
        return sorted({text[begin:end] for begin, end, _ in _changes(text) if begin < end})
    except (OSError, ValueError, yaml.YAMLError):
        return []


def _changes(text: str) -> Iterator[Change]:
    for key, value in _entries(yaml.compose(text, Loader=yaml.SafeLoader)):
        if key == "module" and isinstance(value, yaml.ScalarNode) and value.value in _MODULES:
            yield _exchange(text, value, _MODULES[value.value])
        elif key == _LOGGERS and isinstance(value, yaml.SequenceNode):
            yield from _changed_loggers(text, value)


def _entries(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield str(key.value), value
            yield from _entries(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _entries(item)


def _changed_loggers(text: str, loggers: yaml.SequenceNode) -> Iterator[Change]:
    """Changes for loggers: the library's is renamed; the assets have two, the second is added after the last."""
    items = [item for item in loggers.value if isinstance(item, yaml.ScalarNode)]
    named = {item.value for item in items}
    if _FORMER_LOGGER not in named or _LOGGER in named:
        return
    yield from (_exchange(text, item, _LOGGER) for item in items if item.value == _FORMER_LOGGER)
    if _DIVIDED_LOGGER in named and _ITS_OTHER_PART not in named:
        yield _added(text, items[-1], flow=bool(loggers.flow_style))


def _added(text: str, last: yaml.ScalarNode, *, flow: bool) -> Change:
    """The other logger after the last one: within the brackets, or on a line with the same indent."""
    if flow:
        return last.end_mark.index, last.end_mark.index, f", {_ITS_OTHER_PART}"
    begin = text.rfind("\n", 0, last.start_mark.index) + 1
    end = text.find("\n", begin)
    end = len(text) if end < 0 else end - (text[end - 1] == "\r")
    newline = "\r\n" if text[end : end + 1] == "\r" else "\n"
    return end, end, newline + text[begin : last.start_mark.index] + _ITS_OTHER_PART


def _exchange(text: str, node: yaml.ScalarNode, value: str) -> Change:
    """Replace a word, within its quotes if it has any."""
    begin, end = node.start_mark.index, node.end_mark.index
    within = text.index(node.value, begin, end)
    return within, within + len(node.value), value


def _changed(text: str, changes: list[Change]) -> str:
    parts, done = [], 0
    for begin, end, value in changes:
        parts += [text[done:begin], value]
        done = end
    return "".join([*parts, text[done:]])


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
