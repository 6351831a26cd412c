"""Upgrades of the QC database keep what is in it, also where they broke off."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Column, Connection, Engine, MetaData, insert, inspect, text

from dcc.databases.schema import init_database
from dcc.declarations import cause_id
from dcc.documents.contents import StatusCode
from dcc.naming import Action
from dcc.qc.contexts.context_sums import build_contexts
from dcc.qc.contexts.overviews import build_overviews
from dcc.qc.database import QC_DATABASE, open_qc_database
from dcc.qc.models import QcBase
from dcc.qc.reference.refresh import ensure_reference
from dcc.qc.reference.snapshots import active_snapshots
from dcc.reference.impress import Impress
from dcc.reports.causes.cause import count_causes
from dcc.reports.causes.data_facts import DataFacts
from dcc.reports.causes.scopes import Scope
from dcc.reports.languages import load_catalogue
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.settings.reference import shown_source
from dcc.vocabulary import Validity
from tests.support import earlier_schemas
from tests.support.asking import closing_all, in_reading, in_writing
from tests.support.databases import broken_off_on_mariadb
from tests.support.earlier_schemas import init_as
from tests.support.qc_contexts import assert_contexts_are_right, submit
from tests.support.qc_documents import experiment, specimen

JUDGED = [None, True, False]
"""What the rules may have said of an entity."""
ENTITIES = ("specimen", "experiment", "line", "housing")


@pytest.fixture
def engine(qc_settings: Settings) -> Iterator[Engine]:
    """A QC database that is to be made."""
    with closing_all(open_qc_database(qc_settings)) as opened:
        yield opened


@pytest.fixture
def first(engine: Engine) -> Engine:
    """A QC database as the first version of the platform made it, with entities that were judged in all ways."""
    init_as(engine, QC_DATABASE, "0001")
    in_writing(engine, _fill)
    return engine


def _fill(connection: Connection) -> None:
    known = MetaData()
    known.reflect(connection)
    for name in ("document", "centre_block", *ENTITIES):
        table = known.tables[name]
        for number, judged in enumerate(JUDGED, start=1):
            of_number = {column.name: _value(column, number) for column in table.columns if not column.nullable}
            said = {"is_valid": judged} if name in ENTITIES else {}
            connection.execute(insert(table), of_number | said)


def _value(column: Column[Any], number: int) -> object:
    if column.name.endswith("_at"):
        return utc_now()
    if column.name == "is_current" or column.type.python_type is bool:
        return True
    return "x" if column.type.python_type is str else number


def _views(engine: Engine) -> dict[str, str | None]:
    inspector = inspect(engine)
    return {name: inspector.get_view_definition(name) for name in inspector.get_view_names()}


@broken_off_on_mariadb
def test_what_the_rules_said_of_entities_is_kept_when_it_becomes_a_number(first: Engine, broken_off: bool) -> None:
    """Also where an upgrade broke off half-way, as it can on MariaDB."""
    views = _views(first)
    if broken_off:
        with first.begin() as connection:
            connection.execute(text("DROP VIEW current_specimen"))
            connection.execute(text("DROP VIEW current_measurement"))
            connection.execute(text("ALTER TABLE specimen ADD COLUMN validity SMALLINT UNSIGNED NOT NULL DEFAULT 0"))
    assert init_database(first).from_revision == "0001"
    with first.connect() as connection:
        opts = {"compare_type": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=opts), QcBase.metadata) == []
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == QC_DATABASE.head
        for name in ENTITIES:
            found = connection.execute(text(f"SELECT validity FROM {name} ORDER BY id"))
            assert found.scalars().all() == [0, 1, 2], name
        for view in ("current_specimen", "current_experiment"):
            said = connection.execute(text(f"SELECT is_valid FROM {view} ORDER BY id")).scalars().all()
            assert said == JUDGED, view
    made = _views(first)
    assert [name for name, former in views.items() if made[name] == former] == []
    if first.dialect.name != "sqlite":
        # Animals are told by all of their names, which may end in blanks.
        assert "length(s.specimen_id)" in str(made["current_measurement"]).replace("`", "").lower()


def test_rows_reach_their_columns_in_the_order_of_an_upgraded_database(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade adds a column as the last one, wherever it is in the model."""
    monkeypatch.setattr(earlier_schemas, "QC_LATER", {QC_DATABASE.head: ("status_code.date", "lifetime.entity_kind")})
    init_as(engine, QC_DATABASE, "0011")
    assert init_database(engine).from_revision == "0011"
    submit(engine, Action.ADD, experiment("E1")._replace(status_codes=(StatusCode(8, "2013-10-02", "IMPC_PSC_001"),)))
    with engine.connect() as connection:
        assert inspect(connection).get_columns("status_code")[-1]["name"] == "date"
        said = connection.execute(text("SELECT owner_kind, code, date, lexical, line FROM status_code")).one()
        assert (*said[:2], str(said[2]), *said[3:]) == ("experiment", "IMPC_PSC_001", "2013-10-02", None, 8)
        said = connection.execute(text("SELECT entity_kind, entity_id, opened_by, ended_by FROM lifetime")).one()
        assert tuple(said) == ("experiment", 1, 1, None)


