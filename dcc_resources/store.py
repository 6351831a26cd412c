"""The resource for the stores: staging, the archive store, and the object store that several machines share."""

from typing import ClassVar

from dcc.store.objects import ObjectStore
from dcc.store.staging import Staging
from dcc_resources.platform_resource import PlatformResource, setting


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

    def objects(self) -> ObjectStore:
        """The object store that several machines share. Raises ConfigurationError."""
        return ObjectStore(self.settings_with())
