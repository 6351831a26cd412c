"""Settings: what sessions do, how much at once, for how long, and within which bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from dcc.phases import Phase
from dcc.settings.centre_groups import CentreGroup, parse_centre_groups, parse_group_intervals
from dcc.settings.group import MEGABYTE, AbsolutePath, SettingsGroup
from dcc.settings.hosts import parse_hosts


class SessionSettings(SettingsGroup):
    """How sessions work, and what Dagster shows of them."""

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
    downloaders: int = Field(
        default=8,
        ge=1,
        le=64,
        description="Downloads under way at once, in all; one slower than 50 kB/s does not count.",
    )
    downloads_per_source: int = Field(
        default=4,
        ge=1,
        le=16,
        description="Connections to one file source, of all sessions and workers together, and so downloads at once.",
    )
    connections_per_server: int | None = Field(
        default=None,
        ge=1,
        description="Connections to one server, which may be that of several file sources; by default as many as these "
        "may have together.",
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
    quiet_seconds: float = Field(
        default=5.0,
        ge=0,
        le=600,
        description="Seconds for which an archive must stay as it is before it is taken. A session looks once more at "
        "younger ones, and its downloads wait for that; 0: all are taken as they are.",
    )
    listing_shrink_limit: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Share of its archives that a directory may lose from one listing to the next. If it loses more "
        "(at least three), or all, the next listing decides whether they are gone; 1: only if it loses all.",
    )
    list_timeout: float = Field(
        default=300.0, gt=0, description="Seconds for the listing of a file source, all its directories together."
    )
    idle_timeout: float = Field(default=60.0, gt=0, description="Seconds without a byte before a transfer is given up.")
    min_download_speed: int = Field(
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
        default=4096 * MEGABYTE,
        gt=0,
        description="Bytes that may arrive of an archive whose size its file source does not tell.",
    )
    known_hosts: AbsolutePath | None = Field(
        default=None, description="Further host keys to trust, in OpenSSH's known_hosts format."
    )
    key_passphrase: SecretStr | None = Field(
        default=None, description="Passphrase of SSH private keys whose access key names none."
    )
    tls_ca_file: AbsolutePath | None = Field(
        default=None, description="Certificate authorities for ftps, https and e-mail, in PEM; by default the system's."
    )

    max_archive_bytes: int = Field(
        default=100 * 1024 * MEGABYTE, gt=0, description="Bytes that one archive may unpack to, in all."
    )
    max_archive_ratio: int = Field(default=200, gt=0, description="Times its size that an archive may unpack to.")
    max_archive_entries: int = Field(default=100_000, gt=0, description="Entries that one archive may hold.")
    max_document_errors: int = Field(default=1_000, ge=1, description="Errors recorded for one document.")
    max_tree_bytes: int = Field(
        default=4 * MEGABYTE,
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
    groups: str = Field(
        default="",
        description="Groups of centres that `dcc crawl --group` crawls alone, such as europe=H,Wtsi;asia=Rbrc. A "
        "centre is in one group at most.",
    )
    group_intervals: str = Field(
        default="",
        description="When Dagster crawls groups of centres beside DCC_CRAWL_INTERVAL: a cron expression for each, such "
        "as europe=0 */2 * * *;asia=30 3 * * *. A group without one has no schedule of its own.",
    )
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
    ui_hosts: str = Field(
        default="",
        description="Names and addresses, between commas, that the web page is asked for by; ports do not matter. "
        "Those of this machine alone, such as localhost, and a name or address of `dcc ui --host` are always among "
        "them.",
    )

    @field_validator("groups")
    @classmethod
    def _groups(cls, text: str) -> str:
        parse_centre_groups(text)
        return text

    @field_validator("group_intervals")
    @classmethod
    def _group_intervals(cls, text: str) -> str:
        parse_group_intervals(text)
        return text

    @field_validator("ui_hosts")
    @classmethod
    def _hosts(cls, text: str) -> str:
        parse_hosts(text)
        return text

    @property
    def centre_groups(self) -> Mapping[str, CentreGroup]:
        """The groups of centres by their names."""
        return parse_centre_groups(self.groups)

    @property
    def intervals_of_groups(self) -> Mapping[str, str]:
        """The cron expressions of groups of centres with a schedule of their own, by their names."""
        return parse_group_intervals(self.group_intervals)

    @property
    def page_hosts(self) -> frozenset[str]:
        """The names and addresses that the web page is asked for by, beside those of this machine alone."""
        return parse_hosts(self.ui_hosts)

    @property
    def last_phase(self) -> Phase:
        """The phase that sessions go on to."""
        return Phase[self.until.upper()]
