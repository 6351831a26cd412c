"""Channels: how notifications reach people and programs.

To add one, write a `Channel` and a function that makes it from the settings, and add the function to CHANNELS in
`opening`. Or name it as an entry point `dcc.channels` in a package of your own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dcc.notify.messages import Audience, Message
from dcc.runtime.installed_packages import CHANNELS as ADDED_CHANNELS
from dcc.runtime.installed_packages import added_names
from dcc.settings import Settings


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

    def send(self, message: Message, recipient: str, *, seconds: float) -> None:
        """Send a message, within `seconds`.

        Raises NotificationNotSentError; its `may_have_arrived` says that the outcome is unknown.
        """
        ...


def notifies(settings: Settings) -> bool:
    """Whether the settings ask for notifications, or an installed package has a channel."""
    return settings.notifies or bool(added_names(ADDED_CHANNELS))
