"""`dcc data causes`: common causes of findings and errors, who must act, and what one fix clears."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, open_qc, open_tracker, parse_zip_key, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import count_of, echo_json, echo_wrapped, printable
from dcc.cli.shell.parameter_types import COUNT, ID
from dcc.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from dcc.outcomes import ZipKey
    from dcc.reports.causes.cause import Cause
    from dcc.reports.causes.scopes import Scope
    from dcc.reports.languages import Catalogue
    from dcc.settings import Settings

_SHOWN = 20

spreadsheet_option = click.option(
    "--spreadsheet",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write causes and findings there as an Excel file (.xlsx), instead of printing them.",
)
"""The option of both commands that write the spreadsheet."""


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
@click.option("--limit", type=COUNT, help=f"Print at most so many; {_SHOWN} unless --json.")
@click.option("--language", metavar="CODE", help="Such as de; DCC_LANGUAGE unless given.")
@spreadsheet_option
@json_option
def causes(
    centre: str | None,
    zip_action: str | None,
    session_id: int | None,
    limit: int | None,
    language: str | None,
    spreadsheet: Path | None,
    as_json: bool,
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
    from dcc.reports.causes.cause import as_json as cause_as_json
    from dcc.reports.languages import load_catalogue
    from dcc.rules.catalogue import CATALOGUE
    from dcc.tracker.register.centres import contacts

    if sum(each is not None for each in (centre, zip_action, session_id)) > 1:
        raise ConfigurationError("Give one of --centre, --zip and --session.")
    if spreadsheet is not None and as_json:
        raise ConfigurationError("Give one of --json and --spreadsheet.")
    settings = settings_from_environment()
    catalogue = load_catalogue(language, settings)
    key = parse_zip_key(zip_action) if zip_action else None
    with (
        open_tracker(settings) as tracker,
        open_qc(settings) as qc,
        tracker.connect() as of_tracker,
        qc.connect() as of_qc,
    ):
        found, scope = collect(of_tracker, of_qc, settings, centre, key, session_id)
        addresses = contacts(of_tracker)
        note_facts(
            found=bool(found),
            by_rules=any(cause.kind in CATALOGUE for cause in found),
            unwritten=bool(found) and spreadsheet is None,
        )
        if spreadsheet is not None:
            write_spreadsheet(spreadsheet, of_tracker, of_qc, scope, found, catalogue)
            return
    if as_json:
        echo_json(
            [
                cause_as_json(cause, catalogue) | {"contact": addresses.get(cause.centre or "")}
                for cause in found[:limit]
            ]
        )
    else:
        _print(found, limit or _SHOWN, catalogue, addresses)


def collect(
    tracker: Connection,
    qc: Connection,
    settings: Settings,
    centre: str | None,
    key: ZipKey | None,
    session_id: int | None = None,
) -> tuple[list[Cause], Scope]:
    """The selected causes, and their scope. Raises NotFoundError."""
    from dcc.reports.causes.collecting import (
        causes_of_all,
        causes_of_centre,
        causes_of_session,
        causes_of_zip,
        scope_of_session,
    )
    from dcc.reports.causes.scopes import Scope
    from dcc.tracker.queries.zip_action_lists import require_centre
    from dcc.tracker.submission_rows import require_zip_action

    if key is not None:
        require_zip_action(tracker, key)
        return causes_of_zip(tracker, qc, key, settings, most=None), Scope(zips=[key])
    if session_id is not None:
        return causes_of_session(tracker, qc, session_id, settings, most=None), scope_of_session(tracker, session_id)
    if centre is not None:
        require_centre(tracker, centre)
        return causes_of_centre(tracker, qc, centre, settings, most=None), Scope(centre=centre)
    return causes_of_all(tracker, qc, settings, most=None), Scope()


def write_spreadsheet(
    path: Path, tracker: Connection, qc: Connection, scope: Scope, found: Sequence[Cause], catalogue: Catalogue
) -> None:
    """Write the spreadsheet of a scope and print its content in numbers. Raises ExportError."""
    from dcc.reports.causes.spreadsheet import write_findings_spreadsheet

    written = write_findings_spreadsheet(path, tracker, qc, scope, found, catalogue)
    click.echo(f"Wrote {count_of(written.causes, 'cause')} and {count_of(written.findings, 'finding')} to {path}.")
    if written.is_cut:
        click.echo("More findings than a sheet can hold: the rest is left out. Ask for a submission or a centre.")


def _print(found: Sequence[Cause], most: int, catalogue: Catalogue, contacts: Mapping[str, str]) -> None:
    if not found:
        click.echo("Nothing is wrong.")
    for place, cause in enumerate(found[:most]):
        if place:
            click.echo()
        title = f"{cause.kind}  {printable(cause.title(catalogue))}"
        echo_wrapped(click.style(title, fg="red" if cause.fails else None, bold=True))
        contact = contacts.get(cause.centre or "")
        centre = "" if cause.centre is None else f"{cause.centre}{f' ({contact})' if contact else ''}: "
        echo_wrapped(f"  {printable(centre + cause.who_acts(catalogue))} {printable(cause.remedy(catalogue))}")
        echo_wrapped(f"  {_clears(cause)}")
        example = _example(cause)
        if example:
            echo_wrapped(f"  {example}")
    left = found[most:]
    if left:
        number = sum(cause.findings for cause in left)
        echo_wrapped(
            f"... and {count_of(len(left), 'more cause')} of {count_of(number, 'finding')}. --limit says how many."
        )


def _clears(cause: Cause) -> str:
    counted = [(cause.clears_documents, cause.documents, "document"), (cause.clears_zips, cause.zips, "archive")]
    cleared = " and ".join(f"{clears:,} of {count_of(of, noun)}" for clears, of, noun in counted if of)
    return f"{count_of(cause.findings, 'finding')}." + (f" Fixing this alone clears {cleared}." if cleared else "")


def _example(cause: Cause) -> str:
    example = cause.example
    place = ": ".join(part for part in (example.zip, example.document) if part)
    if example.line is not None:
        place += f", line {example.line}"
    nearest = f" (nearest: {example.nearest})" if example.nearest else ""
    text = " ".join(part for part in (f"Such as {place}:" if place else "", str(example.message)) if part)
    return printable(text + nearest)
