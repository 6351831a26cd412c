"""`dcc data plan`, `confirm`, `undo`, `proposals`, `recheck`, `history`: what submissions change, and its reversal."""

from __future__ import annotations

import shlex
from itertools import islice
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import (
    ask_in_production,
    json_option,
    open_qc,
    open_tracker,
    options,
    parse_submission_key,
    reading_qc,
    reading_tracker,
    reason_option,
    settings_from_environment,
    user_name,
    yes_option,
)
from dcc.cli.shell.group import CommandGroup, command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_list, echo_result, echo_table, echo_wrapped, printable, wants_json
from dcc.cli.shell.parameter_types import ID
from dcc.cli.submissions.show import state_text
from dcc.errors import BuiltOnError, NotFoundError
from dcc.messages import count_of
from dcc.runtime.json_values import fields_of, json_ready
from dcc.vocabulary import WithdrawalProposalState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from dcc.data_outcomes import DocumentData, FindingEntry
    from dcc.session.data.document_plans import DocumentPlan
    from dcc.settings import Settings
    from dcc.tracker.hostings.missing_archives import WithdrawalProposal

_CHANGES_SHOWN = 20
_OF_ITS_OWN_VERSION = frozenset({"added", "edited", "refused"})
"""The happenings to the version of an entity that the document itself holds."""


@command(examples=["dcc data plan edit/H.2013-11-05.4.impc.zip"], exits={2: "no document of it waits for its upload"})
@click.argument("zip_action", metavar="ACTION/ZIP")
@click.option("--all-changes", is_flag=True, help=f"Print all that would change, not only {_CHANGES_SHOWN} of a kind.")
@json_option
def plan(zip_action: str, all_changes: bool) -> None:
    """Show what the submission ACTION/ZIP would change, without changing it.

    For documents that wait for their upload, such as held ones: each is applied by itself and taken back at once.

    \b
    JSON: a list, an object for each document: {"file_name", "state" (applied, refused),
      "held" (whether it waits to be confirmed), "repeated", "late", "said", "opened", "ended",
      "refused", "changed", "changes": [{"entity", "what", "old", "new"}], "removed": {entity:
      how many values}, "contexts": [{"centre", "pipeline", "colony_id", "strain_id",
      "procedure_id", "parameter_id"}], "findings": [{"rule", "severity", "message", "line"}]};
      `changed` counts the values, `changes` are the first 1,000 of them, those of removed entities
      too
    """
    from dcc.session.data.document_plans import plan_submission

    key, settings = parse_submission_key(zip_action), settings_from_environment()
    with open_tracker(settings) as tracker, open_qc(settings) as qc:
        plans = plan_submission(tracker, qc, settings, key)
    note_facts(held=zip_action if any(one.is_held(settings.hold_threshold) for one in plans) else None)
    if wants_json():
        echo_json([_plan_json(one, settings) for one in plans])
        return
    for one in plans:
        _print_plan(one, None if all_changes else _CHANGES_SHOWN)
        if one.is_held(settings.hold_threshold):
            turn_down = f"or turned down: dcc data undo {key} --reason ..."
            click.echo(f"  It waits to be confirmed: dcc data confirm {key} --reason ..., {turn_down}")


def _plan_json(planned: DocumentPlan, settings: Settings) -> dict[str, object]:
    would_be = planned.plan.would_be
    return {
        "file_name": planned.file_name,
        "held": planned.is_held(settings.hold_threshold),
        **fields_of(would_be, "state", "repeated", "late", "said", "opened", "ended", "refused"),
        "changed": planned.plan.changed,
        "changes": planned.plan.changes,
        "removed": planned.plan.removed,
        "contexts": sorted(planned.plan.contexts, key=str),
        "findings": [fields_of(found, "rule", "severity", "message", "line") for found in would_be.findings],
    }


