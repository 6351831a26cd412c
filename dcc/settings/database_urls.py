"""The URLs of databases, as settings give them: what is wrong with one is found before anything connects to it.

No message made here repeats anything of a URL but the kind of its database: it may hold a password anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from dcc.settings.hosts import is_host_name

if TYPE_CHECKING:
    from sqlalchemy import URL

WANTED: Final = (
    "write mysql://user:password@host:port/database (with special characters of the password percent-encoded) or "
    "sqlite:////path/of/file.db"
)

_SERVERS: Final = ("mysql", "mariadb")
_NUMBERS: Final = ("client_flag", "connect_timeout", "local_infile", "read_timeout", "write_timeout")
_FLAGS: Final = ("ssl_check_hostname", "use_unicode")
_SSL_FILES: Final = ("ssl_ca", "ssl_capath", "ssl_cert", "ssl_key")
_OPTIONS: Final = {
    *_NUMBERS,
    *_FLAGS,
    *_SSL_FILES,
    "bind_address",
    "charset",
    "collation",
    "passwd",
    "password",
    "program_name",
    "ssl_cipher",
    "ssl_key_password",
    "unix_socket",
}


def check_database_url(text: str) -> None:
    """See that a URL names a database of a known kind. Raises ValueError that says what is wrong, and nothing of it."""
    # Takes long to import; whoever names a database needs it anyway.
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # Its message repeats the URL.
        raise ValueError(f"it is not a database URL: {WANTED}") from None
    backend = url.get_backend_name()
    if backend not in ("sqlite", *_SERVERS):
        kind = f"the kind {backend!r}" if re.fullmatch(r"[a-z0-9]{1,20}", backend) else "another kind"
        raise ValueError(f"it names a database of {kind}: use sqlite, mysql or mariadb")
    try:
        # Whichever driver is named, the platform uses its own.
        url.get_dialect()
    except ArgumentError:
        raise ValueError(f"it names a driver that is not known; leave out the + and what follows: {WANTED}") from None
    if backend == "sqlite":
        _check_file(url)
    else:
        _check_server(url)


def _check_file(url: URL) -> None:
    if not url.database or url.database == ":memory:":
        raise ValueError(
            "it names a SQLite database in memory, which one process could not share with another: name a file, "
            "sqlite:////path/of/file.db"
        )
    if url.host or url.username or url.password or url.query:
        raise ValueError("it names a server or options, which a SQLite file has not: write sqlite:////path/of/file.db")


def _check_server(url: URL) -> None:
    if not url.database:
        raise ValueError(f"it names a server and no database on it, or no server: {WANTED}")
    # A password with an @ and a slash would be cut there, and its end shown as the name of the database.
    if not is_host_name(url.host or "localhost") or "@" in url.database:
        raise ValueError(f"its host is no name or address: {WANTED}")
    if url.port is not None and not 1 <= url.port <= 65_535:
        raise ValueError("its port is not between 1 and 65535")
    options = {name: value if isinstance(value, str) else value[-1] for name, value in url.query.items()}
    if options.keys() - _OPTIONS:
        raise ValueError(f"it has options that are not known; those that are: {', '.join(sorted(_OPTIONS))}")
    for name in _NUMBERS:
        if not re.fullmatch(r"[0-9]{1,9}", options.get(name, "0")):
            raise ValueError(f"its option {name} is no number")
    for name in _FLAGS:
        if not re.fullmatch("(?i)[01]|true|false|yes|no|on|off|[yntf]", options.get(name, "0")):
            raise ValueError(f"its option {name} is neither true nor false")
    _check_certificates(options)


def _check_certificates(options: Mapping[str, str]) -> None:
    """Read what TLS needs as the driver will, which takes failures for faults of the platform's."""
    given = [name for name in _SSL_FILES if name in options]
    if not given:
        return
    import ssl

    try:
        context = ssl.create_default_context(cafile=options.get("ssl_ca"), capath=options.get("ssl_capath"))
        if "ssl_cert" in options:
            context.load_cert_chain(
                options["ssl_cert"], options.get("ssl_key"), password=options.get("ssl_key_password", "")
            )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise ValueError(f"what its options {', '.join(given)} name cannot be used ({reason})") from None
