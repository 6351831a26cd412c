"""`dcc reference`: the reference data that documents are judged by, their age, and their refresh."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, open_qc, reading_qc, settings_from_environment
from dcc.cli.shell.group import CommandGroup
from dcc.cli.shell.output import echo_list, wants_json, warn
from dcc.messages import count_of
from dcc.runtime.json_values import fields_of

if TYPE_CHECKING:
    from collections.abc import Mapping


_PROBLEMS = 1
_UNREACHABLE = 4


@click.group(cls=CommandGroup)
def reference() -> None:
    """List and refresh the reference data that rules use.

    DCC_REFERENCE_IMPRESS and so on name the source of each set; without it, a small shipped set is used, enough for the
    demo.
    """


@reference.command("list", exits={1: "a set is missing, stale, other or troubled"})
@json_option
def list_sets() -> None:
    """List the sets of reference data and their age.

    A set is stale if it was last found at its source more than DCC_REFERENCE_MAX_AGE_DAYS ago. A shipped set is enough
    for the demo, too little for a real DCC, and never stale. An "other" set is not from the source in the setting.
    A "troubled" one: its source could not be read at the last try, was refused, or was not found for days.

    \b
    JSON: a list of {"name", "source", "retrieved", "checked", "rows", "snapshot_id", "age_days",
      "is_missing", "is_stale", "is_shipped", "is_other", "message"}; retrieved is when this
      state of it was retrieved first, checked when last; message says what to do about one that
      is missing, stale, of another source than the setting names, refused, or not to be read
    """
    from dcc.qc.reference.refresh import NONE_READ_YET, freshness, were_never_read
    from dcc.runtime.clock import utc_now

    settings = settings_from_environment()
    with reading_qc(settings) as connection:
        sets = freshness(connection, settings, utc_now())
    echo_list(
        [
            fields_of(one, "name", "source", "retrieved", "checked", "rows", "snapshot_id")
            | {"age_days": None if one.age is None else one.age.days}
            | fields_of(one, "is_missing", "is_stale", "is_shipped", "is_other", "message")
            for one in sets
        ],
        "name, state, rows, retrieved, checked, snapshot=snapshot_id, source",
        state=_state,
        flexible=["source", "snapshot", "checked", "retrieved"],
    )
    if were_never_read(sets, settings):
        warn(NONE_READ_YET)
    else:
        for each in sets:
            if each.message is not None:
                warn(each.message)
    if any(each.message is not None for each in sets):
        raise click.exceptions.Exit(_PROBLEMS)


@reference.command(
    examples=["dcc reference refresh", "dcc reference refresh colonies --force"],
    exits={
        0: "all were read",
        1: "one was refused because of its content",
        4: "a source or the QC database could not be reached",
    },
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--force", is_flag=True, help="Take over a set that has shrunk to less than half, too.")
@json_option
def refresh(names: tuple[str, ...], force: bool) -> None:
    """Read reference data again from their sources.

    The sets NAME, such as impress or colonies, or all of them. If a set cannot be read, the one before stays in use,
    and the others are read anyway. Servers send only what has changed. The next session judges documents with findings
    by the old data again; `dcc data recheck` adds others.

    \b
    JSON: a list of {"name", "outcome" (new, unchanged, failed), "rows", "added", "removed",
      "changed", "message", "source", "snapshot_id", "is_unreachable"}; rows, source and
      snapshot_id are those of what is in use afterwards
    """
    from dcc.qc.reference.refresh import refresh as refresh_sets

    settings = settings_from_environment()
    with open_qc(settings) as qc:
        refreshed = refresh_sets(qc, settings, names or None, force=force)
    echo_list(
        refreshed,
        "name, outcome, rows, added, removed, changed, snapshot=snapshot_id, source",
        flexible=["source", "snapshot", "rows", "added", "removed", "changed"],
    )
    new = sum(each.outcome == "new" for each in refreshed)
    if new and not wants_json():
        click.echo(f"{count_of(new, 'set')} changed. The next session judges documents with findings by them again.")
    failed = [each for each in refreshed if each.outcome == "failed"]
    for each in failed:
        warn(each.message)
    if failed:
        raise click.exceptions.Exit(_UNREACHABLE if any(each.is_unreachable for each in failed) else _PROBLEMS)


def _state(one: Mapping[str, object]) -> str:
    well = "shipped" if one["is_shipped"] else "fresh"
    of_set = next((name for name in ("missing", "other", "stale") if one[f"is_{name}"]), None)
    return of_set or (well if one["message"] is None else "troubled")
