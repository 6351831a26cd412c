"""What docs/analysts.md and docs/queries.md tell analysts: queries and Python are run, on SQLite and on MariaDB."""

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import Engine, update

from dcc.analysis.columns import COLUMNS
from dcc.analysis.export import ExportFormat, export_measurements
from dcc.analysis.filters import MeasurementFilter
from dcc.qc.models import MEASUREMENT, OVERVIEW_ANIMAL
from dcc.settings import Settings
from tests.support.analysis_data import ANIMALS, WEIGHT
from tests.support.databases import only_sqlite
from tests.support.environments import forget_settings
from tests.support.qc_documents import undo_documents

ROOT = Path(__file__).parent.parent
DOCUMENT = "".join((ROOT / "docs" / name).read_text("utf-8") for name in ("analysts.md", "queries.md"))
QUERIES = re.findall(r"^```sql ?(\w*)\n(.*?)^```$", DOCUMENT, re.M | re.S)
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.M | re.S)


def run(qc: Engine, wanted: str) -> list[dict[str, Any]]:
    """The rows of the query that holds a text, as the document has it."""
    (query,) = [text for kind, text in QUERIES if wanted in text and kind in {"", _kind(qc)}]
    with qc.connect() as connection:
        return [dict(row) for row in connection.exec_driver_sql(query).mappings()]


def _kind(qc: Engine) -> str:
    return "sqlite" if qc.dialect.name == "sqlite" else "mariadb"


def test_every_query_finds_something(filled: Engine) -> None:
    assert len(QUERIES) > 10
    with filled.connect() as connection:
        for kind, query in QUERIES:
            if kind in {"", _kind(filled)}:
                assert connection.exec_driver_sql(query).all() != [], query


def test_the_queries_find_what_they_say(filled: Engine) -> None:
    counts = {(row["centre"], row["procedure_id"]): row for row in run(filled, "AS without_value")}
    weights = counts["H", WEIGHT]
    assert [int(weights[name]) for name in ("measurements", "animals", "without_value", "not_valid")] == [144, 24, 1, 1]
    assert {int(row["animals"]) for row in run(filled, "AS first_born")} >= {6}
    if _kind(filled) == "sqlite":
        weeks = [int(row["week"]) for row in run(filled, "AS week")]
        assert weeks == [week for week in range(4, 10) for _ in range(2)]
    compared = run(filled, "baseline_mean")
    assert {(row["genotype"], row["unit"]) for row in compared} == {("C1", "g")}
    assert sum(int(row["mutant_values"]) for row in compared if row["centre"] == "H") == ANIMALS // 2 * 6 - 1
    assert [row["increment"] for row in run(filled, "MIN(unit) AS unit")][:3] == ["0", "15", "30"]
    assert [(row["action"], int(row["opened"]), int(row["ended"])) for row in run(filled, "FROM lifetime WHERE")] == [
        ("add", 2, 0),
        ("edit", 1, 1),
        ("edit", 1, 1),
        ("delete", 0, 1),
    ]
    assert [row["status"] for row in run(filled, "WHERE value IS NULL")] == ["IMPC_PARAMSC_001: the scale broke"] * 2
    past = {(row["centre"], row["procedure_id"]): row for row in run(filled, "MAX(id)")}
    assert past["J", WEIGHT]["measurements"] == ANIMALS * 6
    assert counts["J", WEIGHT]["measurements"] == ANIMALS * 6 - 1
    assert [(row["colony_id"], row["value"]) for row in run(filled, "owner_kind = 'line'")] == [("C1", "12")]


@pytest.mark.both_databases
def test_animals_whose_ids_differ_in_trailing_blanks_are_counted(filled: Engine) -> None:
    with filled.begin() as connection:
        connection.execute(update(MEASUREMENT).where(MEASUREMENT.c.specimen_id == "H1").values(specimen_id="H2 "))
    (weights,) = [
        row for row in run(filled, "AS without_value") if (row["centre"], row["procedure_id"]) == ("H", WEIGHT)
    ]
    assert weights["animals"] == 24


@pytest.mark.both_databases
def test_a_value_has_the_weight_of_that_day_or_the_last_before(filled: Engine) -> None:
    def weights() -> dict[str, Any]:
        return {row["specimen_id"]: row["weight"] for row in run(filled, "AS batch") if row["centre"] == "H"}

    assert weights() == {"H0": 25.0, "H1": 25.1, "H2": 23.2, "H3": 23.3}
    with filled.begin() as connection:
        for name, changed in (("W0-5", {"number": None}), ("W1-5", {"specimen_id": "H9"})):
            of_one = (MEASUREMENT.c.experiment_id == name) & (MEASUREMENT.c.centre == "H")
            connection.execute(update(MEASUREMENT).where(of_one).values(changed))
    assert weights() == {"H0": 24.0, "H1": 24.1, "H2": 23.2, "H3": 23.3}


