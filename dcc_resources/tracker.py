"""The resource for the tracker."""

from typing import ClassVar, Self

from sqlalchemy import Engine

from dcc.settings import Settings
from dcc.tracker.database import open_tracker, require_current
from dcc_resources.database import DatabaseResource
from dcc_resources.platform_resource import setting


class TrackerResource(DatabaseResource):
    """The tracker: the database with the state of every archive and document. It is the truth that Dagster shows."""

    key: ClassVar[str] = "tracker"

    url: str | None = setting("tracker_url", secret=True, plain=r"sqlite:.*")
    retry_seconds: float | None = setting(
        "database_retry", "Seconds for which a lost connection to the tracker or the QC database is tried again."
    )

    @classmethod
    def holding(cls, settings: Settings, engine: Engine) -> Self:
        """A resource with these settings and an existing engine that its owner closes."""
        resource = cls.of(settings)
        resource._engine = engine
        return resource

    def _open(self, settings: Settings) -> Engine:
        return open_tracker(settings)

    def _require_current(self, engine: Engine, patience_seconds: float | None) -> None:
        require_current(engine, patience_seconds=patience_seconds)
