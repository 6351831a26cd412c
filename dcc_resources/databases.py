"""The resources for both databases: each has an engine that is made on first use, and closed with the run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import ClassVar, Self

from dagster import InitResourceContext
from pydantic import PrivateAttr
from sqlalchemy import Connection, Engine

from dcc.databases.engines import disposed
from dcc.databases.schema import require_current
from dcc.errors import QcDatabaseOutdatedError
from dcc.qc.database import open_qc_database
from dcc.settings import Settings
from dcc.tracker.database import open_tracker
from dcc_dagster.run_processes import showing_life
from dcc_resources.platform_resource import PlatformResource, setting


class DatabaseResource(PlatformResource):
    """A database of the platform."""

    _engine: Engine | None = PrivateAttr(default=None)

    retry_seconds: float | None = setting(
        "database_retry", "Seconds for which a lost connection to the database is tried again."
    )

    @abstractmethod
    def _open(self, settings: Settings) -> Engine:
        """The engine, which connects on first use."""

    def engine(self) -> Engine:
        """The engine of the database, of any version. Raises ConfigurationError."""
        if self._engine is None:
            self._engine = self._open(self.settings_with())
        return self._engine

    def ready(self, *, patience_seconds: float | None = None) -> Engine:
        """The engine, after checking that the database is there and of this version.

        An unreachable database is waited for, by default as long as the settings say. Raises DatabaseOutdatedError,
        DatabaseUnreachableError and ConfigurationError.
        """
        patience = self.settings_with().database_retry if patience_seconds is None else patience_seconds
        require_current(self.engine(), patience_seconds=patience)
        return self.engine()

    @contextmanager
    def opened(self) -> Iterator[Self]:
        """The resource, whose connections are closed afterwards."""
        try:
            yield self
        finally:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    @contextmanager
    def yield_for_execution(self, context: InitResourceContext) -> Iterator[Self]:
        """The resource for the time of a run, which shows that its process lives, or of a sensor's tick."""
        with ExitStack() as stack:
            if context.instance is not None and context.run is not None:
                stack.enter_context(showing_life(context.instance, context.run))
            yield stack.enter_context(self.opened())


class TrackerResource(DatabaseResource):
    """The tracker: the database with the state of every archive and document. It is the truth that Dagster shows."""

    key: ClassVar[str] = "tracker"

    url: str | None = setting("tracker_url", secret=True, plain=r"sqlite:.*")

    @classmethod
    def holding(cls, settings: Settings, engine: Engine) -> Self:
        """A resource with these settings and an existing engine that its owner closes."""
        resource = cls.of(settings)
        resource._engine = engine
        return resource

    def _open(self, settings: Settings) -> Engine:
        return open_tracker(settings)


class QcDatabaseResource(DatabaseResource):
    """The QC database: the data of valid documents, the findings in them, and the state of quality control."""

    key: ClassVar[str] = "qc_database"

    url: str | None = setting("qc_url", secret=True, plain=r"sqlite:.*")

    def _open(self, settings: Settings) -> Engine:
        return open_qc_database(settings)


@contextmanager
def qc_if_made(settings: Settings) -> Iterator[Connection | None]:
    """A connection to the QC database; None if it was not made yet. Raises QcDatabaseUnreachableError."""
    with disposed(open_qc_database(settings)) as engine:
        try:
            require_current(engine)
        except QcDatabaseOutdatedError:
            yield None
            return
        with engine.connect() as connection:
            yield connection
