"""Checks of notifications: whether the mail server accepts a login, and which messages could not be sent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from sqlalchemy import Connection, func, select

from dcc.databases.columns import utc_now
from dcc.errors import DccError, NotificationNotSentError
from dcc.notify.channels.mail import MailTransport, Wording
from dcc.notify.digests import addresses_of
from dcc.notify.ledger import Sending
from dcc.notify.messages import Kind
from dcc.operations.doctor.checks import Finding, explained, failed, ok, warning
from dcc.settings import Settings
from dcc.settings.recipients import parse_smtp_url, parse_webhook
from dcc.tracker.models import NotificationRow
from dcc.tracker.register.centres import list_centres

_RECENT: Final = timedelta(days=7)


def examine_notifications(connection: Connection, settings: Settings) -> Iterator[Finding]:
    """Findings on the channels of the settings; nothing is sent."""
    if settings.notify_centres or settings.notify_addresses:
        yield _mail_server(settings)
    if settings.notify_centres:
        lacking = [one.short_name for one in list_centres(connection) if one.is_active and not addresses_of(one)]
        if lacking:
            yield warning(
                "notifications of centres",
                f"No e-mail address is known of {', '.join(lacking)}.",
                f"dcc centre change {lacking[0]} --email ADDRESS",
            )
    if settings.notify_webhook is not None:
        hook = parse_webhook(settings.notify_webhook)
        if settings.notify_webhook_secret is None:
            yield warning(
                "notifications by webhook",
                f"What {hook.label} gets is not signed.",
                "Give it and DCC_NOTIFY_WEBHOOK_SECRET a key, so that it can tell who wrote.",
            )
        else:
            yield ok("notifications by webhook", f"What {hook.label} gets is signed.")
    yield _ledger(connection)


def _mail_server(settings: Settings) -> Finding:
    wording = Wording("A notification", "DCC_SMTP_URL", NotificationNotSentError)
    try:
        label = MailTransport(parse_smtp_url(settings.smtp_url), settings, wording).reach()
    except DccError as error:
        return failed("notifications by e-mail", *explained(error))
    return ok("notifications by e-mail", f"The mail server {label} can be used.")


def _ledger(connection: Connection) -> Finding:
    query = (
        select(NotificationRow.state, func.count(NotificationRow.message_id.distinct()))
        .where(NotificationRow.state.in_([Sending.FAILED, Sending.UNSURE]), NotificationRow.kind != Kind.ZIP)
        .where(NotificationRow.changed > utc_now() - _RECENT)
        .group_by(NotificationRow.state)
    )
    counts = {row[0]: row[1] for row in connection.execute(query)}
    if not counts:
        return ok("notifications sent", "None failed in the last week.")
    return warning(
        "notifications sent",
        f"{counts.get(Sending.FAILED, 0):,} could not be sent; of {counts.get(Sending.UNSURE, 0):,} nobody knows "
        "whether they arrived.",
        "The next session sends the former. See: dcc notify --list",
    )
