"""Guards a channel of an installed package: a fault of the package is a problem that names it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from dcc.errors import NotificationNotSentError
from dcc.notify.channels.base import Channel
from dcc.notify.messages import Audience, Notification
from dcc.runtime.installed_packages import error_of

_LONGEST_NAME = 16

log = logging.getLogger(__name__)


class AddedChannel:
    """Passes everything on to the channel of a package: a fault of the package is a problem that names it."""

    def __init__(self, package: str, channel: Channel, problems: list[str]) -> None:
        self.name, self.repeats, self.attaches = channel.name, channel.repeats, channel.attaches
        if not isinstance(self.name, str) or not 0 < len(self.name) <= _LONGEST_NAME:
            raise ValueError(f"its name {self.name!r} is not a text of 1 to {_LONGEST_NAME} characters")
        self._package, self._channel, self._problems = package, channel, problems

    def recipients(self, audience: Audience, addresses: Sequence[str]) -> Sequence[str]:
        """The recipients for an audience; none if the package cannot tell."""
        try:
            return [*self._channel.recipients(audience, addresses)]
        except Exception as error:
            log.info("The channel %s met a fault", self.name, exc_info=error)
            self._problems.append(
                f"The channel {self.name} of the package {self._package} sends nothing: {error_of(error)} Correct or "
                "remove that package."
            )
            return []

    def send(self, message: Notification, recipient: str, *, seconds: float) -> None:
        """Send a message. Raises NotificationNotSentError; whether it arrived is not known after a fault."""
        try:
            self._channel.send(message, recipient, seconds=seconds)
        except NotificationNotSentError:
            raise
        except Exception as error:
            log.info("The channel %s met a fault", self.name, exc_info=error)
            fault = NotificationNotSentError(
                f"The notification was not sent: the channel {self.name} of the package {self._package} met a fault: "
                f"{error_of(error)} Correct or remove that package."
            )
            fault.may_have_arrived = True
            raise fault from error
