"""Runs the demonstration: starts servers, registers centres and sources, runs one session.

The SFTP and FTP servers are real ones on loopback, in threads that end with the command.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import secrets
import shutil
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import click
from pydantic import SecretStr

from dcc.cli.demo.centres import BASE_PATH, CENTRES, EXPECTED, DemoSource, ExpectedState, demo_sources
from dcc.cli.sessions.session_output import SessionDisplay, SessionOutput
from dcc.cli.shell.context import any_databases
from dcc.cli.shell.dagster_side import dagster_side
from dcc.errors import ConfigurationError, SourceUnreachableError
from dcc.outcomes import CrawlOutcome, SubmissionKey
from dcc.runtime.private_files import PRIVATE_FILE, create_file
from dcc.session.session_request import SessionRequest
from dcc.settings import Settings, load_settings
from dcc.sources.base import SourceAddress
from dcc.sources.protocols import SourceProtocol

if TYPE_CHECKING:
    import asyncssh
    from sqlalchemy import Engine

    from dcc.sources.host_keys import HostKey
    from dcc.tracker.queries.submission_lists import SubmissionEntry

_MARK = ".made-by-dcc-demo"
_PAUSED = "the servers of the demonstration are stopped"
_PACKAGES = ("asyncssh", "pyftpdlib")
_READ_ONLY = "elr"

_Accounts = Mapping[str, tuple[str, Path]]
"""The password of each user of a server, and the folder that he sees as its root."""


def demonstrate(folder: Path) -> int:
    """Run the demonstration in `folder`, which is emptied first; returns 0 if the outcome is the expected one, else 1.

    Raises ConfigurationError if the servers' packages are missing or `folder` has other content, and errors of the
    session.
    """
    began = time.monotonic()
    _require_packages()
    _start_over(folder)
    sources = demo_sources()
    click.echo(
        f"Demonstration: {len(CENTRES)} centres with {len(sources)} file sources on SFTP and FTP servers of this "
        f"machine, all in {folder}.\n"
    )
    with _own_environment(folder / "home"):
        settings = load_settings()
        with _served(folder, sources) as addresses:
            wrong = _session(settings, addresses)
    for difference in wrong:
        click.secho(f"Not as expected: {difference}", fg="red")
    _print_next_steps(folder, time.monotonic() - began)
    return 1 if wrong else 0


def _start_over(folder: Path) -> None:
    """Make `folder` empty. Raises ConfigurationError if it has content that no demonstration made."""
    if folder.exists() and not (folder / _MARK).is_file() and any(folder.iterdir()):
        raise ConfigurationError(
            f"{folder} holds something else than a demonstration. Move it away, or run `dcc demo` elsewhere."
        )
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(mode=0o700, parents=True)
        (folder / _MARK).touch()
    except OSError as error:
        raise ConfigurationError(
            f"{folder} cannot be made again: {error.strerror}. Run `dcc demo` in a directory that may be written."
        ) from error


@contextmanager
def _own_environment(home: Path) -> Iterator[None]:
    """Work with default settings in `home`, whatever the caller's environment sets: never on a real tracker."""
    kept = dict(os.environ)
    for name in kept:
        if name.upper().startswith(("DCC_", "DAGSTER_")):
            del os.environ[name]
    os.environ["DCC_HOME"] = str(home.absolute())
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


def _require_packages() -> None:
    """Check that the servers' packages are installed. Raises ConfigurationError."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"The demonstration needs {' and '.join(missing)}, which are not installed. "
            "Install them with the extra `demo`: pip install 'dcc[demo]'."
        )


@contextmanager
def _refusing_port() -> Iterator[int]:
    """A port on 127.0.0.1 that refuses connections: bound, so that nobody else gets it, but never listening."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def _serve_sftp(accounts: _Accounts) -> int:
    """Start an SFTP server; returns its port on 127.0.0.1."""
    import asyncssh

    class Logins(asyncssh.SSHServer):
        """Accepts the accounts' passwords and nothing else."""

        def password_auth_supported(self) -> bool:
            """Only passwords are accepted."""
            return True

        def validate_password(self, username: str, password: str) -> bool:
            """Whether the account exists and has this password."""
            return username in accounts and accounts[username][0] == password

    def folder(channel: asyncssh.SSHServerChannel[bytes]) -> asyncssh.SFTPServer:
        return asyncssh.SFTPServer(channel, chroot=str(accounts[channel.get_extra_info("username")][1]).encode())

    key = asyncssh.generate_private_key("ssh-ed25519")
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(
        asyncssh.listen("127.0.0.1", 0, server_factory=Logins, server_host_keys=[key], sftp_factory=folder)
    )
    Thread(target=loop.run_forever, daemon=True).start()
    return server.get_port()


def _serve_ftp(accounts: _Accounts) -> int:
    """Start an FTP server; returns its port on 127.0.0.1."""
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.servers import FTPServer

    class Handler(FTPHandler):  # type: ignore[misc]
        """One login of the server."""

        authorizer = DummyAuthorizer()
        banner = "Demonstration FTP server"

    for name, (password, folder) in accounts.items():
        Handler.authorizer.add_user(name, password, str(folder), perm=_READ_ONLY)
    server = FTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, kwargs={"handle_exit": False}, daemon=True).start()
    return int(server.address[1])


_SERVERS = {SourceProtocol.SFTP: _serve_sftp, SourceProtocol.FTP: _serve_ftp}


