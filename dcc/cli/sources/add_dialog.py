"""The dialogue of `dcc source add` at a terminal: the centre, the server, the login, and the trial of the source.

Questions go to standard error. An impossible answer is explained and asked again. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from dcc.cli.shell.context import absolute_path, confirmed
from dcc.cli.shell.output import printable
from dcc.cli.sources.source import checked_address
from dcc.errors import (
    BadFileNameError,
    CertificateRefusedError,
    ConfigurationError,
    HostKeyUnknownError,
    SourceError,
    SourceTimeoutError,
)
from dcc.messages import count_of
from dcc.naming import KNOWN_CENTRES, Action
from dcc.sources.protocols import available_protocols, traits_of

if TYPE_CHECKING:
    from pydantic import SecretStr
    from sqlalchemy import Engine

    from dcc.settings import Settings
    from dcc.sources.base import ActionListing, SourceAddress
    from dcc.sources.host_keys import HostKey
    from dcc.tracker.register.centres import CentreDetails
    from dcc.tracker.register.source_addresses import TlsTrust

_Answer = TypeVar("_Answer")

_AS_BEFORE = "as before"
_WAYS = {
    _AS_BEFORE: "with what you gave",
    "key": "with a private key, which stays in its file",
    "file": "with a password that a file holds",
    "env": "with a password that an environment variable holds",
    "password": "with a password, typed here unseen, and kept in the tracker as it is",
    "agent": "with the keys of the SSH agent",
    "none": "without a password",
}
_NEXT = {
    "again": "try the same once more",
    "change": "answer the questions again",
    "save": "register it as it is, to be tried later",
    "stop": "leave everything as it was",
}


@dataclass(frozen=True, slots=True)
class AgreedSource:
    """What to register: what the trial found, the trust, the centre if that is new, and why it cannot be used yet."""

    trial: Trial
    tls: TlsTrust
    new_centre: CentreDetails | None = None
    warnings: Sequence[str] = ()


def ask_for_source(
    tracker: Engine,
    settings: Settings,
    given: SourceAddress,
    trust: Callable[[str], TlsTrust],
    *,
    plain: bool,
    accept_host_key: bool,
    test: bool,
) -> AgreedSource:
    """Ask for what is not `given`, and try the source.

    `trust` is the trust of the options for a protocol; `plain`: a password may be typed and stored in the tracker.
    Raises ConfigurationError if the person does not agree, and click.Abort.
    """
    from dcc.tracker.register import centres, file_sources

    place, new_centre, again = given, None, False
    while True:
        code, new_centre = _ask_centre(tracker, place.centre, new_centre, again=again)
        place = _ask_address(replace(place, centre=code), plain=plain, again=again)
        again = True
        tls, address = trust(place.protocol), checked_address(place)
        with tracker.connect() as connection:
            known = {entry.short_name for entry in centres.list_centres(connection)} | {code}
            try:
                if new_centre is None:
                    file_sources.check_new_source(connection, address)
            except ConfigurationError as error:
                echo_progress(f"  {error}")
                continue
        trial, chosen = Trial(address), "again" if test else "save"
        while chosen == "again":
            trusting = replace(
                address,
                tls_authorities=tuple(authority.pem for authority in tls.authorities or ()),
                tls_fingerprints=tuple(tls.fingerprints or ()),
            )
            trial = try_source(trusting, settings, known, accept_host_key=accept_host_key)
            # An sftp server is not registered without its host key.
            choices = {name: meaning for name, meaning in _NEXT.items() if name != "save" or trial.known}
            chosen = "save" if trial.usable else _choose("What next?", choices, "change")
        if chosen == "change":
            continue
        if chosen == "stop" or not confirmed("Register it?", option=None, default=True):
            raise ConfigurationError("Nothing was registered.")
        tls = replace(tls, fingerprints=trial.address.tls_fingerprints or tls.fingerprints)
        return AgreedSource(trial, tls, new_centre, () if trial.usable else ["the trial failed, as said above."])


def _ask_address(place: SourceAddress, *, plain: bool, again: bool) -> SourceAddress:
    """Ask for what an address lacks; `again`: for everything, with what it has as proposals."""
    from pydantic import SecretStr

    if again or not place.protocol:
        chosen = _choose("What does the server speak?", available_protocols(), place.protocol or "sftp")
        place = replace(place, protocol=chosen)
    traits = traits_of(place.protocol)
    if traits.is_local and not traits.has_server:
        if again or not place.base_path:
            place = replace(place, base_path=_ask("Which folder holds add, edit and delete?", _folder, place.base_path))
        return replace(place, hostname="", username="", accesskey=SecretStr(""))
    if traits.has_server and (again or not place.hostname):
        place = replace(place, hostname=_ask("Which server? HOST, HOST:PORT or [IPV6]:PORT", _hostname, place.hostname))
    if again or not place.username:
        hint = "" if traits.uses_ssh else " (empty: anonymously)"
        place = replace(place, username=_ask(f"User name{hint}", str, place.username, empty=True))
    if again or not place.accesskey.get_secret_value():
        place = replace(place, accesskey=_ask_accesskey(place, plain=plain))
    if again or not place.base_path:
        question = "Which directory holds add, edit and delete? (empty: the one after the login)"
        place = replace(place, base_path=_ask(question, str, place.base_path, empty=True))
    return place


def _ask(question: str, check: Callable[[str], _Answer], default: str = "", *, empty: bool = False) -> _Answer:
    """Ask until `check` accepts the answer, and return its result. Raises click.Abort at the end of input."""
    suffix = " " if question.endswith("?") and not default else ": "
    while True:
        answer = click.prompt(question, default, show_default=bool(default), prompt_suffix=suffix, err=True).strip()
        if answer or empty:
            try:
                return check(answer)
            except (ConfigurationError, ValueError) as error:
                echo_progress(f"  {error}")


def _choose(question: str, options: dict[str, str], default: str) -> str:
    """Ask for one of `options`, each shown with its meaning."""
    for name, meaning in options.items():
        click.echo(f"  {name:<9} {meaning}", err=True)
    return str(click.prompt(question, default, type=click.Choice(list(options)), show_choices=False, err=True))


def _ask_centre(
    tracker: Engine, code: str, new_centre: CentreDetails | None, *, again: bool
) -> tuple[str, CentreDetails | None]:
    """Ask for the centre and, for an unregistered one, whether to register it, and its name."""
    from dcc.tracker.register import centres

    with tracker.connect() as connection:
        registered = [entry.short_name for entry in centres.list_centres(connection)]
    asks = again or not code
    while True:
        if asks:
            echo_progress(f"Registered centres: {', '.join(registered) or 'none yet'}.")
            proposed = code or (registered[0] if len(registered) == 1 else "")
            code = _ask("Which centre hosts it? Its code, as in its files' names", str, proposed)
        if code in registered:
            return code, None
        new_centre = _ask_new_centre(tracker, code, registered)
        if new_centre is not None:
            return code, new_centre
        code, asks = "", True


def _ask_new_centre(tracker: Engine, code: str, registered: Sequence[str]) -> CentreDetails | None:
    """A centre to register; None for none."""
    from dcc.tracker.register import centres

    def refused(centre: CentreDetails) -> bool:
        try:
            with tracker.connect() as connection:
                centres.check_new_centre(connection, centre)
        except ConfigurationError as error:
            echo_progress(f"  {error}")
            return True
        return False

    names = {known.short_name: known.full_name for known in KNOWN_CENTRES}
    name = names.get(code, "")
    if refused(centres.CentreDetails(code, name or code)):
        return None
    similar = next((each for each in (*registered, *names) if each.casefold() == code.casefold() and not name), None)
    if similar is not None:
        echo_progress(f"  Codes are told apart by capitals: {similar} is another centre than {code}.")
    shown = f"{code} ({name})" if name else code
    if not confirmed(f"Centre {shown} is not registered. Register it too?", option=None, default=similar is None):
        return None
    called = ""
    while True:
        called = name or _ask("Its full name", str, called)
        email = _ask("Its e-mail address, for what concerns its data (may be empty)", str, empty=True)
        new = centres.CentreDetails(code, called, email=email)
        if not refused(new):
            return new


def _ask_accesskey(place: SourceAddress, *, plain: bool) -> SecretStr:
    """An access key as for `dcc source add --accesskey`, whose reference exists."""
    from pydantic import SecretStr

    from dcc.sources.access import resolve_accesskey

    uses_ssh = place.traits.uses_ssh
    left_out = {"none"} if uses_ssh else {"key", "agent"}
    left_out |= set() if plain else {"password"}
    default = "key" if uses_ssh else "file" if place.username else "none"
    if place.accesskey.get_secret_value():
        default = _AS_BEFORE
    else:
        left_out.add(_AS_BEFORE)
    while True:
        ways = {way: meaning for way, meaning in _WAYS.items() if way not in left_out}
        way = _choose("How does one log in?", ways, default)
        if way == _AS_BEFORE:
            return place.accesskey
        accesskey = _accesskey(way)
        try:
            resolve_accesskey(SecretStr(accesskey))
        except ConfigurationError as error:
            echo_progress(f"  {error}")
        else:
            return SecretStr(accesskey)


def _accesskey(way: str) -> str:
    if way == "key":
        path = _ask("Which file holds the private key?", absolute_path)
        passphrase = _ask("Its passphrase: env:NAME or file:PATH (empty: it has none)", _reference, empty=True)
        return f"key:{path}" + (f"?passphrase={passphrase}" if passphrase else "")
    if way == "file":
        return f"file:{_ask('Which file holds the password?', absolute_path)}"
    if way == "env":
        return f"env:{_ask('Which environment variable holds the password?', str)}"
    return str(click.prompt("Password", hide_input=True, err=True)) if way == "password" else ""


def _reference(text: str) -> str:
    if text and not text.startswith(("env:", "file:")):
        raise ConfigurationError("Name what holds it: env:NAME or file:PATH.")
    return text


def _hostname(text: str) -> str:
    from dcc.sources.access import parse_hostname

    parse_hostname(text, 1)
    return text


def _folder(text: str) -> str:
    folder = absolute_path(text)
    if not Path(folder).is_dir():
        raise ConfigurationError(f"No folder {folder} exists. Make it, or name another one.")
    return folder


_IS_IT_RIGHT = "Is it the fingerprint that the centre's administrator gives?"


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial: the address with its trust, and the host key to pin, if there is one.

    `known`: it is decided which host key or certificate the server must show. `usable`: archives can be collected.
    """

    address: SourceAddress
    host_keys: Sequence[HostKey] = ()
    known: bool = True
    usable: bool = True


