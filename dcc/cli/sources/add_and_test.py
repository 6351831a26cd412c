"""`dcc source add` and `dcc source test`: connect to a source and accept its host keys."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from dcc.cli.shell.context import (
    PLAIN_HELP,
    at_terminal,
    json_option,
    open_tracker,
    read_accesskey,
    settings_from_environment,
)
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, printable, terminal_width, wants_json, warn
from dcc.cli.shell.parameter_types import ID
from dcc.cli.sources.add_dialog import (
    AgreedSource,
    Trial,
    ask_for_source,
    echo_progress,
    host_key_to_pin,
    list_directories,
    listing_line,
    told_without_folders,
)
from dcc.cli.sources.source import (
    checked_address,
    delta_option,
    listing_extent,
    refuse_foreign_options,
    source_options,
    stored_address,
    tls_trust,
)
from dcc.errors import ConfigurationError, HostKeyUnknownError, SourceError, UnreachableError
from dcc.runtime.json_values import fields_of
from dcc.sources.protocols import available_protocols, traits_of
from dcc.vocabulary import DeltaStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Engine

    from dcc.settings import Settings
    from dcc.sources.base import SourceAddress
    from dcc.sources.host_keys import HostKey
    from dcc.tracker.register.source_addresses import TlsTrust

_PLAIN_HINT = (
    "Hint: other users may see a password on a command line. Better have it asked for, --accesskey -, or name what "
    "holds it: env:NAME or file:PATH."
)
_accept_option = click.option(
    "--accept-host-key", is_flag=True, help="Accept the host key that an sftp server shows, and pin it."
)


@command(
    examples=[
        "dcc source add",
        "dcc source add --centre H --protocol sftp --hostname sftp.example.org:2222 \\",
        "  --username dcc --accesskey env:HARWELL_PASSWORD --base-path /impc",
        "dcc source add --centre J --protocol file --base-path /data/jax",
        "dcc source add --centre Tcp --protocol ftps --hostname ftp.example.org --username dcc \\",
        "  --accesskey file:/etc/dcc/tcp --base-path / --tls-ca /etc/dcc/tcp-ca.pem",
    ],
    exits={
        2: "a host key that nobody accepted",
        4: "the sftp server could not be reached, so that its host key is unknown",
    },
)
@click.option("--centre", default="", help="ILAR code of the centre that hosts it.")
@click.option("--protocol", type=click.Choice(list(available_protocols())), help="What the server speaks.")
@click.option("--hostname", default="", help="HOST, HOST:PORT or [IPV6]:PORT; not needed for a folder.")
@click.option("--username", default="", help="Whom to log in as; empty for anonymous FTP and for a folder.")
@click.option(
    "--accesskey", default="", help="env:NAME, file:PATH or key:PATH; with --plain a password, or - to be asked for it."
)
@click.option("--base-path", default="", help="The directory that holds add, edit and delete.")
@click.option("--plain", is_flag=True, help=PLAIN_HELP)
@_accept_option
@delta_option(default="additive")
@source_options
@click.option("--no-test", is_flag=True, help="Register it without connecting to it.")
@json_option
def add(
    protocol: str | None,
    accesskey: str,
    plain: bool,
    accept_host_key: bool,
    delta: str,
    depth: int | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    tls_ca: str | None,
    tls_fingerprints: tuple[str, ...],
    no_test: bool,
    every: str | None,
    schedule: str | None,
    windows: str | None,
    **place: Any,
) -> None:
    """Register a source; a program that reads the output gets its id.

    At a terminal, the command asks for missing options, tries the connection step by step and explains the
    directories. Only then it registers the source, and the centre if it is new.

    The command connects to the server. It shows the host key of an sftp server and, if you accept it, pins it: from
    then on another key is refused. A source that cannot be used yet is registered with a warning, except for an sftp
    server whose host key was neither seen nor accepted unseen (--accept-host-key).

    The certificate of a TLS server must be valid. --tls-ca names an authority that the system does not know;
    --tls-fingerprint is for a certificate without a known authority.

    \b
    What --accesskey takes, best first:
      env:NAME       the environment variable NAME holds the password
      file:PATH      the file holds the password
      key:PATH       a private key; key:PATH?passphrase=env:NAME if it has a passphrase
      nothing        the SSH agent's keys, or no password
      -              with --plain: a password, read from standard input, where nobody sees it
      VALUE          with --plain: a password

    JSON: {"id", "fingerprints" (of the host keys that were pinned), "warnings"}
    """
    from pydantic import SecretStr

    from dcc.sources.base import SourceAddress
    from dcc.tracker.register import file_sources
    from dcc.tracker.register.column_texts import is_plain_password
    from dcc.tracker.register.source_schedules import policy_columns

    policy = {"every": every, "schedule": schedule, "windows": windows}
    policy_columns(**policy)
    settings = settings_from_environment()
    missing = _missing_options(protocol, **place)
    if protocol:
        named = {"--hostname": place["hostname"], "--username": place["username"], "--accesskey": accesskey}
        refuse_foreign_options(protocol, named | {"--accept-host-key": accept_host_key})
    given = SourceAddress(
        id=0,
        protocol=protocol or "",
        accesskey=SecretStr(read_accesskey(accesskey, plain=plain)),
        delta=DeltaStrategy(delta),
        extent=listing_extent(depth, include, exclude),
        **place,
    )
    trust = partial(tls_trust, authorities=tls_ca, fingerprints=tls_fingerprints)
    with open_tracker(settings) as tracker:
        if missing:
            asked = {"plain": plain, "accept_host_key": accept_host_key, "test": not no_test}
            agreed = ask_for_source(tracker, settings, given, trust, **asked)
        else:
            if accesskey != "-" and is_plain_password(given.accesskey):
                click.echo(_PLAIN_HINT, err=True)
            agreed = _as_given(tracker, settings, given, trust, accept=accept_host_key, test=not no_test)
        source_id, warnings = _register(tracker, agreed, policy), agreed.warnings
        address = stored_address(tracker, source_id)
        if not (missing or no_test or warnings):
            try:
                told_without_folders(list_directories(address, settings))
            except SourceError as error:
                warnings = [str(error)]
        with tracker.connect() as connection:
            others = file_sources.sources_of_same_place(connection, address)
    _report_addition(source_id, agreed.trial.host_keys, warnings, others)


def _missing_options(protocol: str | None, centre: str, hostname: str, base_path: str, **_: str) -> list[str]:
    """The options that a person must still give. Raises ConfigurationError without a terminal to ask at."""
    where = {}
    if protocol:
        where = {"--hostname": hostname} if traits_of(protocol).has_server else {"--base-path": base_path}
    missing = [name for name, value in ({"--centre": centre, "--protocol": protocol} | where).items() if not value]
    if missing and not at_terminal():
        raise ConfigurationError(
            f"Options are missing: {', '.join(missing)}. Give them, or run `dcc source add` at a terminal, "
            "where it asks."
        )
    return missing


def _register(tracker: Engine, agreed: AgreedSource, policy: Mapping[str, Any]) -> int:
    """Register a source, and its centre if that is new; returns the source's id."""
    from dcc.databases.transactions import writing
    from dcc.tracker.register import centres, file_sources

    new_centre = agreed.new_centre
    with writing(tracker) as connection:
        if new_centre is not None:
            centres.add_centre(connection, new_centre)
        source_id = file_sources.add_source(connection, agreed.trial.address, agreed.trial.host_keys, agreed.tls)
        file_sources.change_source(connection, source_id, **policy)
    if new_centre is not None:
        echo_progress(f"Registered centre {new_centre.short_name}, {new_centre.full_name}.")
    return source_id


