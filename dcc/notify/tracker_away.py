"""The outage that the ledger cannot know: the tracker itself is away.

A file `DCC_HOME/notifications/tracker-away.json` stands for it, one for each channel and recipient told; it is made
before the message is sent, and only one process can make it. So it is told once by each installation's home, and once
more when the tracker is back.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dcc.runtime.private_files import PRIVATE_FILE, make_directory, open_new
from dcc.settings import Settings

_NAME: Final = "tracker-away-{}.json"


def claim(settings: Settings, channel: str, recipient: str) -> Path | None:
    """Mark that a recipient is told that the tracker is away; None when that was done before. Raises OSError."""
    directory = _directory(settings)
    make_directory(directory)
    digest = hashlib.sha256(f"{channel}\0{recipient}".encode()).hexdigest()[:16]
    path = directory / _NAME.format(digest)
    if _said(path) is not None:
        return None
    part = directory / f".{path.name}.{uuid.uuid4().hex}.part"
    try:
        with os.fdopen(open_new(part, PRIVATE_FILE), "w", encoding="utf-8") as file:
            json.dump({"channel": channel, "recipient": recipient}, file)
        # A mark is whole or not there: the disk may well be full when the tracker is away.
        os.link(part, path)
    except FileExistsError:
        return None
    finally:
        part.unlink(missing_ok=True)
    return path


def told(settings: Settings) -> Iterator[tuple[str, str, Path]]:
    """Who was told that the tracker is away: channel, recipient, and the file that says so. Raises OSError."""
    for path in sorted(_directory(settings).glob(_NAME.format("*"))):
        said = _said(path)
        if said is not None:
            yield *said, path


def _said(path: Path) -> tuple[str, str] | None:
    """Channel and recipient of a mark. One that cannot be read is removed: nobody would be told anything by it."""
    try:
        said = json.loads(path.read_text("utf-8"))
        return str(said["channel"]), str(said["recipient"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        path.unlink(missing_ok=True)
        return None


def _directory(settings: Settings) -> Path:
    return settings.home / "notifications"