def try_source(address: SourceAddress, settings: Settings, centres: Collection[str], *, accept_host_key: bool) -> Trial:
    """Connect to a source that is not registered yet, and print each step. Raises only click.Abort."""
    trial = Trial(address, known=not address.traits.uses_ssh, usable=False)
    echo_progress(f"Connecting to {address.hostname} ...")
    try:
        if address.traits.uses_ssh:
            keys = host_key_to_pin(address, settings, accept=accept_host_key, option=None)
            trial = Trial(replace(address, host_keys=tuple(key.line for key in keys)), keys, usable=False)
        found = list_directories(trial.address, settings)
    except HostKeyUnknownError:
        echo_progress("Its host key was not accepted, and without that it cannot be used.")
        return trial
    except (SourceError, ConfigurationError) as error:
        echo_progress(f"That failed: {error}")
        shown = error.fingerprint if isinstance(error, CertificateRefusedError) else None
        if shown is None or not confirmed(f"{_IS_IT_RIGHT} Trust it?", option=None):
            return trial
        pinned = replace(address, tls_fingerprints=(shown,))
        return try_source(pinned, settings, centres, accept_host_key=accept_host_key)
    return replace(trial, usable=len(found) < len(Action) or _explain(found, settings, centres))


def host_key_to_pin(address: SourceAddress, settings: Settings, *, accept: bool, option: str | None) -> list[HostKey]:
    """The key of a new sftp server, which a person accepts, or `accept`; none if DCC_KNOWN_HOSTS has it.

    Raises HostKeyUnknownError if it is not accepted, other errors of the server, and as `confirmed` with `option`.
    """
    from dcc.sources import host_keys
    from dcc.sources.access import parse_hostname
    from dcc.sources.sftp.ssh import fetch_host_key

    shown = fetch_host_key(address.hostname, settings)
    echo_progress(f"It shows the host key {shown}.")
    endpoint = parse_hostname(address.hostname, host_keys.SSH_PORT)
    try:
        host_keys.check_host_key(address, shown, host_keys.trusted_keys(address, endpoint, settings.known_hosts))
    except HostKeyUnknownError:
        if not accept and not confirmed(_IS_IT_RIGHT, option=option):
            raise
        return [shown]
    echo_progress("It is in DCC_KNOWN_HOSTS, and so is trusted.")
    return []