def _as_given(
    tracker: Engine,
    settings: Settings,
    given: SourceAddress,
    trust: Callable[[str], TlsTrust],
    *,
    accept: bool,
    test: bool,
) -> AgreedSource:
    """What the options say to register, with a warning if its host key could not be seen.

    With `test` it looks up the host key of an sftp server. Raises UnreachableError if that fails, unless it may
    `accept` a key unseen.
    """
    from dcc.tracker.register import file_sources

    tls, address = trust(given.protocol), checked_address(given)
    with tracker.connect() as connection:
        file_sources.check_new_source(connection, address)
    keys, warnings = [], []
    if address.traits.uses_ssh and test:
        echo_progress(f"Connecting to {address.hostname} ...")
        try:
            keys = host_key_to_pin(address, settings, accept=accept, option="--accept-host-key")
        except HostKeyUnknownError as error:
            raise ConfigurationError("The host key was not accepted, so nothing was registered.") from error
        except UnreachableError as error:
            if not accept:
                raise
            warnings.append(f"{error} Its host key is not known yet.")
    return AgreedSource(Trial(address, keys), tls, warnings=warnings)


def _report_addition(
    source_id: int, keys: Sequence[HostKey], warnings: Sequence[str], others: Sequence[tuple[int, str]]
) -> None:
    """Tell of a new source; centres that act for each other may share the place of `others`."""
    note_facts(added=source_id, unusable=source_id if warnings else None)
    shared = [
        f"File source {other} of the centre {centre} is the same place: both list the same archives. If one of them is "
        f"enough: dcc source remove {source_id}"
        for other, centre in others
    ]
    then = f"Then try it again: dcc source test {source_id}"
    for warning in (*(f"The source is registered, but does not work yet: {one} {then}" for one in warnings), *shared):
        warn(warning)
    if wants_json():
        fingerprints = [key.fingerprint for key in keys]
        echo_json({"id": source_id, "fingerprints": fingerprints, "warnings": [*warnings, *shared]})
    else:
        click.echo(source_id if terminal_width() is None else f"Registered file source {source_id}.")


