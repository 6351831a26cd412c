"""One round of notifications: the new items of each recipient are claimed, composed, sent, and settled in the ledger.

A round is bounded in time. A channel that fails twice in a row is not tried again in the round; refused recipients do
not count. What was not sent is due again in the next round.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from dcc.errors import DatabaseUnreachableError, DccError, NotificationNotSentError
from dcc.notify.channels.base import Channel
from dcc.notify.channels.open_channels import open_channels
from dcc.notify.composer import Composer
from dcc.notify.ledger import Claim, Ledger, SendState
from dcc.notify.messages import Audience, NewsItem, Notification
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.tracker.register.centres import CentreEntry

Compose = Callable[[str, Sequence[NewsItem], Channel], Notification]
"""Makes the message for some items, under the given id."""
Needed = Callable[[Sequence[NewsItem]], bool]
"""Whether items are worth a message; a digest without a new item is not."""

DRY_RUN_ID: Final = "0" * 32
_FAILURES: Final = 2

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlannedNotification:
    """A message that would be sent, with its channel and recipient."""

    channel: str
    recipient: str
    message: Notification


@dataclass
class Round:
    """One round of notifications. `dry`: nothing is claimed or sent; `planned` collects the messages."""

    tracker: Engine
    settings: Settings
    dry: bool = False
    planned: list[PlannedNotification] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)
    sentences: list[str] = field(default_factory=list)
    postponed: int = 0

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.tracker)
        self.opened = open_channels(self.settings)
        self.composer = Composer(self.settings, self.sentences)
        self._failures: Counter[str] = Counter()
        self._not_sent = 0
        self.began = utc_now()
        self._until = time.monotonic() + self.settings.notify_seconds

    @property
    def failed(self) -> int:
        """The number of messages that were not sent."""
        return self.postponed + self._not_sent

    def notify_centre(
        self, centre: CentreEntry, items: Sequence[NewsItem], compose: Compose, needed: Needed = bool
    ) -> None:
        """Send the new ones of `items` to all who get the messages for a centre, as `notify`."""
        for channel, recipient in self.opened.recipients(Audience.CENTRE, centre.addresses):
            self.notify(channel, recipient, items, compose, needed)

    def notify(
        self, channel: Channel, recipient: str, items: Sequence[NewsItem], compose: Compose, needed: Needed = bool
    ) -> Sequence[NewsItem]:
        """Send a recipient the new ones of `items`; returns those that were sent, or perhaps sent, now.

        A message that cannot be composed is reported in the sentences, and due again. Raises TrackerUnreachableError;
        in a dry round, what `compose` raises.
        """
        free = self.ledger.unsent(items, channel.name, recipient)
        if not needed(free):
            return ()
        if self.dry:
            self.planned.append(PlannedNotification(channel.name, recipient, compose(DRY_RUN_ID, free, channel)))
            return ()
        claim = self.ledger.claim(free, channel.name, recipient)
        if not needed(claim.items):
            self.ledger.release(claim)
            return ()
        if self._failures[channel.name] >= _FAILURES or self._seconds_left <= 0:
            self.postponed += 1
            self.ledger.record_result(claim, SendState.FAILED, "It was not tried: the channel failed, or time was up.")
            return ()
        return self._send(channel, claim, compose)

    def conclude(self) -> list[str]:
        """Sentences on what was sent and what was not."""
        sentences = list(dict.fromkeys([*self.opened.problems, *self.sentences]))
        if self.postponed:
            sentences.append(
                f"{self.postponed} more notifications were not tried, since a channel failed or time was up; the next "
                "session sends them."
            )
        if self.sent:
            by_channel = ", ".join(f"{number} by {name}" for name, number in sorted(self.sent.items()))
            sentences.append(f"Notifications were sent: {by_channel}.")
        return sentences

    @property
    def _seconds_left(self) -> float:
        return self._until - time.monotonic()

    def _send(self, channel: Channel, claim: Claim, compose: Compose) -> Sequence[NewsItem]:
        try:
            message = compose(claim.message_id, claim.items, channel)
        except (DatabaseUnreachableError, SQLAlchemyError):
            self.ledger.release(claim)
            raise
        except Exception as error:
            return self._not_composed(claim, error)
        except BaseException:
            self.ledger.release(claim)
            raise
        if not self.ledger.begin(claim):
            return ()
        try:
            channel.send(message, claim.recipient, seconds=max(self._seconds_left, 0.1))
        except NotificationNotSentError as error:
            if not error.recipient_refused:
                self._failures[channel.name] += 1
            return self._failed(channel, claim, str(error), unsure=error.may_have_arrived)
        except Exception as error:
            log.exception("The channel %s met a fault", channel.name)
            problem = f"The notification was not sent: the channel {channel.name} met a fault ({type(error).__name__})."
            self._failures[channel.name] += 1
            return self._failed(channel, claim, problem, unsure=True)
        self.ledger.record_result(claim, SendState.SENT)
        self._failures[channel.name] = 0
        self.sent[channel.name] += 1
        return claim.items

    def _not_composed(self, claim: Claim, error: Exception) -> Sequence[NewsItem]:
        """Record that a message cannot be composed; other recipients still get theirs."""
        log.exception("A notification of %s met a fault", claim.recipient)
        reason = str(error) if isinstance(error, DccError) else f"it met a fault ({type(error).__name__}): see the log."
        problem = f"A notification of {claim.recipient} could not be made: {reason}"
        self._not_sent += 1
        self.sentences.append(problem)
        if self.ledger.begin(claim):
            self.ledger.record_result(claim, SendState.FAILED, problem)
        return ()

    def _failed(self, channel: Channel, claim: Claim, problem: str, *, unsure: bool) -> Sequence[NewsItem]:
        self._not_sent += 1
        unsure = unsure and not channel.repeats
        self.ledger.record_result(claim, SendState.UNSURE if unsure else SendState.FAILED, problem)
        if unsure:
            problem += f" Whether it arrived at {claim.recipient} all the same is not known, so it is not sent again."
        log.warning("%s", problem)
        self.sentences.append(problem)
        return claim.items if unsure else ()
