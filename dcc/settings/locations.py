"""Settings: where databases, archives and schemas are, and what archives and documents are called."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from dcc.errors import ConfigurationError
from dcc.naming import DEFAULT_DOCUMENT_PATTERN, DEFAULT_ZIP_PATTERN, NamingConvention
from dcc.redaction import keep_secrets_of_url
from dcc.settings.group import MEGABYTE, AbsolutePath, SettingsGroup


def _default_home() -> Path:
    try:
        return Path.home() / ".dcc"
    except RuntimeError as error:
        raise ConfigurationError("This user has no home directory. Name a directory in DCC_HOME.") from error


class LocationSettings(SettingsGroup):
    """Where everything is, how long it stays there, and how it is named."""

    home: AbsolutePath = Field(
        default_factory=_default_home,
        description="Where the embedded database, staging and the Dagster instance live.",
    )
    tracker_url: SecretStr | None = Field(
        default=None,
        description="SQLAlchemy URL of the tracker database; by default SQLite in DCC_HOME/tracker.db. "
        "mysql://user:password@host/phenodcc_tracker for MySQL or MariaDB.",
    )
    qc_url: SecretStr | None = Field(
        default=None,
        description="SQLAlchemy URL of the QC database, which holds what documents say; by default SQLite in "
        "DCC_HOME/qc.db. mysql://user:password@host/phenodcc_raw for MySQL or MariaDB.",
    )
    dagster_url: SecretStr | None = Field(
        default=None,
        description="SQLAlchemy URL of the database that Dagster keeps runs and events in; by default SQLite in "
        "DCC_HOME/dagster. mysql://user:password@host/phenodcc_dagster for MySQL or MariaDB.",
    )
    target_tracker_url: SecretStr | None = Field(
        default=None,
        description="SQLAlchemy URL of the database that `dcc migrate-storage` copies the tracker to; nothing else "
        "reads it.",
    )
    target_qc_url: SecretStr | None = Field(
        default=None,
        description="SQLAlchemy URL of the database that `dcc migrate-storage` copies the QC database to; nothing else "
        "reads it.",
    )
    staging: AbsolutePath | None = Field(
        default=None, description="Where archives and their contents are kept; by default DCC_HOME/staging."
    )
    xsd_dir: AbsolutePath | None = Field(
        default=None,
        description="Directory with specimen_definition.xsd and procedure_definition.xsd to use "
        "instead of the schemas that come with the platform.",
    )

    zip_pattern: str = Field(
        default=DEFAULT_ZIP_PATTERN, description="Archive names: a regular expression with centre, date, inc."
    )
    document_pattern: str = Field(
        default=DEFAULT_DOCUMENT_PATTERN,
        description="Document names: a regular expression with centre, date, inc, kind.",
    )

    min_free_bytes: int = Field(
        default=500 * MEGABYTE, ge=0, description="Bytes that must stay free on the staging disk."
    )
    staging_keep_days: int = Field(
        default=90,
        ge=0,
        le=36_500,
        description="Days that archives and their contents stay in staging once they are through; `dcc staging clean` "
        "removes them then.",
    )
    staging_keep_failed_days: int = Field(
        default=365,
        ge=0,
        le=36_500,
        description="Days that archives and their contents stay in staging when they failed, were withdrawn or are to "
        "be downloaded again.",
    )
    staging_keep_part_days: int = Field(
        default=7,
        ge=0,
        le=36_500,
        description="Days that parts of archives stay in staging which no file source hosts any more.",
    )
    staging_keep_phase: Literal["xsd", "upload", "data", "context", "overview", "qc"] = Field(
        default="qc",
        description="The phase that an archive is through with when it is done, for DCC_STAGING_KEEP_DAYS.",
    )
    staging_clean: bool = Field(
        default=False, description="Whether each session ends by removing from staging what has been kept long enough."
    )

    @field_validator("tracker_url", "qc_url", "dagster_url", "target_tracker_url", "target_qc_url")
    @classmethod
    def _names_database(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            from dcc.settings.database_urls import check_database_url

            keep_secrets_of_url(url.get_secret_value())
            check_database_url(url.get_secret_value())
        return url

    @field_validator("home")
    @classmethod
    def _fits_into_url(cls, home: Path) -> Path:
        # SQLAlchemy would take what follows for options of the connection, and make the database elsewhere.
        if "?" in str(home):
            raise ValueError("Path should hold no question mark")
        return home

    @property
    def tracker_database_url(self) -> str:
        """URL of the tracker database, with its password: never print it."""
        if self.tracker_url is not None:
            return self.tracker_url.get_secret_value()
        return f"sqlite:///{self.home / 'tracker.db'}"

    @property
    def qc_database_url(self) -> str:
        """URL of the QC database, with its password: never print it."""
        if self.qc_url is not None:
            return self.qc_url.get_secret_value()
        return f"sqlite:///{self.home / 'qc.db'}"

    @property
    def staging_directory(self) -> Path:
        """Where archives are kept, as `<action>/<zip>` and `<action>/<zip>.contents/`."""
        return self.staging if self.staging is not None else self.home / "staging"

    @property
    def dagster_home(self) -> Path:
        """The Dagster instance's directory."""
        return self.home / "dagster"

    @cached_property
    def naming(self) -> NamingConvention:
        """The naming convention in force."""
        return NamingConvention(self.zip_pattern, self.document_pattern)
