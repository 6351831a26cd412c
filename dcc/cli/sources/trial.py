"""Tries a source for `dcc source add` before it is registered, step by step, and explains the results."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import confirmed
from dcc.cli.shell.output import printable
from dcc.errors import (
    BadFileNameError,
    CertificateRefusedError,
    ConfigurationError,
    HostKeyUnknownError,
    SourceError,
    SourceMisconfiguredError,
    SourceTimeoutError,
)
from dcc.messages import count_of
from dcc.naming import Action

if TYPE_CHECKING:
    from dcc.settings import Settings
    from dcc.sources.base import ActionListing, SourceAddress
    from dcc.sources.host_keys import HostKey


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial: the address with its trust, and the host key to pin.

    `known`: it is decided which host key or certificate the server must show. `usable`: archives can be collected.
    """

    address: SourceAddress
    host_key: HostKey | None = None
    known: bool = False
    usable: bool = False


def try_source(address: SourceAddress, settings: Settings, centres: Collection[str], *, accept_host_key: bool) -> Trial:
    """Connect to a source that is not registered yet, and print each step. Raises only click.Abort."""
    trial = Trial(address, known=address.protocol != "sftp")
    try:
        if address.protocol == "sftp":
            tell(f"Connecting to {address.hostname} ...")
            trusted = _host_key(address, settings, accept=accept_host_key)
            if trusted is None:
                tell("Its host key was not accepted, and without that it cannot be used.")
                return trial
            trial = Trial(trusted[0], trusted[1], known=True)
        else:
            tell(f"Connecting to {address.hostname or 'this machine'} ...")
        listings, whole = _listings(trial.address, settings)
    except CertificateRefusedError as error:
        tell(f"That failed: {error}")
        if error.fingerprint is None or address.tls_fingerprints:
            return trial
        if not confirmed("Is it the fingerprint that the centre's administrator gives? Trust it?", option=None):
            return trial
        pinned = replace(address, tls_fingerprints=(error.fingerprint,))
        return try_source(pinned, settings, centres, accept_host_key=accept_host_key)
    except SourceError as error:
        tell(f"That failed: {error}")
        return trial
    return replace(trial, usable=_explain(listings, settings, centres, whole=whole))


def _host_key(
    address: SourceAddress, settings: Settings, *, accept: bool
) -> tuple[SourceAddress, HostKey | None] | None:
    """The address that trusts the server's key, with the key if it will be pinned; None if refused."""
    from dcc.sources import host_keys
    from dcc.sources.access import parse_hostname
    from dcc.sources.sftp.connection import fetch_host_key

    shown = fetch_host_key(address.hostname, settings)
    tell(f"It shows the host key {shown}.")
    try:
        endpoint = parse_hostname(address.hostname, host_keys.SSH_PORT)
        host_keys.check_host_key(address, shown, host_keys.trusted_keys(address, endpoint, settings.known_hosts))
    except HostKeyUnknownError:
        question = "Is it the fingerprint that the centre's administrator gives?"
        if not accept and not confirmed(question, option=None):
            return None
        return replace(address, host_keys=(shown.line,)), shown
    except ConfigurationError as error:
        raise SourceMisconfiguredError(str(error)) from error
    tell("It is in DCC_KNOWN_HOSTS, and so is trusted.")
    return address, None


def _listings(address: SourceAddress, settings: Settings) -> tuple[list[ActionListing], bool]:
    """The directories that could be listed in a trial's time, and whether these are all of them."""
    from dcc.sources.connect import connect
    from dcc.sources.listing_watch import ListingWatch, watching

    listings: list[ActionListing] = []
    with (
        connect(address, settings) as connection,
        watching(ListingWatch.of_trial(address.label, settings, tell)) as watch,
    ):
        if address.protocol != "file":
            tell(f"Logged in{f' as {address.username}' if address.username else ''}.")
        try:
            for action in Action:
                listings.append(connection.list_action(action))
        except SourceTimeoutError:
            if not watch.has_seen_enough:
                raise
            tell(f"  {watch.stopped}")
            return listings, False
    return listings, True


def _explain(listings: list[ActionListing], settings: Settings, centres: Collection[str], *, whole: bool) -> bool:
    """Print the content of the three directories and what a crawl would do; returns whether any of them exists."""
    refused: list[str] = []
    total = 0
    for part in listings:
        tell(f"  {listing_line(part)}")
        total += len(part.zips)
        for listed in part.zips:
            try:
                settings.naming.parse_zip_name(listed.name, centres)
            except BadFileNameError as error:
                refused.append(str(error))
    if not whole:
        return True
    if all(part.missing for part in listings):
        tell("None of the three is there: probably the directory is another one.")
        return False
    if not total:
        tell("There is nothing to collect yet; what the centre puts there, a crawl finds.")
    elif refused:
        tell(f"A crawl would collect {total - len(refused):,} of them and refuse {len(refused):,} by name, such as:")
        tell(f"  {refused[0]}")
    else:
        tell(f"A crawl would collect {count_of(total, 'archive')}.")
    return True


def listing_line(part: ActionListing) -> str:
    """What one of the three directories holds."""
    if part.missing:
        return f"The folder {part.action} does not exist yet."
    ignored = f", and {count_of(part.ignored, 'other entry')}, ignored" if part.ignored else ""
    return f"{part.action}: holds {count_of(len(part.zips), 'archive')}{ignored}"


def tell(text: str) -> None:
    """Print lines on standard error."""
    click.echo("\n".join(map(printable, text.splitlines())), err=True)
