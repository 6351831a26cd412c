"""The measurements as an asset: files that DuckDB and pandas read, brought up to date by a centre's partition."""

import json
from pathlib import Path

import duckdb
import pandas as pd
from dagster import DagsterRunStatus

from dcc.analysis.measurements import load_measurements
from tests.support.shown_installations import Shown


def test_a_centre_is_exported_to_files_that_others_read(shown: Shown) -> None:
    assert shown.dagster.materialise(shown.job, "H", "measurements") is DagsterRunStatus.SUCCESS

    expected = load_measurements(shown.data.qc)
    assert len(expected) > 0
    told = shown.dagster.metadata("measurements", "H")
    directory = Path(told["path"])
    assert directory == shown.data.settings.home / "measurements" / "H"
    files = list(directory.rglob("*.parquet"))
    facts = {name: told[name] for name in ("dagster/row_count", "bytes", "files", "files written")}
    size = sum(file.stat().st_size for file in files)
    assert facts == {"dagster/row_count": len(expected), "bytes": size, "files": len(files), "files written": 1}

    assert json.loads((directory / "_manifest.json").read_text())["filter"] == {"centre": ["H"], "only_valid": True}

    whole = shown.data.settings.home / "measurements"
    query = f"SELECT count(*), min(centre) FROM read_parquet('{whole}/**/*.parquet', hive_partitioning = true)"
    assert duckdb.sql(query).fetchall() == [(len(expected), "H")]
    assert sorted(pd.read_parquet(whole)["id"]) == sorted(expected["id"])

    assert shown.dagster.materialise(shown.job, "H", "measurements") is DagsterRunStatus.SUCCESS
    assert shown.dagster.metadata("measurements", "H")["files written"] == 0
