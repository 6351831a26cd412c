"""`dcc data export` and `dcc data schema`, on SQLite and on MariaDB."""

import re
from pathlib import Path

import duckdb
import pytest
from sqlalchemy import Engine

from dcc.analysis.columns import COLUMNS
from dcc.qc.models import QcBase
from dcc.tracker.models import Base
from tests.cli.conftest import Dcc
from tests.support.analysis_data import ANIMALS, WEEKS, WEIGHT
from tests.support.databases import only_sqlite


@pytest.fixture
def filled(qc_with_data: None, dcc: Dcc, dcc_qc: Engine) -> Dcc:
    return dcc


def count(directory: Path) -> int:
    (row,) = duckdb.sql(f"SELECT COUNT(*) FROM read_parquet('{directory}/**/*.parquet')").fetchall()
    return int(row[0])


def test_measurements_are_exported_and_brought_up_to_date(filled: Dcc, tmp_path: Path) -> None:
    directory = tmp_path / "export"
    first = filled.json("data", "export", directory, "--partitioned")
    assert (first["files"], first["rows"], first["directory"]) == (6, count(directory), str(directory))
    assert {"centre": "H", "procedure_id": WEIGHT} in first["written"]
    again = filled("data", "export", directory, "--partitioned")
    assert f"{first['rows']} measurements in 6 files" in again.stdout
    assert "0 written, 6 unchanged, 0 removed" in again.stderr


def test_filters_choose_what_is_exported(filled: Dcc, tmp_path: Path) -> None:
    both = ("--procedure", WEIGHT, "--centre", "H", "--centre", "J")
    assert filled.json("data", "export", tmp_path / "1", *both)["rows"] == 2 * ANIMALS * WEEKS - 2
    everything = filled.json("data", "export", tmp_path / "2", *both, "--include-invalid")
    assert everything["rows"] == 2 * ANIMALS * WEEKS - 1
    days = ("--from", "2013-06-05", "--until", "2013-06-05", "--genotype", "baseline")
    assert filled.json("data", "export", tmp_path / "3", *both, *days)["rows"] == ANIMALS
    assert filled.json("data", "export", tmp_path / "4", *both, "--as-of", "3")["rows"] == ANIMALS * WEEKS - 1
    assert filled.json("data", "export", tmp_path / "5", *both, "--as-of", "2026-01-02")["rows"] == 0
    csv = filled.json("data", "export", tmp_path / "6", "--format", "csv", "--centre", "J")
    assert (csv["format"], csv["files"]) == ("csv", 2)
    nothing = ("--centre", "J", "--procedure", "IMPC_FER_001")
    assert "No measurement fits" in filled("data", "export", tmp_path / "7", *nothing).stdout


def test_one_file_is_written_in_the_format_of_its_name(filled: Dcc, tmp_path: Path) -> None:
    only = ("--procedure", WEIGHT, "--centre", "J")
    csv, parquet = tmp_path / "weights.csv", tmp_path / "weights.PARQUET"
    csv.write_text("an older one")
    for file in (csv, parquet):
        written = filled.json("data", "export", file, *only)
        assert (written["file"], written["rows"]) == (str(file), ANIMALS * WEEKS - 1)
    columns = duckdb.sql(f"DESCRIBE SELECT * FROM read_parquet('{parquet}')").fetchall()
    assert [column[0] for column in columns] == [column.name for column in COLUMNS]
    assert [line.count('"id"') for line in csv.read_text("utf-8").splitlines()] == [1, *[0] * (ANIMALS * WEEKS - 1)]
    assert filled("data", "export", "-", *only).stdout == csv.read_text("utf-8")
    nothing = filled("data", "export", csv, "--centre", "J", "--parameter", "IMPC_FER_001_001")
    assert (nothing.stdout, nothing.stderr) == (f"{csv} holds 0 measurements.\n", "")
    assert len(csv.read_text("utf-8").splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {csv.name, parquet.name}


@only_sqlite
def test_a_directory_without_partitioned_is_written_with_a_warning(filled: Dcc, tmp_path: Path) -> None:
    filled("data", "export", tmp_path / "as.csv", "--partitioned", "--format", "csv")
    for place, options in (("plain", ()), ("as.csv", ("--format", "csv"))):
        told = filled("data", "export", tmp_path / place, *options)
        assert "Add --partitioned" in told.stderr
        assert "in 6 files" in told.stdout


@only_sqlite
def test_wrong_use_is_told(filled: Dcc, tmp_path: Path) -> None:
    assert "neither a day nor a document" in filled.error(
        "data", "export", tmp_path / "1", "--as-of", "yesterday", exit_code=2
    )
    unknown = filled.error("data", "export", tmp_path / "1", "--procedure", "IMPC_BTW_001", exit_code=2)
    assert "no procedure 'IMPC_BTW_001'. The nearest: IMPC_BWT_001" in unknown
    assert not (tmp_path / "1").exists()
    (tmp_path / "weights.csv").write_text("an older one")
    for arguments, said in (
        ((tmp_path / "weights.csv", "--partitioned"), "weights.csv is a file, and --partitioned writes a directory"),
        ((tmp_path / "weights.txt",), "Give a file .csv or .parquet, name - for standard output"),
        (("-", "--json"), "Leave out --json"),
        ((tmp_path / "y.csv", "--partitioned"), "y.csv is written as a directory of parquet files"),
        ((tmp_path / "y.parquet", "--partitioned", "--format", "csv"), "as a directory of csv files"),
        (("-", "--partitioned"), "Name one instead of -"),
        (("-", "--format", "parquet"), "is written as csv"),
        ((tmp_path / "x.csv", "--format", "parquet"), "is written as csv"),
        ((tmp_path / "missing" / "x.csv",), "cannot be written: No such file"),
    ):
        assert said in filled.error("data", "export", *arguments, exit_code=2)
    assert not (tmp_path / "weights.txt").exists()
    assert not (tmp_path / "y.csv").exists()
    assert "no document 99" in filled.error("data", "export", tmp_path / "1", "--as-of", "99", exit_code=2)
    filled("data", "export", tmp_path / "2")
    assert "another directory" in filled.error("data", "export", tmp_path / "2", "--centre", "H", exit_code=2)


@only_sqlite
def test_parameters_are_listed(filled: Dcc) -> None:
    shown = filled("data", "parameters", "body WEIGHT", "bwt_001_001")
    cells = re.split(" {2,}", shown.stdout.splitlines()[1].strip())
    assert cells == ["IMPC_BWT_001_001", "Body weight", "Body Weight", "g", "simpleParameter", "0"]
    assert shown.stderr == "1 parameter.\n"
    (listed,) = filled.json("data", "parameters", "IMPC_BWT_001_001")
    assert (
        "No parameter has all of these words. The nearest: weight" in filled("data", "parameters", "body wieght").stderr
    )
    assert listed == {
        "key": "IMPC_BWT_001_001",
        "name": "Body weight",
        "procedure": WEIGHT,
        "procedure_name": "Body Weight",
        "unit": "g",
        "type": "simpleParameter",
        "measurements": 0,
    }


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
