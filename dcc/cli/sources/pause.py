"""`dcc source pause` and `dcc source resume`."""

from __future__ import annotations

from datetime import datetime

import click

from dcc.cli.shell.context import open_tracker, settings_from_environment, user_name
from dcc.cli.shell.group import command
from dcc.cli.shell.parameter_types import ID
from dcc.errors import ConfigurationError


@command(examples=['dcc source pause 3 --reason "Harwell moves its server" --until 2026-12-01'])
@click.argument("source_id", metavar="ID", type=ID)
@click.option("--reason", required=True, help="Why, for whoever wonders.")
@click.option(
    "--until",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M"]),
    help="When it ends by itself, in UTC; else with `dcc source resume`.",
)
def pause(source_id: int, reason: str, until: datetime | None) -> None:
    """Leave source ID alone for a time.

    No session lists it or downloads from it, not even one that names it. Your user name and the reason are recorded.
    """
    from dcc.sources.due import Pause
    from dcc.tracker.database import writing
    from dcc.tracker.models import utc_now
    from dcc.tracker.register.source_pace import set_pause

    now = utc_now()
    if until is not None and until <= now:
        raise ConfigurationError(f"{until:%Y-%m-%d %H:%M} UTC is over. Give a later time with --until, or none.")
    made = Pause(reason, user_name(), now, until)
    with open_tracker(settings_from_environment()) as tracker, writing(tracker) as connection:
        set_pause(connection, source_id, made)
    ends = f"until {until:%Y-%m-%d %H:%M} UTC" if until else f"until `dcc source resume {source_id}`"
    click.echo(f"File source {source_id} is paused {ends}.")


@command(examples=["dcc source resume 3"])
@click.argument("source_id", metavar="ID", type=ID)
def resume(source_id: int) -> None:
    """End the pause of source ID, and forget its failures.

    The next session crawls it, if its schedule allows that.
    """
    from dcc.tracker.database import writing
    from dcc.tracker.register.source_pace import set_pause

    with open_tracker(settings_from_environment()) as tracker, writing(tracker) as connection:
        set_pause(connection, source_id, None)
    click.echo(f"File source {source_id} is not paused.")
