"""Every table and column of both databases says what it means, in the models and on the server."""

import re

import pytest
from sqlalchemy import Engine, inspect

from dcc.databases.descriptions import described
from dcc.databases.schema import init_database
from dcc.databases.upgrades import record_revision
from dcc.qc.models import QcBase
from dcc.tracker.models import Base
from tests.support.asking import row_in
from tests.support.databases import only_mariadb

_MEANINGS = "dcc/databases/column_meanings.py"


@pytest.mark.parametrize("metadata", [Base.metadata, QcBase.metadata], ids=["tracker", "qc"])
def test_every_table_and_column_is_described(metadata: object) -> None:
    tables = list(described(metadata))  # type: ignore[arg-type]
    assert len(tables) > 30
    without = [f"{one.name}.{column.name}" for one in tables for column in one.columns if not column.comment]
    assert not without, f"Say what they mean: in the docstring of the model, in backticks, or in {_MEANINGS}"
    assert not [one.name for one in tables if not one.comment]
    said = [text for one in tables for text in (one.comment, *(column.comment for column in one.columns))]
    assert not [text for text in said if "Additive" in text or not text.endswith(".")]


def _definitions(engine: Engine) -> tuple[dict[str, str], dict[str, str]]:
    """How the server made its tables, without comments; and the comments of one table and its columns."""
    with engine.connect() as connection:
        made = {
            name: re.sub(r" COMMENT[ =]'(?:[^'\\]|''|\\.)*'", "", str(connection.exec_driver_sql(query).one()[1]))
            for name in QcBase.metadata.tables
            for query in [f"SHOW CREATE TABLE {name}"]
        }
    comments = {one["name"]: one["comment"] or "" for one in inspect(engine).get_columns("document")}
    return made, comments | {"": inspect(engine).get_table_comment("document")["text"] or ""}


@only_mariadb
def test_an_earlier_database_gets_the_descriptions_and_keeps_its_columns(qc_database: Engine) -> None:
    made, comments = _definitions(qc_database)
    assert comments["undoes"] == "`undoes` is the document that an undo withdrew."
    assert comments[""].startswith("One XML document as it was applied")
    lines = re.findall(r"^  (`.*?) COMMENT ", row_in(qc_database, "SHOW CREATE TABLE document")[1], re.MULTILINE)
    with qc_database.begin() as connection:
        stripped = ", ".join(f"MODIFY COLUMN {line}" for line in lines)
        connection.exec_driver_sql(f"ALTER TABLE document {stripped}, COMMENT ''")
        record_revision(connection, "0010")
    assert set(_definitions(qc_database)[1].values()) == {""}
    init_database(qc_database)
    assert _definitions(qc_database) == (made, comments)
