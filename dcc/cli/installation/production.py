"""`dcc init --production`: Dagster's tables and `dagster.yaml` too, and the SQL for the accounts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dcc.cli.shell.dagster_side import dagster_side
from dcc.configuration_file import NAME
from dcc.errors import ConfigurationError

if TYPE_CHECKING:
    from sqlalchemy import URL

    from dcc.databases.schema import InitReport
    from dcc.settings import Settings

_OF_INIT: Final = "dcc-init.toml"
"""The configuration file with the URLs of dcc_init, as docs/operations/mariadb.md has it."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A `dagster.yaml`: its path, whether it was written now, and the path of the kept copy of a replaced one."""

    path: Path
    written: bool
    kept: Path | None


def production_grants(settings: Settings, client_host: str) -> list[str]:
    """The lines of SQL that make the accounts. Raises ConfigurationError unless three databases are named."""
    from dcc.databases.grants import grant_statements

    tracker, qc, dagster = _require_production(settings)
    return grant_statements(tracker, qc, dagster, client_host)


def prepare_configuration(settings: Settings, *, replace: bool) -> Configuration:
    """Write `dagster.yaml` if there is none.

    Raises ConfigurationError unless three databases are named, or if an existing file does not use them (unless
    `replace`), and DagsterStorageError.
    """
    _require_production(settings)
    path = dagster_side().configuration_path(settings)
    was_there = path.exists()
    kept = dagster_side().write_configuration(settings, replace=replace)
    return Configuration(path, not was_there or kept is not None, kept)


def init_dagster(settings: Settings) -> InitReport:
    """Make or migrate Dagster's tables; raises as `dcc_dagster.dagster_database.init_dagster_database`."""
    if settings.dagster_url is None:
        raise ConfigurationError("DCC_DAGSTER_URL is not set. Set it: mysql://user:password@host/phenodcc_dagster.")
    return dagster_side().init_dagster_database(settings.dagster_url.get_secret_value())


def left_to_do(settings: Settings, read: Path | None, *, has_sources: bool) -> list[str]:
    """What an operator has to do after `dcc init --production`, in this order.

    `read` is where the configuration file is, or would be. Beside one of dcc_init, that of all else is dcc.toml.
    """
    from sqlalchemy.engine import make_url

    file = NAME if read is None else str(read.with_name(NAME) if read.name == _OF_INIT else read)
    steps = ["Have the server's administrator run this SQL and set passwords; until then the accounts are locked."]
    if make_url(settings.tracker_database_url).username != "dcc_sessions":
        steps.append(f"Write the URLs with the account dcc_sessions into {file}, and that of dcc_ui for the page.")
    if settings.environment is None:
        steps.append(f'Say in {file} which installation this is: environment = "production"')
    if not any(settings.reference_sources.values()):
        steps.append(
            f"Name sources of reference data in {file}, such as reference_impress, then: dcc reference refresh"
        )
    if not (settings.asks_for_reports or settings.notifies):
        steps.append(f"Say in {file} who gets reports and notifications: report_to, notify_to")
    if not has_sources:
        steps.append("Register centres and their sources: dcc centre add; dcc source add")
    steps.append(
        "Start the services: "
        "systemctl enable --now dcc.target dcc-backup.timer dcc-staging-clean.timer dcc-doctor.timer"
    )
    steps.append("See that all is well: dcc doctor")
    return steps


def _require_production(settings: Settings) -> tuple[URL, URL, URL]:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    from dcc.databases.columns import MYSQL_FAMILY
    from dcc.databases.engines import same_database

    urls: list[URL] = []
    for variable, name, secret in (
        ("DCC_TRACKER_URL", "phenodcc_tracker", settings.tracker_url),
        ("DCC_QC_URL", "phenodcc_raw", settings.qc_url),
        ("DCC_DAGSTER_URL", "phenodcc_dagster", settings.dagster_url),
    ):
        try:
            url = None if secret is None else make_url(secret.get_secret_value())
        except (ArgumentError, ValueError):
            # The message may quote the URL with its password.
            url = None
        if url is None or url.get_backend_name() not in MYSQL_FAMILY or not url.database:
            raise ConfigurationError(
                f"{variable} names no database on a MySQL or MariaDB server, as --production needs. Set it: "
                f"mysql://user:password@host/{name}."
            )
        urls.append(url)
    if any(same_database(one, other) for one, other in combinations(urls, 2)):
        raise ConfigurationError(
            "DCC_TRACKER_URL, DCC_QC_URL and DCC_DAGSTER_URL name the same database twice. Name three databases; they "
            "may be on one server."
        )
    return urls[0], urls[1], urls[2]
