"""The group `analysis`: the measurements of each centre as a Parquet dataset."""

from typing import Final
from urllib.parse import quote

import dagster as dg

from dcc_assets.graph import CENTRE_PARTITIONS, CONTEXTS, MEASUREMENTS, asset
from dcc_dagster.metadata import table
from dcc_resources.databases import QcDatabaseResource

GROUP: Final = "analysis"
_PROCEDURES_SHOWN: Final = 100


MEASUREMENTS_SPEC: Final = asset(
    MEASUREMENTS,
    GROUP,
    "The current, valid measurements of each centre as Parquet files, for DuckDB, pandas and others.\n\nA "
    "partition is a centre, by its code. Materialise a partition to bring its files in `measurements` of DCC_HOME "
    "up to date: a file for each procedure, of which only those are written that changed. `dcc data export` writes "
    "other selections anywhere. docs/analysts.md describes the columns.",
    {"parquet"},
    CENTRE_PARTITIONS,
    [CONTEXTS],
)


@dg.multi_asset(name="measurements", specs=[MEASUREMENTS_SPEC])
def measurements(context: dg.AssetExecutionContext, qc_database: QcDatabaseResource) -> dg.MaterializeResult[None]:
    """Export the centre of the run's partition.

    Raises ExportError if the files cannot be written, ExportActiveError while another export writes them,
    QcDatabaseOutdatedError and QcDatabaseUnreachableError.
    """
    # Imported here, because these load large libraries.
    from dcc.analysis.columns import COLUMNS
    from dcc.analysis.export import export_measurements
    from dcc.analysis.filters import MeasurementFilter

    centre = context.partition_key
    directory = qc_database.settings_with().home / "measurements" / quote(centre, safe="")
    report = export_measurements(qc_database.ready(), directory, criteria=MeasurementFilter(centre=centre))
    written = [(partition.procedure_id,) for partition in report.written[:_PROCEDURES_SHOWN]]
    columns = [dg.TableColumn(column.name, str(column.type), description=column.meaning) for column in COLUMNS]
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": report.rows,
            "dagster/column_schema": dg.TableSchema(columns),
            "path": dg.MetadataValue.path(str(directory)),
            "bytes": sum(file.stat().st_size for file in directory.rglob("*.parquet")),
            "files": report.files,
            "files written": len(report.written),
            "rows written": report.rows_written,
            "files removed": report.removed,
            "procedures written": table(("procedure",), written),
        }
    )
