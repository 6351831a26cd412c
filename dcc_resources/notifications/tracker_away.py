"""The outage that the ledger cannot know: the tracker itself is away.

A file `DCC_HOME/notifications/tracker-away.json` stands for it, one for each channel and recipient told; it is made
before the message is sent, and only one process can make it. So it is told once by each installation's home, and once
more when the tracker is back.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dcc_resources.private_files import PRIVATE_FILE, make_directory
from dcc_resources.settings import Settings

_NAME: Final = "tracker-away-{}.json"


def claim(settings: Settings, channel: str, recipient: str) -> Path | None:
    """Mark that a recipient is told that the tracker is away; None when that was done before. Raises OSError."""
    directory = _directory(settings)
    make_directory(directory)
    digest = hashlib.sha256(f"{channel}\0{recipient}".encode()).hexdigest()[:16]
    path = directory / _NAME.format(digest)
    try:
        opened = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE)
    except FileExistsError:
        return None
    with os.fdopen(opened, "w", encoding="utf-8") as file:
        json.dump({"channel": channel, "recipient": recipient}, file)
    return path


def told(settings: Settings) -> Iterator[tuple[str, str, Path]]:
    """Who was told that the tracker is away: channel, recipient, and the file that says so."""
    for path in sorted(_directory(settings).glob(_NAME.format("*"))):
        try:
            said = json.loads(path.read_text("utf-8"))
            yield str(said["channel"]), str(said["recipient"]), path
        except (OSError, ValueError, KeyError, TypeError):
            # Another process has just taken it away, or died while it wrote it.
            continue


def _directory(settings: Settings) -> Path:
    return settings.home / "notifications"
