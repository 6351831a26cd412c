"""`dcc zips`: submissions by state, centre, reason and time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from dcc.cli.shell.context import json_option, reading_tracker, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_list, wants_json
from dcc.cli.submissions.selection import filter_of, filter_options
from dcc.messages import byte_size, count_of
from dcc.phases import Status
from dcc.runtime.json_values import json_ready

if TYPE_CHECKING:
    from dcc.tracker.queries.submission_lists import SubmissionEntry


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
def zips(acknowledged: bool, on_hold: bool, **filters: Any) -> None:
    """List submissions, oldest first.

    With the sources that host them now. Failed ones also have since when, why, and whom to write to. --status failed
    leaves out those that somebody acknowledged, and refused names that no source has any more. --quarantine lists those
    that met a fault of the platform: after DCC_MAX_FAULTS sessions these wait for `dcc retry` or `dcc release`.

    \b
    JSON: a list of {"file_name", "action", "centre" (null where the name tells none), "phase",
      "status", "sources" (ids of those that host it now), "size_bytes", "since", "contact" (e-mail
      addresses of its centre or, if its name has none, of the one whose source it is on),
      "reason" (why it failed), "on_hold", "counts_for" (its centre or, where its name tells none,
      that of its source), "waits" (what it waits for, and until when if that is known, in words)};
      contact, reason and counts_for may be null
    """
    from dcc.reports.submissions.waits import what_listed_wait_for
    from dcc.tracker.queries.submission_filters import selected_ids
    from dcc.tracker.queries.submission_lists import find_submissions

    criteria = filter_of(**filters, on_hold=on_hold or None)
    failing = acknowledged or criteria.status is Status.FAILED
    criteria = replace(criteria, acknowledged=acknowledged if failing or criteria.faulty else None)
    settings = settings_from_environment()
    with reading_tracker(settings) as connection:
        entries = find_submissions(connection, criteria, with_reasons=wants_json() or failing or filters["quarantine"])
        waits = what_listed_wait_for(connection, selected_ids(criteria), settings)
    note_facts(first=next(map(_name, entries), None))
    columns, flexible = "submission, centre=counts_for, phase, status, size, sources", []
    if filters["quarantine"]:
        columns = "submission, phase, status, since, tried again=tried, why=reason"
        flexible = ["why", "tried again", "since"]
    elif failing:
        columns = "submission, phase, since, write to=contact, why=reason"
        flexible = ["why", "write to", "since"]
    if waits:
        columns += ", waits for"
        flexible.insert(0, "waits for")
    told = {f"{key}": [str(one) for one in messages] for key, messages in waits.items()}
    echo_list(
        entries,
        columns,
        as_object=lambda entry: {
            **json_ready(entry),
            "reason": entry.reason and entry.reason.text,
            "waits": told.get(_name(entry), []),
        },
        flexible=flexible,
        submission=_name,
        waits_for=lambda entry: " ".join(told.get(_name(entry), [])),
        size=lambda entry: byte_size(entry.size_bytes),
        sources=lambda entry: " ".join(map(str, entry.sources)) or "none",
        tried=lambda entry: "by the next session" if entry.is_tried_again else "by you: dcc retry",
        reason=lambda entry: entry.reason and entry.reason.text,
    )
    if not wants_json():
        click.echo(f"{count_of(len(entries), 'submission')}.", err=True)


def _name(entry: SubmissionEntry) -> str:
    return f"{entry.action}/{entry.file_name}"
