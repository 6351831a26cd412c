"""How `dcc source add` registers a file source that it asks for: nothing is written before everything is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import absolute_folder
from dcc.cli.shell.output import printable
from dcc.cli.sources.questions import Place, ask_place, choose
from dcc.cli.sources.trial import Trial, try_source
from dcc.errors import ConfigurationError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from dcc.settings import Settings
    from dcc.sources.base import SourceAddress
    from dcc.tracker.register.pinned_keys import PinnedKey
    from dcc.tracker.register.trusted_certificates import TlsTrust

_NEXT = {
    "again": "try the same once more",
    "change": "answer the questions again",
    "save": "register it as it is, to be tried later",
    "stop": "leave everything as it was",
}
_NOTHING = "Nothing was registered."


def source_address(place: Place) -> SourceAddress:
    """The address of a source that is not registered yet. Raises ConfigurationError for one that cannot be."""
    from pydantic import SecretStr

    from dcc.sources.access import parse_hostname
    from dcc.sources.base import SourceAddress, SourceProtocol

    hostname, base_path = place.hostname, place.base_path
    if place.protocol == SourceProtocol.FILE:
        hostname = hostname or "localhost"
        if not base_path:
            raise ConfigurationError("A source of the protocol file needs the folder's path: --base-path.")
        base_path = absolute_folder(base_path)
    elif not hostname:
        raise ConfigurationError(
            f"A source of the protocol {place.protocol} needs its server: --hostname HOST or HOST:PORT."
        )
    else:
        parse_hostname(hostname, 1)
    return SourceAddress(
        id=0,
        centre=place.centre,
        protocol=SourceProtocol(place.protocol),
        hostname=hostname,
        username=place.username,
        accesskey=SecretStr(place.accesskey),
        base_path=base_path,
    )


def register_by_asking(
    tracker: Engine,
    settings: Settings,
    given: Place,
    trust: Callable[[str], TlsTrust],
    *,
    accept_host_key: bool,
    test: bool,
) -> tuple[int, list[PinnedKey], list[str]]:
    """Ask for what is missing, try it and register it; the id, the host keys that were pinned, and warnings.

    `trust` says what the options ask to be trusted with a protocol. Raises ConfigurationError when it is not
    registered after all, and click.Abort; the tracker is then as it was.
    """
    place, again = given, False
    while True:
        place = ask_place(tracker, place, again=again)
        again = True
        tls = trust(place.protocol)
        address = source_address(place)
        problem = _problem(tracker, place, address)
        if problem is not None:
            click.echo(f"  {printable(problem)}", err=True)
            continue
        trial = Trial(address, usable=True)
        while test:
            trial = _try(tracker, settings, place, address, tls, accept_host_key=accept_host_key)
            chosen = "save" if trial.usable else choose("What next?", _options(trial), "change")
            if chosen != "again":
                break
        else:
            chosen = "save"
        if chosen == "change":
            continue
        if chosen == "stop" or not click.confirm("Register it?", default=True, err=True):
            raise ConfigurationError(_NOTHING)
        return _register(tracker, place, trial, tls)


def _options(trial: Trial) -> dict[str, str]:
    """What can be done after a trial that failed: an sftp server is not registered without its host key."""
    return {name: meaning for name, meaning in _NEXT.items() if name != "save" or trial.known}


def _problem(tracker: Engine, place: Place, address: SourceAddress) -> ConfigurationError | None:
    """What keeps the source from being registered, whatever its server says."""
    from dcc.tracker.register import file_sources

    if place.new_centre is not None:
        return None
    try:
        with tracker.connect() as connection:
            file_sources.check_new_source(connection, address)
    except ConfigurationError as error:
        return error
    return None


def _try(
    tracker: Engine, settings: Settings, place: Place, address: SourceAddress, tls: TlsTrust, *, accept_host_key: bool
) -> Trial:
    from dcc.tracker.register import centres

    with tracker.connect() as connection:
        known = {entry.short_name for entry in centres.list_centres(connection)} | {place.centre}
    trusting = replace(
        address,
        tls_authorities=tuple(authority.pem for authority in tls.authorities or ()),
        tls_fingerprints=tuple(tls.fingerprints or ()),
    )
    return try_source(trusting, settings, known, accept_host_key=accept_host_key)


def _register(tracker: Engine, place: Place, trial: Trial, tls: TlsTrust) -> tuple[int, list[PinnedKey], list[str]]:
    from dcc.tracker.database import writing
    from dcc.tracker.register import centres, file_sources
    from dcc.tracker.register.pinned_keys import PinnedKey
    from dcc.tracker.register.trusted_certificates import TlsTrust

    keys = [] if trial.host_key is None else [PinnedKey.of(trial.host_key)]
    trusted = TlsTrust(tls.authorities, trial.address.tls_fingerprints or tls.fingerprints)
    with writing(tracker) as connection:
        if place.new_centre is not None:
            centres.add_centre(connection, place.new_centre)
        source_id = file_sources.add_source(connection, trial.address, keys, trusted)
    if place.new_centre is not None:
        click.echo(f"Registered centre {place.centre}, {printable(place.new_centre.full_name)}.", err=True)
    return source_id, keys, [] if trial.usable else ["It could not be used when it was tried."]
