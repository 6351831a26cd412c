"""Opens the channels that the settings ask for, and those of installed packages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dcc.errors import ConfigurationError
from dcc.notify.channels.added_channel import AddedChannel
from dcc.notify.channels.base import Channel
from dcc.notify.channels.log import LogChannel
from dcc.notify.channels.mail import MailChannel
from dcc.notify.channels.webhook import WebhookChannel
from dcc.notify.messages import Audience
from dcc.runtime.installed_packages import CHANNELS, added_entries, added_names, error_of, load_entry
from dcc.settings import Settings

log = logging.getLogger(__name__)


OWN: Final[Mapping[str, Callable[[Settings], Channel | None]]] = {
    "log": lambda settings: LogChannel() if settings.notify_log else None,
    "webhook": lambda settings: WebhookChannel(settings) if settings.notify_webhook else None,
    "mail": lambda settings: MailChannel(settings) if settings.notify_centres or settings.notify_addresses else None,
}
"""The function that makes each channel of the platform, as a package has one: None unless the settings ask for it."""


def own_channels(settings: Settings) -> list[Channel]:
    """The platform's channels that the settings ask for."""
    made = (make(settings) for make in OWN.values())
    return [channel for channel in made if channel is not None]


def notifies(settings: Settings) -> bool:
    """Whether the settings ask for notifications, or an installed package has a channel."""
    return bool(own_channels(settings) or added_names(CHANNELS))


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
    channels = own_channels(settings)
    problems: list[str] = []
    faulty: set[str] = set()
    for package, entry in added_entries(CHANNELS):
        try:
            channel = _open_added(package, load_entry(entry, CHANNELS), settings, problems)
            taken = OWN.keys() | {one.name for one in channels}
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
