"""`dcc zips`, `hold`, `release`, `cancel` and `acknowledge`: many submissions are selected, listed and decided on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TextIO

import click

from dcc.cli.shell.context import (
    ask_in_production,
    asks_in_production,
    json_option,
    open_tracker,
    options,
    reading_tracker,
    settings_from_environment,
    user_name,
    yes_option,
)
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import byte_size, echo_json, echo_list, json_ready, wants_json
from dcc.errors import NotFoundError
from dcc.messages import count_of
from dcc.naming import Action
from dcc.phases import Phase, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from dcc.tracker.queries.zip_action_lists import SelectedZip, ZipFilter

_FILTERS = (
    click.option("--centre", help="Only of this centre (ILAR code), by name or else by source."),
    click.option("--action", type=click.Choice([action.value for action in Action]), help="Only of this action."),
    click.option("--phase", type=click.Choice([phase.short_name for phase in Phase]), help="Only in this phase."),
    click.option("--status", "state", type=click.Choice([s.short_name for s in Status]), help="Only in this status."),
    click.option("--code", metavar="ID", help="Only with this error or rule, as `dcc explain` has it."),
    click.option(
        "--since",
        type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]),
        help="Only those that changed from then on, in UTC.",
    ),
    click.option("--name", metavar="PATTERN", help="Only archives with such a name; * and ? stand for anything."),
    click.option("--quarantine", is_flag=True, help="Only those that met a fault of the platform."),
)
filter_options = options(*_FILTERS)
"""The options that filter submissions."""

bulk_options = options(
    click.argument("zip_actions", metavar="[ACTION/ZIP]...", nargs=-1),
    *_FILTERS,
    click.option(
        "--file",
        "listed",
        type=click.File(encoding="utf-8"),
        metavar="LIST",
        help="Those named in this file, one a line; - reads standard input.",
    ),
    click.option("--dry-run", is_flag=True, help="Only print what would be done."),
    yes_option,
)
"""Names of submissions as arguments, the options that filter them, --file, --dry-run and --yes."""

MANY = 10
"""From more submissions than these on, a person is asked in production."""


def ask_before_many(chosen: Sequence[SelectedZip], what: str, *, yes: bool) -> None:
    """Ask in production before many submissions are changed. Raises ConfigurationError if the person says no."""
    if len(chosen) > MANY:
        ask_in_production(f"{count_of(len(chosen), 'submission')}, such as {chosen[0].key}, to be {what}?", yes=yes)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a command's arguments select; `names` is None without any."""

    criteria: ZipFilter
    names: Sequence[str] | None

    @classmethod
    def of(cls, zip_actions: Sequence[str], listed: TextIO | None, **filters: Any) -> Selection:
        """Read arguments. Raises UsageError if they select nothing in particular, NotFoundError for unknown codes."""
        names = list(zip_actions)
        if listed is not None:
            lines = (line.strip() for line in listed)
            names += [line for line in lines if line and not line.startswith("#")]
        if not (zip_actions or listed or any(value not in (None, False) for value in filters.values())):
            raise click.UsageError("Name archives as ACTION/ZIP, or give filters such as --centre, or --file.")
        return cls(filter_of(**filters), names if zip_actions or listed else None)

    def zips(self, connection: Connection) -> list[SelectedZip]:
        """The selected submissions, oldest first. Raises NotFoundError and ConfigurationError for wrong names."""
        from dcc.tracker.queries.zip_action_lists import select_zips

        return select_zips(connection, self.criteria, self.names)


def filter_of(
    *,
    action: str | None = None,
    phase: str | None = None,
    state: str | None = None,
    code: str | None = None,
    quarantine: bool = False,
    **others: Any,
) -> ZipFilter:
    """The filter that options make; `others` are as in `ZipFilter`. Raises NotFoundError for an unknown code."""
    from dcc.cli.shell.error_advice import explain
    from dcc.tracker.queries.zip_action_lists import ZipFilter

    entry = None if code is None else explain(code)
    if code is not None and entry is None:
        from dcc.rules.catalogue import CATALOGUE

        if code not in CATALOGUE:
            raise NotFoundError(f"No error or rule has the id {code!r}. See `dcc explain` and `dcc rules list`.")
    return ZipFilter(
        action=Action(action) if action else None,
        phase=Phase[phase.upper()] if phase else None,
        status=Status[state.upper()] if state else None,
        kind=code if entry is None else entry.name,
        faulty=quarantine or None,
        **others,
    )