def _print_plan(planned: DocumentPlan, limit: int | None) -> None:
    plan, would_be = planned.plan, planned.plan.would_be
    click.echo(click.style(printable(planned.file_name), bold=True))
    if would_be.repeated:
        click.echo("  It has been applied already and would change nothing.")
        return
    click.echo(f"  says                     {_counted(would_be.said)}")
    click.echo(f"  would bring in           {_counted(would_be.opened)}")
    click.echo(f"  would replace or remove  {_counted(would_be.ended)}")
    click.echo(f"  would touch              {count_of(len(plan.contexts), 'data context')}")
    if would_be.late:
        click.echo("  It comes late: newer documents of the centre were applied before.")
    _print_findings(would_be.findings, limit)
    for entity, values in islice(plan.removed.items(), limit):
        click.echo(f"  would remove {printable(entity)}: {count_of(values, 'value')}")
    _print_rest(len(plan.removed), limit, "entity")
    rest = [change for change in plan.changes if change.entity not in plan.removed]
    rows = [(change.entity, change.what, change.old, change.new) for change in rest[:limit]]
    if rows:
        echo_table(("entity", "value", "before", "after"), rows, indent="  ")
    _print_rest(plan.changed - sum(plan.removed.values()), len(rows), "value")


def _print_findings(findings: Sequence[FindingEntry], limit: int | None) -> None:
    for found in findings[:limit]:
        click.echo(f"  {click.style(f'{found.rule} {found.severity.value}', fg='red')}  {printable(found.message)}")
    _print_rest(len(findings), limit, "finding")


def _print_rest(number: int, shown: int | None, noun: str) -> None:
    if shown is not None and number > shown:
        click.echo(f"  ... and {count_of(number - shown, f'more {noun}')}.")


def _counted(counts: Mapping[str, int]) -> str:
    parts = [count_of(count, name.removesuffix("s")) for name, count in counts.items() if count]
    return ", ".join(parts) or "nothing"


@command(
    examples=['dcc data confirm delete/H.2013-11-06.5.impc.zip --reason "agreed with Harwell on 5 November"'],
    exits={1: "a document was refused", 2: "none is held, or an older archive of the centre comes first"},
)
@click.argument("zip_action", metavar="ACTION/ZIP")
@reason_option
@json_option
def confirm(zip_action: str, reason: str) -> None:
    """Confirm the held documents of ACTION/ZIP.

    An edit or delete that would change more than DCC_HOLD_THRESHOLD entities waits for your confirmation, and so does
    an addition with data of another centre than its archive's. Confirmed documents are applied at once; the next
    session checks them. `dcc data plan` shows first what they would change. An edit or delete of another centre's
    data is refused anyway, unless that centre delegates: see `dcc centre delegate`.

    \b
    JSON: a list, an object for each document: {"file_name", "phase", "status", "document_id", "said",
      "opened", "ended", "refused", "findings", "reason", ...}
    """
    from dcc.session.data.confirmations import confirm_submission, left_to_sessions

    key, settings = parse_submission_key(zip_action), settings_from_environment()
    with open_tracker(settings) as tracker, open_qc(settings) as qc:
        documents = confirm_submission(tracker, qc, settings, key, author=user_name(), reason=reason)
        others = [] if wants_json() else left_to_sessions(tracker, settings, key, documents)
    if wants_json():
        echo_json([_confirmed_json(document) for document in documents])
    else:
        for document in documents:
            state = state_text(document.phase.short_name, document.status.short_name)
            click.echo(f"{printable(document.file_name)}: {state}: replaced or removed {_counted(document.ended)}")
            _print_findings(document.findings, _CHANGES_SHOWN)
            if document.reason:
                click.echo(f"  {printable(document.reason)}")
        for name in others:
            echo_wrapped(f"{printable(name)}: not confirmed. The next session applies it, or holds it to be confirmed.")
        click.echo("The next session checks what they say: dcc crawl.")
    if any(document.status.name == "FAILED" for document in documents):
        raise click.exceptions.Exit(BuiltOnError.exit_code)


def _confirmed_json(document: DocumentData) -> dict[str, object]:
    counts = [
        {"rule": rule, "severity": severity, "count": count}
        for (rule, severity), count in document.finding_counts.items()
    ]
    return {**json_ready(document), "finding_counts": counts}


