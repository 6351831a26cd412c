"""The measurements as an asset: files that DuckDB and pandas read, brought up to date by a centre's partition."""

from pathlib import Path

import duckdb
import pandas as pd
from dagster import AssetKey, AssetMaterialization, DagsterRunStatus, JobDefinition

from dcc.analysis.measurements import load_measurements
from dcc_assets.sessions import run_session
from tests.support.dagster_instances import Dagster
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import one_database


def newest(dagster: Dagster) -> AssetMaterialization:
    found = dagster.instance.fetch_materializations(AssetKey("measurements"), limit=1).records[0].asset_materialization
    assert found is not None
    return found


@one_database
def test_a_centre_is_exported_to_files_that_others_read(
    data: DataInstallation, data_dagster: Dagster, data_job: JobDefinition
) -> None:
    data.put("add/H.2013-10-31.1.impc.zip", specimens(), experiments())
    run_session(data.settings, data.tracker, data_dagster.instance)
    assert data_dagster.materialise(data_job, "H", "measurements") is DagsterRunStatus.SUCCESS

    expected = load_measurements(data.qc)
    assert len(expected) > 0
    told = newest(data_dagster)
    assert told.partition == "H"
    directory = Path(str(told.metadata["path"].value))
    assert directory == data.settings.home / "measurements" / "H"
    files = list(directory.rglob("*.parquet"))
    facts = {name: told.metadata[name].value for name in ("dagster/row_count", "bytes", "files", "files written")}
    size = sum(file.stat().st_size for file in files)
    assert facts == {"dagster/row_count": len(expected), "bytes": size, "files": len(files), "files written": 1}

    whole = data.settings.home / "measurements"
    query = f"SELECT count(*), min(centre) FROM read_parquet('{whole}/**/*.parquet', hive_partitioning = true)"
    assert duckdb.sql(query).fetchall() == [(len(expected), "H")]
    assert sorted(pd.read_parquet(whole)["id"]) == sorted(expected["id"])

    assert data_dagster.materialise(data_job, "H", "measurements") is DagsterRunStatus.SUCCESS
    assert newest(data_dagster).metadata["files written"].value == 0
