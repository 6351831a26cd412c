"""`dcc report` and `dcc notify`: what becomes of submissions, for centres and wranglers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, open_tracker, parse_zip_key, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import (
    echo_json,
    echo_list,
    echo_result,
    fields_of,
    printable,
    terminal_width,
    wants_json,
    warn,
)
from dcc.cli.shell.parameter_types import ID
from dcc.errors import ConfigurationError, ExportError, TrackerUnreachableError
from dcc.messages import count_of

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from dcc.reports.causes.collecting import Subject
    from dcc.settings import Settings

_FILE = click.Path(dir_okay=False, path_type=Path)


@command(
    examples=[
        "dcc report add/H.2013-10-31.1.impc.zip",
        "dcc report add/H.2013-10-31.1.impc.zip --html report.html --spreadsheet findings.xlsx",
        "dcc report --centre H --html harwell.html --language de",
    ]
)
@click.argument("zip_action", metavar="[ACTION/ZIP]", required=False)
@click.option("--centre", metavar="CODE", help="Of all that this centre has submitted.")
@click.option("--session", type=ID, metavar="N", help="Of this crawling session.")
@click.option("--html", type=_FILE, metavar="FILE", help="Write the page to FILE; - is standard output.")
@click.option("--spreadsheet", type=_FILE, metavar="FILE", help="Write every finding and error to FILE (.xlsx).")
@click.option("--language", metavar="CODE", help="Language, such as de. [DCC_LANGUAGE, or the centre's]")
@click.option("--pictures", type=click.IntRange(0, 50), default=6, show_default=True, help="Pictures in the page.")
@json_option
def report(
    zip_action: str | None,
    centre: str | None,
    session: int | None,
    html: Path | None,
    spreadsheet: Path | None,
    language: str | None,
    pictures: int,
) -> None:
    """Report to a centre what happened to its submissions.

    What arrived, what happened to each document, what to correct and who acts, what was accepted: of the submission
    ACTION/ZIP, of all of a centre, or of a session. In words for the data managers of centres. On the terminal in
    short; --html writes a self-contained page to read, mail or print, --spreadsheet a sheet with every finding.

    \b
    JSON: an object with "kind" (submission, centre, session), "language", "made" and, of a submission,
      zip, action, file_name, centre, centre_name, phase, status, size_bytes, md5, created, inc
      outcome, tone, headline, explanation, who_acts, next   what became of it, in words
      changed     when a crawl noticed that the archive has changed since it was loaded, or null
      hosts, attempts, reasons      where it is, the attempts to fetch it, why it failed as a whole
      documents   each with "phase", "status", "steps", "errors", "warnings", "held", "late",
                  "repeated" and "counts"; documents_total, documents_failed, document_states
      causes      the worst first: {"key", "kind", "subject", "acts", "severity", "title", "remedy",
                  "findings", "documents", "clears", "example", ...}; causes_total, findings_total
      accepted    null, or {"entities", "procedures", "contexts", "measurements", ...}
      pictures    {"name", "title", "caption", "rule", "alt", "outliers"}
    of a centre or session
      outcomes, states, zips, sources, causes   with what each source's last crawl did not take
    of a session also
      sections    what failed, waits, is held, came late, was noticed or is left alone: {"kind",
                  "notes", "total"}
      document_states, sources_in_trouble, proposals, seconds (by phase), failed_step, task_errors
    Lists are bounded; beside each is the number of all.
    """
    from dcc.reports.causes.collecting import causes_of, scope_of
    from dcc.reports.languages import load_catalogue
    from dcc.reports.submissions.collecting import collect_report, language_of
    from dcc.reports.submissions.page import render_html
    from dcc.reports.submissions.plain_text import WIDTH, render_text
    from dcc.reports.submissions.stored_reports import json_text, qc_at_hand, write_page

    subject = _subject(zip_action, centre, session)
    if wants_json() and html is not None and str(html) == "-":
        raise ConfigurationError("The page and JSON cannot both go to standard output. Name a file with --html.")
    settings = settings_from_environment()
    if html and pictures and find_spec("matplotlib") is None:
        warn("The page has no pictures: these need the whole platform, `pip install 'dcc[platform]'`.")
        pictures = 0
    with open_tracker(settings) as engine, engine.connect() as tracker, qc_at_hand(settings) as (qc, missing):
        catalogue = load_catalogue(language or language_of(tracker, subject), settings)
        limit = pictures if html else 0
        found = collect_report(
            tracker, qc, subject, settings, catalogue=catalogue, max_pictures=limit, qc_missing=missing
        )
        if html is not None:
            page = render_html(found, catalogue, settings)
            if str(html) == "-":
                click.echo(page, nl=False)
            else:
                write_page(_place(html), page)
                click.echo(f"Wrote {html}.", err=True)
        if spreadsheet is not None:
            from dcc.reports.causes.spreadsheet import write_findings_spreadsheet

            causes, scope = causes_of(tracker, qc, subject, settings, limit=None), scope_of(tracker, subject)
            written = write_findings_spreadsheet(_place(spreadsheet), tracker, qc, scope, causes, catalogue)
            click.echo(f"Wrote {spreadsheet}: {count_of(written.findings, 'finding')}.", err=True)
        if wants_json():
            click.echo(json_text(found, catalogue), nl=False)
        elif html is None and spreadsheet is None:
            click.echo(render_text(found, catalogue, terminal_width() or WIDTH), nl=False)
    centre_of_zip = None if zip_action is None else getattr(found, "centre", None)
    note_facts(without_page=html is None, centre_of_zip=centre_of_zip)


def _subject(zip_action: str | None, centre: str | None, session: int | None) -> Subject:
    named = [one for one in (zip_action, centre, session) if one is not None]
    if len(named) != 1:
        raise ConfigurationError(
            "Say what the report is of: a submission, such as `dcc report add/H.2013-10-31.1.impc.zip`, or --centre, "
            "or --session; one of them."
        )
    return named[0] if zip_action is None else parse_zip_key(zip_action)


def _place(path: Path) -> Path:
    if not path.absolute().parent.is_dir():
        raise ExportError(f"{path.parent} is no directory, so {path.name} cannot be written there. Make it first.")
    return path.absolute()


_NOT_SENT = 4


@command(
    examples=[
        "dcc notify --dry-run",
        "dcc notify --session 3 --centre H --dry-run",
        "dcc notify --test me@example.org",
    ],
    exits={
        0: "all was sent, or nothing was due",
        4: "something could not be sent (the next session tries again), or the tracker could not be reached",
    },
)
@click.option("--session", "session_id", type=ID, metavar="N", help="Of this session; by default all due messages.")
@click.option("--centre", metavar="CODE", help="For this centre only; with --session.")
@click.option("--dry-run", is_flag=True, help="Print what would be sent and to whom; send and remember nothing.")
@click.option("--test", "address", metavar="ADDRESS", help="Send a test to this e-mail address, and nothing else.")
@click.option("--list", "listed", is_flag=True, help="List the sent messages, the newest first, and nothing else.")
@json_option
@click.pass_context
def notify(
    ctx: click.Context, session_id: int | None, centre: str | None, dry_run: bool, address: str | None, listed: bool
) -> None:
    """Send due notifications to centres and wranglers.

    Every session does this at its end; the command is for messages that could not be sent, and for a look. Nothing is
    sent twice. DCC_NOTIFY_CENTRES, DCC_NOTIFY_TO, DCC_NOTIFY_WEBHOOK and DCC_NOTIFY_LOG say who is notified.

    \b
    JSON: {"sent": {channel: number}, "failed": number, "sentences"}; with --dry-run
      {"planned", "sentences"}, planned a list of {"channel", "recipient", "kind", "session",
      "centre", "language", "subject", "text", "attachments"}; with --list a list of {"kind",
      "subject", "channel", "recipient", "session", "state", "attempts", "reason", "changed"}
    """
    from dcc.notify.ledger import Ledger
    from dcc.notify.notifications import notify_due, notify_session, send_test
    from dcc.settings.recipients import parse_addresses
    from dcc.tracker.crawls import require_session
    from dcc.tracker.queries.zip_action_lists import require_centre

    if sum((dry_run, address is not None, listed)) > 1 or (centre is not None and session_id is None):
        raise click.UsageError("Give one of --dry-run, --test and --list; --centre with --session.")
    settings = settings_from_environment()
    if address is not None:
        try:
            (one,) = parse_addresses(address)
        except ValueError:
            raise ConfigurationError(f"{address!r} is not one e-mail address. Write name@host.") from None
        told = send_test(settings, one)
        echo_result({"sent": {"mail": 1}, "failed": 0, "sentences": [told]}, printable(told))
        return
    with open_tracker(settings) as tracker:
        with tracker.connect() as connection:
            if session_id is not None and require_session(connection, session_id).finished is None:
                raise ConfigurationError(f"Session {session_id} is not over: it tells what it did when it is.")
            if centre is not None:
                require_centre(connection, centre)
        if listed:
            names = ("kind", "subject", "channel", "recipient", "state", "attempts", "reason", "changed")
            echo_list(
                [fields_of(one, *names, session="session_id") for one in Ledger(tracker).entries(session=session_id)],
                "when=changed, what=kind, of=subject, by=channel, to=recipient, state, why=reason",
                flexible=["why", "to", "by", "of", "when"],
                none="No message was sent yet.",
            )
        elif dry_run:
            _show_plan(tracker, settings, session_id, centre)
        else:
            if session_id is None:
                result = notify_due(tracker, settings)
            else:
                result = notify_session(tracker, settings, session_id, centre=centre)
            lines = map(printable, result.sentences or (_nothing(settings),))
            echo_result(fields_of(result, "sent", "failed", "sentences"), *lines)
            ctx.exit(_NOT_SENT if result.failed else 0)


@contextmanager
def notifying_tracker_outage(settings: Settings) -> Iterator[None]:
    """Notify wranglers if the tracker cannot be reached in the block, and raise the error."""
    try:
        yield
    except TrackerUnreachableError as error:
        from dcc.notify.channels.base import notifies

        if notifies(settings):
            from dcc.notify.notifications import notify_tracker_outage

            for sentence in notify_tracker_outage(settings, error):
                warn(sentence)
        raise


def _show_plan(tracker: Engine, settings: Settings, session_id: int | None, centre: str | None) -> None:
    from dcc.notify.notifications import plan

    planned, sentences = plan(tracker, settings, session_id, centre=centre)
    if wants_json():
        message = ("kind", "session", "centre", "language", "subject", "text")
        told = [
            {
                **fields_of(one, "channel", "recipient"),
                **fields_of(one.message, *message),
                "attachments": [attachment.name for attachment in one.message.attachments],
            }
            for one in planned
        ]
        echo_json({"planned": told, "sentences": sentences})
        return
    for sentence in sentences:
        click.echo(printable(sentence))
    for one in planned:
        click.echo(f"By {one.channel} to {printable(one.recipient)}: {printable(one.message.subject)}")
        if one.channel == "mail":
            for line in one.message.text.splitlines():
                click.echo(f"    {printable(line)}".rstrip())
            for attachment in one.message.attachments:
                click.echo(f"    [{printable(attachment.name)}, {len(attachment.content):,} bytes]")
        click.echo()
    if not planned:
        click.echo(_nothing(settings))


def _nothing(settings: Settings) -> str:
    from dcc.notify.channels.base import notifies

    if notifies(settings):
        return "Nothing is due: all messages were sent."
    return "Nobody is notified. Set DCC_NOTIFY_CENTRES=true, DCC_NOTIFY_TO, DCC_NOTIFY_WEBHOOK or DCC_NOTIFY_LOG=true."