@contextmanager
def _served(folder: Path, sources: Sequence[DemoSource]) -> Iterator[list[SourceAddress]]:
    """Fill the sources' folders and run their servers; yields each source's address."""
    accounts: dict[SourceProtocol, dict[str, tuple[str, Path]]] = {protocol: {} for protocol in _SERVERS}
    keys = folder / "accesskeys"
    keys.mkdir(mode=0o700)
    for source in sources:
        files = folder / "servers" / source.username
        files.mkdir(parents=True)
        source.write(files)
        password = secrets.token_urlsafe(16)
        with os.fdopen(create_file(keys / source.username, PRIVATE_FILE), "w", encoding="utf-8") as file:
            file.write(password)
        accounts[source.protocol][source.username] = password, files.absolute()
    ports = {protocol: serve(accounts[protocol]) for protocol, serve in _SERVERS.items()}
    with _refusing_port() as refusing:
        yield [
            SourceAddress(
                id=0,
                centre=source.centre,
                protocol=source.protocol,
                hostname=f"127.0.0.1:{refusing if source.refusing else ports[source.protocol]}",
                username=source.username,
                accesskey=SecretStr(f"file:{(keys / source.username).absolute()}"),
                base_path=BASE_PATH,
            )
            for source in sources
        ]


def _session(settings: Settings, addresses: Sequence[SourceAddress]) -> list[str]:
    """Register everything and run one session; returns what is not as expected.

    Raises ConfigurationError, and errors of databases and of the session.
    """
    from dcc.databases.schema import init_database
    from dcc.databases.transactions import writing
    from dcc.runtime.clock import utc_now
    from dcc.sources.crawl_policy import Pause
    from dcc.tracker.queries.submission_filters import SubmissionFilter
    from dcc.tracker.queries.submission_lists import find_submissions
    from dcc.tracker.register.source_addresses import load_addresses
    from dcc.tracker.register.source_schedules import set_pause

    display = SessionDisplay(click.echo, None, len(addresses), 0)
    with any_databases(settings) as (tracker, qc):
        init_database(tracker)
        init_database(qc)
        _register(tracker, settings, addresses)
        with dagster_side().open_instance(settings) as instance:
            dagster_side().run_session(settings, tracker, instance, SessionRequest(listeners=display.listeners()))
        with writing(tracker) as connection:
            # Later sessions keep away from the servers, which stop.
            for address in load_addresses(connection):
                set_pause(connection, address.id, Pause(_PAUSED, "dcc demo", utc_now(), None))
        if display.report.session is not None:
            click.echo(display.report.line(display.report.session))
        with tracker.connect() as connection:
            return _differences(display.report, find_submissions(connection, SubmissionFilter()))


def _differences(report: SessionOutput, entries: Sequence[SubmissionEntry]) -> list[str]:
    """Differences between the tracker and `EXPECTED`; none if all is well."""
    found = {
        SubmissionKey(entry.action, entry.file_name): ExpectedState(entry.phase, entry.status, len(entry.sources))
        for entry in entries
    }
    wrong = [
        f"{key} is {found.get(key)} and should be {EXPECTED.get(key)}."
        for key in sorted(EXPECTED.keys() | found.keys())
        if found.get(key) != EXPECTED.get(key)
    ]
    crawled = Counter(crawl["outcome"] is CrawlOutcome.FAILED for crawl in report.crawls)
    if crawled != (wanted := Counter(source.refusing for source in demo_sources())):
        wrong.append(f"{crawled[True]} of {crawled.total()} file sources failed, {wanted[True]} should.")
    return wrong


def _register(tracker: Engine, settings: Settings, addresses: Sequence[SourceAddress]) -> None:
    """Do what `dcc centre add` and `dcc source add --accept-host-key` do."""
    from dcc.databases.transactions import writing
    from dcc.sources.sftp.ssh import fetch_host_key
    from dcc.tracker.register import centres, file_sources

    host_keys: dict[str, list[HostKey]] = {}
    for address in addresses:
        if address.protocol == SourceProtocol.SFTP:
            # One of them refuses connections.
            with suppress(SourceUnreachableError):
                host_keys[address.hostname] = [fetch_host_key(address.hostname, settings)]
    with writing(tracker) as connection:
        for code in CENTRES:
            centres.add_centre(connection, centres.CentreDetails(code, email=f"wrangler@{code.lower()}.example.org"))
        for address in addresses:
            file_sources.add_source(connection, address, host_keys.get(address.hostname, ()))


def _print_next_steps(folder: Path, seconds: float) -> None:
    command = Path(sys.executable).with_name("dcc")
    if command.is_relative_to(Path.cwd()):
        command = command.relative_to(Path.cwd())
    click.echo(
        f"\nThat took {seconds:.0f} s. The servers are stopped; what they delivered is in {folder}/home. Look at it:"
    )
    for arguments in (
        "status",
        "show add/H.2013-11-04.3.impc.zip",
        "data causes",
        "report add/J.2013-11-04.28.impc.zip",
        "data history --centre H --specimen H-M000003",
        "qc contexts --centre Tcp",
        "ui",
    ):
        click.echo(f"  DCC_HOME={folder}/home {command} {arguments}")
    click.echo("The last of these opens the Dagster UI. Sources are paused. To process an archive again, from staging:")
    click.echo("`dcc source resume ID`, then `dcc retry ACTION/ZIP`.")
