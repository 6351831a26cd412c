"""`dcc crawl` and `dcc retry`: run a crawling session, or process submissions again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import click

from dcc.cli.sessions.session_output import SessionDisplay, SessionOutput, problem_lines, session_display
from dcc.cli.shell.context import (
    json_option,
    open_tracker,
    options,
    parse_submission_key,
    settings_from_environment,
    user_name,
)
from dcc.cli.shell.dagster_side import dagster_side
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, expected_text, printable, wants_json, warn
from dcc.cli.shell.parameter_types import ID
from dcc.cli.submissions.decisions import left_out_lines, print_chosen
from dcc.cli.submissions.notifications import notifying_tracker_outage
from dcc.cli.submissions.selection import ask_before_many, bulk_options, selection_of
from dcc.errors import (
    DagsterStorageError,
    DagsterUnreachableError,
    DatabaseUnreachableError,
    SessionActiveError,
    SessionTimeLimitError,
)
from dcc.phases import LastPhase
from dcc.runtime.interrupts import interrupted_by_sigterm
from dcc.session.session_request import SessionRequest

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from dcc.outcomes import SubmissionKey
    from dcc.settings import Settings

_session_options = options(
    click.option(
        "--downloaders", type=click.IntRange(1, 64), help="Downloads under way at once. [DCC_DOWNLOADERS, else 8]"
    ),
    click.option(
        "--workers", type=click.IntRange(1, 64), help="Archives and documents checked at once. [DCC_WORKERS, else 2]"
    ),
    click.option(
        "--max-retries",
        type=click.IntRange(0, 20),
        help="Further tries at a file source that fails. [DCC_MAX_RETRIES, else 1]",
    ),
    click.option(
        "--until",
        type=click.Choice(get_args(LastPhase)),
        help="The phase to go on to: zip_name crawls only, xsd also downloads and validates. [DCC_UNTIL, else qc]",
    ),
    json_option,
)
"""The options of a command that runs a session: settings for it alone, and --json."""


@command(
    examples=[
        "dcc crawl",
        "dcc crawl --urgent add/H.2013-10-31.1.impc.zip",
        "dcc crawl --source 3 --downloaders 8",
        "dcc crawl --until xsd",
    ],
    exits={
        0: "the session finished (see `dcc session list`) and all is well",
        1: "it finished; a submission failed, stays failed or waits for confirmation, a name was refused, an archive "
        "changed, or a set of reference data was refused",
        3: "",
        4: "it ended by faults (a source, a database, a required replica of the archive store or a server of reference "
        "data is away), by a full disk or by its time limit: the next session continues",
    },
)
@click.option(
    "--source", "source_ids", type=ID, multiple=True, metavar="ID", help="Crawl this source only; may be repeated."
)
@click.option("--all", "everything", is_flag=True, help="Crawl every available source that is not paused, due or not.")
@click.option("--group", metavar="GROUP", help="A session of this group of centres only. [DCC_GROUPS]")
@click.option("--urgent", is_flag=True, help="Process only ACTION/ZIP, before all others; else name none.")
@click.argument("zip_actions", metavar="[ACTION/ZIP]...", nargs=-1)
@_session_options
@click.pass_context
def crawl(
    ctx: click.Context,
    /,
    zip_actions: tuple[str, ...],
    urgent: bool,
    source_ids: tuple[int, ...],
    everything: bool,
    group: str | None,
    **overrides: Any,
) -> None:
    """Collect, check and load new archives: a crawling session.

    All available sources of active centres that are due are listed at once; one that is down does not delay the others.
    Then all waiting submissions, and those of interrupted sessions, are downloaded, extracted and validated. Then the
    valid documents are uploaded to the QC database one after the other. The integrity rules check their content, and
    the data contexts and overviews for quality control are built. The Dagster UI shows all of it.

    --source restricts which sources are listed, due or not; all waiting submissions are processed anyway. --group
    restricts the session to some centres: it lists their sources and processes their archives only. Sessions of two
    groups run at once; one of all centres runs alone.

    --urgent is for archives that are wanted before all others, which wait for the next session. While another session
    runs, the command records the wish and ends: that session fetches them next, or the next session does. An archive
    still waits for older ones of its centre before its data are loaded.

    \b
    JSON: an object with
      session      the session's id, null where none ran
      outcome      why it ended: see `dcc session list`
      notices      sentences on sessions before it, such as one that had died, and on where its
                   report was sent, and why it broke off or none ran
      seconds      how long it took
      sources      a list of {"id", "label", "centre", "outcome" (ok, partial, failed),
                   "error": null or {"kind", "message"}, "listed", "new", "known", "changed",
                   "refused", "ignored", "gone", "seconds"}
      zip_actions, xml_files  of what was processed: lists of {"phase", "status", "count"}
      data         what was uploaded: {"specimens", "experiments", "lines", "housings",
                   "measurements"}
      contexts     how the data contexts changed: {"added", "changed", "removed"}
      notes        what nobody has to mend: a list of {"zip", "document", "kind", "message"},
                   of kind `late` (a document that came after newer ones), `healed` (findings
                   of earlier sessions hold no more), `listing` (an archive is being uploaded, is
                   taken again, or is gone) or `waits` (for an older archive), null where it has
                   none
      problems     a list of {"source", "zip", "document", "phase", "kind", "message", "line",
                   "column", "errors"}, null where it has none; of a document the first error,
                   `errors` says how many it has; of kind `held` documents to be confirmed,
                   of kind `unmended` a submission of which documents were judged again while
                   others, told of by an earlier session, keep it failed
    """
    from dcc.databases.transactions import run_reading
    from dcc.operations.crawl_requests import request_urgent, sources_to_crawl
    from dcc.tracker.hostings.urgent_requests import urgent_keys
    from dcc.tracker.queries.waiting_work import all_of, expected_work, waiting_submissions

    _check_use(zip_actions, urgent=urgent, sources=bool(source_ids), group=group, everything=everything)
    keys = list(dict.fromkeys(parse_submission_key(text) for text in zip_actions))
    settings = settings_from_environment(**overrides)
    with notifying_tracker_outage(settings), open_tracker(settings) as tracker:
        if keys:
            wish = request_urgent(tracker, settings, keys, user_name())
            left = [
                f"{key} does not wait for its download. See `dcc show {key}`, or process it again: dcc retry {key}"
                for key in wish.not_waiting
            ]
            for line in left:
                warn(line)
            keys, source_ids = wish.wanted, source_ids or tuple(wish.source_ids)
            if not keys:
                _print_without_session(left)
                return
        crawlable = sources_to_crawl(tracker, settings, source_ids, group=group, even_if_not_due=everything)
        wanted = crawlable if everything else list(source_ids) or None
        if not crawlable:
            of_group = " of this group" if group else ""
            due, others = ("there", "") if everything else ("due", "; `dcc crawl --all` crawls those that are not due")
            warn(
                f"No available file source of an active centre{of_group} is {due}. See `dcc source list` and "
                f"`dcc centre list`{others}; `dcc source resume` ends a pause; `dcc source add` asks for one."
            )
        shown = session_display(
            len(crawlable),
            lambda: len(run_reading(tracker, waiting_submissions)),
            lambda: expected_text(all_of(run_reading(tracker, expected_work).values())),
        )
        request = SessionRequest(group=group, source_ids=wanted, urgent=frozenset(keys), requested_by=user_name())
        try:
            exit_code = _show_session(shown, tracker, settings, request)
        except SessionActiveError as error:
            if not keys:
                raise
            recorded = f"{error} It, or the next session, fetches first what you named."
            warn(recorded)
            _print_without_session([recorded])
            return
        waiting = set(run_reading(tracker, urgent_keys)) if keys else set()
        for key in filter(waiting.__contains__, keys):
            warn(f"{key} could not be fetched yet. The next session that finds it fetches it first.")
    ctx.exit(exit_code)


def _check_use(zip_actions: Sequence[str], *, urgent: bool, sources: bool, group: str | None, everything: bool) -> None:
    """Raise UsageError for arguments and options of a crawl that do not go together."""
    if (group is not None) + sources + everything > 1:
        raise click.UsageError("--source, --group and --all exclude each other: give one of them.")
    if zip_actions and not urgent:
        raise click.UsageError(
            f"A crawl takes all submissions that wait. To process {zip_actions[0]} before all others, add --urgent; to "
            f"process it again: dcc retry {zip_actions[0]}"
        )
    if urgent and (not zip_actions or group or everything):
        raise click.UsageError("--urgent takes the archives to process first, and neither --group nor --all.")


@command(
    examples=["dcc retry add/H.2013-10-31.1.impc.zip", "dcc retry --centre H --code schema-violation --dry-run"],
    exits={
        1: "it failed again, or its name is refused",
        2: "it has changed since its data were uploaded (`dcc data undo` withdraws these), or no available source "
        "hosts it",
        3: "",
        4: "the session did not finish: see `dcc crawl`",
    },
)
@bulk_options
@_session_options
@click.pass_context
def retry(
    ctx: click.Context,
    /,
    zip_actions: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    downloaders: int | None,
    workers: int | None,
    max_retries: int | None,
    until: str | None,
    **filters: Any,
) -> None:
    """Process the submission ACTION/ZIP again, at once.

    From the download on. It is opened again, which the tracker records with your user name; its former results stay on
    record. The copy in staging is used if the source's listing has not changed. If the archive cannot be fetched,
    nothing changes.

    Filters select submissions that failed, were cancelled or are in quarantine. With these, and with --file, those that
    cannot be processed again are left out.

    JSON: as of `dcc crawl`; with --dry-run as of `dcc hold`.
    """
    settings = settings_from_environment(downloaders=downloaders, workers=workers, max_retries=max_retries, until=until)
    with notifying_tracker_outage(settings), open_tracker(settings) as tracker:
        keys = _keys_to_retry(tracker, zip_actions, filters, dry_run=dry_run, yes=yes)
        if not keys:
            return
        request = SessionRequest(keys=keys, requested_by=user_name())
        exit_code = _show_session(session_display(0, len(keys)), tracker, settings, request)
    ctx.exit(exit_code)


def _keys_to_retry(
    tracker: Engine, zip_actions: Sequence[str], filters: dict[str, Any], *, dry_run: bool, yes: bool
) -> list[SubmissionKey]:
    """The submissions to process again; none with --dry-run, which prints them."""
    from dcc.tracker.hostings.retries import why_not_retriable
    from dcc.tracker.queries.submission_lists import select_submissions

    by_name = list(dict.fromkeys(map(parse_submission_key, zip_actions)))
    if by_name and not (dry_run or any(filters.values())):
        return by_name
    criteria, names = selection_of([str(key) for key in by_name], **filters)
    with tracker.connect() as connection:
        chosen = select_submissions(connection, criteria, names)
        refused = why_not_retriable(connection, [submission.key for submission in chosen])
    if names is None:
        refused = {one.key: "neither failed nor cancelled" for one in chosen if not one.is_stopped} | refused
    taken = [one for one in chosen if one.key not in refused]
    left_out = [(one, refused[one.key]) for one in chosen if one.key in refused]
    if wants_json() and not (dry_run or taken):
        _print_without_session(left_out_lines(left_out))
        return []
    if dry_run or not taken:
        print_chosen("processed again", taken, left_out, dry_run=dry_run)
        return []
    ask_before_many(taken, "processed again", yes=yes)
    for line in left_out_lines(left_out):
        warn(line)
    return [submission.key for submission in taken]


def _print_without_session(notices: Sequence[str]) -> None:
    """With --json, print the report of a command that ran no session, and why."""
    if wants_json():
        echo_json(SessionOutput().as_json(*notices))


def _show_session(
    shown: AbstractContextManager[SessionDisplay], tracker: Engine, settings: Settings, request: SessionRequest
) -> int:
    """Run a session and print its results, even if a database then stays away; returns the exit code."""
    with ExitStack() as stack:
        stack.enter_context(interrupted_by_sigterm())
        display = stack.enter_context(shown)
        try:
            run_session(tracker, settings, replace(request, listeners=display.listeners()))
        except (DatabaseUnreachableError, SessionTimeLimitError) as error:
            stack.close()
            if display.report.session is not None:
                _conclude(display.report, f"The session broke off: {error}")
            raise
    return _conclude(display.report)


def _conclude(report: SessionOutput, *broken_off: str) -> int:
    """Print the results of a session; returns the exit code."""
    unmended = report.conclude()
    note_facts(
        problem=next((problem["zip"] for problem in report.problems if problem["zip"]), None),
        down=next((crawl["id"] for crawl in report.crawls if crawl["error"]), None),
    )
    if wants_json():
        echo_json(report.as_json(*broken_off))
    elif report.session is not None:
        for line in (*problem_lines(unmended), *report.waiting_lines(), *map(printable, report.session.notices)):
            click.echo(line)
        click.echo(report.line(report.session))
    return report.exit_code()


def run_session(tracker: Engine, settings: Settings, request: SessionRequest) -> None:
    """Run one complete session in this process.

    It runs in Dagster, and without it if that is not wanted or its database is away: the tracker has the work.

    Raises SessionActiveError, SessionLostError, DatabaseUnreachableError, DatabaseOutdatedError, InternalFaultError,
    and, after everything is done, DagsterStorageError. Of its `keys`, raises NotFoundError for one that is unknown or
    not hosted, BadFileNameError for a refused name, and ConfigurationError for one that changed after its data were
    uploaded. These leave no session behind, except for changes at the same moment.
    """
    from dcc.databases.transactions import run_reading
    from dcc.operations.session_work import open_work
    from dcc.tracker.hostings.retries import require_retriable

    if (keys := request.keys) is not None:
        # A session that broke off counts as an outage, of which people are notified; a wrong name does not.
        run_reading(tracker, lambda connection: require_retriable(connection, keys))
    away: DagsterUnreachableError | None = None
    if settings.dagster_events:
        try:
            opened = dagster_side().open_instance(settings)
        except DagsterUnreachableError as error:
            away = error
        else:
            with opened as instance:
                dagster_side().run_session(settings, tracker, instance, request)
            return
    with open_work(tracker, settings, request) as work:
        work.finish()
    if away is not None:
        raise DagsterStorageError(
            f"Session {work.session.id} is done and in the tracker, but Dagster was not shown it: {away} The next "
            "session shows it, or all at once: dcc instance rebuild."
        ) from away
