"""Settings: where databases, archives and schemas are, and what archives and documents are called."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from pydantic import Field, SecretStr, field_validator

from dcc.errors import ConfigurationError
from dcc.naming import DEFAULT_DOCUMENT_PATTERN, DEFAULT_ZIP_PATTERN, NamingConvention
from dcc.phases import KeptPhase
from dcc.settings.database_urls import check_database_url
from dcc.settings.group import MEGABYTE, AbsolutePath, SettingsGroup, url_checked_by


def _default_home() -> Path:
    try:
        return Path.home() / ".dcc"
    except RuntimeError as error:
        raise ConfigurationError("This user has no home directory. Name a directory in DCC_HOME.") from error


class LocationSettings(SettingsGroup):
    """Where everything is, how long it stays there, and how it is named."""

    section = "locations"
    title = "Databases, files and staging"

    home: AbsolutePath = Field(default_factory=_default_home)
    """Directory of databases, staging and the Dagster instance."""
    environment: Literal["production", "test"] | None = None
    """Environment that mails, pages and prompts name: production or test."""
    tracker_url: SecretStr | None = None
    """URL of the tracker, such as mysql://user:password@host/phenodcc_tracker; else SQLite in DCC_HOME."""
    qc_url: SecretStr | None = None
    """URL of the QC database; else SQLite."""
    dagster_url: SecretStr | None = None
    """URL of the database of Dagster's runs and events; else SQLite."""
    target_tracker_url: SecretStr | None = None
    """URL to which `dcc migrate-storage` copies the tracker."""
    target_qc_url: SecretStr | None = None
    """URL to which `dcc migrate-storage` copies the QC database."""
    staging: AbsolutePath | None = None
    """Directory of archives and documents; else DCC_HOME/staging."""
    xsd_dir: AbsolutePath | None = None
    """Directory with your own specimen_definition.xsd and procedure_definition.xsd."""

    zip_pattern: str = DEFAULT_ZIP_PATTERN
    """Archive names: a regular expression with centre, date, inc."""
    document_pattern: str = DEFAULT_DOCUMENT_PATTERN
    """Document names: a regular expression with centre, date, inc, kind."""

    min_free_bytes: int = Field(default=500 * MEGABYTE, ge=0)
    """Bytes that stay free on the staging disk."""
    staging_keep_days: int = Field(default=90, ge=0, le=36_500)
    """Days in staging of archives that are through."""
    staging_keep_failed_days: int = Field(default=365, ge=0, le=36_500)
    """Days in staging of archives that failed, were withdrawn or must be downloaded again."""
    staging_keep_part_days: int = Field(default=7, ge=0, le=36_500)
    """Days in staging of parts of archives that no file source hosts."""
    staging_keep_phase: KeptPhase = "qc"
    """Phase after which an archive is through."""
    staging_clean: bool = False
    """Whether each session ends by cleaning staging."""

    _databases = field_validator("tracker_url", "qc_url", "dagster_url", "target_tracker_url", "target_qc_url")(
        url_checked_by(check_database_url)
    )

    @field_validator("home")
    @classmethod
    def _fits_into_url(cls, home: Path) -> Path:
        # SQLAlchemy would read options of the connection or other characters there, and make the database elsewhere.
        if "?" in str(home) or unquote(str(home)) != str(home):
            raise ValueError("it must hold no question mark, and no percent sign before two digits, such as %20")
        return home

    def labelled(self, line: str) -> str:
        """A subject or question with the environment before it, if there is one: `[test] DCC session 3: all well`."""
        return line if self.environment is None else f"[{self.environment}] {line}"

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
