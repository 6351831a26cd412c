"""The resource for the QC database."""

from typing import ClassVar

from sqlalchemy import Engine

from dcc.qc.database import open_qc_database, require_current
from dcc.settings import Settings
from dcc_resources.database import DatabaseResource
from dcc_resources.platform_resource import setting


class QcDatabaseResource(DatabaseResource):
    """The QC database: the data of valid documents, the findings in them, and the state of quality control."""

    key: ClassVar[str] = "qc_database"

    url: str | None = setting("qc_url", secret=True, plain=r"sqlite:.*")

    def _open(self, settings: Settings) -> Engine:
        return open_qc_database(settings)

    def _require_current(self, engine: Engine, patience_seconds: float | None) -> None:
        require_current(engine, patience_seconds=patience_seconds)
