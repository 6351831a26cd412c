"""The dialogue of `dcc source add` at a terminal: the centre, the server, the login, and the registration.

Questions go to standard error. An impossible answer is explained and asked again. Nothing is written before everything
is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dcc.cli.shell.context import absolute_folder, confirmed
from dcc.cli.shell.output import printable
from dcc.cli.sources.trial import Trial, try_source
from dcc.errors import ConfigurationError
from dcc.phases import KNOWN_CENTRES
from dcc.redaction import keep_secret
from dcc.runtime.installed_packages import SOURCES, added_names

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from dcc.settings import Settings
    from dcc.sources.base import Extent, SourceAddress
    from dcc.sources.host_keys import HostKey
    from dcc.tracker.register.centres import NewCentre
    from dcc.tracker.register.source_addresses import TlsTrust


_Answer = TypeVar("_Answer")

_PROTOCOLS = {
    "sftp": "an SSH server: encrypted, and known by its host key",
    "ftps": "an FTP server with TLS",
    "https": "a web server that lists its directories, with TLS",
    "ftp": "an FTP server; whoever listens reads passwords and data",
    "http": "a web server; whoever listens reads passwords and data",
    "file": "a folder of this machine",
}
_WAYS = {
    "key": "with a private key, which stays in its file",
    "file": "with a password that a file holds",
    "env": "with a password that an environment variable holds",
    "password": "with a password, typed here unseen, and kept in the tracker as it is",
}
_AS_BEFORE = "as before"


@dataclass(frozen=True, slots=True)
class Place:
    """The answers about a source's address and login, and when it is crawled: `pace`, as of `change_source`.

    `new_centre` will be registered with it; `plain`: a password may be typed and stored in the tracker.
    """

    centre: str = ""
    protocol: str = ""
    hostname: str = ""
    username: str = ""
    accesskey: str = ""
    base_path: str = ""
    new_centre: NewCentre | None = None
    plain: bool = False
    delta: str = "additive"
    extent: Extent | None = None
    pace: Mapping[str, Any] = field(default_factory=dict)

    def missing(self) -> list[str]:
        """The options that are still missing."""
        needed = {"--centre": self.centre, "--protocol": self.protocol}
        if self.protocol == "file":
            needed["--base-path"] = self.base_path
        elif self.protocol:
            needed["--hostname"] = self.hostname
        return [option for option, value in needed.items() if not value]

    def __repr__(self) -> str:
        return f"Place({self.centre}, {self.protocol}://{self.hostname})"


def ask_place(tracker: Engine, given: Place, *, again: bool = False) -> Place:
    """Ask for what is not `given`; `again`: for everything, with given values as proposals."""
    place = ask_centre(tracker, given, again=again)
    if again or not place.protocol:
        place = replace(place, protocol=choose("What does the server speak?", protocols(), place.protocol or "sftp"))
    if place.protocol == "file":
        if again or not place.base_path:
            folder = ask("Which folder holds add, edit and delete?", _folder, default=place.base_path)
            place = replace(place, base_path=folder)
        return replace(place, hostname="", username="", accesskey="")
    if again or not place.hostname:
        question = "Which server? HOST, HOST:PORT or [IPV6]:PORT"
        place = replace(place, hostname=ask(question, _hostname, default=place.hostname))
    if again or not given.username:
        hint = "" if place.protocol == "sftp" else " (empty: anonymously)"
        place = replace(place, username=ask(f"User name{hint}", str, default=place.username, empty=True))
    if again or not given.accesskey:
        place = replace(place, accesskey=_ask_accesskey(place))
    if again or not given.base_path:
        question = "Which directory holds add, edit and delete? (empty: the one after the login)"
        place = replace(place, base_path=ask(question, str, default=place.base_path, empty=True))
    return place


def protocols() -> dict[str, str]:
    """The available protocols, best first, with what each is; no library of theirs is loaded."""
    return _PROTOCOLS | dict.fromkeys(added_names(SOURCES), "what an installed package adds")


def ask(question: str, check: Callable[[str], _Answer], *, default: str = "", empty: bool = False) -> _Answer:
    """Ask until `check` accepts the answer, and return its result. Raises click.Abort at the end of input."""
    while True:
        suffix = " " if question.endswith("?") and not default else ": "
        answer = click.prompt(
            question, default=default, show_default=bool(default), prompt_suffix=suffix, err=True
        ).strip()
        if not answer and not empty:
            continue
        try:
            return check(answer)
        except (ConfigurationError, ValueError) as error:
            click.echo(f"  {printable(error)}", err=True)


def ask_centre(tracker: Engine, given: Place, *, again: bool) -> Place:
    """Ask for the centre and, for an unregistered one, whether to register it, and its name."""
    from dcc.tracker.register import centres

    with tracker.connect() as connection:
        registered = [entry.short_name for entry in centres.list_centres(connection)]
    if given.centre in registered and not again:
        return given
    code = given.centre
    while True:
        if again or not code:
            click.echo(f"Registered centres: {', '.join(registered) or 'none yet'}.", err=True)
            proposed = code or (registered[0] if len(registered) == 1 else "")
            code = ask("Which centre hosts it? Its code, as in its files' names", str, default=proposed)
        if code in registered:
            return replace(given, centre=code, new_centre=None)
        new = _ask_new_centre(tracker, code, registered)
        if new is not None:
            return replace(given, centre=code, new_centre=new)
        code = ""


def _ask_new_centre(tracker: Engine, code: str, registered: Sequence[str]) -> NewCentre | None:
    """A centre to register; None for none."""
    from dcc.settings.recipients import parse_addresses
    from dcc.tracker.register import centres

    def addresses(text: str) -> str:
        if text:
            parse_addresses(text)
        return text

    def refused(centre: centres.NewCentre) -> bool:
        try:
            with tracker.connect() as connection:
                centres.check_new_centre(connection, centre)
        except ConfigurationError as error:
            click.echo(f"  {printable(error)}", err=True)
            return True
        return False

    names = {known.short_name: known.full_name for known in KNOWN_CENTRES}
    name = names.get(code, "")
    if refused(centres.NewCentre(code, name or code)):
        return None
    shown = f"{printable(code)} ({name})" if name else printable(code)
    similar = (
        None if name else next((each for each in (*registered, *names) if each.casefold() == code.casefold()), None)
    )
    if similar is not None:
        click.echo(f"  Codes are told apart by capitals: {similar} is another centre than {printable(code)}.", err=True)
    if not confirmed(f"Centre {shown} is not registered. Register it too?", option=None, default=similar is None):
        return None
    while True:
        called = name or ask("Its full name", str)
        email = ask("Its e-mail address, for what concerns its data (may be empty)", addresses, empty=True)
        new = centres.NewCentre(code, called, email=email)
        if not refused(new):
            return new


def choose(question: str, options: dict[str, str], default: str) -> str:
    """Ask for one of `options`, each shown with its meaning."""
    for name, meaning in options.items():
        click.echo(f"  {name:<9} {meaning}", err=True)
    chosen: str = click.prompt(
        question, type=click.Choice(list(options)), default=default, show_choices=False, err=True
    )
    return chosen


def _ask_accesskey(place: Place) -> str:
    """An access key as for `dcc source add --accesskey`, whose reference exists."""
    from pydantic import SecretStr

    from dcc.sources.access import resolve_accesskey

    if place.protocol == "sftp":
        options = {**_WAYS, "agent": "with the keys of the SSH agent"}
    else:
        options = {**_WAYS, "none": "without a password"}
        del options["key"]
    if not place.plain:
        del options["password"]
    default = "key" if place.protocol == "sftp" else "none" if not place.username else "file"
    if place.accesskey:
        options, default = {_AS_BEFORE: "with what you gave", **options}, _AS_BEFORE
    while True:
        way = choose("How does one log in?", options, default)
        if way == _AS_BEFORE:
            return place.accesskey
        accesskey = _accesskey(way)
        if way == "password":
            keep_secret(accesskey)
        try:
            resolve_accesskey(SecretStr(accesskey))
        except ConfigurationError as error:
            click.echo(f"  {printable(error)}", err=True)
        else:
            return accesskey


def _accesskey(way: str) -> str:
    if way == "key":
        path = ask("Which file holds the private key?", absolute_folder)
        passphrase: str = ask("Its passphrase: env:NAME or file:PATH (empty: it has none)", _reference, empty=True)
        return f"key:{path}" + (f"?passphrase={passphrase}" if passphrase else "")
    if way == "file":
        return f"file:{ask('Which file holds the password?', absolute_folder)}"
    if way == "env":
        return f"env:{ask('Which environment variable holds the password?', str)}"
    if way == "password":
        typed: str = click.prompt("Password", hide_input=True, err=True)
        return typed
    return ""


def _reference(text: str) -> str:
    if text and not text.startswith(("env:", "file:")):
        raise ConfigurationError("Name what holds it: env:NAME or file:PATH.")
    return text


def _hostname(text: str) -> str:
    from dcc.sources.access import parse_hostname

    parse_hostname(text, 1)
    return text


def _folder(text: str) -> str:
    folder = absolute_folder(text)
    if not Path(folder).is_dir():
        raise ConfigurationError(f"There is no folder {folder}. Make it, or name another one.")
    return folder


_NEXT = {
    "again": "try the same once more",
    "change": "answer the questions again",
    "save": "register it as it is, to be tried later",
    "stop": "leave everything as it was",
}
_NOTHING = "Nothing was registered."


def source_address(place: Place) -> SourceAddress:
    """The address of a source that is not registered yet. Raises ConfigurationError for an invalid one."""
    from pydantic import SecretStr

    from dcc.sources.access import parse_hostname
    from dcc.sources.base import PLAIN, DeltaStrategy, SourceAddress, SourceProtocol

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
        protocol=place.protocol,
        hostname=hostname,
        username=place.username,
        accesskey=SecretStr(place.accesskey),
        base_path=base_path,
        delta=DeltaStrategy(place.delta),
        extent=place.extent or PLAIN,
    )


def register_by_asking(
    tracker: Engine,
    settings: Settings,
    given: Place,
    trust: Callable[[str], TlsTrust],
    *,
    accept_host_key: bool,
    test: bool,
) -> tuple[int, list[HostKey], list[str]]:
    """Ask for missing values, try the source and register it; returns the id, the pinned host keys, and warnings.

    `trust` is the trust of the options for a protocol. Raises ConfigurationError if it is not registered after all, and
    click.Abort; the tracker is then unchanged.
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
        if chosen == "stop" or not confirmed("Register it?", option=None, default=True):
            raise ConfigurationError(_NOTHING)
        return _register(tracker, place, trial, tls)


