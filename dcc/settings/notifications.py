"""Settings: who gets which messages, when and in which language; what counts as overdue; the log and the metrics."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator

from dcc.settings.group import AbsolutePath, SettingsGroup, checked_by, url_checked_by
from dcc.settings.recipients import parse_addresses, parse_lineage_receiver, parse_smtp_url, parse_webhook

_LANGUAGE_CODE: Final = re.compile(r"[a-z]{2,3}(_[A-Z][a-z]{3})?(_([A-Z]{2}|[0-9]{3}))?")


def language_code(text: str) -> str:
    """The code of a language as its catalogue is named: `de`, `zh_Hant_TW`, and `pt_BR` for `pt-BR` too.

    Raises ValueError for a text that is none.
    """
    code = text.strip().replace("-", "_")
    if not _LANGUAGE_CODE.fullmatch(code):
        raise ValueError(f"{code[:40]!r} is no code of a language; give one such as en, de or pt_BR")
    return code


class NotificationSettings(SettingsGroup):
    """What DCC tells people and programs, and how."""

    section = "notifications"
    title = "Reports, notifications, logs and metrics"

    crawl_overdue_hours: float = Field(default=24.0, gt=0, le=24 * 366)
    """Hours without a listing after which a file source is overdue."""
    centre_silent_days: int = Field(default=30, ge=1, le=3_650)
    """Days without a new archive after which a centre is silent."""
    overdue_days: int = Field(default=3, ge=1, le=3_650)
    """Days after which a submission that is not through is overdue."""

    smtp_url: SecretStr = SecretStr("smtp://localhost")
    """Mail server, smtp://user:password@host:port or smtps://; else this machine."""
    report_to: str = ""
    """E-mail addresses of session reports, separated by commas."""
    report_from: str | None = None
    """Sender of e-mails; else dcc at this machine."""
    report_directory: AbsolutePath | None = None
    """Directory of session reports."""
    report_quiet_sessions: bool = True
    """Whether to report sessions in which nothing happened."""
    submission_reports: Literal["none", "failed", "all"] = "none"
    """Submission reports that sessions keep: none, failed or all."""
    templates_directory: AbsolutePath | None = None
    """Directory of your own templates of reports and notifications."""

    language: Annotated[str, AfterValidator(language_code)] = "en"
    """Language of centres that have none of their own, such as de."""
    languages_directory: AbsolutePath | None = None
    """Directory of your own catalogues, such as fr.po."""

    suggestions: bool = True
    """Whether commands suggest the next one."""

    notify_centres: bool = False
    """Whether centres get e-mails about their submissions."""
    notify_to: str = ""
    """E-mail addresses that hear of outages and failures, separated by commas."""
    notify_webhook: SecretStr | None = None
    """URL that gets notifications as JSON by POST."""
    notify_webhook_secret: SecretStr | None = None
    """Key that signs the webhook's messages (HMAC-SHA256)."""
    notify_log: bool = False
    """Whether notifications go to the log too."""
    notify_outage_crawls: int = Field(default=1, ge=1, le=1_000)
    """Failed crawls in a row that are an outage of a file source."""
    notify_attachment_bytes: int = Field(default=1_000_000, ge=0, le=20_000_000)
    """Bytes of reports that one e-mail may carry; 0 for none."""
    notify_seconds: float = Field(default=30.0, gt=0, le=600)
    """Seconds for sending notifications after a session."""

    log_format: Literal["text", "json"] | None = None
    """Form of the log: text or json; text if DCC_LOG_LEVEL or DCC_LOG_FILE is set, else no log."""
    log_level: Literal["debug", "info", "warning", "error"] | None = None
    """Least level of the log: debug, info, warning or error; else info."""
    log_file: AbsolutePath | None = None
    """File of the log; else standard error."""
    metrics_file: AbsolutePath | None = None
    """File of metrics after each session, in the text format of Prometheus."""

    openlineage_url: SecretStr | None = None
    """Server or file that gets OpenLineage events of sessions."""

    _lineage_receiver = field_validator("openlineage_url")(url_checked_by(parse_lineage_receiver))
    _mail_server = field_validator("smtp_url")(checked_by(parse_smtp_url))
    _webhook = field_validator("notify_webhook")(checked_by(parse_webhook))
    _addresses = field_validator("report_to", "notify_to")(checked_by(parse_addresses))

    @field_validator("report_from")
    @classmethod
    def _one_address(cls, text: str | None) -> str | None:
        if text is not None and len(parse_addresses(text)) != 1:
            raise ValueError("it must be one e-mail address")
        return text

    @property
    def asks_for_reports(self) -> bool:
        """Whether anybody should get reports of sessions."""
        return bool(self.report_addresses) or self.report_directory is not None

    @property
    def report_addresses(self) -> tuple[str, ...]:
        """Who gets session reports by e-mail."""
        return parse_addresses(self.report_to)

    @property
    def notify_addresses(self) -> tuple[str, ...]:
        """Who is notified by e-mail of what needs a correction."""
        return parse_addresses(self.notify_to)