@broken_off_on_mariadb
def test_the_session_after_an_upgrade_counts_anew_what_invalid_animals_have_and_values_have_their_number(
    engine: Engine, broken_off: bool
) -> None:
    """Of a database in which an animal that is not valid counted as any other, and 2,643.85 was no number."""
    init_database(engine)
    submit(engine, Action.ADD, specimen("good"), specimen("bad", colony_id="C2", position=2))
    numbers = {"2,643.85": 2643.85, "0,123": None, "none, really": None, "7": 7.0}
    on = (["good"], ["bad"], ["good", "bad"], ["good"])
    values = zip(range(1, 5), on, numbers, strict=True)
    submit(engine, Action.ADD, *(experiment(f"E{number}", animals, value) for number, animals, value in values))
    build_contexts(engine)
    build_overviews(engine)
    init_as(engine, QC_DATABASE, "0003")
    with engine.begin() as connection:
        made = {"invalid": Validity.INVALID}
        connection.execute(text("UPDATE specimen SET validity = :invalid WHERE specimen_id = 'bad'"), made)
        connection.execute(text("UPDATE measurement SET number = NULL WHERE value LIKE '%,%'"))
        if broken_off:
            connection.execute(text("DROP VIEW current_experiment"))
    assert init_database(engine).from_revision == "0003"
    build_contexts(engine)
    build_overviews(engine)
    with engine.connect() as connection:
        said = connection.execute(text("SELECT experiment_id, is_valid FROM current_experiment ORDER BY id"))
        assert [tuple(row) for row in said] == [("E1", 1), ("E2", 0), ("E3", 0), ("E4", 1)]
        said = connection.execute(text("SELECT experiment_id, is_valid FROM current_measurement ORDER BY id"))
        assert [tuple(row) for row in said] == [("E1", 1), ("E2", 0), ("E3", 0), ("E4", 1)]
        found = connection.execute(text("SELECT value, number FROM measurement ORDER BY id"))
        assert [tuple(row) for row in found] == list(numbers.items())
        contexts = connection.execute(text("SELECT genotype, measurements FROM data_context ORDER BY genotype"))
        assert [tuple(row) for row in contexts] == [("C1", 2), ("C2", 0)]
        assert (
            connection.execute(text("SELECT specimen_id FROM overview_animal_procedure")).scalars().all()
            == ["good"] * 2
        )
    assert_contexts_are_right(engine)


def test_impress_of_an_older_database_which_lacks_what_is_retired_is_stored_anew_though_it_has_not_changed(
    engine: Engine, qc_settings: Settings
) -> None:
    init_database(engine)
    ensure_reference(engine, qc_settings)
    before = in_reading(engine, active_snapshots)
    init_as(engine, QC_DATABASE, "0013")
    init_database(engine)
    ensure_reference(engine, qc_settings)
    after = in_reading(engine, active_snapshots)
    assert after[Impress.NAME].id > before[Impress.NAME].id
    assert after[Impress.NAME].checksum == before[Impress.NAME].checksum
    others = before.keys() - {Impress.NAME}
    assert {name: after[name].id for name in others} == {name: before[name].id for name in others}


