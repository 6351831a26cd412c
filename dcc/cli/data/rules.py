"""`dcc rules`, `dcc reference` and `dcc replay`: what data are judged by, and what proposals would change."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import (
    json_option,
    open_qc,
    open_tracker,
    reading_qc,
    reason_option,
    require_centres,
    settings_from_environment,
    user_name,
)
from dcc.cli.shell.dagster_side import dagster_side
from dcc.cli.shell.group import CommandGroup, command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import (
    echo_json,
    echo_list,
    echo_result,
    fields_of,
    printable,
    progress_shown,
    wants_json,
    warn,
)
from dcc.cli.shell.parameter_types import DAY, ID
from dcc.errors import ConfigurationError
from dcc.messages import count_of
from dcc.vocabulary import WaiverEffect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from dcc.qc.judging.waiver_store import WaiverEntry
    from dcc.replay.verdicts import Replay
    from dcc.rules.waivers import Waiver


@click.group(cls=CommandGroup)
def rules() -> None:
    """List the data-integrity rules; waive and restore them.

    A rule that is waived, or lowered to a warning, stops no document. The waiver's author, time, reason and duration
    stay on record.
    """


@rules.command("list", offline=True)
@json_option
def list_rules() -> None:
    """List the rules that data must satisfy.

    Needs no database: the rules are those of this version. A finding may be milder than its rule usually is.

    \b
    JSON: a list of {"id", "severity" (unchecked, warning, error, fatal), "demand", "known_as",
      "needs", "at_upload"}; known_as are the ids of the existing validator, needs the names
      of the reference data without which the rule is skipped
    """
    from dcc.rules.catalogue import CATALOGUE

    echo_list(
        list(CATALOGUE.values()),
        "id, severity, needs, demand",
        needs=lambda rule: ", ".join(rule.needs),
        flexible=["demand"],
    )


@rules.command(examples=['dcc rules waive P10 --centre H --until 2027-03-31 --reason "new options are on their way"'])
@click.argument("rule")
@reason_option
@click.option("--centre", help="For the data of one centre only, by its ILAR code.")
@click.option("--procedure", help="For one procedure only, by its IMPReSS key with the version.")
@click.option("--from", "valid_from", type=DAY, help="First day on which it holds; today by default.")
@click.option("--until", "valid_until", type=DAY, help="Last day on which it holds; without end by default.")
@click.option("--warn", is_flag=True, help="Have the rule warn instead of waiving it wholly.")
@json_option
def waive(
    rule: str,
    reason: str,
    centre: str | None,
    procedure: str | None,
    valid_from: date | None,
    valid_until: date | None,
    warn: bool,
) -> None:
    """Waive RULE, or lower it to a warning.

    It holds for documents that are judged from then on. The next session after its beginning judges earlier ones again.

    JSON: the waiver, as one of `dcc rules waivers --json`.
    """
    from dcc.databases.columns import utc_now
    from dcc.databases.transactions import writing
    from dcc.qc.judging.waiver_store import add_waiver
    from dcc.rules.waivers import Waiver

    today = utc_now().date()
    effect = WaiverEffect.WARN if warn else WaiverEffect.WAIVE
    first, last = valid_from or today, valid_until
    waiver = Waiver(rule, effect, reason, user_name(), first, last, centre, procedure)
    settings = settings_from_environment()
    require_centres(settings, centre)
    with open_qc(settings) as qc, writing(qc) as connection:
        waiver_id = add_waiver(connection, waiver, today)
        told = f"Waiver {waiver_id}: rule {rule} {'only warns' if warn else 'is waived'}"
        entry, concerned = _entry(connection, waiver_id, today), _to_change(connection, waiver)
    echo_result(entry, f"{told} {_scope(entry)}.", concerned)


@rules.command()
@click.option("--all", "include_ended", is_flag=True, help="Also those that are over or revoked.")
@json_option
def waivers(include_ended: bool) -> None:
    """List present and future waivers.

    \b
    JSON: a list of {"id", "rule", "centre", "procedure", "effect" (waive, warn), "valid_from",
      "valid_until", "state" (in force, to come, expired, revoked), "reason", "author",
      "created", "revoked", "revoked_by", "revoked_reason", "findings"}; null centre and
      procedure mean all; findings counts those it decided when documents were last judged
    """
    from dcc.databases.columns import utc_now
    from dcc.qc.judging.waiver_store import list_waivers

    with reading_qc() as connection:
        entries = list_waivers(connection, utc_now().date(), include_ended=include_ended)
    echo_list(
        entries,
        "id, rule, effect, centre, procedure, from=valid_from, until=valid_until, state, findings, author, reason",
        centre=lambda one: one.centre or "all",
        procedure=lambda one: one.procedure or "all",
        reason=lambda one: f"{one.reason} (revoked: {one.revoked_reason})" if one.revoked_reason else one.reason,
        flexible=["reason", "effect", "author", "findings", "procedure", "from", "until"],
        none="No rule is waived.",
    )


@rules.command(examples=['dcc rules revoke 3 --reason "the options are there"'])
@click.argument("waiver_id", metavar="ID", type=ID)
@reason_option
@json_option
def revoke(waiver_id: int, reason: str) -> None:
    """End the waiver ID at once.

    It stays on record. The next session judges the documents that it affected again.

    JSON: the waiver, as one of `dcc rules waivers --json`.
    """
    from dcc.databases.columns import utc_now
    from dcc.databases.transactions import writing
    from dcc.qc.judging.waiver_store import revoke_waiver

    with open_qc(settings_from_environment()) as qc, writing(qc) as connection:
        revoked = revoke_waiver(connection, waiver_id, author=user_name(), reason=reason)
        entry, concerned = _entry(connection, waiver_id, utc_now().date()), _to_change(connection, revoked)
    echo_result(entry, f"Waiver {waiver_id} of rule {revoked.rule} is revoked.", concerned)


def _entry(connection: Connection, waiver_id: int, today: date) -> WaiverEntry:
    from dcc.qc.judging.waiver_store import list_waivers

    return next(entry for entry in list_waivers(connection, today, include_ended=True) if entry.id == waiver_id)


def _scope(entry: WaiverEntry) -> str:
    where = [f"at centre {entry.centre}"] if entry.centre else ["at all centres"]
    where += [f"in procedure {entry.procedure}"] if entry.procedure else []
    until = f"until {entry.valid_until}" if entry.valid_until else "without end"
    return f"{' '.join(where)} from {entry.valid_from} {until}"


def _to_change(connection: Connection, waiver: Waiver) -> str:
    """What becomes of the judged documents with findings that a waiver covers."""
    from dcc.qc.judging.rejudging import documents_of_waiver

    documents = len(documents_of_waiver(connection, waiver))
    if documents == 0:
        return "No document that was judged before has findings of it."
    return f"{count_of(documents, 'document')} judged before may change, with the next session."


_PROBLEMS = 1
_UNREACHABLE = 4


@click.group(cls=CommandGroup)
def reference() -> None:
    """List and refresh the reference data that rules use.

    The sets are impress, status_codes, projects, colonies and strains. DCC_REFERENCE_IMPRESS and so on name the source
    of each; without it, a small shipped set is used, enough for the demo.
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
    from dcc.databases.columns import utc_now
    from dcc.qc.reference.refresh import freshness

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

    The sets NAME, or all of them. If a set cannot be read, the one before stays in use, and the others are read
    anyway. Servers send only what has changed. The next session judges documents with findings by the old data again;
    `dcc data recheck` adds others.

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


