"""The accounts on a MySQL or MariaDB server for an installation, each with only the rights that it needs.

The server's administrator runs these statements. The accounts are locked until they have passwords.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import URL, Engine, text

from dcc.databases.engines import DATA_RIGHTS, INIT_ACCOUNT, SESSIONS_ACCOUNT, server_of_database

_READ: Final = "SELECT"
_WRITE: Final = ", ".join(DATA_RIGHTS)
_DEFINE: Final = f"{_WRITE}, CREATE, ALTER, DROP, INDEX, REFERENCES, CREATE VIEW, SHOW VIEW"


@dataclass(frozen=True, slots=True)
class Account:
    """An account: its user name, purpose, and rights on the tracker, the QC and Dagster's database."""

    name: str
    purpose: str
    tracker: str | None = None
    qc: str | None = None
    dagster: str | None = None


ACCOUNTS: Final = (
    Account(
        INIT_ACCOUNT, "dcc init, dcc restore and dcc migrate-storage: make and change tables", _DEFINE, _DEFINE, _DEFINE
    ),
    Account(SESSIONS_ACCOUNT, "sessions, the daemon, dcc ui and every other command", _WRITE, _WRITE, _WRITE),
    Account("dcc_ui", "dcc ui --read-only: sees Dagster's pages and nothing else", dagster=_READ),
    Account("dcc_analyst", "analysts: read the QC database", qc=_READ),
)


def grant_statements(tracker: URL, qc: URL, dagster: URL, client_host: str = "%") -> list[str]:
    """Lines of SQL that make the accounts for the databases of three URLs, with comments; every statement ends in `;`.

    `client_host` is the host from which the accounts may connect, as the server knows it; `%` is any. Databases on
    several servers come under a comment that names the server.
    """
    databases = {"tracker": tracker, "qc": qc, "dagster": dagster}
    servers = list(dict.fromkeys(server_of_database(url) for url in databases.values()))
    lines: list[str] = []
    for server in servers:
        if len(servers) > 1:
            lines += [f"-- On the server {server}:", ""]
        here = {kind: url for kind, url in databases.items() if server_of_database(url) == server}
        lines += _statements(here, client_host)
    lines += [
        "-- The accounts are locked. Give each that is used a password of its own:",
        *(f"--   {unlock_statement(account.name, '...', client_host)}" for account in ACCOUNTS),
    ]
    return lines


def client_host_of(engine: Engine) -> str:
    """The host from which this account may connect, as the server knows it; `%` if it is none of `ACCOUNTS`."""
    with engine.connect() as connection:
        name, _, host = str(connection.execute(text("SELECT CURRENT_USER()")).scalar()).rpartition("@")
    return host if any(account.name == name for account in ACCOUNTS) else "%"


def unlock_statement(name: str, password: str, client_host: str = "%") -> str:
    """The statement that sets an account's password and unlocks it."""
    return f"ALTER USER {_user(name, client_host)} IDENTIFIED BY {_text(password)} ACCOUNT UNLOCK;"


def _statements(databases: Mapping[str, URL], client_host: str) -> Iterator[str]:
    for account in ACCOUNTS:
        rights = {url.database: right for kind, url in databases.items() if (right := getattr(account, kind))}
        if not rights:
            continue
        user = _user(account.name, client_host)
        yield f"-- {account.purpose}"
        yield f"CREATE USER IF NOT EXISTS {user} ACCOUNT LOCK;"
        for database, right in rights.items():
            yield f"GRANT {right} ON {_pattern(str(database))}.* TO {user};"
        yield ""


def _user(name: str, host: str) -> str:
    return f"{_text(name)}@{_text(host)}"


def _text(value: str) -> str:
    quoted = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{quoted}'"


def _pattern(database: str) -> str:
    # Grants read a database's name as a pattern: unescaped, phenodcc_raw would match phenodccXraw too.
    quoted = database.replace("`", "``").replace("_", "\\_").replace("%", "\\%")
    return f"`{quoted}`"
