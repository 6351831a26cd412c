"""`dcc hold`, `release`, `cancel` and `acknowledge`: a person's decisions about many submissions at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from dcc.cli.shell.context import asks_in_production, json_option, open_tracker, settings_from_environment, user_name
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_list, wants_json
from dcc.cli.submissions.selection import ask_before_many, bulk_options, selection_of
from dcc.messages import count_of
from dcc.phases import Phase, Status

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dcc.tracker.queries.submission_lists import SelectedSubmission

RefusalText = Callable[["SelectedSubmission"], str]
"""Why a submission is left out; empty if it is not."""
_REASON = click.option("--reason", required=True, help="Why; `dcc show` tells it.")


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

    def refusal(one: SelectedSubmission) -> str:
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
    """Cancel submissions that are not uploaded.

    No session processes them. `dcc retry` takes that back. `dcc data undo` withdraws uploaded data.

    \b
    JSON: as of `dcc hold`
    """
    from dcc.session.leases import refuse_during_session
    from dcc.tracker import progress
    from dcc.tracker.states import REFUSED

    def refusal(one: SelectedSubmission) -> str:
        if one.loaded or one.phase > Phase.UPLOAD:
            return "uploaded already (`dcc data undo`)"
        if (one.phase, one.status) == REFUSED:
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
@click.option("--reason", help="Why nobody has to act; `dcc show` tells it. Needed without --revoke.")
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

    def refusal(one: SelectedSubmission) -> str:
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
    from dcc.tracker.queries.submission_lists import select_submissions

    text = ""
    if reason is not None:
        text = require_text("reason", reason.strip(), ZipDecision.reason, "`dcc show` tells it")
    selection = selection_of(**filters)
    with open_tracker(settings_from_environment()) as tracker:
        if not dry_run and asks_in_production(yes=yes):
            with tracker.connect() as connection:
                ask_before_many(
                    [one for one in select_submissions(connection, *selection) if not refusal(one)], done, yes=yes
                )
        with writing(tracker) as connection:
            chosen = [(submission, refusal(submission)) for submission in select_submissions(connection, *selection)]
            taken = [one for one, why in chosen if not why]
            if taken and not dry_run:
                work(connection, [submission.id for submission in taken], text)
    note_facts(done=str(taken[0].key) if taken and not dry_run else None)
    print_chosen(done, taken, [one for one in chosen if one[1]], dry_run=dry_run)


def print_chosen(
    done: str, taken: Sequence[SelectedSubmission], left_out: Sequence[tuple[SelectedSubmission, str]], *, dry_run: bool
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


def left_out_lines(left_out: Sequence[tuple[SelectedSubmission, str]]) -> list[str]:
    """How many submissions were left out for each reason, a sentence a reason."""
    return [f"{number:,} left out: {why}." for why, number in Counter(why for _, why in left_out).items()]
