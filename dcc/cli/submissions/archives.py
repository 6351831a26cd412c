"""`dcc archive`: stored archives, and decisions on archives on another centre's source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, open_tracker, parse_zip_key, settings_from_environment, user_name
from dcc.cli.shell.group import CommandGroup
from dcc.cli.shell.output import echo_json, echo_table, picked

if TYPE_CHECKING:
    from dcc.tracker.hostings.foreign_archives import Decline


_PLACES = {
    "list": "dcc.cli.submissions.archive_files:list_files",
    "get": "dcc.cli.submissions.archive_files:get",
    "cat": "dcc.cli.submissions.archive_files:cat",
    "status": "dcc.cli.installation.archive_store:status",
    "audit": "dcc.cli.installation.archive_store:audit",
    "repair": "dcc.cli.installation.archive_store:repair",
}


@click.group(cls=CommandGroup, places=_PLACES)
def archive() -> None:
    """Show stored archives; look after them; decline some.

    The archive store keeps every archive that arrived, in replicas (DCC_ARCHIVE_REPLICAS) that are read back.

    An archive that is named for one centre and is on the source of another one is held: `dcc status` lists it. It is
    fetched if its own centre lists it too, or delegates: see `dcc centre delegate`.
    """


@archive.command(
    examples=[
        'dcc archive decline add/J.2013-11-01.1.impc.zip --reason "made by mistake, says Harwell"',
        "dcc archive decline add/J.2013-11-01.1.impc.zip --revoke",
    ],
    exits={2: "it is not held, is declined already, or is not declined"},
)
@click.argument("zip_action", metavar="ACTION/ZIP")
@click.option("--reason", help="Why; both centres are told.")
@click.option("--revoke", is_flag=True, help="Take that back: the archive is held again.")
@json_option
def decline(zip_action: str, reason: str | None, revoke: bool, as_json: bool) -> None:
    """Decline ACTION/ZIP, which is held, so that it stops waiting.

    It stays declined, even if its centre delegates, until you revoke that. If a source of its own centre lists it, that
    copy is fetched all the same. Turn held documents down with `dcc data undo`.

    \b
    JSON: as one of `dcc archive declined --json`
    """
    from dcc.tracker.database import writing
    from dcc.tracker.hostings import foreign_archives

    if revoke == (reason is not None):
        raise click.UsageError("Give --reason to turn it down, or --revoke to take that back.")
    key = parse_zip_key(zip_action)
    with open_tracker(settings_from_environment()) as tracker, writing(tracker) as connection:
        if reason is None:
            made = foreign_archives.accept_archive(connection, key, revoked_by=user_name())
        else:
            made = foreign_archives.decline_archive(connection, key, declined_by=user_name(), reason=reason)
    if as_json:
        echo_json(_as_json(made))
    elif reason is None:
        click.echo(f"{key} is held again. Ask centre {made.owner}, whose name it bears.")
    else:
        click.echo(f"{key} is turned down. Both centres are told with the next notifications.")


@archive.command()
@click.option("--all", "everything", is_flag=True, help="Those of which it was taken back too.")
@json_option
def declined(everything: bool, as_json: bool) -> None:
    """List the declined archives.

    \b
    JSON: a list of {"zip", "owner" (the centre of its name), "declined_by", "reason", "created",
      "revoked", "revoked_by"}
    """
    from dcc.tracker.hostings.foreign_archives import list_declines

    with open_tracker(settings_from_environment()) as tracker, tracker.connect() as connection:
        entries = list_declines(connection, everything=everything)
    if as_json:
        echo_json([_as_json(entry) for entry in entries])
        return
    echo_table(
        ("submission", "by", "when", "reason", "taken back", "revoked by"),
        [(str(e.key), e.declined_by, e.created, e.reason, e.revoked, e.revoked_by) for e in entries],
        prose=["reason"],
        spare=["revoked by", "taken back"],
    )
    if not entries:
        click.echo("No archive is turned down. What is held says: dcc status")


def _as_json(entry: Decline) -> dict[str, object]:
    return {
        "zip": str(entry.key),
        **picked(entry, "owner", "declined_by", "reason", "created", "revoked", "revoked_by"),
    }
