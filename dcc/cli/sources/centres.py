"""`dcc centre`: the research centres that take part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import (
    json_option,
    options,
    reading_tracker,
    settings_from_environment,
    user_name,
    writing_tracker,
)
from dcc.cli.shell.group import CommandGroup
from dcc.cli.shell.output import echo_list, echo_result
from dcc.cli.shell.parameter_types import DAY
from dcc.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date

    from sqlalchemy import Connection


_details = options(
    click.option("--email", help="Whom to write to about the centre's data; several addresses between commas."),
    click.option("--imits", "imits_name", help="The centre's name where colonies are registered (iMits), for rule S6."),
    click.option("--phone", help="With country and area code, at most 14 characters."),
    click.option("--address", help="Postal address."),
    click.option("--language", help="What reports and e-mails are written to it in: en, de, ... [DCC_LANGUAGE]"),
)


@click.group(cls=CommandGroup)
def centre() -> None:
    """Register, list, change, activate and deactivate centres; delegate.

    A centre's code is its ILAR code, the first part of its files' names. Only the sources of active centres are
    crawled.
    """


@centre.command(
    examples=['dcc centre add H --name "MRC Harwell" --email wrangler@example.org'],
    exits={2: "the code is invalid or registered already, the e-mail address is invalid, or an unknown language"},
)
@click.argument("code")
@click.option("--name", "full_name", help="Full name; not needed for a centre that the platform knows.")
@_details
@json_option
def add(code: str, **details: str | None) -> None:
    """Register the centre with the ILAR code CODE.

    The next crawl accepts names that were refused because the centre was not registered.

    JSON: the centre, as one of `dcc centre list --json`.
    """
    from dcc.tracker.register import centres

    new = centres.CentreDetails(code, **{name: value for name, value in details.items() if value})
    _write("Registered", code, details, lambda connection: centres.add_centre(connection, new))


@centre.command("list")
@json_option
def list_centres() -> None:
    """List the registered centres.

    \b
    JSON: a list of {"short_name", "full_name", "imits_name", "email", "phone", "address", "language",
      "is_active", "created", "sources"}; sources counts those that are not removed, language
      is null for that of DCC_LANGUAGE
    """
    from dcc.tracker.register import centres

    with reading_tracker() as connection:
        entries = centres.list_centres(connection)
    echo_list(
        entries,
        "code=short_name, name=full_name, iMits=imits_name, e-mail=email, active=is_active, sources",
        none="No centre is registered. Add one: dcc centre add H",
    )


@centre.command(examples=["dcc centre change H --email data@example.org --language de"])
@click.argument("code")
@click.option("--name", "full_name", help="Full name.")
@_details
@json_option
def change(code: str, **details: str | None) -> None:
    """Change the data of centre CODE.

    Missing options leave a value. An empty text ("") removes it: with --language "" the centre gets the language of
    DCC_LANGUAGE.

    JSON: the centre, as one of `dcc centre list --json`.
    """
    from dcc.tracker.register import centres

    if not any(value is not None for value in details.values()):
        raise ConfigurationError(f"Nothing to change was given for centre {code}. See `dcc centre change --help`.")
    _write("Changed", code, details, lambda connection: centres.change_centre(connection, code, **details))


def _write(done: str, code: str, details: Mapping[str, str | None], write: Callable[[Connection], object]) -> None:
    """Write a centre and print it. Raises ConfigurationError if its language has no catalogue."""
    from dcc.tracker.register import centres

    settings = settings_from_environment()
    if language := details["language"]:
        from dcc.reports.languages import load_catalogue

        load_catalogue(language, settings)
    with writing_tracker(settings) as connection:
        write(connection)
        entry = next(entry for entry in centres.list_centres(connection) if entry.short_name == code)
    echo_result(entry, f"{done} centre {entry.short_name}, {entry.full_name}.")


@centre.command(examples=["dcc centre activate H"])
@click.argument("code")
def activate(code: str) -> None:
    """Crawl the sources of centre CODE (again)."""
    _set_active(code, active=True)


@centre.command(examples=["dcc centre deactivate H"])
@click.argument("code")
def deactivate(code: str) -> None:
    """Stop crawling the sources of centre CODE.

    Nothing is deleted.
    """
    _set_active(code, active=False)


@centre.command(examples=["dcc centre delegate H --to J --until 2027-06-30", "dcc centre delegate H --to J --revoke"])
@click.argument("code")
@click.option("--to", "delegate_code", required=True, metavar="CODE", help="The centre that speaks for it from now on.")
@click.option("--until", type=DAY, help="The last day, in UTC; without end by default.")
@click.option("--revoke", is_flag=True, help="End the delegation now.")
@json_option
def delegate(code: str, delegate_code: str, until: date | None, revoke: bool) -> None:
    """Permit another centre to submit data of centre CODE.

    Its archives may then add, edit and delete data of CODE, and archives named for CODE may be on its sources. The
    owner is notified of each use. Ask the owner before; your name is recorded. An upload that is running keeps the
    delegations from its beginning.

    \b
    JSON: {"owner", "delegate", "recorded_by", "created", "until", "revoked", "revoked_by", "in_force"}
    """
    from dcc.tracker.register import centres

    if revoke and until is not None:
        raise click.UsageError("--until and --revoke exclude each other.")
    with writing_tracker() as connection:
        if revoke:
            entry = centres.revoke_delegation(connection, code, delegate_code, revoked_by=user_name())
        else:
            entry = centres.delegate(connection, code, delegate_code, recorded_by=user_name(), until=until)
    end = " no more" if revoke else "" if entry.until is None else f" until {entry.until}"
    echo_result(entry, f"Centre {delegate_code} speaks for centre {code}{end}.")


@centre.command("delegations")
@click.option("--all", "everything", is_flag=True, help="Those that were revoked or are over too.")
@json_option
def list_delegations(everything: bool) -> None:
    """List which centre may submit whose data.

    \b
    JSON: a list of {"owner", "delegate", "recorded_by", "created", "until", "revoked",
      "revoked_by", "in_force"}
    """
    from dcc.tracker.register import centres

    with reading_tracker() as connection:
        entries = centres.list_delegations(connection, everything=everything)
    echo_list(
        entries,
        "owner, speaks for it=delegate, recorded by, since=created, until, revoked, by=revoked_by",
        none="No centre speaks for another one. To record that one does: dcc centre delegate H --to J",
    )


def _set_active(code: str, *, active: bool) -> None:
    from dcc.tracker.register import centres

    with writing_tracker() as connection:
        centres.set_centre_active(connection, code, active=active)
    click.echo(f"Centre {code} is {'active' if active else 'not active'}.")
