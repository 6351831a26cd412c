"""What every channel of notifications can do, whatever way it takes: one small interface, `Channel`.

docs/extending.md says how to add one: in a package of your own, or in `open_channels.OWN`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dcc.notify.messages import Audience, Notification


class Channel(Protocol):
    """One way in which notifications reach somebody.

    `name`, at most 16 characters, is the channel's name in the ledger. `repeats`: recipients recognise a repeated
    message by its id, so that a message that perhaps arrived is sent again. `attaches`: it carries attachments.
    """

    name: str
    repeats: bool
    attaches: bool

    def recipients(self, audience: Audience, addresses: Sequence[str]) -> Sequence[str]:
        """The recipients for `audience`, each of whom gets a message: names of at most 256 characters.

        `addresses` are the e-mail addresses of the centre, if the message is for one.
        """
        ...

    def send(self, message: Notification, recipient: str, *, seconds: float) -> None:
        """Send a message, within `seconds`.

        Raises NotificationNotSentError; its `may_have_arrived` says that the outcome is unknown, `recipient_refused`
        that other recipients may be tried.
        """
        ...
