"""Notifications in the log, from which a log collector makes alarms."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from dcc.notify.messages import Audience, NewsKind, Notification
from dcc.runtime.log_context import logging_about, progress_log

event_log = progress_log("event_log")

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
