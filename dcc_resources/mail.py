"""The resource for e-mail."""

from typing import ClassVar

from dcc_resources.platform_resource import PlatformResource, setting


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
