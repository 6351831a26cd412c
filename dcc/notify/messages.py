"""What a notification is: things to tell, and the message that tells them to one recipient by one channel."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What a thing to tell is."""

    DIGEST = "digest"
    """What became of a centre's submissions in a session, for the centre."""
    SESSION = "session"
    """What a session left to do, for wranglers."""
    ZIP = "zip"
    """The outcome of one zip action, as part of a digest."""
    OUTAGE = "outage"
    """Something that all work hangs on has failed."""
    RECOVERY = "recovery"
    """It is back."""
    ADDRESS = "address"
    """A centre that cannot be written to."""
    OWNER = "owner"
    """What an archive of another centre did with data of a centre, or tried to do, for the owner of the data."""
    TEST = "test"
    """A message that says nothing but that it arrived."""


class Audience(StrEnum):
    """Who a message is for. What wranglers hear is split by what else says it."""

    CENTRE = "centre"
    WRANGLERS = "wranglers"
    """Nothing else says it."""
    REPORTED = "wranglers, reported"
    """The session report says it too."""
    SUMMARY = "wranglers, summary"
    """The session report and the centres' messages together say it too."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to tell. `subject` says in a few words of what; `what` tells it apart from others on the same subject.

    `session` and `centre_id` are the rows of the tracker that it is about, if any.
    """

    kind: Kind
    subject: str
    what: str = ""
    session: int | None = None
    centre_id: int | None = None

    def told(self, channel: str, recipient: str) -> str:
        """The key under which the ledger knows that a recipient was told it by a channel: a SHA-256."""
        parts = (self.kind, self.subject, self.what, channel, recipient)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that goes with a message, for channels that can carry one."""

    name: str
    media_type: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """A message as every channel gets it.

    `id` is the same however often it is sent, so that whoever gets it twice can tell; 32 hexadecimal digits. What tells
    anything else is another message, also if it repeats some of this one. `data` is what it says, for programs: JSON
    values only. `thread` names the conversation that it belongs to. `language` is the code of what `subject`, `text`
    and `html` are written in; `html` is empty for none.
    """

    id: str
    kind: Kind
    subject: str
    text: str
    html: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    session: int | None = None
    centre: str | None = None
    language: str = "en"
    thread: str = "wranglers"
    attachments: tuple[Attachment, ...] = ()