_SHOWN = 20


@command(
    examples=[
        "dcc replay --xsd schemas-2.0",
        "dcc replay --reference impress=https://api.mousephenotype.org/impress --centre H",
        "dcc replay --rules proposed_rules.py --since 2026-01-01 --page replay.html",
    ],
    exits={
        2: "the proposal cannot be used",
        4: "a source of reference data, the archive store or a database cannot be reached",
    },
)
@click.option("--xsd", type=click.Path(path_type=Path), metavar="DIR", help="Folder with the proposed schemas.")
@click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="NAME=SOURCE",
    help="A proposed set of reference data: its name, and a file, a folder or a URL; may be repeated.",
)
@click.option(
    "--rules",
    metavar="MODULE",
    help="A module with proposed rules: its file or folder, or its name where it is installed, also on workers.",
)
@click.option("--centre", multiple=True, metavar="CODE", help="Only archives of this centre; repeatable.")
@click.option("--since", type=DAY, help="Only archives whose names have this date or later.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    help="Processes of this machine, or jobs of Kubernetes, at once; DCC_WORKERS or DCC_K8S_JOBS by default.",
)
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a page to FILE.")
@click.option(
    "--limit", type=click.IntRange(0, 1_000_000), default=_SHOWN, show_default=True, help="Lines of each table; 0: all."
)
@json_option
def replay(
    xsd: Path | None,
    references: tuple[str, ...],
    rules: str | None,
    centre: tuple[str, ...],
    since: date | None,
    workers: int | None,
    page: Path | None,
    limit: int,
) -> None:
    """Show what proposed schemas, reference data or rules would change.

    Judges the archives in the archive store again under the proposal, beside their present verdicts, and changes
    nothing. Without a proposal it shows what would be judged differently today. With DCC_EXECUTOR other than
    in_process, workers prepare the archives, and this machine does what they leave. A module with proposed rules runs
    on all of them, and its file or folder is sent there: use only modules that you trust.

    \b
    JSON: {"proposal", "archives", "documents", "unjudged" (documents without a present verdict),
      "missing" (archives that are not kept),
      "centres": [{"centre", "documents", "gained", "lost", "otherwise"}],
      "causes": [{"code", "severity", "cause", "appears", "goes", "verdicts"}],
      "changes": [{"archive", "document", "centre", "before", "after",
        "appeared": [{"code", "severity", "line", "message"}], "gone": [the same]}]}
    """
    from dcc.replay.replaying import Proposal
    from dcc.replay.replaying import replay as replay_archives
    from dcc.runtime.interrupts import interrupted_by_sigterm
    from dcc.settings.workers import ExecutorKind

    proposal = Proposal(xsd, dict(map(_reference, references)), rules)
    settings = settings_from_environment(workers=workers, k8s_jobs=workers)
    require_centres(settings, *centre)
    with open_tracker(settings) as tracker, open_qc(settings) as qc, interrupted_by_sigterm(), progress_shown() as show:
        found = replay_archives(
            tracker,
            qc,
            settings,
            proposal,
            centres=centre,
            since=since,
            workers=None if settings.executor is ExecutorKind.IN_PROCESS else dagster_side().workers_of(settings),
            on_progress=lambda done, of: show("Preparing archives", done, of),
        )
    note_facts(unwritten=page is None)
    if page is not None:
        from dcc.reports.languages import load_catalogue
        from dcc.reports.submissions.page import render_replay
        from dcc.reports.submissions.stored_reports import write_page

        write_page(page.absolute(), render_replay(found, load_catalogue(None, settings), settings))
        click.echo(f"Wrote {page}.", err=True)
    if wants_json():
        echo_json(_as_json(found))
    else:
        _print(found, limit or None)


