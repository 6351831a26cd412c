"""A QC database that is full or away: whoever waits for other writers for long does not wait for it as long."""

import time

import pytest
from sqlalchemy import Engine, event

from dcc.errors import QcDatabaseUnreachableError
from dcc.naming import Action
from dcc.qc.database import open_qc_database
from dcc.settings import Settings
from tests.support.databases import only_sqlite
from tests.support.qc_documents import apply, specimen


@only_sqlite
def test_a_full_disk_is_waited_for_as_long_as_the_setting_says(qc_database: Engine, qc_settings: Settings) -> None:
    """DCC_DATABASE_RETRY: a session says that the disk is full, and does not wait in silence."""
    engine = open_qc_database(qc_settings.model_copy(update={"database_retry": 0.2}))

    @event.listens_for(engine, "connect")
    def leave_no_room(connection: object, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # type: ignore[attr-defined]

    began = time.monotonic()
    with pytest.raises(QcDatabaseUnreachableError, match="tried again for"):
        apply(engine, Action.ADD, *(specimen(f"S{number}") for number in range(2_000)))
    assert time.monotonic() - began < 20
    engine.dispose()
