"""The resources for stores, e-mail, the webhook and reference data."""

from typing import ClassVar, Final

from dcc.store.staging import Staging
from dcc_resources.platform_resource import PlatformResource, setting

_NO_QUERY: Final = r"[^?]*"


class StoreResource(PlatformResource):
    """The store: where and how long archives and their contents are kept, and how much of the disk must stay free."""

    key: ClassVar[str] = "store"

    directory: str | None = setting("staging")
    min_free_bytes: int | None = setting("min_free_bytes")
    clean: bool | None = setting("staging_clean")
    keep_days: int | None = setting("staging_keep_days")
    keep_failed_days: int | None = setting("staging_keep_failed_days")
    keep_part_days: int | None = setting("staging_keep_part_days")
    keep_phase: str | None = setting("staging_keep_phase")
    url: str | None = setting("store")
    endpoint: str | None = setting("store_endpoint")
    access_key_id: str | None = setting("store_access_key_id")
    secret_access_key: str | None = setting("store_secret_access_key", secret=True)
    archive_replicas: str | None = setting("archive_replicas")
    archive_access_key: str | None = setting("archive_access_key", secret=True)
    archive_audit_days: int | None = setting("archive_audit_days")
    archive_keep_days: int | None = setting("archive_keep_days")
    retry: float | None = setting("store_retry")

    def staging(self) -> Staging:
        """The staging area. Raises ConfigurationError."""
        return Staging(self.settings_with().staging_directory)


class MailResource(PlatformResource):
    """E-mail: the mail server, the sender, and who gets which messages."""

    key: ClassVar[str] = "mail"

    server: str | None = setting("smtp_url", secret=True, plain=r"[^@]*")
    sender: str | None = setting("report_from")
    session_reports_to: str | None = setting("report_to")
    notifications_to: str | None = setting("notify_to")
    notify_centres: bool | None = setting("notify_centres")
    attachment_bytes: int | None = setting("notify_attachment_bytes")
    seconds: float | None = setting("notify_seconds")


class WebhookResource(PlatformResource):
    """The webhook: a web address that gets every notification as a JSON object, signed if a key is given."""

    key: ClassVar[str] = "webhook"

    url: str | None = setting("notify_webhook", secret=True)
    signing_key: str | None = setting("notify_webhook_secret", secret=True)


class ReferenceDataResource(PlatformResource):
    """Reference data: where IMPReSS and the registries are read from, with time limits, and how old they may become.

    An address may contain a token, so none is shown here: `dcc reference list` names the source of each set.
    """

    key: ClassVar[str] = "reference_data"

    impress: str | None = setting("reference_impress", secret=True, plain=_NO_QUERY)
    status_codes: str | None = setting("reference_status_codes", secret=True, plain=_NO_QUERY)
    projects: str | None = setting("reference_projects", secret=True, plain=_NO_QUERY)
    colonies: str | None = setting("reference_colonies", secret=True, plain=_NO_QUERY)
    strains: str | None = setting("reference_strains", secret=True, plain=_NO_QUERY)
    max_age_days: int | None = setting("reference_max_age_days")
    connect_timeout: float | None = setting("connect_timeout")
    read_timeout: float | None = setting("list_timeout", "Seconds for reading a set of reference data.")
