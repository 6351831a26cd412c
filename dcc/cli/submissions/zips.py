"""`dcc zips`: submissions by state, centre, reason and time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from dcc.cli.shell.context import json_option, reading_tracker
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import byte_size, echo_json, echo_table, json_object
from dcc.cli.submissions.selection import filter_of, filter_options
from dcc.messages import count_of
from dcc.phases import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dcc.tracker.queries.zip_action_lists import ZipEntry

_CELLS: Mapping[str, Callable[[ZipEntry], object]] = {
    "submission": lambda entry: f"{entry.action}/{entry.file_name}",
    "centre": lambda entry: entry.centre,
    "phase": lambda entry: entry.phase,
    "status": lambda entry: entry.status,
    "size": lambda entry: byte_size(entry.size_bytes),
    "sources": lambda entry: " ".join(map(str, entry.sources)) or "none",
    "since": lambda entry: entry.since,
    "tried again": lambda entry: "by the next session" if entry.is_tried_again else "by you: dcc retry",
    "write to": lambda entry: entry.contact or "-",
    "why": lambda entry: entry.reason.text if entry.reason else "-",
}
"""What stands in the columns of lists of submissions, by their headers."""


@command(
    examples=[
        "dcc zips --status failed",
        "dcc zips --centre H --phase xsd --status done",
        "dcc zips --code corrupt-archive --since 2026-11-01",
    ]
)
@filter_options
@click.option("--acknowledged", is_flag=True, help="Only failed ones that nobody has to act on (`dcc acknowledge`).")
@click.option("--on-hold", is_flag=True, help="Only those on hold (`dcc hold`).")
@json_option
def zips(acknowledged: bool, on_hold: bool, as_json: bool, **filters: Any) -> None:
    """List submissions, oldest first.

    With the sources that host them now. Failed ones also have since when, why, and whom to write to. --status failed
    leaves out those that somebody acknowledged, and refused names that no source has any more. --quarantine lists those
    that met a fault of the platform: after DCC_MAX_FAULTS sessions these wait for `dcc retry` or `dcc release`.

    \b
    JSON: a list of {"file_name", "action", "centre" (null where the name tells none), "phase",
      "status", "sources" (ids of those that host it now), "size_bytes", "since", "contact" (e-mail
      addresses of its centre or, if its name has none, of the one whose source it is on),
      "reason" (why it failed), "on_hold"; contact and reason may be null
    """
    from dcc.tracker.queries import zip_action_lists

    criteria = filter_of(**filters, on_hold=on_hold or None)
    failing = acknowledged or criteria.status is Status.FAILED
    criteria = replace(criteria, acknowledged=acknowledged if failing or criteria.faulty else None)
    with reading_tracker() as connection:
        entries = zip_action_lists.find_zips(
            connection, criteria, with_reasons=as_json or failing or filters["quarantine"]
        )
    if as_json:
        echo_json([{**json_object(entry), "reason": entry.reason and entry.reason.text} for entry in entries])
        return
    note_facts(first=next((f"{entry.action}/{entry.file_name}" for entry in entries), None))
    columns, flexible = ["submission", "centre", "phase", "status", "size", "sources"], []
    if filters["quarantine"]:
        columns = ["submission", "phase", "status", "since", "tried again", "why"]
        flexible = ["why", "tried again", "since"]
    elif failing:
        columns, flexible = ["submission", "phase", "since", "write to", "why"], ["why", "write to", "since"]
    echo_table(columns, [[_CELLS[column](entry) for column in columns] for entry in entries], flexible=flexible)
    click.echo(f"{count_of(len(entries), 'submission')}.", err=True)
