"""`dcc source missing`: archives that sources listed before and do not now."""

from __future__ import annotations

import click

from dcc.cli.shell.context import json_option, open_tracker, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.output import echo_json, echo_table, picked
from dcc.cli.shell.parameter_types import ID


@command(examples=["dcc source missing", "dcc source missing 3"])
@click.argument("source_id", metavar="[ID]", type=ID, required=False)
@json_option
def missing(source_id: int | None, as_json: bool) -> None:
    """List archives that source ID no longer lists.

    Without ID, of all sources. A listing that lost many archives at once counts only after the next one confirms it.

    \b
    JSON: a list of {"source", "zip", "since", "believed" (false: the next listing decides), "loaded"
      (documents of it stand), "elsewhere" (another source hosts it), "proposal" (state of the
      proposal to withdraw it, or null)}
    """
    from dcc.tracker.hostings.proposed_withdrawals import missing_archives
    from dcc.tracker.register import file_sources

    with open_tracker(settings_from_environment()) as tracker, tracker.connect() as connection:
        if source_id is not None:
            file_sources.list_sources(connection, [source_id])
        found = missing_archives(connection, source_id)
    if as_json:
        names = ("source", "since", "believed", "loaded", "elsewhere", "proposal")
        echo_json([{"zip": str(one.key), **picked(one, *names)} for one in found])
        return
    echo_table(
        ("source", "submission", "missing since", "loaded", "elsewhere", "withdrawal"),
        [
            (
                one.source,
                str(one.key),
                one.since if one.believed else f"{one.since}, not believed yet",
                "yes" if one.loaded else "no",
                "yes" if one.elsewhere else "no",
                one.proposal,
            )
            for one in found
        ],
    )
    if not found:
        click.echo("Every archive that was listed before is listed now.")