RefusalText = Callable[["SelectedZip"], str]
"""Why a submission is left out; empty if it is not."""

_REASON = click.option("--reason", required=True, help="Why; `dcc show` tells it.")


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
      "reason" (why it failed), "on_hold"; contact and reason may be null
    """
    from dcc.tracker.queries import zip_action_lists

    criteria = filter_of(**filters, on_hold=on_hold or None)
    failing = acknowledged or criteria.status is Status.FAILED
    criteria = replace(criteria, acknowledged=acknowledged if failing or criteria.faulty else None)
    with reading_tracker() as connection:
        entries = zip_action_lists.find_zips(
            connection, criteria, with_reasons=wants_json() or failing or filters["quarantine"]
        )
    note_facts(first=next((f"{entry.action}/{entry.file_name}" for entry in entries), None))
    columns, flexible = "submission, centre, phase, status, size, sources", []
    if filters["quarantine"]:
        columns = "submission, phase, status, since, tried again=tried, why=reason"
        flexible = ["why", "tried again", "since"]
    elif failing:
        columns = "submission, phase, since, write to=contact, why=reason"
        flexible = ["why", "write to", "since"]
    echo_list(
        entries,
        columns,
        as_object=lambda entry: {**json_ready(entry), "reason": entry.reason and entry.reason.text},
        flexible=flexible,
        submission=lambda entry: f"{entry.action}/{entry.file_name}",
        size=lambda entry: byte_size(entry.size_bytes),
        sources=lambda entry: " ".join(map(str, entry.sources)) or "none",
        tried=lambda entry: "by the next session" if entry.is_tried_again else "by you: dcc retry",
        reason=lambda entry: entry.reason and entry.reason.text,
    )
    if not wants_json():
        click.echo(f"{count_of(len(entries), 'submission')}.", err=True)


@command(
    examples=[
        'dcc hold add/H.2013-10-31.1.impc.zip --reason "Harwell asks to wait"',
        'dcc hold --centre H --name "H.2013-11-*" --reason "a wrong export" --dry-run',
    ]
)
@bulk_options
@_REASON
@json_option
def hold(**asked: Any) -> None:
    """Have sessions leave submissions alone until you release them.

    They are neither fetched, nor validated, nor uploaded. Uploaded data stay. A session that is active now may still
    process them.

    \b
    JSON: {"zips": [...], "left_out": [{"zip", "why"}], "dry_run"}
    """
    from dcc.tracker.decisions import DecisionKind, record_decisions

    def refusal(one: SelectedZip) -> str:
        if one.on_hold:
            return "on hold already"
        return "through already" if one.phase is Phase.QC else ""

    def work(connection: Connection, za_ids: list[int], reason: str) -> None:
        record_decisions(connection, DecisionKind.HOLD, za_ids, by=user_name(), reason=reason)

    _do("put on hold", refusal, work, **asked)


@command(examples=["dcc release add/H.2013-10-31.1.impc.zip", "dcc release --centre H"])
@bulk_options
@json_option
def release(**asked: Any) -> None:
    """Release submissions on hold or in quarantine.

    The next session processes them.

    \b
    JSON: as of `dcc hold`
    """
    from dcc.tracker.decisions import DecisionKind, revoke

    def work(connection: Connection, za_ids: list[int], _: str) -> None:
        revoke(connection, za_ids, DecisionKind.HOLD, DecisionKind.QUARANTINE, by=user_name())

    refusal: RefusalText = lambda one: "" if one.on_hold else "not on hold"  # noqa: E731
    _do("released", refusal, work, **asked)


@command(
    examples=[
        'dcc cancel --centre H --status pending --reason "Harwell submits all of it again"',
        'dcc cancel --file list.txt --reason "test archives"',
    ],
    exits={3: ""},
)
@bulk_options
@_REASON
@json_option
def cancel(**asked: Any) -> None:
    """Set submissions aside that are not uploaded.

    No session processes them. `dcc retry` takes that back. `dcc data undo` withdraws uploaded data.

    \b
    JSON: as of `dcc hold`
    """
    from dcc.session.leases import refuse_during_session
    from dcc.tracker import progress

    def refusal(one: SelectedZip) -> str:
        if one.loaded or one.phase > Phase.UPLOAD:
            return "uploaded already (`dcc data undo`)"
        if (one.phase, one.status) == (Phase.ZIP_NAME, Status.FAILED):
            return "refused for its name"
        return "cancelled already" if one.status is Status.CANCELLED else ""

    def work(connection: Connection, za_ids: list[int], reason: str) -> None:
        refuse_during_session(connection, settings_from_environment())
        progress.cancel(connection, za_ids, user_name(), f"Cancelled: {reason}")

    _do("cancelled", refusal, work, **asked)


@command(
    examples=[
        'dcc acknowledge --centre H --code corrupt-archive --reason "the server of 2013 is gone"',
        "dcc acknowledge --centre H --revoke",
    ]
)
@bulk_options
@click.option("--reason", help="Why nobody has to act; `dcc show` tells it.")
@click.option("--revoke", "revoked", is_flag=True, help="Take that back.")
@json_option
def acknowledge(reason: str | None, revoked: bool, **asked: Any) -> None:
    """Say that nobody has to act on failed submissions.

    `dcc zips --status failed`, causes and checks list them no more, and sessions do not try them again. `dcc status`
    counts them apart, and reports say that nobody has to act. That ends when you revoke it, retry them, or the centre
    replaces the archive.

    \b
    JSON: as of `dcc hold`
    """
    from dcc.tracker.decisions import DecisionKind, record_decisions, revoke

    if revoked == (reason is not None):
        raise click.UsageError("Give --reason, or --revoke to take that back.")

    def refusal(one: SelectedZip) -> str:
        if revoked:
            return "" if one.acknowledged else "not acknowledged"
        return "acknowledged already" if one.acknowledged else "" if one.status is Status.FAILED else "not failed"

    def work(connection: Connection, za_ids: list[int], reason: str) -> None:
        # Also before a new one: that of an earlier failure would end with it.
        revoke(connection, za_ids, DecisionKind.ACKNOWLEDGE, by=user_name())
        if not revoked:
            record_decisions(connection, DecisionKind.ACKNOWLEDGE, za_ids, by=user_name(), reason=reason)

    done = "not acknowledged any more" if revoked else "acknowledged"
    _do(done, refusal, work, reason=reason, **asked)


def _do(
    done: str,
    refusal: RefusalText,
    work: Callable[[Connection, list[int], str], None],
    *,
    dry_run: bool,
    yes: bool,
    reason: str | None = None,
    **filters: Any,
) -> None:
    """Do `work` for the selected submissions without a refusal, in one transaction, and print what was done."""
    from dcc.databases.columns import require_text
    from dcc.databases.transactions import writing
    from dcc.tracker.models import ZipDecision

    text = ""
    if reason is not None:
        text = require_text("reason", reason.strip(), ZipDecision.reason, "`dcc show` tells it")
    selection = Selection.of(**filters)
    with open_tracker(settings_from_environment()) as tracker:
        if not dry_run and asks_in_production(yes=yes):
            with tracker.connect() as connection:
                ask_before_many([one for one in selection.zips(connection) if not refusal(one)], done, yes=yes)
        with writing(tracker) as connection:
            chosen = [(submission, refusal(submission)) for submission in selection.zips(connection)]
            taken = [one for one, why in chosen if not why]
            if taken and not dry_run:
                work(connection, [submission.id for submission in taken], text)
    note_facts(done=str(taken[0].key) if taken and not dry_run else None)
    print_chosen(done, taken, [one for one in chosen if one[1]], dry_run=dry_run)


def print_chosen(
    done: str, taken: Sequence[SelectedZip], left_out: Sequence[tuple[SelectedZip, str]], *, dry_run: bool
) -> None:
    """Print of which submissions something was `done`, or would be, and how many were left out, and why."""
    if wants_json():
        others = [{"zip": str(one.key), "why": why} for one, why in left_out]
        echo_json({"zips": [str(one.key) for one in taken], "left_out": others, "dry_run": dry_run})
        return
    if dry_run:
        echo_list(taken, "submission=key, phase, status")
    text = f"{count_of(len(taken), 'submission')} {'would be ' if dry_run else ''}{done}."
    click.echo(settings_from_environment().labelled(text))
    for line in left_out_lines(left_out):
        click.echo(line)


def left_out_lines(left_out: Sequence[tuple[SelectedZip, str]]) -> list[str]:
    """How many submissions were left out for each reason, a sentence a reason."""
    return [f"{number:,} left out: {why}." for why, number in Counter(why for _, why in left_out).items()]
