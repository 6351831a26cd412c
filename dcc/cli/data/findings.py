"""`dcc data causes` and `dcc data findings`: what is wrong, by its causes, by rules, or one by one."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import (
    json_option,
    parse_submission_key,
    reading_qc,
    reading_tracker,
    require_centres,
    settings_from_environment,
)
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_list, echo_wrapped, printable, wants_json
from dcc.cli.shell.parameter_types import COUNT, ID
from dcc.errors import ConfigurationError, NotFoundError
from dcc.messages import count_of, mark_plural
from dcc.nearest_names import nearest_sentence
from dcc.vocabulary import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from dcc.qc.judging.finding_reports import FindingFilter, FindingRecord
    from dcc.reports.causes.cause import Cause
    from dcc.reports.causes.collecting import FoundCauses, Subject
    from dcc.reports.languages import Catalogue
    from dcc.settings import Settings

_SHOWN = 100
_LONGEST_EXAMPLE = 100
_MAX_CAUSES = 20

_spreadsheet_option = click.option(
    "--spreadsheet",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write causes and findings there as an Excel file (.xlsx), instead of printing them.",
)


@command(
    examples=[
        "dcc data causes --centre H",
        "dcc data causes --zip add/H.2013-10-31.1.impc.zip",
        "dcc data causes --centre H --spreadsheet H.xlsx",
    ]
)
@click.option("--centre", metavar="CODE", help="Of this centre's submissions and file sources only.")
@click.option("--zip", "zip_action", metavar="ACTION/ZIP", help="Of this submission only.")
@click.option("--session", "session_id", metavar="ID", type=ID, help="Of what this session had to do with only.")
@click.option("--limit", type=COUNT, help=f"Print at most so many; {_MAX_CAUSES} unless --json.")
@click.option("--language", metavar="CODE", help="Such as de; DCC_LANGUAGE unless given.")
@_spreadsheet_option
@json_option
def causes(
    centre: str | None,
    zip_action: str | None,
    session_id: int | None,
    limit: int | None,
    language: str | None,
    spreadsheet: Path | None,
) -> None:
    """Show what is wrong, grouped by cause.

    Ten thousand findings may have one cause, such as a colony that is not registered. Each cause says who must act,
    what to do, and how many documents and archives its correction clears: those without another fault as bad. Errors
    that stopped documents before the rules are included, and problems of crawls with a source. The worst and largest
    come first.

    \b
    JSON: a list of {"key" (always names this cause), "kind" (rule or error), "subject", "centre",
      "contact" (the centre's e-mail addresses, or null),
      "acts" ("centre", "DCC", "registry", "nobody"), "severity", "title", "remedy", "findings",
      "documents", "zips", "entities", "held_up" (waits for
      them), "failed_documents" (which have animals that experiments wait for): a list of
        {"zip", "document", "phase", "animals" (how many; 0 if it could not be read)},
      "clears": {"findings", "documents", "zips"},
      "example": {"zip", "document", "line", "column", "element", "value", "message", "expected",
        "permitted", "nearest"}}
    """
    from dcc.reports.causes.cause import causes_as_json
    from dcc.reports.languages import load_catalogue
    from dcc.rules.catalogue import CATALOGUE
    from dcc.tracker.register.centres import contacts

    if sum(each is not None for each in (centre, zip_action, session_id)) > 1:
        raise ConfigurationError("Give one of --centre, --zip and --session.")
    if spreadsheet is not None and wants_json():
        raise ConfigurationError("Give one of --json and --spreadsheet.")
    settings = settings_from_environment()
    catalogue = load_catalogue(language, settings)
    key = parse_submission_key(zip_action) if zip_action else None
    with reading_tracker(settings) as tracker, reading_qc(settings) as qc:
        subject = key or centre if session_id is None else session_id
        collected = _collect(tracker, qc, settings, subject)
        found = collected.causes
        addresses = contacts(tracker)
        note_facts(
            found=bool(found),
            by_rules=any(cause.kind in CATALOGUE for cause in found),
            unwritten=bool(found) and spreadsheet is None,
        )
        if spreadsheet is not None:
            _write_spreadsheet(spreadsheet, tracker, qc, collected, catalogue)
            return
    if wants_json():
        echo_json(causes_as_json(found[:limit], catalogue, addresses))
    else:
        _print_causes(found, limit or _MAX_CAUSES, catalogue, addresses)


def _collect(tracker: Connection, qc: Connection, settings: Settings, subject: Subject | None) -> FoundCauses:
    """All causes of a subject, or of all. Raises NotFoundError."""
    from dcc.outcomes import SubmissionKey
    from dcc.reports.causes.collecting import find_causes
    from dcc.tracker.register.centres import require_centre
    from dcc.tracker.submission_rows import require_submission

    if isinstance(subject, SubmissionKey):
        require_submission(tracker, subject)
    elif isinstance(subject, str):
        require_centre(tracker, subject)
    return find_causes(tracker, qc, subject, settings, limit=None)


def _write_spreadsheet(
    path: Path, tracker: Connection, qc: Connection, found: FoundCauses, catalogue: Catalogue
) -> None:
    """Write the spreadsheet of a subject and print its content in numbers. Raises ExportError."""
    from dcc.reports.causes.spreadsheet import write_findings_spreadsheet

    written = write_findings_spreadsheet(path, tracker, qc, found, catalogue)
    click.echo(f"Wrote {count_of(written.causes, 'cause')} and {count_of(written.findings, 'finding')} to {path}.")
    if written.is_cut:
        click.echo("More findings than a sheet can hold: the rest is left out. Ask for a submission or a centre.")


def _print_causes(found: Sequence[Cause], most: int, catalogue: Catalogue, contacts: Mapping[str, str]) -> None:
    from dcc.reports.submissions.plain_text import example_line
    from dcc.reports.submissions.sentences import cleared

    if not found:
        click.echo(catalogue.say("Nothing is wrong."))
    for place, cause in enumerate(found[:most]):
        if place:
            click.echo()
        title = f"{cause.kind}  {printable(cause.title(catalogue))}"
        echo_wrapped(click.style(title, fg="red" if cause.fails else None, bold=True))
        contact = contacts.get(cause.centre or "")
        centre = "" if cause.centre is None else f"{cause.centre}{f' ({contact})' if contact else ''}: "
        echo_wrapped(f"  {printable(centre + cause.who_acts(catalogue))} {printable(cause.remedy(catalogue))}")
        found_by_it = f"{_findings(cause.findings, catalogue)}."
        clears = cleared(catalogue, cause)
        also = f" {catalogue.say('Fixing this alone clears')} {clears}." if clears else ""
        echo_wrapped(f"  {found_by_it}{also}")
        example = printable(example_line(cause, catalogue, tell_zip=True))
        if cause.example.zip or cause.example.document:
            example = f"{catalogue.say('For example in')} {example}"
        if example:
            echo_wrapped(f"  {example}")
    left = found[most:]
    if left:
        texts = mark_plural(
            "... and {number} more cause of {findings}. `--limit` says how many are shown.",
            "... and {number} more causes of {findings}. `--limit` says how many are shown.",
        )
        findings = _findings(sum(cause.findings for cause in left), catalogue)
        echo_wrapped(catalogue.say_plural(*texts, len(left), findings=findings))


def _findings(number: int, catalogue: Catalogue) -> str:
    return catalogue.say_plural("{number} finding", "{number} findings", number)


@command(
    examples=[
        "dcc data findings",
        "dcc data findings --centre H --rule E4 --each",
        "dcc data findings --zip add/H.2013-10-31.1.impc.zip --each",
        "dcc data findings --centre H --spreadsheet H.xlsx",
    ]
)
@click.option("--centre", metavar="CODE", help="Of documents of this centre only.")
@click.option("--rule", metavar="ID", help="Of this rule only; see `dcc rules list`.")
@click.option("--severity", type=click.Choice([severity.value for severity in Severity]), help="Of this severity only.")
@click.option("--zip", "zip_action", metavar="ACTION/ZIP", help="Of the documents of this submission only.")
@click.option("--document", metavar="NAME", help="Of documents of this name only.")
@click.option("--all", "inactive_too", is_flag=True, help="Also those that no longer hold or are waived.")
@click.option("--each", is_flag=True, help="Print each finding; counts by centre and rule are printed otherwise.")
@click.option("--limit", type=COUNT, help=f"With --each, at most so many; {_SHOWN} unless --json.")
@_spreadsheet_option
@json_option
def findings(
    centre: str | None,
    rule: str | None,
    severity: str | None,
    zip_action: str | None,
    document: str | None,
    inactive_too: bool,
    each: bool,
    limit: int | None,
    spreadsheet: Path | None,
) -> None:
    """Show the findings of the integrity rules.

    Counted by centre and rule, the worst first, or with --each one by one, with document, line and value. Findings of
    the upload are included. An experiment that does not count because of an error in one of its animals has no finding
    of its own: the number of such experiments is below the counts.

    Findings that no longer hold, for example because a missing animal arrived, and waived ones are kept; --all shows
    them.

    \b
    JSON: a list of {"centre", "rule", "severity", "findings", "documents", "example"}; with --each of
      {"id", "rule", "severity", "centre", "zip_action", "zip_file", "file_name", "line", "path",
       "value", "message", "snapshot", "waiver", "is_active", "created", "closed"}
    """
    from dcc.archives.entries import shortened
    from dcc.qc.judging.finding_reports import (
        FindingFilter,
        count_experiments_of_invalid_animals,
        count_findings,
        find_findings,
    )
    from dcc.reports.languages import load_catalogue

    settings = settings_from_environment()
    key = parse_submission_key(zip_action) if zip_action else None
    if spreadsheet is not None:
        if rule or severity or document or inactive_too or wants_json() or (key and centre):
            raise ConfigurationError(
                "A spreadsheet has all findings of a centre, of a submission, or of all: filter it when it is open. "
                "Name one of --centre and --zip, and leave --json out."
            )
        with reading_tracker(settings) as tracker, reading_qc(settings) as qc:
            causes_of_it = _collect(tracker, qc, settings, key or centre)
            _write_spreadsheet(spreadsheet, tracker, qc, causes_of_it, load_catalogue(None, settings))
        return
    require_centres(settings, centre)
    criteria = FindingFilter(
        centre=centre,
        rule=rule,
        severity=Severity(severity) if severity else None,
        key=key,
        file_name=document,
        only_active=not inactive_too,
    )
    with reading_qc(settings) as connection:
        counts = count_findings(connection, criteria)
        most = limit if limit is not None or wants_json() else _SHOWN
        records = list(find_findings(connection, criteria, limit=most)) if each else []
        uncounted = 0 if wants_json() else count_experiments_of_invalid_animals(connection, criteria)
    if not counts:
        _require_known(settings, criteria, uncounted)
    note_facts(counted=bool(counts) and not each)
    if each and wants_json():
        echo_json(records)
    elif each and counts:
        _print_each(records, sum(one.findings for one in counts))
    else:
        echo_list(
            counts,
            "centre, rule, severity, findings, documents, such as=example",
            example=lambda one: shortened(one.example, _LONGEST_EXAMPLE),
            flexible=["such as", "documents", "severity"],
            none="The rules found nothing."
            + ("" if inactive_too else " --all shows also findings that no longer hold."),
        )
    if uncounted:
        click.echo()
        echo_wrapped(
            f"Not counted, because an animal has an error: {count_of(uncounted, 'experiment')} without a finding. "
            "They count by themselves once the animal is corrected or its colony registered."
        )


def _require_known(settings: Settings, criteria: FindingFilter, uncounted: int) -> None:
    """Raise NotFoundError for a rule or, if nothing is `uncounted`, a submission or document that nobody knows."""
    from dcc.rules.catalogue import CATALOGUE
    from dcc.tracker.archive_access import delivered_document
    from dcc.tracker.submission_rows import require_submission

    rule, key, document = criteria.rule, criteria.key, criteria.file_name
    if rule is not None and rule not in CATALOGUE:
        nearest = nearest_sentence(rule, CATALOGUE)
        raise NotFoundError(f"No rule {rule!r} exists.{nearest} See all: dcc rules list")
    if uncounted or (key is None and document is None):
        return
    with reading_tracker(settings) as tracker:
        if key is not None:
            require_submission(tracker, key)
        if document is not None and delivered_document(tracker, document) is None:
            raise NotFoundError(
                f"No document {document!r} exists. Correct the name: `dcc show ACTION/ZIP` lists those of an archive."
            )


def _print_each(records: Sequence[FindingRecord], total: int) -> None:
    # A document may come again after another one, for example if its archive was processed twice.
    by_document = groupby(records, key=lambda one: f"{one.zip_action}/{one.zip_file}: {one.file_name}")
    for place, (name, found) in enumerate(by_document):
        if place:
            click.echo()
        echo_wrapped(click.style(printable(name), bold=True))
        for record in found:
            line = "" if record.line is None else f"line {record.line}: "
            colour = "red" if record.severity.fails and record.is_active else None
            rule = click.style(f"{record.rule} {record.severity.value}", fg=colour)
            echo_wrapped(f"  {rule}{_standing(record)}  {line}{printable(record.message)}", indent="      ")
    if total > len(records):
        click.echo(f"\n... and {count_of(total - len(records), 'more finding')}. --limit says how many to print.")


def _standing(record: FindingRecord) -> str:
    if record.closed is not None or (record.waiver is None and not record.is_active):
        return " (no longer holds)"
    if record.waiver is None:
        return ""
    return f" ({'lowered' if record.is_active else 'waived'} by waiver {record.waiver})"
