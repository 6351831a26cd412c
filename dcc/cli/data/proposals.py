"""`dcc data proposals`: withdrawals that crawls proposed, and decisions on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import (
    json_option,
    open_qc,
    open_tracker,
    options,
    parse_zip_key,
    reading_tracker,
    reason_option,
    settings_from_environment,
    user_name,
)
from dcc.cli.shell.group import CommandGroup
from dcc.cli.shell.output import echo_list, echo_result, fields_of, printable
from dcc.cli.shell.parameter_types import ID
from dcc.errors import BuiltOnError, NotFoundError
from dcc.messages import count_of

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dcc.tracker.hostings.changed_archives import WithdrawalProposal

_STATES = ("open", "accepted", "turned_down", "came_back")


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    examples=["dcc data proposals", "dcc data proposals --source 3 --state all"],
)
@click.option("--source", "source_id", metavar="ID", type=ID, help="Only of this file source.")
@click.option("--centre", metavar="CODE", help="Only of archives of this centre.")
@click.option("--state", type=click.Choice((*_STATES, "all")), default="open", show_default=True, help="Only of these.")
@json_option
@click.pass_context
def proposals(ctx: click.Context, source_id: int | None, centre: str | None, state: str, as_json: bool) -> None:
    """List proposed withdrawals; accept them or turn them down.

    A crawl of a source with `--delta full` proposes to withdraw the data of each archive that the source no longer
    lists and no other source hosts. Nothing is withdrawn before you accept it. If the archive comes back, its proposal
    is closed.

    \b
    JSON: a list of {"zip", "centre", "source", "since" (not listed since then), "documents" (names of
      those that stood), "state" (open, accepted, turned_down, came_back), "created", "decided",
      "decided_by", "reason"}
    """
    if ctx.invoked_subcommand is not None:
        return
    from dcc.tracker.hostings.changed_archives import ProposalState, list_proposals
    from dcc.tracker.queries.zip_action_lists import require_centre

    states = tuple(ProposalState) if state == "all" else (ProposalState(state),)
    with reading_tracker() as connection:
        _require_source(connection, source_id)
        if centre is not None:
            require_centre(connection, centre)
        found = list_proposals(connection, states=states, source=source_id, centre=centre)
    names = ("centre", "source", "since", "documents", "state", "created", "decided", "decided_by", "reason")
    echo_list(
        [{"zip": str(proposal.key), **fields_of(proposal, *names)} for proposal in found],
        ("submission", "source", "missing since", "documents", "state", "by", "reason"),
        [(str(p.key), p.source, p.since, len(p.documents), p.state, p.decided_by, p.reason) for p in found],
        as_json=as_json,
        flexible=["reason", "by", "documents", "missing since"],
        none="No withdrawal is proposed. What sources list no more: dcc source missing",
    )


def _require_source(connection: Connection, source_id: int | None) -> None:
    from dcc.tracker.register.file_sources import list_sources

    if source_id is not None:
        list_sources(connection, [source_id])


_choice = options(
    click.argument("zip_actions", metavar="[ACTION/ZIP]...", nargs=-1),
    click.option("--all", "everything", is_flag=True, help="All open ones."),
    click.option("--source", "source_id", metavar="ID", type=ID, help="All open ones of this file source."),
    reason_option,
    json_option,
)


@proposals.command(
    examples=[
        'dcc data proposals accept add/H.2013-10-31.1.impc.zip --reason "taken back, says Harwell"',
        'dcc data proposals accept --source 3 --reason "taken back, says Harwell"',
    ],
    exits={1: "one of them stays open", 2: "no such proposal is open"},
)
@_choice
def accept(zip_actions: tuple[str, ...], everything: bool, source_id: int | None, reason: str, as_json: bool) -> None:
    """Withdraw the data of missing archives.

    Like `dcc data undo`, the newest archive first. A proposal stays open if a later document builds on the data, or if
    they belong to a centre that has not delegated.

    \b
    JSON: a list of {"zip", "withdrawn" (how many documents), "problem" (why it stays open, or null)}
    """
    from dcc.session.data.corrections import accept_proposals

    settings = settings_from_environment()
    with open_tracker(settings) as tracker, open_qc(settings) as qc:
        with tracker.connect() as connection:
            chosen = _chosen(connection, zip_actions, source_id, everything=everything)
        decided = accept_proposals(tracker, qc, settings, chosen, author=user_name(), reason=reason)
    left = [one for one in decided if one.problem is not None]
    documents = count_of(sum(one.withdrawn for one in decided), "document")
    text = (
        f"Withdrew {documents} of {count_of(len(decided) - len(left), 'archive')}. The next session brings data "
        "contexts and overviews up to date: dcc crawl."
    )
    made = [{"zip": str(one.proposal.key), **fields_of(one, "withdrawn", "problem")} for one in decided]
    echo_result(made, text, as_json=as_json)
    for one in left:
        click.echo(f"{one.proposal.key}: {printable(one.problem)}", err=True)
    if left:
        raise click.exceptions.Exit(BuiltOnError.exit_code)


@proposals.command(
    "turn-down",
    examples=['dcc data proposals turn-down --all --reason "Harwell cleared its server up"'],
    exits={2: "no such proposal is open"},
)
@_choice
def turn_down(
    zip_actions: tuple[str, ...], everything: bool, source_id: int | None, reason: str, as_json: bool
) -> None:
    """Keep the data of missing archives.

    The withdrawal is not proposed again, unless the archive comes back and disappears once more.

    JSON: a list of the submissions
    """
    from dcc.session.data.corrections import decide_proposals
    from dcc.tracker.hostings.changed_archives import ProposalState

    settings = settings_from_environment()
    with open_tracker(settings) as tracker:
        with tracker.connect() as connection:
            chosen = _chosen(connection, zip_actions, source_id, everything=everything)
        decide_proposals(tracker, chosen, ProposalState.TURNED_DOWN, author=user_name(), reason=reason)
    text = f"Turned down {count_of(len(chosen), 'proposal')}. Their data stay."
    echo_result([str(proposal.key) for proposal in chosen], text, as_json=as_json)


def _chosen(
    connection: Connection, zip_actions: tuple[str, ...], source_id: int | None, *, everything: bool
) -> list[WithdrawalProposal]:
    """The selected open proposals, oldest archive first.

    Raises NotFoundError for one that is not open, and for an unknown file source.
    """
    from dcc.tracker.hostings.changed_archives import list_proposals

    if [bool(zip_actions), source_id is not None, everything].count(True) != 1:
        raise click.UsageError("Say which proposals: name archives, or give --source or --all.")
    _require_source(connection, source_id)
    found = list_proposals(connection, source=source_id)
    if not zip_actions:
        return found
    wanted = dict.fromkeys(map(parse_zip_key, zip_actions))
    known = {proposal.key for proposal in found}
    missing = [key for key in wanted if key not in known]
    if missing:
        raise NotFoundError(
            f"No withdrawal of {missing[0]} is proposed. See the open proposals: dcc data proposals. To withdraw it "
            f"anyway: dcc data undo {missing[0]} --reason ..."
        )
    return [proposal for proposal in found if proposal.key in wanted]
