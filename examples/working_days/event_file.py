"""A channel of notifications that appends each message to the file that EVENT_FILE names."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from dcc.errors import NotificationNotSentError
from dcc.notify.channels.base import Channel
from dcc.notify.messages import Audience, Notification
from dcc.settings import Settings


class EventFile:
    """Tells wranglers, one JSON object a line."""

    name, repeats, attaches = "event file", True, False

    def __init__(self, path: Path) -> None:
        self._path = path

    def recipients(self, audience: Audience, addresses: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        """The file, for whatever wranglers are told."""
        return [] if audience is Audience.CENTRE else [str(self._path)]

    def send(self, message: Notification, recipient: str, *, seconds: float) -> None:  # noqa: ARG002
        """Append a message. Raises NotificationNotSentError."""
        line = json.dumps({"id": message.id, "subject": message.subject})
        try:
            with Path(recipient).open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
        except OSError as error:
            raise NotificationNotSentError(f"{recipient} cannot be written. Correct EVENT_FILE.") from error


def open_event_file(settings: Settings) -> Channel | None:  # noqa: ARG001
    """The channel; None where EVENT_FILE is not set."""
    path = os.environ.get("EVENT_FILE")
    return None if path is None else EventFile(Path(path))