@command(
    examples=['dcc data undo add/H.2013-10-31.1.impc.zip --reason "wrong animals, says Harwell"'],
    exits={
        1: "a later document builds on it, or it has data of a centre that has not delegated, and nothing was changed",
        2: "nothing of it is applied or held",
    },
)
@click.argument("zip_action", metavar="ACTION/ZIP")
@reason_option
@yes_option
@json_option
def undo(zip_action: str, reason: str, yes: bool) -> None:
    """Withdraw all data of the submission ACTION/ZIP.

    Added data are removed, replaced or deleted data come back: all of them, or none if a later document builds on them.
    That document is named; withdraw it first. Held and waiting documents of the submission are turned down, too.
    Nothing is lost: you can still query the former data. To bring them back: dcc retry. Data of another centre than the
    archive's are withdrawn only if that centre delegates: see `dcc centre delegate`.

    \b
    JSON: {"withdrawn": [ids of documents], "undone_by": [ids], "builders": [{"document_id",
      "zip_action", "zip_file", "file_name", "why"}], "others": [codes], "declined": [{"centre",
      "file_name"}]}; others are centres other than the archive's whose data came or went with it,
      declined the documents held for such a centre's data
    """
    from dcc.session.data.withdrawals import withdraw_submission

    key, settings = parse_submission_key(zip_action), settings_from_environment()
    ask_in_production(f"Withdraw all data of {key}?", yes=yes)
    with open_tracker(settings) as tracker, open_qc(settings) as qc:
        undone = withdraw_submission(tracker, qc, settings, key, author=user_name(), reason=reason)
    if not undone.builders:
        text = (
            f"Withdrew {count_of(len(undone.withdrawn), 'document')} of {key}. The next session brings data contexts "
            "and overviews up to date: dcc crawl."
        )
        echo_result(undone, settings.labelled(text))
        return
    if wants_json():
        echo_json(undone)
        raise click.exceptions.Exit(BuiltOnError.exit_code)
    for builder in undone.builders[:_CHANGES_SHOWN]:
        name = f"{builder.zip_action}/{builder.zip_file}: {builder.file_name}"
        click.echo(f"{printable(name)}: {printable(builder.why)}", err=True)
    later, latest = len(undone.builders), undone.builders[-1]
    what, them = ("builds", "it first") if later == 1 else ("build", "them first, the latest before others")
    command = f"dcc data undo {shlex.quote(f'{latest.zip_action}/{latest.zip_file}')} --reason ..."
    raise BuiltOnError(
        f"{count_of(later, 'later document')} {what} on {key}; nothing was changed. Withdraw {them}: {command}"
    )


@command(
    examples=[
        'dcc data recheck --rule S4 --reason "colonies brought up to date"',
        'dcc data recheck --zip add/H.2013-10-31.1.impc.zip --reason "P10 is waived"',
        'dcc data recheck --all --reason "rules added"',
    ],
    exits={2: "no documents were selected"},
)
@click.option("--centre", metavar="CODE", help="Documents of this centre only.")
@click.option("--rule", metavar="ID", help="Documents with findings of this rule only.")
@click.option("--zip", "zip_actions", metavar="ACTION/ZIP", multiple=True, help="Of this submission; may be repeated.")
@click.option("--all", "everything", is_flag=True, help="All documents.")
@reason_option
@json_option
def recheck(centre: str | None, rule: str | None, zip_actions: tuple[str, ...], everything: bool, reason: str) -> None:
    """Let the next session check documents again.

    After a change of reference data, waivers or rules: with --all after a package with rules was installed, changed or
    removed. Documents whose errors no longer hold go on; nobody submits them again.
    Documents that wait for animals need no recheck: they are judged again when the animals arrive.

    JSON: {"documents", "keys"}: how many, and the submissions that they are of
    """
    from dcc.session.data.rechecks import recheck as set_back

    if not (centre or rule or zip_actions or everything):
        raise click.UsageError("Say which documents: --centre, --rule, --zip, or --all for all of them.")
    keys, settings = [parse_submission_key(text) for text in zip_actions] or None, settings_from_environment()
    with open_tracker(settings) as tracker, open_qc(settings) as qc:
        found = set_back(tracker, qc, settings, centre=centre, rule=rule, keys=keys, author=user_name(), reason=reason)
    documents, of = count_of(found.documents, "document"), count_of(len(found.keys), "submission")
    echo_result(
        {"documents": found.documents, "keys": [str(key) for key in found.keys]},
        f"{documents} of {of} will be checked again by the next session: dcc crawl.",
    )


