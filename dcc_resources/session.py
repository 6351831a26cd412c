"""The resource that opens the crawling session that a step belongs to."""

from contextlib import AbstractContextManager
from typing import ClassVar, Final

from dagster import ResourceDependency

from dcc.operations.session_work import SessionWork, open_work
from dcc.session.session_request import SessionRequest
from dcc.settings import Settings
from dcc_resources.databases import QcDatabaseResource, TrackerResource
from dcc_resources.file_sources import FileSourceResource
from dcc_resources.platform_resource import PlatformResource, setting
from dcc_resources.services import MailResource, StoreResource, WebhookResource

OF_SESSIONS: Final = (TrackerResource, QcDatabaseResource, StoreResource, MailResource, WebhookResource)
"""The resources that a session depends on, each in its field named after the resource's key."""


class SessionResource(PlatformResource):
    """The crawling session of a run: its last phase, how much it does at once, and its limits.

    Only one session of a centre works at a time. It is registered in the tracker, uses the store and the QC database,
    and notifies people by e-mail and webhook when it ends.
    """

    key: ClassVar[str] = "session"

    tracker: ResourceDependency[TrackerResource]
    qc_database: ResourceDependency[QcDatabaseResource]
    store: ResourceDependency[StoreResource]
    mail: ResourceDependency[MailResource]
    webhook: ResourceDependency[WebhookResource]

    until: str | None = setting("until")
    downloaders: int | None = setting("downloaders")
    workers: int | None = setting("workers")
    max_retries: int | None = setting("max_retries")
    retry_delay: float | None = setting("retry_delay")
    quiet_seconds: float | None = setting("quiet_seconds")
    listing_shrink_limit: float | None = setting("listing_shrink_limit")
    hold_threshold: int | None = setting("hold_threshold")
    xsd_dir: str | None = setting("xsd_dir")
    max_archive_bytes: int | None = setting("max_archive_bytes")
    max_archive_ratio: int | None = setting("max_archive_ratio")
    max_archive_entries: int | None = setting("max_archive_entries")
    max_document_errors: int | None = setting("max_document_errors")

    def work(
        self, request: SessionRequest, *sources: FileSourceResource, resume: int | None = None
    ) -> AbstractContextManager[SessionWork]:
        """The work, with a session that is open during the block; `sources` configure the connections.

        `resume` names a session that an earlier run handed over. Raises NotFoundError for a group that DCC_GROUPS does
        not name, SessionActiveError, TrackerOutdatedError, TrackerUnreachableError and ConfigurationError.
        """
        settings, tracker = self.session_settings(*sources), self.tracker.ready()
        return open_work(tracker, settings, request, resume=resume, hands_over=True)

    def session_settings(self, *sources: FileSourceResource) -> Settings:
        """The settings of sessions. Raises ConfigurationError."""
        return self.tracker.settings_with(*(getattr(self, one.key) for one in OF_SESSIONS), self, *sources)
