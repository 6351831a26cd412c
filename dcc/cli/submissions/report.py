"""`dcc report`: the report of a submission, a centre or a session, on the terminal, as a page, as JSON, as a sheet."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, open_tracker, parse_submission_key, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import terminal_width, wants_json, warn
from dcc.cli.shell.parameter_types import ID
from dcc.errors import ConfigurationError, ExportError
from dcc.messages import count_of

if TYPE_CHECKING:
    from dcc.reports.causes.collecting import Subject

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
    JSON: an object with "kind" (submission, centre, session), "format" (the version of this form),
      "language", "made", "qc_missing" (why the QC database could not be asked, or null) and, of a
      submission,
      zip, action, file_name, centre, centre_name, phase, status, size_bytes, md5, created, inc
      outcome, tone, headline, explanation, who_acts, next   what became of it, in words
      waits       what it waits for, and until when if that is known, in words
      changed     when a crawl noticed that the archive has changed since it was loaded, or null
      hosts, attempts, reasons      where it is, the attempts to fetch it, why it failed as a whole
      decisions, reopenings, crawl_findings, removals   as in `dcc show`: what people decided, what
                  crawls noticed, and when it went from staging
      documents   each with "phase", "status", "steps", "errors", "warnings", "held", "late",
                  "repeated" and "counts"; documents_total, documents_failed, to_be_corrected (how
                  many of these), document_states
      causes      the worst first: {"key", "kind", "subject", "acts", "severity", "title", "remedy",
                  "findings", "documents", "clears", "example", ...}; causes_total, findings_total
      accepted    null, or {"entities", "procedures", "contexts", "measurements", ...}
      pictures    {"name", "title", "caption", "rule", "alt", "outliers"}
    of a centre or session
      tone (good, wait, warn, bad), standing (the same in words)
      outcomes, states, zips, sources, causes   with what each source's last crawl did not take
    of a session also
      sections    what failed, waits, is held, came late, was noticed or is left alone: {"kind",
                  "notes", "total"}
      session, started, finished, outcome, said (the outcome in words), document_states,
      sources_in_trouble, proposals, seconds (by phase), failed_step, task_errors
    Lists are bounded; the number of all is beside each: hosts_total, attempts_total, zips_total,
    sources_total.
    """
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
            from dcc.reports.causes.collecting import find_causes
            from dcc.reports.causes.spreadsheet import write_findings_spreadsheet

            causes = find_causes(tracker, qc, subject, settings, limit=None)
            written = write_findings_spreadsheet(_place(spreadsheet), tracker, qc, causes, catalogue)
            click.echo(f"Wrote {spreadsheet}: {count_of(written.findings, 'finding')}.", err=True)
        if wants_json():
            click.echo(json_text(found, catalogue), nl=False)
        elif html is None and spreadsheet is None:
            click.echo(render_text(found, catalogue, terminal_width() or WIDTH), nl=False)
    centre_of_archive = None if zip_action is None else getattr(found, "centre", None)
    note_facts(without_page=html is None, centre_of_archive=centre_of_archive)


def _subject(zip_action: str | None, centre: str | None, session: int | None) -> Subject:
    named = [one for one in (zip_action, centre, session) if one is not None]
    if len(named) != 1:
        raise ConfigurationError(
            "Say what the report is of: a submission, such as `dcc report add/H.2013-10-31.1.impc.zip`, or --centre, "
            "or --session; one of them."
        )
    return named[0] if zip_action is None else parse_submission_key(zip_action)


def _place(path: Path) -> Path:
    if not path.absolute().parent.is_dir():
        raise ExportError(f"{path.parent} is no directory, so {path.name} cannot be written there. Make it first.")
    return path.absolute()