def _options(trial: Trial) -> dict[str, str]:
    """The choices after a failed trial: an sftp server is not registered without its host key."""
    return {name: meaning for name, meaning in _NEXT.items() if name != "save" or trial.known}


def _problem(tracker: Engine, place: Place, address: SourceAddress) -> ConfigurationError | None:
    """A problem that prevents the registration, whatever the server answers."""
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


def _register(tracker: Engine, place: Place, trial: Trial, tls: TlsTrust) -> tuple[int, list[HostKey], list[str]]:
    from dcc.databases.transactions import writing
    from dcc.tracker.register import centres, file_sources
    from dcc.tracker.register.source_addresses import TlsTrust

    keys = [] if trial.host_key is None else [trial.host_key]
    trusted = TlsTrust(tls.authorities, trial.address.tls_fingerprints or tls.fingerprints)
    with writing(tracker) as connection:
        if place.new_centre is not None:
            centres.add_centre(connection, place.new_centre)
        source_id = file_sources.add_source(connection, trial.address, keys, trusted)
        file_sources.change_source(connection, source_id, **place.pace)
    if place.new_centre is not None:
        click.echo(f"Registered centre {place.centre}, {printable(place.new_centre.full_name)}.", err=True)
    return source_id, keys, [] if trial.usable else ["the trial failed, as said above."]