@command(examples=["dcc source test 3"], exits={4: "it could not be reached, or refused a request"})
@click.argument("source_id", metavar="ID", type=ID)
@_accept_option
@json_option
@click.pass_context
def test(ctx: click.Context, source_id: int, accept_host_key: bool) -> None:
    """Connect to source ID and show its directories.

    It logs in and lists the directories. Nothing is recorded. Directories that do not exist yet are no error, but if
    none of the three does, it says so.

    With --accept-host-key the server's present host key replaces the accepted one; both fingerprints are shown.

    \b
    JSON: {"id", "label", "ok", "seconds", "error": null or {"kind", "message"},
      "accepted_host_key": null or {"old": [fingerprints], "new": fingerprint},
      "directories": [{"action", "missing", "zips", "ignored"}]}
    """
    from dcc.session.source_listings import list_source
    from dcc.sources.listing_watch import PAUSE_OF_LINES, ListingWatch

    settings = settings_from_environment()
    with open_tracker(settings) as tracker:
        address = stored_address(tracker, source_id)
        accepted = _accept_shown_key(tracker, settings, address) if accept_host_key else None
        watch = ListingWatch(address.label, settings.list_timeout, echo_progress, PAUSE_OF_LINES)
        listing = list_source(stored_address(tracker, source_id), settings, watch)
    error = listing.error
    if not wants_json():
        for part in listing.listings:
            click.echo(listing_line(part))
        if error is not None:
            raise error
        told_without_folders(listing.listings)
        return
    directories = [
        {**fields_of(part, "action", "missing", "ignored"), "zips": len(part.zips)} for part in listing.listings
    ]
    echo_json(
        {
            "id": source_id,
            "label": str(listing.address.label),
            "ok": error is None,
            "seconds": round(listing.seconds, 3),
            "error": None if error is None else {"kind": error.short_name(), "message": str(error)},
            "accepted_host_key": accepted,
            "directories": directories,
        }
    )
    ctx.exit(0 if error is None else error.exit_code)


def _accept_shown_key(tracker: Engine, settings: Settings, address: SourceAddress) -> dict[str, object] | None:
    """Pin the server's present key; returns the old and the new one, None if it was pinned before."""
    from dcc.databases.transactions import writing
    from dcc.sources.sftp.ssh import fetch_host_key
    from dcc.tracker.register import source_addresses

    refuse_foreign_options(address.protocol, {"--accept-host-key": True})
    shown = fetch_host_key(address.hostname, settings)
    with writing(tracker) as connection:
        old = source_addresses.pinned_keys(connection, address.id)
        if shown.fingerprint in {key.fingerprint for key in old}:
            return None
        source_addresses.pin_host_keys(connection, address.id, [shown])
    before = ", ".join(key.fingerprint for key in old) or "none"
    click.echo(f"Accepted the host key {shown} of {printable(str(address.label))}; before: {before}.", err=True)
    return {"old": [key.fingerprint for key in old], "new": shown.fingerprint}