def list_directories(address: SourceAddress, settings: Settings) -> list[ActionListing]:
    """List the directories within a trial's time, and print a line about each.

    A trial that ends while entries come, with fewer of them, shows that the directory can be listed. Raises
    SourceError.
    """
    from dcc.sources.connect import connect
    from dcc.sources.listing_watch import ListingWatch, watching

    settings = settings.for_protocol(address.protocol)
    listings: list[ActionListing] = []
    with (
        connect(address, settings) as connection,
        watching(ListingWatch.of_trial(address.label, settings, echo_progress)) as watch,
    ):
        if address.traits.has_server:
            echo_progress(f"Logged in{f' as {address.username}' if address.username else ''}.")
        try:
            for action in Action:
                listings.append(connection.list_action(action))
                echo_progress(listing_line(listings[-1]))
        except SourceTimeoutError:
            if not watch.has_seen_enough:
                raise
            echo_progress(watch.stopped)
    return listings


def _explain(listings: Sequence[ActionListing], settings: Settings, centres: Collection[str]) -> bool:
    """Print what a crawl would do with the content of the three directories; returns whether any of them exists."""
    if told_without_folders(listings):
        return False
    refused: list[str] = []
    names = [listed.name for part in listings for listed in part.zips]
    for name in names:
        try:
            settings.naming.parse_archive_name(name, centres)
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
