"""`dcc source why` and `missing`: archives that were not fetched, and those that a source lists no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, open_tracker, reading_tracker, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.output import echo_list, fields_of, warn
from dcc.cli.shell.parameter_types import ID
from dcc.errors import ConfigurationError

if TYPE_CHECKING:
    from dcc.reports.causes.skipped_archives import SkippedEntry


@command(
    examples=["dcc source why", "dcc source why 3", "dcc source why 3 --look", "dcc source why --centre H"],
    exits={4: "--look could not reach one of them, all others are shown"},
)
@click.argument("source_id", metavar="[ID]", type=ID, required=False)
@click.option("--centre", metavar="CODE", help="Of all sources of this centre.")
@click.option("--look", is_flag=True, help="List the source now, to name entries that are ignored.")
@click.option("--language", metavar="CODE", help="Such as de; DCC_LANGUAGE unless given.")
@json_option
@click.pass_context
def why(
    ctx: click.Context, source_id: int | None, centre: str | None, look: bool, language: str | None, as_json: bool
) -> None:
    """Show which archives of source ID were not fetched, and why.

    Without ID, of all sources. A crawl fetches archives that are new and whose names conform. This shows the reason for
    all others, and who must act. The source is not crawled or could not be listed. A name was refused, or an entry
    is no archive. An archive failed, changed after it was fetched, or was fetched before.

    \b
    JSON: a list of {"source", "entry" (null: the source as a whole), "why", "reason", "acts", "number"}
    """
    from dcc.cli.sources.connection import stored_address
    from dcc.declarations import ACTOR_NAMES
    from dcc.reports.causes.skipped_archives import ignored_entries, skipped_entries
    from dcc.reports.languages import load_catalogue
    from dcc.session.crawling import list_source
    from dcc.tracker.queries.zip_action_lists import require_centre
    from dcc.tracker.register import file_sources
    from dcc.tracker.register.source_addresses import load_crawl_dues

    if source_id is not None and centre is not None:
        raise ConfigurationError("Give the ID of a file source, or --centre, not both.")
    settings = settings_from_environment()
    catalogue = load_catalogue(language, settings)
    skipped: list[tuple[int, str, SkippedEntry]] = []
    exit_code = 0
    with open_tracker(settings) as tracker:
        with tracker.connect() as connection:
            if centre is not None:
                require_centre(connection, centre)
            entries = [] if source_id is not None else file_sources.list_sources(connection)
        of_centre = [one.id for one in entries if centre in (None, one.centre) and one.state != "removed"]
        for each in of_centre if source_id is None else [source_id]:
            with tracker.connect() as connection:
                due = load_crawl_dues(connection, settings.source_failure_limit).get(each)
                rows = skipped_entries(connection, each, due=due)
            if look:
                listing = list_source(stored_address(tracker, each), settings)
                rows += ignored_entries(listing.listings)
                if listing.error is not None:
                    warn(str(listing.error))
                    exit_code = exit_code if listing.listings else max(exit_code, listing.error.exit_code)
            skipped += [(each, row.reason(catalogue, for_wranglers=True), row) for row in rows]
    why_not, who_acts = catalogue.say("why it was not taken"), catalogue.say("who acts")
    echo_list(
        [
            {"source": source, "reason": reason, **fields_of(row, "entry", "why", "acts", "number")}
            for source, reason, row in skipped
        ],
        (catalogue.say("source"), catalogue.say("entry"), why_not, who_acts),
        [(source, row.entry, reason, catalogue.say(ACTOR_NAMES[row.acts])) for source, reason, row in skipped],
        as_json=as_json,
        flexible=[why_not, who_acts],
        none=catalogue.say("Nothing was kept from being taken: every entry is new."),
    )
    ctx.exit(exit_code)


@command(examples=["dcc source missing", "dcc source missing 3"])
@click.argument("source_id", metavar="[ID]", type=ID, required=False)
@json_option
def missing(source_id: int | None, as_json: bool) -> None:
    """List archives that source ID no longer lists.

    Without ID, of all sources. A listing that lost many archives at once counts only after the next one confirms it.

    \b
    JSON: a list of {"source", "zip", "since", "believed" (false: the next listing decides), "loaded"
      (documents of it stand), "elsewhere" (another source hosts it), "proposal" (state of the
      proposal to withdraw it, or null)}
    """
    from dcc.tracker.hostings.changed_archives import missing_archives
    from dcc.tracker.register import file_sources

    with reading_tracker() as connection:
        if source_id is not None:
            file_sources.list_sources(connection, [source_id])
        found = missing_archives(connection, source_id)
    names = ("source", "since", "believed", "loaded", "elsewhere", "proposal")
    echo_list(
        [{"zip": str(archive.key), **fields_of(archive, *names)} for archive in found],
        ("source", "submission", "missing since", "loaded", "elsewhere", "withdrawal"),
        [
            (
                archive.source,
                str(archive.key),
                archive.since if archive.believed else f"{archive.since}, not believed yet",
                "yes" if archive.loaded else "no",
                "yes" if archive.elsewhere else "no",
                archive.proposal,
            )
            for archive in found
        ],
        as_json=as_json,
        none="Every archive that was listed before is listed now.",
    )
