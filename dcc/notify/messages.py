"""What a notification is: items of news, and the message that brings them to one recipient by one channel."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class NewsKind(StrEnum):
    """What an item of news is about."""

    DIGEST = "digest"
    """What happened to a centre's submissions in a session, for the centre."""
    SESSION = "session"
    """What is left to do after a session, for wranglers."""
    ZIP = "zip"
    """The outcome of one submission, as part of a digest."""
    OUTAGE = "outage"
    """Something that all work depends on has failed."""
    RECOVERY = "recovery"
    """It works again."""
    ADDRESS = "address"
    """A centre without an e-mail address."""
    OWNER = "owner"
    """What an archive of another centre did, or tried to do, with data of a centre, for the owner of the data."""
    TEST = "test"
    """A test message."""


class Audience(StrEnum):
    """Who a message is for. Messages for wranglers are split by what else tells them the same."""

    CENTRE = "centre"
    """Who hears of one centre: digests, what others did with its data, reminders."""
    WRANGLERS = "wranglers"
    """Outages that no session report mentions, and centres without an address."""
    REPORTED = "wranglers, reported"
    """Outages that the session report mentions, too."""
    SUMMARY = "wranglers, summary"
    """What a session left to do. The session report and the messages to centres say that, too."""


@dataclass(frozen=True, slots=True)
class NewsItem:
    """One piece of news. `subject` names its subject in a few words; `what` distinguishes it from other news of that
    subject.

    `session` and `centre_id` are ids of the tracker's rows, if the item is about such.
    """

    kind: NewsKind
    subject: str
    what: str = ""
    session: int | None = None
    centre_id: int | None = None

    def ledger_key(self, channel: str, recipient: str) -> str:
        """The ledger's key for this item, channel and recipient: a SHA-256."""
        parts = (self.kind, self.subject, self.what, channel, recipient)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that goes with a message, for channels that can carry one."""

    name: str
    media_type: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Notification:
    """A message as every channel gets it.

    `id` (32 hexadecimal digits) stays the same when the message is sent again, so that the recipient recognises it. A
    message with other items has another id. `data` is the content for programs, JSON values only. `language` is the
    code of the language of `subject`, `text` and `html`; `html` may be empty.
    """

    id: str
    kind: NewsKind
    subject: str
    text: str
    html: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    session: int | None = None
    centre: str | None = None
    language: str = "en"
    attachments: tuple[Attachment, ...] = ()

    @property
    def thread(self) -> str:
        """The conversation that it belongs to."""
        return "wranglers" if self.centre is None else f"centre {self.centre}"
