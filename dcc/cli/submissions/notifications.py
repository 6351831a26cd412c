"""`dcc notify`: sends notifications to centres and wranglers, or shows what would be sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, open_tracker, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_list, echo_result, printable, wants_json, warn
from dcc.cli.shell.parameter_types import ID
from dcc.errors import ConfigurationError, TrackerUnreachableError
from dcc.messages import byte_size
from dcc.runtime.json_values import fields_of

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from dcc.settings import Settings


_NOT_SENT = 4


@command(
    examples=[
        "dcc notify --dry-run",
        "dcc notify --session 3 --centre H --dry-run",
        "dcc notify --test me@example.org",
    ],
    exits={
        0: "all was sent, or nothing was due",
        4: "something could not be sent (the next session tries again), or the tracker could not be reached",
    },
)
@click.option("--session", "session_id", type=ID, metavar="N", help="Of this session; by default all due messages.")
@click.option("--centre", metavar="CODE", help="For this centre only; with --session.")
@click.option("--dry-run", is_flag=True, help="Print what would be sent and to whom; send and remember nothing.")
@click.option("--test", "address", metavar="ADDRESS", help="Send a test to this e-mail address, and nothing else.")
@click.option("--list", "listed", is_flag=True, help="List the sent messages, the newest first, and nothing else.")
@json_option
@click.pass_context
def notify(
    ctx: click.Context, session_id: int | None, centre: str | None, dry_run: bool, address: str | None, listed: bool
) -> None:
    """Send due notifications to centres and wranglers.

    Every session does this at its end; the command is for messages that could not be sent, and for a look. Nothing is
    sent twice. The settings DCC_NOTIFY_... say who is notified, and how; channels of installed packages notify, too.

    \b
    JSON: {"sent": {channel: number}, "failed": number, "sentences"}; with --dry-run
      {"planned", "sentences"}, planned a list of {"channel", "recipient", "kind", "session",
      "centre", "language", "subject", "text", "attachments"}; with --list a list of {"kind",
      "subject", "channel", "recipient", "session", "state", "attempts", "reason", "changed"}
    """
    from dcc.notify.ledger import Ledger
    from dcc.notify.notifications import notify_due, notify_session, send_test
    from dcc.settings.recipients import parse_addresses
    from dcc.tracker.crawls import require_session
    from dcc.tracker.register.centres import require_centre

    is_test = address is not None
    if (
        dry_run + is_test + listed > 1
        or (is_test and session_id is not None)
        or (centre is not None and (listed or session_id is None))
    ):
        raise click.UsageError(
            "Give one of --dry-run, --test and --list; --session not with --test; --centre with --session, not --list."
        )
    settings = settings_from_environment()
    if address is not None:
        try:
            (one,) = parse_addresses(address)
        except ValueError:
            raise ConfigurationError(f"{address!r} is not one e-mail address. Write name@host.") from None
        told = send_test(settings, one)
        echo_result({"sent": {"mail": 1}, "failed": 0, "sentences": [told]}, printable(told))
        return
    with open_tracker(settings) as tracker:
        with tracker.connect() as connection:
            if session_id is not None and require_session(connection, session_id).finished is None:
                raise ConfigurationError(f"Session {session_id} is not over: it tells what it did when it is.")
            if centre is not None:
                require_centre(connection, centre)
        if listed:
            names = ("kind", "subject", "channel", "recipient", "state", "attempts", "reason", "changed")
            echo_list(
                [fields_of(one, *names, session="session_id") for one in Ledger(tracker).entries(session=session_id)],
                "when=changed, what=kind, of=subject, by=channel, to=recipient, state, why=reason",
                flexible=["why", "to", "by", "of", "when"],
                none="No message was sent yet.",
            )
        elif dry_run:
            _show_plan(tracker, settings, session_id, centre)
        else:
            if session_id is None:
                result = notify_due(tracker, settings)
            else:
                result = notify_session(tracker, settings, session_id, centre=centre)
            lines = map(printable, result.sentences or (_nothing(settings),))
            echo_result(fields_of(result, "sent", "failed", "sentences"), *lines)
            ctx.exit(_NOT_SENT if result.failed else 0)


@contextmanager
def notifying_tracker_outage(settings: Settings) -> Iterator[None]:
    """Notify wranglers if the tracker cannot be reached in the block, and raise the error."""
    try:
        yield
    except TrackerUnreachableError as error:
        from dcc.notify.notifications import notify_tracker_outage

        for sentence in notify_tracker_outage(settings, error):
            warn(sentence)
        raise


def _show_plan(tracker: Engine, settings: Settings, session_id: int | None, centre: str | None) -> None:
    from dcc.notify.notifications import plan

    planned, sentences = plan(tracker, settings, session_id, centre=centre)
    note_facts(planned=bool(planned))
    if wants_json():
        message = ("kind", "session", "centre", "language", "subject", "text")
        told = [
            {
                **fields_of(one, "channel", "recipient"),
                **fields_of(one.message, *message),
                "attachments": [attachment.name for attachment in one.message.attachments],
            }
            for one in planned
        ]
        echo_json({"planned": told, "sentences": sentences})
        return
    for sentence in sentences:
        click.echo(printable(sentence))
    for one in planned:
        click.echo(f"By {one.channel} to {printable(one.recipient)}: {printable(one.message.subject)}")
        if one.channel == "mail":
            for line in one.message.text.splitlines():
                click.echo(f"    {printable(line)}".rstrip())
            for attachment in one.message.attachments:
                click.echo(f"    [{printable(attachment.name)}, {byte_size(len(attachment.content))}]")
        click.echo()
    if not planned:
        click.echo(_nothing(settings))


def _nothing(settings: Settings) -> str:
    from dcc.notify.channels.open_channels import notifies

    if notifies(settings):
        return "No message is due."
    return "Nobody is notified. Set DCC_NOTIFY_TO, DCC_NOTIFY_CENTRES=true or another DCC_NOTIFY_... setting."
