"""The resource for the webhook."""

from typing import ClassVar

from dcc_resources.platform_resource import PlatformResource, setting


class WebhookResource(PlatformResource):
    """The webhook: a web address that gets every notification as a JSON object, signed if a key is given."""

    key: ClassVar[str] = "webhook"

    url: str | None = setting("notify_webhook", secret=True)
    signing_key: str | None = setting("notify_webhook_secret", secret=True)
