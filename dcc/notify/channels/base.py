"""Channels: how notifications reach people and programs.

docs/extending.md says how to add one: in a package of your own, or here in CHANNELS.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from dcc.errors import ConfigurationError, NotificationNotSentError
from dcc.notify.messages import Audience, NewsKind, Notification
from dcc.runtime.installed_packages import CHANNELS as ADDED_CHANNELS
from dcc.runtime.installed_packages import added_entries, added_names, error_of, load_entry
from dcc.runtime.log_context import logging_about, progress_log
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

    def send(self, message: Notification, recipient: str, *, seconds: float) -> None:
        """Send a message, within `seconds`.

        Raises NotificationNotSentError; its `may_have_arrived` says that the outcome is unknown, `recipient_refused`
        that other recipients may be tried.
        """
        ...


def notifies(settings: Settings) -> bool:
    """Whether the settings ask for notifications, or an installed package has a channel."""
    return settings.notifies or bool(added_names(ADDED_CHANNELS))


_LONGEST_NAME = 16


def _webhook(settings: Settings) -> Channel | None:
    from dcc.notify.channels.webhook import WebhookChannel

    return WebhookChannel(settings) if settings.notify_webhook else None


def _mail(settings: Settings) -> Channel | None:
    from dcc.notify.channels.mail import MailChannel

    return MailChannel(settings) if settings.notify_centres or settings.notify_addresses else None


CHANNELS: Final[Mapping[str, Callable[[Settings], Channel | None]]] = {
    "log": lambda settings: LogChannel() if settings.notify_log else None,
    "webhook": _webhook,
    "mail": _mail,
}
"""Makes each channel from the settings; None if these do not ask for it."""

log = logging.getLogger(__name__)
event_log = progress_log("event_log")
"""The lines from which a log collector makes alarms."""


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
    channels = [channel for make in CHANNELS.values() if (channel := make(settings)) is not None]
    problems: list[str] = []
    faulty: set[str] = set()
    for package, entry in added_entries(ADDED_CHANNELS):
        try:
            channel = _open_added(package, load_entry(entry, ADDED_CHANNELS), settings, problems)
            taken = {*CHANNELS, *(one.name for one in channels)}
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


class AddedChannel:
    """Passes everything on to the channel of a package; see `Channel`."""

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
            event_log.log(
                _LEVELS.get(message.kind, logging.INFO),
                "Notification %s %s: %s",
                message.kind,
                message.id,
                message.subject,
            )
