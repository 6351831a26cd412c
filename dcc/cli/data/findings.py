"""`dcc data findings`: findings of the integrity rules, counted or one by one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.cli.data.causes import collect, spreadsheet_option, write_spreadsheet
from dcc.cli.shell.context import (
    json_option,
    open_qc,
    open_tracker,
    parse_zip_key,
    reading_qc,
    require_centres,
    settings_from_environment,
)
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import count_of, echo_json, echo_table, echo_wrapped, printable
from dcc.cli.shell.parameter_types import COUNT
from dcc.errors import ConfigurationError, NotFoundError
from dcc.nearest_names import nearest_sentence
from dcc.vocabulary import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dcc.qc.judging.finding_reports import FindingCount, FindingRecord
    from dcc.settings import Settings

_SHOWN = 100
_LONGEST_EXAMPLE = 100


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
@spreadsheet_option
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
    as_json: bool,
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
    from dcc.qc.judging.finding_reports import (
        FindingFilter,
        count_experiments_of_invalid_animals,
        count_findings,
        find_findings,
    )
    from dcc.rules.catalogue import CATALOGUE

    settings = settings_from_environment()
    if spreadsheet is not None:
        if rule or severity or document or inactive_too or as_json:
            raise ConfigurationError(
                "A spreadsheet has all findings of a centre, a submission or all: filter it when it is open. Leave "
                "--json out."
            )
        _write_spreadsheet(settings, spreadsheet, centre, zip_action)
        return
    require_centres(settings, centre)
    wanted = FindingFilter(
        centre=centre,
        rule=rule,
        severity=Severity(severity) if severity else None,
        key=parse_zip_key(zip_action) if zip_action else None,
        file_name=document,
        only_active=not inactive_too,
    )
    with reading_qc(settings) as connection:
        counts = count_findings(connection, wanted)
        most = limit if limit is not None or as_json else _SHOWN
        records = list(find_findings(connection, wanted, limit=most)) if each else []
        uncounted = 0 if as_json else count_experiments_of_invalid_animals(connection, wanted)
    if rule is not None and not counts and rule not in CATALOGUE:
        nearest = nearest_sentence(rule, CATALOGUE)
        raise NotFoundError(f"There is no rule {rule!r}.{nearest} See which there are: dcc rules list")
    note_facts(counted=bool(counts) and not each)
    if as_json:
        echo_json(records if each else counts)
    elif not counts:
        click.echo("No findings." if inactive_too else "No findings. --all shows also those that no longer hold.")
    elif each:
        _print_each(records, sum(count.findings for count in counts))
    else:
        _print_counts(counts)
    if uncounted:
        click.echo()
        echo_wrapped(
            f"Not counted, because an animal has an error: {count_of(uncounted, 'experiment')} without a finding. "
            "They count by themselves once the animal is corrected or its colony registered."
        )


def _write_spreadsheet(settings: Settings, path: Path, centre: str | None, zip_action: str | None) -> None:
    from dcc.reports.languages import load_catalogue

    key = parse_zip_key(zip_action) if zip_action else None
    with (
        open_tracker(settings) as tracker,
        open_qc(settings) as qc,
        tracker.connect() as of_tracker,
        qc.connect() as of_qc,
    ):
        found, scope = collect(of_tracker, of_qc, settings, None if key else centre, key)
        write_spreadsheet(path, of_tracker, of_qc, scope, found, load_catalogue(None, settings))


def _print_counts(counts: Iterable[FindingCount]) -> None:
    rows = [
        (count.centre, count.rule, count.severity.value, count.findings, count.documents, _shortened(count.example))
        for count in counts
    ]
    echo_table(
        ("centre", "rule", "severity", "findings", "documents", "such as"),
        rows,
        flexible=["such as", "documents", "severity"],
    )


def _print_each(records: Iterable[FindingRecord], total: int) -> None:
    printed, heading = 0, ""
    for record in records:
        name = f"{record.zip_action}/{record.zip_file}: {record.file_name}"
        # A document may come again after another one, for example if its archive was processed twice.
        if name != heading:
            if printed:
                click.echo()
            echo_wrapped(click.style(printable(name), bold=True))
        printed, heading = printed + 1, name
        place = "" if record.line is None else f"line {record.line}: "
        colour = "red" if record.severity in (Severity.ERROR, Severity.FATAL) and record.is_active else None
        rule = click.style(f"{record.rule} {record.severity.value}", fg=colour)
        echo_wrapped(f"  {rule}{_standing(record)}  {place}{printable(record.message)}", indent="      ")
    left = total - printed
    if left > 0:
        click.echo(f"\n... and {count_of(left, 'more finding')}. --limit says how many to print.")


def _standing(record: FindingRecord) -> str:
    if record.closed is not None or (record.waiver is None and not record.is_active):
        return " (no longer holds)"
    if record.waiver is None:
        return ""
    return f" ({'lowered' if record.is_active else 'waived'} by waiver {record.waiver})"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_EXAMPLE else text[: _LONGEST_EXAMPLE - 3] + "..."