@pytest.mark.both_databases
def test_mutants_of_each_zygosity_are_compared_by_themselves(filled: Engine) -> None:
    of_animal = (OVERVIEW_ANIMAL.c.specimen_id == "H1") & (OVERVIEW_ANIMAL.c.centre == "H")
    of_baseline = (OVERVIEW_ANIMAL.c.specimen_id == "H0") & (OVERVIEW_ANIMAL.c.centre == "H")
    before = {
        (row["gender"], row["metadata_group"]): row for row in run(filled, "baseline_mean") if row["centre"] == "H"
    }
    with filled.begin() as connection:
        connection.execute(update(OVERVIEW_ANIMAL).where(of_animal | of_baseline).values(zygosity="heterozygous"))
    after = [row for row in run(filled, "baseline_mean") if row["centre"] == "H" and row["gender"] == "male"]
    for row in after:
        assert row["baseline_values"] == before["male", row["metadata_group"]]["baseline_values"]
    assert [row["mutant_values"] for row in after if row["zygosity"] == "heterozygous"] == [6]
    assert sum(row["mutant_values"] for row in after) == sum(
        row["mutant_values"] for (gender, _), row in before.items() if gender == "male"
    )


def test_what_changed_names_a_withdrawn_document_beside_its_withdrawal(filled: Engine) -> None:
    undo_documents(filled, [8])
    changes = [(row["action"], int(row["opened"]), int(row["ended"])) for row in run(filled, "FROM lifetime WHERE")]
    assert changes[-2:] == [("delete", 0, 1), ("undo", 1, 0)]


def test_a_mean_tells_how_many_numbers_it_is_of(filled: Engine) -> None:
    of_series = (MEASUREMENT.c.type == "seriesParameter") & (MEASUREMENT.c.increment == "30")
    with filled.begin() as connection:
        connection.execute(update(MEASUREMENT).where(of_series).values(value="", number=None, increment_status="X_1"))
    assert {int(row["n"]) for row in run(filled, "MIN(unit) AS unit") if row["increment"] == "30"} == {0}
    without = {(row["parameter_id"], row["status"]) for row in run(filled, "GROUP BY centre, parameter_id, COALESCE")}
    assert ("IMPC_IPG_002_001", "X_1") in without
    if _kind(filled) == "sqlite":
        assert sum(int(row["n"]) for row in run(filled, "AS week")) == 2 * ANIMALS * 6 - 4


def test_mutants_are_compared_without_a_unit_but_not_without_a_strain(filled: Engine) -> None:
    compared = len(run(filled, "baseline_mean"))
    with filled.begin() as connection:
        connection.execute(update(MEASUREMENT).values(unit=None))
    assert len(run(filled, "baseline_mean")) == compared > 0
    with filled.begin() as connection:
        connection.execute(update(OVERVIEW_ANIMAL).values(strain_id=""))
    assert run(filled, "baseline_mean") == []


def test_the_python_of_the_document_runs(
    filled: Engine, qc_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_settings(monkeypatch)
    monkeypatch.setenv("DCC_HOME", str(qc_settings.home))
    monkeypatch.setenv("DCC_QC_URL", qc_settings.qc_database_url)
    monkeypatch.chdir(tmp_path)
    export_measurements(filled, tmp_path / "measurements")
    export_measurements(filled, tmp_path / "weights", ExportFormat.CSV, MeasurementFilter(procedure=WEIGHT))
    names: dict[str, Any] = {}
    for program in PROGRAMS:
        exec(compile(program, "docs/analysts.md", "exec"), names)
    (over_files,) = [query for kind, query in QUERIES if kind == "duckdb"]
    assert len(duckdb.sql(over_files).fetchall()) == 8
    assert len(PROGRAMS) == 3
    assert len(names["by_sex"]) == 8
    assert names["changed"]["value"].tolist() == ["31.5"]
    assert names["rows"] > 2 * 143
    assert set(names["glucose"]["procedure_id"]) == {"IMPC_IPG_001"}
    assert "the scale broke" in str(set(names["weights"]["status"]))
    assert {"18.0", "31.5"} <= set(names["weights"]["value"])
    names["qc"].dispose()


@only_sqlite
def test_the_notebook_runs(
    filled: Engine, qc_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DCC_HOME", str(qc_settings.home))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "docs" / "analysis.ipynb").read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert (notebook["nbformat"], [cell["outputs"] for cell in cells]) == (4, [[]] * len(cells))
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"docs/analysis.ipynb, cell {number}", "exec"), names)
    assert list(names["growth"]) == ["female", "male"]
    assert names["growth"].index.tolist() == [*range(4, 10)]
    assert duckdb.sql(f"FROM '{tmp_path}/weights.parquet'").fetchall()


def test_the_columns_are_those_of_the_document() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [\w ]+ \| (.*) \|$", DOCUMENT, re.M)
    assert rows == [(column.name, column.meaning) for column in COLUMNS]


def test_the_view_has_the_columns_that_the_document_says(filled: Engine) -> None:
    with filled.connect() as connection:
        view = set(connection.exec_driver_sql("SELECT * FROM current_measurement").keys())
    extra = {"genotype", "metadata_group", "zip_action", "zip_file", "file_name"}
    assert view == {column.name for column in COLUMNS} - extra | {"fingerprint", "owner_id"}