@command(examples=["dcc data history --centre H --specimen H-M000001"], exits={2: "no document ever named it"})
@click.option("--centre", metavar="CODE", required=True, help="The centre that submitted the specimen.")
@click.option("--specimen", metavar="ID", required=True, help="The specimen's id, as the centre writes it.")
@json_option
def history(centre: str, specimen: str) -> None:
    """Show the story of one animal.

    What each document did to it and to its experiments, in the order of application.

    \b
    JSON: a list of {"document_id", "applied_at", "action", "zip_action", "zip_file", "file_name",
      "happening" (added, edited, deleted, withdrawn, restored, refused), "entity_kind",
      "entity_key", "entity_id", "line" (of the version, in the document that it stands in),
      "created", "late", "undoes", "author", "reason",
      "findings": [{"rule", "severity", "message", "line", "is_active", "closed_by"}]}
    """
    from dcc.qc.history import specimen_history

    with reading_qc() as connection:
        events = specimen_history(connection, centre, specimen)
    if not events:
        raise NotFoundError(
            f"No document of centre {centre!r} ever named a specimen {specimen!r}. Both are case-sensitive."
        )
    echo_list(
        events,
        "applied=applied_at, what, of, submission, document=file_name, line",
        flexible=["document", "of", "submission"],
        what=lambda event: f"{event.happening.value}{', late' if event.late else ''}",
        of=lambda event: " ".join((event.entity_kind.value, *filter(None, map(printable, event.entity_key[1:])))),
        submission=lambda event: f"{event.zip_action}/{event.zip_file}",
        # The version that a document ends or restores is in another document.
        line=lambda event: event.line if event.happening.value in _OF_ITS_OWN_VERSION else None,
    )
    if wants_json():
        return
    for event in events:
        for found in event.findings:
            gone = "" if found.is_active else " (no longer holds)"
            place = f"{event.file_name}, line {found.line}" if found.line else event.file_name
            echo_wrapped(f"  {printable(place)}: {found.rule} {found.severity}{gone}: {printable(found.message)}")
    for event in {event.document_id: event for event in events if event.author}.values():
        did = "confirmed" if event.undoes is None else "withdrawn"
        echo_wrapped(
            f"  {printable(event.applied_at)}  {printable(event.file_name)} {did} by {printable(event.author)}: "
            f"{printable(event.reason)}"
        )


