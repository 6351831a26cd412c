"""Every setting of the platform, its default and its meaning.

Each field is read from the environment variable `DCC_` + its name in capitals (`DCC_DOWNLOADERS=8`); an empty one
counts as not set. Nothing else is read: no file, so that two processes with the same environment have the same
settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from dcc_resources.errors import ConfigurationError
from dcc_resources.mail_addresses import parse_addresses, parse_smtp_url
from dcc_resources.naming import DEFAULT_DOCUMENT_PATTERN, DEFAULT_ZIP_PATTERN, NamingConvention
from dcc_resources.redaction import keep_secret, keep_secrets_of_url
from dcc_resources.reference_data.addresses import parse_source
from dcc_resources.tracker.reference import Phase
from dcc_resources.webhook_addresses import parse_webhook

_MEGABYTE = 1024 * 1024

LANGUAGE_CODE = r"[a-z]{2,3}(_[A-Z][a-z]{3})?(_([A-Z]{2}|[0-9]{3}))?"
"""Codes of languages as catalogues are named after: `de`, `pt_BR`, `zh_Hant_TW`."""


def _default_home() -> Path:
    try:
        return Path.home() / ".dcc"
    except RuntimeError as error:
        raise ConfigurationError("This user has no home directory. Name a directory in DCC_HOME.") from error


class Settings(BaseSettings):
    """Settings of one installation; immutable. Build with `load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix="DCC_",
        env_ignore_empty=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    home: Path = Field(
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
    staging: Path | None = Field(
        default=None, description="Where archives and their contents are kept; by default DCC_HOME/staging."
    )
    xsd_dir: Path | None = Field(
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

    downloaders: int = Field(
        default=8,
        ge=1,
        le=64,
        description="Downloads under way at once, in all; one slower than 50 kB/s does not count.",
    )
    downloads_per_source: int = Field(
        default=4, ge=1, le=16, description="Connections to one file source, and so downloads at once from it."
    )
    until: Literal["zip_name", "xsd", "upload", "data", "context", "overview", "qc"] = Field(
        default="qc",
        description="The phase that sessions go on to: zip_name crawls only, xsd also downloads, extracts and "
        "validates, upload and those after it take the data over, qc is the last.",
    )
    hold_threshold: int = Field(
        default=500,
        ge=0,
        description="Specimens, experiments, lines and housings that one edit or delete document may replace or remove "
        "without being confirmed.",
    )
    workers: int = Field(default=2, ge=1, le=64, description="Archives and documents checked at once.")
    max_retries: int = Field(
        default=1,
        ge=0,
        le=20,
        description="Further tries of an archive at each file source that hosts it, within one session.",
    )
    retry_delay: float = Field(
        default=2.0, ge=0, description="Seconds before the first further try; doubled for each one after it."
    )
    source_failure_limit: int = Field(
        default=3,
        ge=1,
        description="Failures to connect, or stalls, in a row after which a session leaves a source alone.",
    )

    connect_timeout: float = Field(default=15.0, gt=0, description="Seconds to connect to a server.")
    login_timeout: float = Field(default=20.0, gt=0, description="Seconds for a server to accept a login.")
    list_timeout: float = Field(default=120.0, gt=0, description="Seconds for one directory listing, in all.")
    idle_timeout: float = Field(default=60.0, gt=0, description="Seconds without a byte before a transfer is given up.")
    slowest_download: int = Field(
        default=100,
        ge=0,
        description="Bytes per second, over five minutes, below which a download is given up; what arrived is kept.",
    )
    download_timeout: float = Field(
        default=12 * 3600.0,
        gt=0,
        description="Seconds for one download, in all; what arrived is kept, and a later session goes on with it.",
    )
    max_unsized_bytes: int = Field(
        default=4096 * _MEGABYTE,
        gt=0,
        description="Bytes that may arrive of an archive whose size its file source does not tell.",
    )
    known_hosts: Path | None = Field(
        default=None, description="Further host keys to trust, in OpenSSH's known_hosts format."
    )
    key_passphrase: SecretStr | None = Field(
        default=None, description="Passphrase of SSH private keys whose access key names none."
    )
    tls_ca_file: Path | None = Field(
        default=None, description="Certificate authorities for ftps, https and e-mail, in PEM; by default the system's."
    )

    min_free_bytes: int = Field(
        default=500 * _MEGABYTE, ge=0, description="Bytes that must stay free on the staging disk."
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

    max_archive_bytes: int = Field(
        default=100 * 1024 * _MEGABYTE, gt=0, description="Bytes that one archive may unpack to, in all."
    )
    max_archive_ratio: int = Field(default=200, gt=0, description="Times its size that an archive may unpack to.")
    max_archive_entries: int = Field(default=100_000, gt=0, description="Entries that one archive may hold.")
    max_document_errors: int = Field(default=1_000, ge=1, description="Errors recorded for one document.")
    max_tree_bytes: int = Field(
        default=4 * _MEGABYTE,
        ge=0,
        description="Documents above this size are validated as a stream, in flat memory.",
    )

    database_retry: float = Field(
        default=60.0, ge=0, description="Seconds for which a lost database connection is tried again."
    )
    lease_timeout: float = Field(
        default=60.0, gt=1, description="Seconds without a sign of life after which a session counts as dead."
    )
    crawl_interval: str = Field(default="0 * * * *", description="When Dagster crawls all sources: a cron expression.")
    dagster_events: bool = Field(
        default=True,
        description="Whether `dcc` shows its work in Dagster too; the tracker has it in any case.",
    )
    dagster_zips: int = Field(
        default=5_000,
        ge=1,
        le=1_000_000,
        description="Zip actions that came through which Dagster shows: those that changed last. Older ones are "
        "archived from its pages; the tracker and `dcc` have them all.",
    )
    dagster_failed_zips: int = Field(
        default=1_000,
        ge=1,
        le=1_000_000,
        description="Zip actions that failed which Dagster shows, likewise: its pages of checks take long for many.",
    )

    reference_impress: str | None = Field(
        default=None,
        description="IMPReSS: the URL of its API (what answers at <URL>/pipeline/list), or the URL or path of an "
        "impress.json, or a folder with one. By default a small set that comes with the platform, for the demo only.",
    )
    reference_status_codes: str | None = Field(
        default=None, description="Status codes: URL or path of a CSV or TSV file, or a folder with status_codes.csv."
    )
    reference_projects: str | None = Field(
        default=None, description="Projects: URL or path of a CSV or TSV file, or a folder with projects.csv."
    )
    reference_colonies: str | None = Field(
        default=None, description="Colonies: URL or path of a CSV or TSV file, or a folder with colonies.csv."
    )
    reference_strains: str | None = Field(
        default=None,
        description="Strains: URL or path of a CSV or TSV file or of MGI_Strain.rpt, or a folder with one of them.",
    )
    reference_max_age_days: int = Field(
        default=30, ge=1, le=3_650, description="Days after which a set of reference data counts as stale."
    )

    crawl_overdue_hours: float = Field(
        default=24.0,
        gt=0,
        le=24 * 366,
        description="Hours within which each available file source is to be listed; the check crawled_lately of its "
        "page fails after that.",
    )
    centre_silent_days: int = Field(
        default=30,
        ge=1,
        le=3_650,
        description="Days without a new archive after which a centre counts as silent; the check heard_from of its "
        "page fails then.",
    )
    through_within_days: int = Field(
        default=3,
        ge=1,
        le=3_650,
        description="Days within which all documents are to be through to quality control, or to DCC_UNTIL; the check "
        "through_in_time of their centre's page fails after that.",
    )

    smtp_url: SecretStr = Field(
        default=SecretStr("smtp://localhost"),
        description="Mail server that sends session reports: smtp://user:password@host:port, or smtps:// for TLS from "
        "the start. User, password and port may be left out; what URLs give a meaning is percent-encoded. By default "
        "that of this machine.",
    )
    report_to: str = Field(
        default="", description="E-mail addresses, between commas, that get a report of each session; none by default."
    )
    report_from: str | None = Field(
        default=None, description="E-mail address that reports come from; by default dcc at this machine."
    )
    report_directory: Path | None = Field(
        default=None, description="Directory that each session's report is written to, as session-<id>.txt."
    )
    report_quiet_sessions: bool = Field(
        default=True, description="Whether a session is reported in which nothing happened and nothing was amiss."
    )
    submission_reports: Literal["none", "failed", "all"] = Field(
        default="none",
        description="Whose submission reports each session keeps in DCC_HOME/reports, of the zip actions that it "
        "touched: of those that failed, of all, or of none; `dcc report` makes one at any time.",
    )
    templates_directory: Path | None = Field(
        default=None,
        description="Directory with templates of submission reports and notifications to use instead of those that "
        "come with the platform; what it lacks is taken from there.",
    )

    language: str = Field(
        default="en",
        pattern=f"^{LANGUAGE_CODE}$",
        description="Language of what centres read, unless theirs is another one: the name of a catalogue, such as de.",
    )
    languages_directory: Path | None = Field(
        default=None,
        description="Directory with catalogues of your own, such as fr.po, or with what yours say otherwise.",
    )

    suggestions: bool = Field(
        default=True,
        description="Whether a command ends with the one that comes next, a line on standard error. Never with --json.",
    )

    notify_centres: bool = Field(
        default=False,
        description="Whether centres get an e-mail on what became of what they submitted, after the session that took "
        "it: at the address of `dcc centre add --email`.",
    )
    notify_to: str = Field(
        default="",
        description="E-mail addresses, between commas, that are notified of what needs a hand: outages at once, what "
        "failed after each session; none by default. One that gets DCC_REPORT_TO's report is not told what is in it.",
    )
    notify_webhook: SecretStr | None = Field(
        default=None,
        description="URL, http or https, that gets every notification as a JSON object by POST; none by default.",
    )
    notify_webhook_secret: SecretStr | None = Field(
        default=None,
        description="Key that what the webhook gets is signed with (HMAC-SHA256); by default it is not signed.",
    )
    notify_log: bool = Field(default=False, description="Whether every notification is a line of the log.")
    notify_outage_crawls: int = Field(
        default=1,
        ge=1,
        le=1_000,
        description="Crawls in a row that a file source must fail in before that is notified of as an outage.",
    )
    notify_attachment_bytes: int = Field(
        default=1_000_000,
        ge=0,
        le=20_000_000,
        description="Bytes of submission reports that an e-mail to a centre may carry, in all; 0 for none.",
    )
    notify_seconds: float = Field(
        default=30.0,
        gt=0,
        le=600,
        description="Seconds that sending notifications may take after a session; what is left is sent by the next.",
    )

    log_format: Literal["text", "json"] | None = Field(
        default=None,
        description="Log in this form: text, a line a message, or json, an object a line. Without DCC_LOG_FILE the log "
        "goes to standard error. By default text where one of the other two is set, else there is no log.",
    )
    log_level: Literal["debug", "info", "warning", "error"] | None = Field(
        default=None, description="What is logged: this and what is graver. By default info."
    )
    log_file: Path | None = Field(
        default=None,
        description="File that the log is appended to; it may be moved away at any time, by logrotate for one.",
    )
    metrics_file: Path | None = Field(
        default=None,
        description="File that gets the metrics at the end of each session, in the text format of Prometheus: for the "
        "node exporter's textfile collector, its name ends with .prom.",
    )

    @model_validator(mode="after")
    def _tell_nobody(self) -> Self:
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, SecretStr):
                secret = value.get_secret_value()
                if name.endswith("_url"):
                    keep_secrets_of_url(secret)
                else:
                    keep_secret(secret)
        return self

    @field_validator("smtp_url")
    @classmethod
    def _mail_server(cls, url: SecretStr) -> SecretStr:
        parse_smtp_url(url)
        return url

    @field_validator("notify_webhook")
    @classmethod
    def _webhook(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            parse_webhook(url)
        return url

    @field_validator("report_to", "notify_to")
    @classmethod
    def _addresses(cls, text: str) -> str:
        parse_addresses(text)
        return text

    @field_validator("report_from")
    @classmethod
    def _one_address(cls, text: str | None) -> str | None:
        if text is not None and len(parse_addresses(text)) != 1:
            raise ValueError("it must be one e-mail address")
        return text

    @field_validator(
        "home",
        "staging",
        "xsd_dir",
        "known_hosts",
        "tls_ca_file",
        "report_directory",
        "log_file",
        "metrics_file",
        "templates_directory",
    )
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        try:
            return None if path is None else path.expanduser().absolute()
        except RuntimeError as error:
            raise ValueError("Path should not begin with the home directory (~) of a user that is not known") from error

    @field_validator(
        "reference_impress", "reference_status_codes", "reference_projects", "reference_colonies", "reference_strains"
    )
    @classmethod
    def _reference_source(cls, text: str | None) -> str | None:
        return None if text is None else parse_source(text)

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
    def reference_sources(self) -> Mapping[str, str | None]:
        """Where each set of reference data is read from, by its name; None for what comes with the platform."""
        return {
            "impress": self.reference_impress,
            "status_codes": self.reference_status_codes,
            "projects": self.reference_projects,
            "colonies": self.reference_colonies,
            "strains": self.reference_strains,
        }

    @property
    def last_phase(self) -> Phase:
        """The phase that sessions go on to."""
        return Phase[self.until.upper()]

    @property
    def staging_directory(self) -> Path:
        """Where archives are kept, as `<action>/<zip>` and `<action>/<zip>.contents/`."""
        return self.staging if self.staging is not None else self.home / "staging"

    @property
    def asks_for_reports(self) -> bool:
        """Whether sessions are to be reported to anybody."""
        return bool(self.report_addresses) or self.report_directory is not None

    @property
    def report_addresses(self) -> tuple[str, ...]:
        """Who gets session reports by e-mail."""
        return parse_addresses(self.report_to)

    @property
    def notifies(self) -> bool:
        """Whether anybody is to be notified of anything."""
        return bool(self.notify_centres or self.notify_addresses or self.notify_webhook or self.notify_log)

    @property
    def notify_addresses(self) -> tuple[str, ...]:
        """Who is notified by e-mail of what needs a hand."""
        return parse_addresses(self.notify_to)

    @property
    def dagster_home(self) -> Path:
        """The Dagster instance's directory."""
        return self.home / "dagster"

    @cached_property
    def naming(self) -> NamingConvention:
        """The naming convention in force."""
        return NamingConvention(self.zip_pattern, self.document_pattern)


def load_settings(**overrides: object) -> Settings:
    """Read the settings from the environment; `overrides` (field names) win.

    Raises ConfigurationError that names each wrong setting and what it must be.
    """
    try:
        settings = Settings(**{name: value for name, value in overrides.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        problems = "; ".join(
            f"DCC_{str(item['loc'][0]).upper()}: {item['msg']}" for item in error.errors() if item["loc"]
        )
        raise ConfigurationError(f"{problems}. Correct the setting and start again.") from error
    _ = settings.naming
    return settings
