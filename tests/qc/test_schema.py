"""The QC database's schema: what is made on each database, and what the views of the present answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dagster._core.storage.sql  # noqa: F401 - changes what general types become on MySQL
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from pydantic import SecretStr
from sqlalchemy import Connection, Engine, event, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError

from dcc.databases.schema import init_database, require_current
from dcc.databases.transactions import writing
from dcc.errors import ConfigurationError, QcDatabaseOutdatedError, QcDatabaseUnreachableError
from dcc.qc import database, models
from dcc.qc.database import QC_DATABASE, open_qc_database
from dcc.qc.models import QcBase
from dcc.qc.upgrades import REVISIONS
from dcc.settings import Settings
from dcc.tracker.models import utc_now
from tests.support.databases import only_mariadb, schema_of

HEAD = QC_DATABASE.head
TABLES = QcBase.metadata.tables
VIEWS = {"current_specimen", "current_experiment", "current_measurement", "current_media", "current_metadata"}
VIEWS |= {"overview_strain", "overview_measurement", "overview_comparison"}

BEYOND_BMP = "🐭 été \U0001f9ec 中文"

Rows = list[Mapping[str, Any]]


def test_columns_are_in_the_order_of_the_models_and_views_are_there(qc_database: Engine) -> None:
    inspector = inspect(qc_database)
    for name, table in TABLES.items():
        found = [(column["name"], column["nullable"]) for column in inspector.get_columns(name)]
        assert found == [(column.name, column.nullable) for column in table.columns], f"{name}: order is part of it"
    assert set(inspector.get_view_names()) == VIEWS


@only_mariadb
def test_values_are_kept_in_columns_that_hold_any_of_them(qc_database: Engine) -> None:
    kinds = {
        (name, column["name"]): str(column["type"]).split(" ")[0]
        for name in ("measurement", "metadata", "document")
        for column in inspect(qc_database).get_columns(name)
    }
    assert kinds["measurement", "value"] == kinds["metadata", "value"] == "LONGTEXT"
    assert kinds["document", "applied_at"] == "DATETIME"


def test_there_is_one_lock_for_all_centres(qc_database: Engine) -> None:
    init_database(qc_database)
    with qc_database.connect() as connection:
        assert connection.execute(text("SELECT id, holder FROM upload_lock")).all() == [(1, None)]


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


def test_a_database_that_cannot_be_reached_is_named_with_its_setting_and_without_its_password(
    settings: Settings,
) -> None:
    url = f"mysql://dcc:{'s3cret-pass'}@127.0.0.1:1/raw"
    engine = open_qc_database(settings.model_copy(update={"qc_url": SecretStr(url)}))
    with pytest.raises(QcDatabaseUnreachableError, match=r"The QC database .*DCC_QC_URL") as caught:
        require_current(engine)
    assert "s3cret-pass" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="DCC_QC_URL"):
        open_qc_database(settings.model_copy(update={"qc_url": SecretStr("oracle://x/y")}))


def test_what_refers_to_nothing_is_refused_and_what_is_referred_to_stays(qc_database: Engine) -> None:
    with writing(qc_database) as connection:
        _seed_document(connection)
        _seed_experiment(connection, 1)
        connection.execute(insert(models.MEASUREMENT), _measurement(1, 1))
    with pytest.raises(IntegrityError), writing(qc_database) as connection:
        connection.execute(insert(models.MEASUREMENT), _measurement(2, 99))
    with pytest.raises(IntegrityError), writing(qc_database) as connection:
        connection.execute(insert(models.RELATED), _related(99))
    for table in ("procedure_run", "centre_block", "document"):
        with pytest.raises(IntegrityError), writing(qc_database) as connection:
            connection.execute(text(f"DELETE FROM {table}"))


@pytest.mark.parametrize(
    "value",
    [BEYOND_BMP, "", " two  blanks ", "line\r\nbreak\ttab", "back\\slash 'quote' \"double\" \\N", "x" * 10_000_000],
    ids=["beyond the BMP", "empty", "blanks", "control", "escapes", "10 MB"],
)
def test_values_are_stored_exactly(qc_database: Engine, value: str) -> None:
    with writing(qc_database) as connection:
        _seed_document(connection)
        _seed_experiment(connection, 1)
        connection.execute(insert(models.MEASUREMENT), _measurement(1, 1, value=value, unit=BEYOND_BMP))
    with qc_database.connect() as connection:
        found = connection.execute(select(models.MEASUREMENT.c.value, models.MEASUREMENT.c.unit)).one()
    assert found == (value, BEYOND_BMP)


class TestViews:
    """What the views of the present answer."""

    def test_a_measurement_is_shown_with_all_that_an_analyst_asks_for(self, seeded: Engine) -> None:
        (row,) = _rows(seeded, "SELECT * FROM current_measurement WHERE experiment_id = 'e1'")
        expected = {
            "centre": "H",
            "pipeline": "IMPC_001",
            "project": "MGP",
            "colony_id": "MABC",
            "strain_id": "MGI:1",
            "specimen_id": "m1",
            "experiment_id": "e1",
            "procedure_id": "IMPC_CBC_001",
            "parameter_id": "IMPC_CBC_004_001",
            "type": "simpleParameter",
            "value": "1.5",
            "number": 1.5,
            "unit": "g/dl",
            "owner_kind": "experiment",
            "document_id": 1,
            "line": 7,
        }
        assert {name: row[name] for name in expected} == expected

    def test_only_what_is_current_is_shown(self, seeded: Engine) -> None:
        shown = "SELECT id FROM {} ORDER BY id"
        assert [row["id"] for row in _rows(seeded, shown.format("current_specimen"))] == [1]
        assert [row["id"] for row in _rows(seeded, shown.format("current_experiment"))] == [1, 3]
        assert [row["id"] for row in _rows(seeded, shown.format("current_measurement"))] == [1, 3, 4, 5]
        assert [row["id"] for row in _rows(seeded, shown.format("current_media"))] == [1, 3, 4, 5]
        assert [row["id"] for row in _rows(seeded, shown.format("current_metadata"))] == [1, 3, 4, 5]

    @pytest.mark.parametrize("column", ["parameter_id", "specimen_id"])
    def test_the_measurements_of_a_parameter_or_specimen_are_found_by_an_index(
        self, seeded: Engine, column: str
    ) -> None:
        query = f"SELECT value FROM current_measurement WHERE {column} = 'x' AND centre = 'H'"
        index = f"ix_measurement_{column}_centre"
        if seeded.dialect.name == "sqlite":
            plan = str([row["detail"] for row in _rows(seeded, f"EXPLAIN QUERY PLAN {query}")])
            assert plan.count("SEARCH") >= 5
            assert "SCAN" not in plan
            assert index in plan
        else:
            keys = {row["table"]: row["key"] for row in _rows(seeded, f"EXPLAIN {query}")}
            assert keys["m"] == index
            assert keys["r"] == keys["e"] == "PRIMARY"
            assert keys["s"] == "ix_specimen_centre_specimen_id_is_current"


@pytest.fixture
def seeded(qc_database: Engine) -> Engine:
    """A specimen that was edited, an experiment that was edited, one of two specimens, a line and a housing."""
    with writing(qc_database) as connection:
        _seed_document(connection)
        for row_id in (1, 2):
            specimen = _specimen(row_id, colony_id="MABC" if row_id == 1 else "MOLD", is_current=row_id == 1)
            connection.execute(insert(models.SPECIMEN), specimen)
        _seed_experiment(connection, 1, specimens=["m1"])
        _seed_experiment(connection, 2, specimens=["m1"], is_current=False)
        _seed_experiment(connection, 3, specimens=["m1", "m2"])
        common = {"block_id": 1, "document_id": 1, "position": 1, "line": 2, "centre": "H", "is_current": True}
        common |= {"pipeline": "IMPC_001", "project": "MGP", "procedure_id": "IMPC_CBC_001"}
        connection.execute(insert(models.LINE), common | {"id": 1, "colony_id": "MLINE"})
        connection.execute(insert(models.HOUSING), common | {"id": 1, "from_lims": True})
        for run, kind in ((4, "line"), (5, "housing")):
            connection.execute(insert(models.RUN), _run(run, kind, 1))
        for run in range(1, 6):
            of_one = {"experiment_id": "e1", "specimen_id": "m1"} if run < 3 else {}
            connection.execute(insert(models.MEASUREMENT), _measurement(run, run, **of_one))
            connection.execute(insert(models.MEDIA), _media(run, run))
            connection.execute(insert(models.METADATA), _metadata(run, run))
    return qc_database


def _rows(engine: Engine, query: str) -> Rows:
    with engine.connect() as connection:
        return [dict(row._mapping) for row in connection.execute(text(query))]


def _seed_document(connection: Connection, centre: str = "H") -> None:
    document = {"id": 1, "tracker_id": 5, "zip_action": "add", "action": "add", "zip_file": "H.2026-01-31.1.impc.zip"}
    document |= {"file_name": "H.2026-01-31.1.experiment.impc.xml", "kind": "experiment", "centre": centre}
    connection.execute(insert(models.DOCUMENT), document | {"state": "applied", "applied_at": utc_now()})
    block = {"id": 1, "document_id": 1, "position": 1, "centre": "H", "line": 2}
    connection.execute(insert(models.BLOCK), block)


def _specimen(row_id: int, **more: Any) -> dict[str, Any]:
    row = {"id": row_id, "block_id": 1, "document_id": 1, "position": row_id, "line": 3, "centre": "H"}
    row |= {"specimen_id": "m1", "kind": "mouse", "is_baseline": False, "gender": "male", "zygosity": "homozygous"}
    row |= {"litter_id": "l", "pipeline": "IMPC_001", "phenotyping_centre": "H", "project": "MGP"}
    return row | {"strain_id": "MGI:1"} | more


def _seed_experiment(
    connection: Connection, row_id: int, *, specimens: list[str] | None = None, is_current: bool = True
) -> None:
    row = {"id": row_id, "block_id": 1, "document_id": 1, "position": row_id, "line": 5, "centre": "H"}
    row |= {"pipeline": "IMPC_001", "project": "MGP", "procedure_id": "IMPC_CBC_001", "experiment_id": "e1"}
    connection.execute(insert(models.EXPERIMENT), row | {"is_current": is_current})
    connection.execute(insert(models.RUN), _run(row_id, "experiment", row_id))
    for position, specimen in enumerate(specimens or [], start=1):
        named = {"experiment_row": row_id, "position": position, "specimen_id": specimen, "line": 6}
        connection.execute(insert(models.NAMED), named)


def _run(row_id: int, kind: str, owner_id: int) -> dict[str, Any]:
    row = {"id": row_id, "document_id": 1, "owner_kind": kind, "owner_id": owner_id, "line": 6}
    return row | {"procedure_id": "IMPC_CBC_001"}


def _measurement(row_id: int, run: int, **more: Any) -> dict[str, Any]:
    row = {"id": row_id, "procedure_run_id": run, "document_id": 1, "position": 1, "item": 1, "line": 7}
    row |= {"type": "simpleParameter", "parameter_id": "IMPC_CBC_004_001", "value": "1.5", "number": 1.5}
    row |= {"unit": "g/dl", "centre": "H", "pipeline": "IMPC_001", "project": "MGP", "procedure_id": "IMPC_CBC_001"}
    return row | more


def _media(row_id: int, run: int) -> dict[str, Any]:
    row = {"id": row_id, "procedure_run_id": run, "position": 2, "item": 1, "type": "mediaParameter", "line": 8}
    return row | {"parameter_id": "IMPC_XRY_034_001", "uri": "https://media.example/1.png", "file_type": "image/png"}


def _metadata(row_id: int, run: int) -> dict[str, Any]:
    row = {"id": row_id, "procedure_run_id": run, "owner_kind": "procedure", "owner_id": run, "position": 1, "line": 9}
    return row | {"parameter_id": "IMPC_CBC_023_001", "value": "Sysmex"}


def _related(specimen_row: int) -> dict[str, Any]:
    row = {"specimen_row": specimen_row, "position": 1, "specimen_id": "m9", "relationship": "mother"}
    return row | {"line": 4}
