"""Settings: what sessions do, how much at once, for how long, and within which bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from dcc.phases import LastPhase, Phase
from dcc.settings.centre_groups import CentreGroup, parse_centre_groups, parse_group_intervals, parts_of
from dcc.settings.group import MEGABYTE, AbsolutePath, SettingsGroup, checked_by
from dcc.settings.hosts import parse_hosts
from dcc.settings.left_out_steps import MAY_BE_LEFT_OUT, LeftOutSteps, parse_left_out_steps

_EXAMPLE: Final = "write connections and requests a second, such as ftp.example.org=2;sftp.example.org=4,0.5"


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The most connections to a server at once, and requests a second; None: no limit."""

    connections: int | None = None
    requests_per_second: float | None = None


def parse_server_limits(text: str) -> Mapping[str, ServerLimits]:
    """The limits of servers by their names in small letters, from a text such as `a.org=2;b.org=4,0.5;c.org=,2`.

    Raises ValueError for a text of another form, and a server named twice.
    """
    limits: dict[str, ServerLimits] = {}
    for part, name, values in parts_of(text):
        try:
            connections, _, requests = map(str.strip, values.partition(","))
            found = ServerLimits(int(connections) if connections else None, float(requests) if requests else None)
        except ValueError as error:
            raise ValueError(f"{part!r} is no limit of a server: {_EXAMPLE}") from error
        given = [value for value in (found.connections, found.requests_per_second) if value is not None]
        if not name or not given or not all(0 < value < 1e6 for value in given):
            raise ValueError(f"{part!r} is no limit of a server: {_EXAMPLE}")
        if limits.setdefault(name.casefold(), found) is not found:
            raise ValueError(f"The server {name} is there twice: {_EXAMPLE}")
    return limits