def _reference(text: str) -> tuple[str, str]:
    name, equals, source = text.partition("=")
    if not equals or not source:
        raise ConfigurationError(f"--reference {text} has no source. Write NAME=SOURCE, such as colonies=colonies.csv.")
    return name, source


def _print(found: Replay, most: int | None) -> None:
    verdicts = [change for change in found.changes if change.is_verdict]
    click.echo(
        f"{count_of(found.archives, 'archive')}, {count_of(sum(found.documents.values()), 'document')}: "
        f"{count_of(len(verdicts), 'verdict')} would change, and the findings in "
        f"{count_of(len(found.changes) - len(verdicts), 'other document')}."
    )
    echo_list(
        found.centres, "centre, documents, no longer accepted=lost, newly accepted=gained, other changes=otherwise"
    )
    causes = found.causes
    columns = "rule=code, severity, appears in=appears, goes from=goes, verdicts, cause"
    echo_list(causes[:most], columns, flexible=["cause"])
    echo_list(
        verdicts[:most],
        "archive, document, before, after",
        archive=lambda change: change.document.archive,
        document=lambda change: change.document.file_name,
    )
    if most is not None and max(len(causes), len(verdicts)) > most:
        click.echo(f"Of causes and documents the first {most} are shown; --limit 0 prints all.")
    if found.unjudged:
        warn(f"{count_of(found.unjudged, 'document')} without a verdict yet: they wait, are held or were withdrawn.")
    if found.missing:
        first = printable(found.missing[0])
        warn(f"{count_of(len(found.missing), 'archive')} not kept any more were left out, such as {first}.")


def _as_json(found: Replay) -> dict[str, object]:
    finding = ("code", "severity", "line", "message")
    return {
        **fields_of(found, "proposal", "archives", "unjudged", "centres", "causes"),
        "documents": sum(found.documents.values()),
        "missing": [str(key) for key in found.missing],
        "changes": [
            {
                "archive": str(change.document.archive),
                "document": change.document.file_name,
                **fields_of(change, "centre", "before", "after"),
                "appeared": [fields_of(one, *finding) for one in change.appeared],
                "gone": [fields_of(one, *finding) for one in change.gone],
            }
            for change in found.changes
        ],
    }
