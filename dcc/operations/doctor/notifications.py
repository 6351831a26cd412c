"""Checks of messages to people: notifications, the mail server, and the reports of sessions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from sqlalchemy import Connection, func, select

from dcc.errors import NotificationNotSentError
from dcc.notify.channels.mail import MailTransport, Wording
from dcc.notify.channels.open_channels import notifies
from dcc.notify.ledger import SendState
from dcc.notify.messages import NewsKind
from dcc.notify.session_report import REPORT_WORDING
from dcc.operations.doctor.checks import CheckFinding, Environment, not_checked, ok, tried, warning
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.settings.recipients import parse_smtp_url, parse_webhook
from dcc.tracker.database import TRACKER
from dcc.tracker.models import NotificationRow
from dcc.tracker.register.centres import list_centres

_RECENT: Final = timedelta(days=7)


def check_notifications(environment: Environment) -> Iterator[CheckFinding]:
    """The requirements of notifications are met, and no message waits or is unsure."""
    settings = environment.short_timeout_settings
    if not notifies(settings):
        yield not_checked("notifications", "Nobody is notified of anything (DCC_NOTIFY_...).")
        return
    with environment.reading(TRACKER) as connection:
        yield from examine_notifications(connection, settings)


def examine_notifications(connection: Connection, settings: Settings) -> Iterator[CheckFinding]:
    """Findings on the channels of the settings; nothing is sent."""
    if settings.notify_centres or settings.notify_addresses:
        wording = Wording("A notification", "DCC_SMTP_URL", NotificationNotSentError)
        yield _mail_server("notifications by e-mail", settings, wording)
    if settings.notify_centres:
        lacking = [
            centre.short_name for centre in list_centres(connection) if centre.is_active and not centre.addresses
        ]
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


def _mail_server(subject: str, settings: Settings, wording: Wording) -> CheckFinding:
    server = parse_smtp_url(settings.smtp_url)
    return tried(
        subject, MailTransport(server, settings, wording).reach, f"The mail server {server.label} can be used."
    )


def _ledger(connection: Connection) -> CheckFinding:
    query = (
        select(NotificationRow.state, func.count(NotificationRow.message_id.distinct()))
        .where(NotificationRow.state.in_([SendState.FAILED, SendState.UNSURE]), NotificationRow.kind != NewsKind.ZIP)
        .where(NotificationRow.changed > utc_now() - _RECENT)
        .group_by(NotificationRow.state)
    )
    counts = {row[0]: row[1] for row in connection.execute(query)}
    if not counts:
        return ok("notifications sent", "None failed in the last week.")
    return warning(
        "notifications sent",
        f"{counts.get(SendState.FAILED, 0):,} could not be sent; of {counts.get(SendState.UNSURE, 0):,} nobody knows "
        "whether they arrived.",
        "The next session sends the former. See: dcc notify --list",
    )


def check_reports(environment: Environment) -> Iterator[CheckFinding]:
    """The mail server for reports can be used, if reports are asked for."""
    settings = environment.short_timeout_settings
    if not settings.report_addresses:
        yield not_checked("session reports", "None are sent by e-mail (DCC_REPORT_TO).")
        return
    yield _mail_server("session reports", settings, REPORT_WORDING)