class SessionSettings(SettingsGroup):
    """How sessions work, and what Dagster shows of them."""

    section = "sessions"
    title = "Sessions"

    until: LastPhase = "qc"
    """Last phase of sessions: zip_name lists, xsd validates, later ones take the data over."""
    hold_threshold: int = Field(default=500, ge=0)
    """Records that one edit or delete document may replace or remove unconfirmed."""
    downloaders: int = Field(default=8, ge=1, le=64)
    """Downloads at once; one slower than 50 kB/s does not count."""
    downloads_per_source: int = Field(default=4, ge=1, le=16)
    """Connections to one file source, of all sessions and workers."""
    connections_per_server: int | None = Field(default=None, ge=1)
    """Connections to one server; else the sum of its sources'."""
    requests_per_second: float | None = Field(default=None, gt=0, lt=1e6)
    """Requests a second to one server."""
    server_limits: str = ""
    """Both for single servers: ftp.example.org=2;sftp.example.org=4,0.5."""
    workers: int = Field(default=2, ge=1, le=64)
    """Archives and documents checked at once."""
    max_retries: int = Field(default=1, ge=0, le=20)
    """Further tries of an archive at each file source in a session."""
    retry_delay: float = Field(default=2.0, ge=0)
    """Seconds before the first further try; the delay doubles."""
    max_faults: int = Field(default=3, ge=1)
    """Faults of DCC with an archive, after which it waits in quarantine."""
    source_failure_limit: int = Field(default=3, ge=1)
    """Failed connections, or crawls, in a row after which a source is left alone."""

    connect_timeout: float = Field(default=15.0, gt=0)
    """Seconds to connect to a server."""
    login_timeout: float = Field(default=20.0, gt=0)
    """Seconds to log in to a server."""
    quiet_seconds: float = Field(default=5.0, ge=0, le=600)
    """Seconds for which an archive must stay unchanged."""
    listing_shrink_limit: float = Field(default=0.2, ge=0, le=1)
    """Share of its archives that a directory may lose unconfirmed."""
    list_timeout: float = Field(default=300.0, gt=0)
    """Seconds to list a file source."""
    idle_timeout: float = Field(default=60.0, gt=0)
    """Seconds without a byte that end a transfer."""
    min_download_speed: int = Field(default=100, ge=0)
    """Bytes per second, over five minutes, below which a download ends."""
    download_timeout: float = Field(default=12 * 3600.0, gt=0)
    """Seconds for one download; the next session continues it."""
    max_unsized_bytes: int = Field(default=4096 * MEGABYTE, gt=0)
    """Bytes that may arrive of an archive of unknown size."""
    known_hosts: AbsolutePath | None = None
    """File of further host keys, as OpenSSH's known_hosts."""
    key_passphrase: SecretStr | None = None
    """Passphrase of SSH keys."""
    tls_ca_file: AbsolutePath | None = None
    """Certificate authorities for ftps, https, S3 and e-mail, in PEM; else the system's."""

    max_archive_bytes: int = Field(default=100 * 1024 * MEGABYTE, gt=0)
    """Bytes that one archive may unpack to."""
    max_archive_ratio: int = Field(default=200, gt=0)
    """Times its size that an archive may unpack to."""
    max_archive_entries: int = Field(default=100_000, gt=0)
    """Entries that one archive may hold."""
    max_document_errors: int = Field(default=1_000, ge=1)
    """Errors recorded for one document."""
    max_tree_bytes: int = Field(default=4 * MEGABYTE, ge=0)
    """Bytes of a document up to which DCC holds it in memory while it validates it."""

    database_retry: float = Field(default=60.0, ge=0)
    """Seconds for which DCC tries a lost database connection."""
    lease_timeout: float = Field(default=60.0, gt=1)
    """Seconds without a sign of life after which a session is dead."""
    session_time_limit: float | None = Field(default=None, gt=0)
    """Seconds after which a session ends; the next one continues."""
    crawl_interval: str = "0 * * * *"
    """When the daemon crawls all sources: a cron expression in UTC."""
    groups: str = ""
    """Groups of centres, such as europe=H,Wtsi;asia=Rbrc."""
    group_intervals: str = ""
    """When the daemon crawls each group, such as europe=0 */2 * * *;asia=30 3 * * *."""
    left_out_steps: str = Field(
        default="",
        description="Steps left out of all documents, of a group's or of a source's, such as "
        "overview;europe=context;3=data,overview. Of " + ", ".join(MAY_BE_LEFT_OUT) + ".",
    )
    dagster_events: bool = True
    """Whether `dcc` shows its work in Dagster too."""
    dagster_zips: int = Field(default=5_000, ge=1, le=1_000_000)
    """Submissions that came through and stay in Dagster, the last changed ones."""
    dagster_failed_zips: int = Field(default=1_000, ge=1, le=1_000_000)
    """Submissions that failed and stay in Dagster, the last changed ones."""
    ui_hosts: str = ""
    """Names by which browsers ask for the web page, separated by commas."""

    _groups = field_validator("groups")(checked_by(parse_centre_groups))
    _group_intervals = field_validator("group_intervals")(checked_by(parse_group_intervals))

    @field_validator("left_out_steps")
    @classmethod
    def _left_out_steps(cls, text: str, info: ValidationInfo) -> str:
        parse_left_out_steps(text, parse_centre_groups(info.data.get("groups", "")))
        return text

    _server_limits = field_validator("server_limits")(checked_by(parse_server_limits))
    _hosts = field_validator("ui_hosts")(checked_by(parse_hosts))

    @property
    def centre_groups(self) -> Mapping[str, CentreGroup]:
        """The groups of centres by their names."""
        return parse_centre_groups(self.groups)

    def limits_of(self, server: str) -> ServerLimits:
        """The limits of a server, by its name in small letters."""
        own = parse_server_limits(self.server_limits).get(server, ServerLimits())
        return ServerLimits(
            own.connections or self.connections_per_server, own.requests_per_second or self.requests_per_second
        )

    @property
    def has_server_limits(self) -> bool:
        """Whether any server has a limit."""
        return bool(self.connections_per_server or self.requests_per_second or self.server_limits)

    @property
    def intervals_of_groups(self) -> Mapping[str, str]:
        """The cron expressions of groups of centres with a schedule of their own, by their names."""
        return parse_group_intervals(self.group_intervals)

    @property
    def steps_left_out(self) -> LeftOutSteps:
        """The steps that are left out, and of which documents."""
        return parse_left_out_steps(self.left_out_steps, self.centre_groups)

    @property
    def last_phase(self) -> Phase:
        """The phase that sessions go on to."""
        return Phase[self.until.upper()]