_NONE_PROPOSED = "No withdrawal is proposed, and nothing was changed."


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    examples=["dcc data proposals", "dcc data proposals --source 3 --state all"],
)
@click.option("--source", "source_id", metavar="ID", type=ID, help="Only of this file source.")
@click.option("--centre", metavar="CODE", help="Only of archives of this centre.")
@click.option(
    "--state",
    type=click.Choice([*(state.value for state in WithdrawalProposalState), "all"]),
    default=WithdrawalProposalState.OPEN.value,
    show_default=True,
    help="Only of these.",
)
@json_option
@click.pass_context
def proposals(ctx: click.Context, source_id: int | None, centre: str | None, state: str) -> None:
    """List proposed withdrawals; accept them or turn them down.

    A crawl of a source with `--delta full` proposes to withdraw the data of each archive that the source no longer
    lists and no other source hosts. Nothing is withdrawn before you accept it. If the archive comes back, its proposal
    is closed.

    \b
    JSON: a list of {"zip", "centre", "source", "since" (not listed since then), "documents" (names of
      those that stood), "copies" (archives with the same documents that a source lists), "state"
      (open, accepted, turned_down, came_back), "created", "decided", "decided_by", "reason"}
    """
    if ctx.invoked_subcommand is not None:
        return
    from dcc.session.data.withdrawals import listed_copies
    from dcc.tracker.hostings.missing_archives import list_proposals
    from dcc.tracker.register.centres import require_centre

    states = tuple(WithdrawalProposalState) if state == "all" else (WithdrawalProposalState(state),)
    with reading_tracker() as connection, reading_qc() as qc:
        _require_source(connection, source_id)
        if centre is not None:
            require_centre(connection, centre)
        found = list_proposals(connection, states=states, source=source_id, centre=centre)
        copies = listed_copies(connection, qc, [proposal.key for proposal in found])
    names = ("centre", "source", "since", "documents", "state", "created", "decided", "decided_by", "reason")
    echo_list(
        [
            {"zip": str(one.key), **fields_of(one, *names), "copies": [str(copy) for copy in copies.get(one.key, ())]}
            for one in found
        ],
        "submission=zip, source, missing since=since, documents, listed as=copies, state, by=decided_by, reason",
        documents=lambda one: len(one["documents"]),
        copies=lambda one: ", ".join(one["copies"]),
        flexible=["reason", "by", "documents", "missing since", "listed as"],
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
@yes_option
def accept(zip_actions: tuple[str, ...], everything: bool, source_id: int | None, reason: str, yes: bool) -> None:
    """Withdraw the data of missing archives.

    Like `dcc data undo`, the newest archive first. A proposal stays open if a later document builds on the data, or if
    they belong to a centre that has not delegated. So does one whose documents a source lists in another archive.

    \b
    JSON: a list of {"zip", "withdrawn" (how many documents), "problem" (why it stays open, or null)}
    """
    from dcc.session.data.withdrawals import accept_proposals

    settings = settings_from_environment()
    with open_tracker(settings) as tracker, open_qc(settings) as qc:
        with tracker.connect() as connection:
            chosen = _chosen(connection, zip_actions, source_id, everything=everything)
        if chosen:
            ask_in_production(f"Withdraw all data of {count_of(len(chosen), 'archive')}?", yes=yes)
        decided = accept_proposals(tracker, qc, settings, chosen, author=user_name(), reason=reason)
    left = [one for one in decided if one.problem is not None]
    documents = count_of(sum(one.withdrawn for one in decided), "document")
    text = (
        f"Withdrew {documents} of {count_of(len(decided) - len(left), 'archive')}. The next session brings data "
        "contexts and overviews up to date: dcc crawl."
        if chosen
        else _NONE_PROPOSED
    )
    made = [{"zip": str(one.proposal.key), **fields_of(one, "withdrawn", "problem")} for one in decided]
    echo_result(made, settings.labelled(text))
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
def turn_down(zip_actions: tuple[str, ...], everything: bool, source_id: int | None, reason: str) -> None:
    """Keep the data of missing archives.

    The withdrawal is not proposed again, unless the archive comes back and disappears once more.

    JSON: a list of the submissions
    """
    from dcc.session.data.withdrawals import decide_proposals

    settings = settings_from_environment()
    with open_tracker(settings) as tracker:
        with tracker.connect() as connection:
            chosen = _chosen(connection, zip_actions, source_id, everything=everything)
        decide_proposals(tracker, chosen, WithdrawalProposalState.TURNED_DOWN, author=user_name(), reason=reason)
    text = f"Turned down {count_of(len(chosen), 'proposal')}. Their data stay." if chosen else _NONE_PROPOSED
    echo_result([str(proposal.key) for proposal in chosen], settings.labelled(text))


def _chosen(
    connection: Connection, zip_actions: tuple[str, ...], source_id: int | None, *, everything: bool
) -> list[WithdrawalProposal]:
    """The selected open proposals, oldest archive first.

    Raises NotFoundError for one that is not open, and for an unknown file source.
    """
    from dcc.tracker.hostings.missing_archives import list_proposals

    if [bool(zip_actions), source_id is not None, everything].count(True) != 1:
        raise click.UsageError("Say which proposals: name archives, or give --source or --all.")
    _require_source(connection, source_id)
    found = list_proposals(connection, source=source_id)
    if not zip_actions:
        return found
    wanted = dict.fromkeys(map(parse_submission_key, zip_actions))
    known = {proposal.key for proposal in found}
    missing = [key for key in wanted if key not in known]
    if missing:
        raise NotFoundError(
            f"No withdrawal of {missing[0]} is proposed. See the open proposals: dcc data proposals. To withdraw it "
            f"anyway: dcc data undo {missing[0]} --reason ..."
        )
    return [proposal for proposal in found if proposal.key in wanted]
