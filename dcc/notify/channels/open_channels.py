"""Opens the channels that the settings ask for, and those of installed packages; the channel of the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from dcc.errors import ConfigurationError, NotificationNotSentError
from dcc.notify.channels.base import Channel
from dcc.notify.messages import Audience, NewsKind, Notification
from dcc.runtime.installed_packages import CHANNELS, added_entries, added_names, error_of, load_entry
from dcc.runtime.log_context import logging_about, progress_log
from dcc.settings import Settings

log = logging.getLogger(__name__)


def notifies(settings: Settings) -> bool:
    """Whether the settings ask for notifications, or an installed package has a channel."""
    return settings.notifies or bool(added_names(CHANNELS))


_OWN_NAMES: Final = frozenset({"log", "webhook", "mail"})
_LONGEST_NAME: Final = 16
_EVENTS: Final = progress_log("event_log")
_LEVELS: Final = {NewsKind.OUTAGE: logging.ERROR, NewsKind.ADDRESS: logging.WARNING}


class LogChannel:
    """Logs each notification as `dcc.event_log`, an outage as an error, with its session and centre."""

    name = "log"
    repeats = True
    attaches = False

    def recipients(self, audience: Audience, addresses: Sequence[str]) -> Sequence[str]:  # noqa: ARG002 - it gets all
        """See `Channel.recipients`: the log's readers; news of sessions come by centre."""
        return [] if audience is Audience.SUMMARY else ["log"]

    def send(self, message: Notification, recipient: str, *, seconds: float) -> None:  # noqa: ARG002
        """See `Channel.send`."""
        with logging_about(session=message.session, centre=message.centre):
            _EVENTS.log(
                _LEVELS.get(message.kind, logging.INFO),
                "Notification %s %s: %s",
                message.kind,
                message.id,
                message.subject,
            )


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


def own_channels(settings: Settings) -> Iterator[Channel]:
    """The platform's channels that the settings ask for."""
    if settings.notify_log:
        yield LogChannel()
    if settings.notify_webhook:
        from dcc.notify.channels.webhook import WebhookChannel

        yield WebhookChannel(settings)
    if settings.notify_centres or settings.notify_addresses:
        from dcc.notify.channels.mail import MailChannel

        yield MailChannel(settings)


@dataclass(frozen=True, slots=True)
class OpenedChannels:
    """Channels that can be used, and a sentence on each problem of packages' channels; one that meets a fault later
    adds another. `faulty` are the packages with a channel that was left out.
    """

    channels: list[Channel]
    problems: list[str] = field(default_factory=list)
    faulty: set[str] = field(default_factory=set)

    def recipients(self, audience: Audience, addresses: Sequence[str] = ()) -> Iterator[tuple[Channel, str]]:
        """Each channel and recipient for an audience."""
        for channel in self.channels:
            for recipient in channel.recipients(audience, addresses):
                yield channel, recipient


def open_channels(settings: Settings) -> OpenedChannels:
    """The channels that the settings ask for and those of installed packages; by default none.

    A package's channel that cannot be used is left out.
    """
    channels = [*own_channels(settings)]
    problems: list[str] = []
    faulty: set[str] = set()
    for package, entry in added_entries(CHANNELS):
        try:
            channel = _open_added(package, load_entry(entry, CHANNELS), settings, problems)
            taken = _OWN_NAMES.union(one.name for one in channels)
            if channel is not None and channel.name in taken:
                raise ConfigurationError(
                    f"The channel {channel.name} of the package {package} has the name of another one. Rename it."
                )
        except ConfigurationError as error:
            problems.append(str(error))
            faulty.add(package)
        else:
            channels += [] if channel is None else [channel]
    return OpenedChannels(channels, problems, faulty)


def _open_added(
    package: str, make: Callable[[Settings], Channel | None], settings: Settings, problems: list[str]
) -> AddedChannel | None:
    """The channel that a package makes, if any; `problems` gets its later faults. Raises ConfigurationError."""
    try:
        channel = make(settings)
        return None if channel is None else AddedChannel(package, channel, problems)
    except Exception as error:
        log.info("The package %s made no channel", package, exc_info=error)
        raise ConfigurationError(
            f"The channel of the package {package} cannot be used: {error_of(error)} Correct or remove that package."
        ) from error
