"""Settings: who is told what, when and in which language; what counts as overdue; the log and the metrics."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator

from dcc.settings.group import AbsolutePath, SettingsGroup
from dcc.settings.recipients import parse_addresses, parse_smtp_url, parse_webhook

LANGUAGE_CODE = r"[a-z]{2,3}(_[A-Z][a-z]{3})?(_([A-Z]{2}|[0-9]{3}))?"
"""Codes of languages as catalogues are named after: `de`, `pt_BR`, `zh_Hant_TW`."""


class NotificationSettings(SettingsGroup):
    """What people and programs are told, and how."""

    crawl_overdue_hours: float = Field(
        default=24.0,
        gt=0,
        le=24 * 366,
        description="Hours within which each available file source is to be listed; the check crawl_overdue of its "
        "page fails after that.",
    )
    centre_silent_days: int = Field(
        default=30,
        ge=1,
        le=3_650,
        description="Days without a new archive after which a centre counts as silent; the check centre_silent of its "
        "page fails then.",
    )
    overdue_days: int = Field(
        default=3,
        ge=1,
        le=3_650,
        description="Days within which all documents are to be through to quality control, or to DCC_UNTIL; the check "
        "submissions_overdue of their centre's page fails after that.",
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
    report_directory: AbsolutePath | None = Field(
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
    templates_directory: AbsolutePath | None = Field(
        default=None,
        description="Directory with templates of submission reports and notifications to use instead of those that "
        "come with the platform; what it lacks is taken from there.",
    )

    language: str = Field(
        default="en",
        pattern=f"^{LANGUAGE_CODE}$",
        description="Language of what centres read, unless theirs is another one: the name of a catalogue, such as de.",
    )
    languages_directory: AbsolutePath | None = Field(
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
    log_file: AbsolutePath | None = Field(
        default=None,
        description="File that the log is appended to; it may be moved away at any time, by logrotate for one.",
    )
    metrics_file: AbsolutePath | None = Field(
        default=None,
        description="File that gets the metrics at the end of each session, in the text format of Prometheus: for the "
        "node exporter's textfile collector, its name ends with .prom.",
    )

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
        """Whether anybody is to be notified of anything by the platform's own channels."""
        return bool(self.notify_centres or self.notify_addresses or self.notify_webhook or self.notify_log)

    @property
    def notify_addresses(self) -> tuple[str, ...]:
        """Who is notified by e-mail of what needs a hand."""
        return parse_addresses(self.notify_to)