@broken_off_on_mariadb
def test_what_addresses_of_reference_data_ask_with_goes_from_an_older_database(
    engine: Engine, qc_settings: Settings, broken_off: bool
) -> None:
    token = "t0ken-of-the-registry"
    sources = [f"https://h.example/x.csv?k={token}", "/data/what?/x.csv", "https://h.example/x.csv"]
    init_as(engine, QC_DATABASE, "0004")
    with engine.begin() as connection:
        for number, source in enumerate(sources, start=1):
            row = {"source": source, "number": number, "md5": f"{number:032}", "now": utc_now()}
            snapshot = (
                "INSERT INTO reference_snapshot (name, retrieved, checked, source, checksum, row_count, is_active) "
                "VALUES ('projects', :now, :now, :source, :md5, 1, :number = 1)"
            )
            page = (
                "INSERT INTO fetched_page (address_md5, address, entity_tag, retrieved, content) "
                "VALUES (:md5, :source, 'x', :now, 'project')"
            )
            connection.execute(text(snapshot), row)
            connection.execute(text(page), row)
        if broken_off:
            masked = {"source": shown_source(sources[0])}
            connection.execute(text("UPDATE reference_snapshot SET source = :source WHERE id = 1"), masked)
    assert init_database(engine).from_revision == "0004"
    with engine.connect() as connection:
        found = connection.scalars(text("SELECT source FROM reference_snapshot ORDER BY id")).all()
        assert found == [shown_source(source) for source in sources]
        assert token not in str(found)
        assert active_snapshots(connection)["projects"].source == found[0]
        pages = connection.scalars(text("SELECT address FROM fetched_page")).all()
        assert pages == ["https://h.example/x.csv"]
    engine.dispose()
    if engine.dialect.name == "sqlite":
        assert all(token.encode() not in path.read_bytes() for path in qc_settings.home.glob("qc.db*"))


@broken_off_on_mariadb
def test_findings_of_earlier_versions_get_their_details_where_these_can_be_had_and_else_keep_their_words(
    engine: Engine, tmp_path: Path, broken_off: bool
) -> None:
    init_as(engine, QC_DATABASE, "0005")
    known = MetaData()
    with engine.begin() as connection:
        known.reflect(connection)
        for name in ("document", "centre_block", "specimen"):
            table = known.tables[name]
            row = {column.name: _value(column, 1) for column in table.columns if not column.nullable}
            special = {"specimen": {"specimen_id": "M1"}, "document": {"zip_action": "add"}}.get(name, {})
            connection.execute(insert(table), row | special)
        common = {"document_id": 1, "severity": "error", "is_active": True, "created": utc_now(), "line": 3}
        of_specimen = {"rule": "S4", "value": "C9", "entity_kind": "specimen", "entity_id": 1, "message": "Old words."}
        of_value = {"rule": "P9", "value": "x", "message": "The value is odd.", "entity_kind": None, "entity_id": None}
        connection.execute(insert(known.tables["finding"]), [common | of_specimen, common | of_value])
        if broken_off:
            connection.execute(text("ALTER TABLE finding ADD COLUMN code VARCHAR(64) NOT NULL DEFAULT ''"))
    assert init_database(engine).from_revision == "0005"
    with engine.connect() as connection:
        said = connection.execute(text("SELECT rule, code, details, cause FROM finding ORDER BY id")).all()
        assert [tuple(row)[:3] for row in said] == [("S4", "S4", '{"specimen":"M1"}'), ("P9", "P9", None)]
        assert said[0].cause == cause_id("S4", {"value": "C9"})
        facts = DataFacts(connection, Scope())
        counted = count_causes([facts])
        assert {cause.kind: cause.findings for cause in counted} == {"S4": 1, "P9": 1}
        examples = facts.examples([number for _, number in counted.values()])
        told = {cause.kind: replace(cause, example=examples[number]) for cause, (_, number) in counted.items()}
        english = load_catalogue("en", Settings(home=tmp_path))
        assert told["S4"].statement(english) == "The colony 'C9' is not registered"
        assert str(told["S4"].example.message).startswith("The colony 'C9' of 'M1' is not registered.")
        assert told["P9"].statement(english) == told["P9"].example.message == "The value is odd."
