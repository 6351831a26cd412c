"""Tries a source for `dcc source add`, step by step, and explains the results."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    SourceTimeoutError,
)
from dcc.messages import count_of
from dcc.naming import Action

if TYPE_CHECKING:
    from dcc.settings import Settings
    from dcc.sources.base import ActionListing, SourceAddress
    from dcc.sources.host_keys import HostKey

_IS_IT_RIGHT = "Is it the fingerprint that the centre's administrator gives?"


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial: the address with its trust, and the host key to pin.

    `known`: it is decided which host key or certificate the server must show. `usable`: archives can be collected.
    """

    address: SourceAddress
    host_key: HostKey | None = None
    known: bool = True
    usable: bool = True


def try_source(address: SourceAddress, settings: Settings, centres: Collection[str], *, accept_host_key: bool) -> Trial:
    """Connect to a source that is not registered yet, and print each step. Raises only click.Abort."""
    trial = Trial(address, known=address.protocol != "sftp", usable=False)
    echo_progress(f"Connecting to {address.hostname} ...")
    try:
        if address.protocol == "sftp":
            key = host_key_to_pin(address, settings, accept=accept_host_key, option=None)
            trial = Trial(replace(address, host_keys=() if key is None else (key.line,)), key, usable=False)
        listings, whole = list_directories(trial.address, settings)
    except HostKeyUnknownError:
        echo_progress("Its host key was not accepted, and without that it cannot be used.")
        return trial
    except (SourceError, ConfigurationError) as error:
        echo_progress(f"That failed: {error}")
        shown = error.fingerprint if isinstance(error, CertificateRefusedError) else None
        if shown is None or address.tls_fingerprints or not confirmed(f"{_IS_IT_RIGHT} Trust it?", option=None):
            return trial
        pinned = replace(address, tls_fingerprints=(shown,))
        return try_source(pinned, settings, centres, accept_host_key=accept_host_key)
    return replace(trial, usable=not whole or _explain(listings, settings, centres))


def host_key_to_pin(address: SourceAddress, settings: Settings, *, accept: bool, option: str | None) -> HostKey | None:
    """The key of a new sftp server, which a person accepts, or `accept`; None if DCC_KNOWN_HOSTS has it.

    Raises HostKeyUnknownError if it is not accepted, other errors of the server, and as `confirmed` with `option`.
    """
    from dcc.sources import host_keys
    from dcc.sources.access import parse_hostname
    from dcc.sources.sftp.connection import fetch_host_key

    shown = fetch_host_key(address.hostname, settings)
    echo_progress(f"It shows the host key {shown}.")
    endpoint = parse_hostname(address.hostname, host_keys.SSH_PORT)
    try:
        host_keys.check_host_key(address, shown, host_keys.trusted_keys(address, endpoint, settings.known_hosts))
    except HostKeyUnknownError:
        if not accept and not confirmed(_IS_IT_RIGHT, option=option):
            raise
        return shown
    echo_progress("It is in DCC_KNOWN_HOSTS, and so is trusted.")
    return None


def list_directories(address: SourceAddress, settings: Settings) -> tuple[list[ActionListing], bool]:
    """List the directories within a trial's time, telling of each; returns the listings, and whether they are all.

    A trial that ends while entries come shows that the directory can be listed. Raises SourceError.
    """
    from dcc.sources.connect import connect
    from dcc.sources.listing_watch import ListingWatch, watching

    settings = settings.for_protocol(address.protocol)
    listings: list[ActionListing] = []
    with (
        connect(address, settings) as connection,
        watching(ListingWatch.of_trial(address.label, settings, echo_progress)) as watch,
    ):
        if address.protocol != "file":
            echo_progress(f"Logged in{f' as {address.username}' if address.username else ''}.")
        try:
            for action in Action:
                listings.append(connection.list_action(action))
                echo_progress(listing_line(listings[-1]))
        except SourceTimeoutError:
            if not watch.has_seen_enough:
                raise
            echo_progress(watch.stopped)
            return listings, False
    return listings, True


def _explain(listings: Sequence[ActionListing], settings: Settings, centres: Collection[str]) -> bool:
    """Print what a crawl would do with the content of the three directories; returns whether any of them exists."""
    if told_without_folders(listings):
        return False
    refused: list[str] = []
    names = [listed.name for part in listings for listed in part.zips]
    for name in names:
        try:
            settings.naming.parse_zip_name(name, centres)
        except BadFileNameError as error:
            refused.append(str(error))
    if not names:
        echo_progress("The source has no archives yet; a crawl finds those that the centre puts there.")
    elif refused:
        good = len(names) - len(refused)
        echo_progress(f"A crawl would collect {good:,} of them and refuse {len(refused):,} by name, such as:")
        echo_progress(f"  {refused[0]}")
    else:
        echo_progress(f"A crawl would collect {count_of(len(names), 'archive')}.")
    return True


def told_without_folders(listings: Sequence[ActionListing]) -> bool:
    """Whether none of the three directories exists, which is printed: archives cannot be put there."""
    without = [part.missing for part in listings] == [True] * len(Action)
    if without:
        echo_progress("None of the three is there: probably the directory is another one (--base-path).")
    return without


def listing_line(part: ActionListing) -> str:
    """What one of the three directories holds."""
    if part.missing:
        return f"The folder {part.action} does not exist yet."
    ignored = f", and {count_of(part.ignored, 'other entry')}, ignored" if part.ignored else ""
    return f"{part.action}: holds {count_of(len(part.zips), 'archive')}{ignored}"


def echo_progress(text: str) -> None:
    """Print lines on standard error."""
    click.echo("\n".join(map(printable, text.splitlines())), err=True)
