"""The QC database's schema: what is made on each database, and what is refused."""

from dataclasses import replace
from typing import Any

import dagster._core.storage.sql  # noqa: F401 - changes what general types become on MySQL
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from pydantic import SecretStr
from sqlalchemy import Engine, event, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError

from dcc.databases.schema import init_database, require_current
from dcc.databases.transactions import writing
from dcc.errors import ConfigurationError, QcDatabaseOutdatedError, QcDatabaseUnreachableError
from dcc.naming import Action
from dcc.qc import database, models
from dcc.qc.database import QC_DATABASE, open_qc_database
from dcc.qc.models import QcBase
from dcc.qc.upgrades import REVISIONS
from dcc.settings import Settings
from tests.support.asking import rows_in
from tests.support.databases import schema_of
from tests.support.qc_documents import apply, experiment, specimen

HEAD = QC_DATABASE.head
VIEWS = {"current_specimen", "current_experiment", "current_measurement", "current_media", "current_metadata"}
VIEWS |= {"overview_strain", "overview_measurement", "overview_comparison"}


def test_the_views_for_analysts_have_every_column(qc_database: Engine) -> None:
    inner = {"block_id", "position", "is_current", "validity"}
    for view in (name for name in VIEWS if name.startswith("current_")):
        shown = {column["name"] for column in inspect(qc_database).get_columns(view)}
        lacking = set(QcBase.metadata.tables[view.removeprefix("current_")].columns.keys()) - shown - inner
        assert not lacking, f"Add {lacking} to {view} in dcc/qc/models/views.py."


def test_there_is_one_lock_for_all_centres(qc_database: Engine) -> None:
    init_database(qc_database)
    assert rows_in(qc_database, "SELECT id, holder FROM upload_lock") == [(1, None)]


def test_an_init_that_broke_off_is_taken_up_again(qc_settings: Settings) -> None:
    engine = open_qc_database(qc_settings)
    seen = 0

    def break_off(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        nonlocal seen
        seen += statement.lstrip().startswith("CREATE")
        if seen == 30:
            raise KeyboardInterrupt

    event.listen(Engine, "before_cursor_execute", break_off)
    try:
        with pytest.raises(KeyboardInterrupt):
            init_database(engine)
    finally:
        event.remove(Engine, "before_cursor_execute", break_off)
    left = set(inspect(engine).get_table_names())
    assert left == set() if engine.dialect.name == "sqlite" else 0 < len(left) < 30
    init_database(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), QcBase.metadata) == []
    assert set(inspect(engine).get_view_names()) == VIEWS
    engine.dispose()


def test_a_database_that_is_missing_or_of_another_version_is_refused(
    qc_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_qc_database(qc_settings)
    with pytest.raises((QcDatabaseOutdatedError, QcDatabaseUnreachableError), match=r"QC database.*dcc init"):
        require_current(engine)
    init_database(engine)
    with monkeypatch.context() as patched:
        patched.setattr(database, "QC_DATABASE", replace(QC_DATABASE, revisions={**REVISIONS, "9998": None}))
        later = open_qc_database(qc_settings)
        with pytest.raises(QcDatabaseOutdatedError, match=rf"The QC database .*{HEAD}.*9998.*dcc init"):
            require_current(later)
        later.dispose()
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for refused in (require_current, init_database):
        with pytest.raises(QcDatabaseOutdatedError, match=r"9999, which is newer"):
            refused(engine)
    engine.dispose()


def test_the_trackers_database_is_not_taken_for_the_qc_database(tracker: Engine, settings: Settings) -> None:
    both = settings.model_copy(update={"qc_url": SecretStr(settings.tracker_database_url)})
    engine = open_qc_database(both)
    before = schema_of(tracker)
    for refused in (require_current, init_database):
        with pytest.raises(ConfigurationError, match=r"something else than the QC database.*DCC_QC_URL"):
            refused(engine)
    assert schema_of(tracker) == before
    engine.dispose()


def test_what_refers_to_nothing_is_refused_and_what_is_referred_to_stays(qc_database: Engine) -> None:
    apply(qc_database, Action.ADD, specimen("S1"))
    apply(qc_database, Action.ADD, experiment("E1"))
    with qc_database.connect() as connection:
        measured = connection.execute(select(models.MEASUREMENT)).mappings().one()
    related = {"specimen_row": 99, "position": 1, "specimen_id": "m9", "relationship": "mother", "line": 4}
    for table, row in (
        (models.MEASUREMENT, {**measured, "id": 99, "procedure_run_id": 99}),
        (models.RELATED, related),
    ):
        with pytest.raises(IntegrityError), writing(qc_database) as connection:
            connection.execute(insert(table), row)
    for name in ("procedure_run", "centre_block", "document"):
        with pytest.raises(IntegrityError), writing(qc_database) as connection:
            connection.execute(text(f"DELETE FROM {name}"))


def test_the_measurements_of_a_parameter_or_specimen_are_found_by_an_index(qc_database: Engine) -> None:
    for column in ("parameter_id", "specimen_id"):
        query = f"SELECT value FROM current_measurement WHERE {column} = 'x' AND centre = 'H'"
        index = f"ix_measurement_{column}_centre"
        with qc_database.connect() as connection:
            if connection.dialect.name == "sqlite":
                plan = str(connection.execute(text(f"EXPLAIN QUERY PLAN {query}")).all())
                assert plan.count("SEARCH") >= 5
                assert "SCAN" not in plan
                assert index in plan
            else:
                keys = {row.table: row.key for row in connection.execute(text(f"EXPLAIN {query}"))}
                assert keys["m"] == index
                assert keys["r"] == keys["e"] == "PRIMARY"
                assert keys["s"] == "ix_specimen_centre_specimen_id_is_current"
