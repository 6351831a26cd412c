"""`dcc data schema`: tables and columns in words, and as a page."""

import re
from pathlib import Path

from dcc.qc.models import QcBase
from dcc.tracker.models import Base
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite


@only_sqlite
def test_dcc_data_schema_lists_tables_columns_and_makes_a_page(bare_dcc: Dcc, tmp_path: Path) -> None:
    assert re.search(r"^zip_action +\S", bare_dcc("data", "schema").stdout, re.MULTILINE)
    told = bare_dcc("data", "schema", "measurement").stdout
    assert "IMPReSS key of the parameter." in told
    assert "measurement" in bare_dcc.error("data", "schema", "measurment", exit_code=2)
    (document,) = bare_dcc.json("data", "schema", "document")
    assert (document["database"], document["columns"][0]["name"]) == ("qc", "id")
    bare_dcc("data", "schema", "--html", tmp_path / "schema.html")
    page = (tmp_path / "schema.html").read_text("utf-8")
    assert page.count("<h3 id=") == len(Base.metadata.tables) + len(QcBase.metadata.tables)
    assert "<code>DocumentState</code>" in page
    assert "`" not in page


def test_a_table_that_does_not_exist_leads_to_those_that_speak_of_it(bare_dcc: Dcc) -> None:
    assert "Tables that speak of it: " in bare_dcc.error("data", "schema", "attempt", exit_code=2)
    assert "The nearest: zip_download." in bare_dcc.error("data", "schema", "zipdownlod", exit_code=2)
