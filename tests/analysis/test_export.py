"""Exports of measurements, read back by DuckDB, pyarrow and pandas; from SQLite and from MariaDB."""

import json
import os
import signal
import time
from itertools import count
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pytest
from pandas.testing import assert_frame_equal
from sqlalchemy import Engine, update

from dcc.analysis.columns import PANDAS_TYPES, SCHEMA, to_frame
from dcc.analysis.export import ExportFormat, ExportReport, Partition, export_measurements
from dcc.analysis.filters import MeasurementFilter
from dcc.analysis.measurements import load_measurements
from dcc.errors import ExportActiveError, ExportError
from dcc.naming import Action
from dcc.qc import models
from dcc.settings import Settings
from dcc.vocabulary import Validity
from tests.support.analysis_data import WEIGHT, animal, weight
from tests.support.asking import execute_in
from tests.support.databases import only_sqlite
from tests.support.qc_child import event, finish, start
from tests.support.qc_documents import apply, line, undo_documents

ALL = MeasurementFilter(only_valid=False)
STRANGE = ("../../outside", "/etc", "..", "", "a/b", "per%cent", "P=1", "é 𝒳", "P", "P ")
FILES = {"procedure_id=IMPC_BWT_001", "procedure_id=IMPC_IPG_001"}


def files(directory: Path) -> dict[str, int]:
    """The files of an export that readers see, with when they were written."""
    found = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith(("_", "."))]
    return {str(path.relative_to(directory)): path.stat().st_mtime_ns for path in found}


def query(directory: Path, format_: ExportFormat) -> str:
    if format_ is ExportFormat.PARQUET:
        return f"read_parquet('{directory}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)"
    types = json.dumps({field.name: _duckdb_type(field.type) for field in SCHEMA}).replace('"', "'")
    return f"read_csv('{directory}/**/*.csv', hive_partitioning = false, allow_quoted_nulls = false, columns = {types})"


def _duckdb_type(type_: pa.DataType) -> str:
    return {"string": "VARCHAR", "int64": "BIGINT", "bool": "BOOLEAN", "date32[day]": "DATE"}.get(str(type_), "DOUBLE")


def by_duckdb(directory: Path, format_: ExportFormat) -> pd.DataFrame:
    columns = ", ".join(f'"{name}"' for name in SCHEMA.names)
    found = duckdb.sql(f"SELECT {columns} FROM {query(directory, format_)} ORDER BY id").to_arrow_table()
    return to_frame(found.cast(SCHEMA))


def by_pyarrow(directory: Path, format_: ExportFormat) -> pd.DataFrame:
    if format_ is ExportFormat.PARQUET:
        keys = pa.schema([SCHEMA.field(name) for name in Partition._fields])
        hive = pyarrow.dataset.partitioning(keys, flavor="hive")
        table = pyarrow.dataset.dataset(directory, format="parquet", partitioning=hive).to_table()
    else:
        whole = pa.csv.ParseOptions(newlines_in_values=True)
        exact = pa.csv.ConvertOptions(column_types=SCHEMA, strings_can_be_null=True, quoted_strings_can_be_null=False)
        read = [
            pa.csv.read_csv(directory / one, parse_options=whole, convert_options=exact) for one in files(directory)
        ]
        table = pa.concat_tables(read)
    return to_frame(table.select(SCHEMA.names).sort_by("id"))


def by_pandas(directory: Path, format_: ExportFormat) -> pd.DataFrame:
    if format_ is ExportFormat.PARQUET:
        return pd.read_parquet(directory)[SCHEMA.names].astype(PANDAS_TYPES).sort_values("id", ignore_index=True)
    days = ["date", "dob"]
    types = {name: kind for name, kind in PANDAS_TYPES.items() if name not in days}
    read = [
        pd.read_csv(directory / one, dtype=types, parse_dates=days, keep_default_na=False, na_values=[""])
        for one in files(directory)
    ]
    return pd.concat(read).astype(PANDAS_TYPES).sort_values("id", ignore_index=True)


def original(frame: pd.DataFrame, format_: ExportFormat) -> pd.DataFrame:
    """The texts of a file as they were submitted, as docs/analysts.md says."""
    return frame.replace(r"\A'", "", regex=True) if format_ is ExportFormat.CSV else frame


@pytest.mark.parametrize("format_", list(ExportFormat))
def test_an_export_read_back_equals_the_measurements(filled: Engine, tmp_path: Path, format_: ExportFormat) -> None:
    report = export_measurements(filled, tmp_path / "new" / "export", format_)
    frame = load_measurements(filled)
    assert report.rows == report.rows_written == len(frame)
    assert (report.files, report.unchanged, report.removed) == (6, 0, 0)
    assert Partition("J", WEIGHT) in report.written
    for read in (by_duckdb, by_pyarrow, by_pandas):
        if (read, format_) == (by_pandas, ExportFormat.CSV):
            # It takes an empty text in CSV for a missing one.
            frame = frame.assign(metadata_group=frame["metadata_group"].mask(frame["metadata_group"] == ""))
        assert_frame_equal(original(read(report.directory, format_), format_), frame)


@pytest.mark.parametrize("format_", list(ExportFormat))
def test_names_never_lead_out_of_the_directory_and_are_read_back(
    qc_database: Engine, tmp_path: Path, format_: ExportFormat
) -> None:
    for name in STRANGE:
        apply(qc_database, Action.ADD, line("C1", f"of {name}", procedure_id=name))
    report = export_measurements(qc_database, tmp_path / "export", format_, ALL)
    assert {partition.procedure_id for partition in report.written} == set(STRANGE)
    assert [path.name for path in tmp_path.iterdir() if path.name not in {"home", "export"}] == []
    assert len(files(tmp_path / "export")) == len(STRANGE)
    assert all(len(Path(path).parts) == 3 for path in files(tmp_path / "export"))
    for read in (by_duckdb, by_pyarrow):
        found = read(report.directory, format_)
        assert found["procedure_id"].tolist() == list(STRANGE)
        assert_frame_equal(found, load_measurements(qc_database, ALL))


@pytest.mark.parametrize("format_", list(ExportFormat))
def test_values_are_exported_to_the_letter(qc_database: Engine, tmp_path: Path, format_: ExportFormat) -> None:
    values = ["", "1e400", "𝒳\r\n\t\"',;\\", "=1+1", "@cmd"]
    for number, value in enumerate(values):
        apply(qc_database, Action.ADD, line(f"C{number}", value))
    export_measurements(qc_database, tmp_path / "export", format_, ALL)
    for read in (by_pyarrow, by_duckdb):
        assert original(read(tmp_path / "export", format_), format_)["value"].tolist() == values
    values.append("x" * 1_000_000)
    apply(qc_database, Action.ADD, line("C9", values[-1]))
    export_measurements(qc_database, tmp_path / "export", format_, ALL)
    assert original(by_pyarrow(tmp_path / "export", format_), format_)["value"].tolist() == values


def test_a_name_that_no_directory_can_have_is_refused(qc_database: Engine, tmp_path: Path) -> None:
    apply(qc_database, Action.ADD, line("C1", procedure_id="𝒳" * 60))
    with pytest.raises(ExportError, match="no directory can be named"):
        export_measurements(qc_database, tmp_path / "export", criteria=ALL)


def test_only_what_changed_is_written_again(filled: Engine, tmp_path: Path) -> None:
    directory = tmp_path / "export"

    def again() -> ExportReport:
        report = export_measurements(filled, directory)
        assert_frame_equal(by_duckdb(directory, ExportFormat.PARQUET), load_measurements(filled))
        return report

    again()
    before = files(directory)
    assert again().written == ()
    assert files(directory) == before

    apply(filled, Action.EDIT, weight("H", 1, 1, "17"), centre="H")
    unjudged = update(models.EXPERIMENT).where(models.EXPERIMENT.c.validity == Validity.UNJUDGED)
    execute_in(filled, unjudged.values(validity=Validity.VALID))
    assert again().written == (Partition("H", WEIGHT),)
    apply(filled, Action.EDIT, animal("J", 20)._replace(gender="female"), centre="J")
    assert again().written == (Partition("J", WEIGHT),)
    experiment = update(models.EXPERIMENT).where(models.EXPERIMENT.c.experiment_id == "G1")
    execute_in(filled, experiment.values(validity=Validity.INVALID))
    assert again().written == (Partition("H", "IMPC_IPG_001"), Partition("J", "IMPC_IPG_001"))
    of_scale = models.OVERVIEW_ANIMAL.c.specimen_id == "H1"
    execute_in(filled, update(models.OVERVIEW_ANIMAL).where(of_scale).values(metadata_group="0" * 32))
    assert again().written == (Partition("H", WEIGHT),)

    undo_documents(filled, [5])
    report = again()
    assert (report.written, report.removed, report.files) == ((), 2, 4)
    assert json.loads((directory / "_manifest.json").read_text())["unfinished"] == []
    assert {path.name for path in (directory / "centre=H").iterdir()} == FILES


def test_files_that_were_lost_or_cut_are_written_again(filled: Engine, tmp_path: Path) -> None:
    directory = tmp_path / "export"
    export_measurements(filled, directory)
    lost, cut = directory / "centre=H", directory / "centre=J"
    (lost / "procedure_id=IMPC_BWT_001/part-0.parquet").unlink()
    os.truncate(cut / "procedure_id=IMPC_BWT_001/part-0.parquet", 100)
    assert export_measurements(filled, directory).written == (Partition("H", WEIGHT), Partition("J", WEIGHT))
    assert_frame_equal(by_duckdb(directory, ExportFormat.PARQUET), load_measurements(filled))


@only_sqlite
def test_an_export_that_was_killed_is_gone_on_with_and_no_other_wrote_there_meanwhile(
    filled: Engine, qc_settings: Settings, tmp_path: Path
) -> None:
    directory = tmp_path / "export"
    written, files_written = event(), count(1)

    def wait_after_three(_: object) -> None:
        if next(files_written) == 3:
            written.set()
            time.sleep(600)

    process = start(qc_settings, lambda qc: export_measurements(qc, directory, on_progress=wait_after_three))
    try:
        assert written.wait(60)
        with pytest.raises(ExportActiveError, match="Wait until it is done"):
            export_measurements(filled, directory)
        export_measurements(filled, tmp_path / "other")
    finally:
        process.kill()
    assert finish(process) == -signal.SIGKILL
    report = export_measurements(filled, directory)
    assert report.rows == len(load_measurements(filled))
    assert_frame_equal(by_duckdb(directory, ExportFormat.PARQUET), load_measurements(filled))
    assert list(directory.rglob("*.part")) == []


@only_sqlite
def test_a_directory_with_files_of_others_is_refused(filled: Engine, tmp_path: Path) -> None:
    for directory, name in (("one", "notes.txt"), ("two", "centre=H/procedure_id=IMPC_BWT_001/part-0.parquet")):
        path = tmp_path / directory / name
        path.parent.mkdir(parents=True)
        path.write_text("mine")
        with pytest.raises(ExportError, match="which no export has put there"):
            export_measurements(filled, tmp_path / directory)
        assert path.read_text() == "mine"


@only_sqlite
def test_incomplete_files_of_others_stay_in_a_refused_folder_and_in_an_export(filled: Engine, tmp_path: Path) -> None:
    mine, directory = tmp_path / "mine", tmp_path / "export"
    own = directory / "centre=H/procedure_id=IMPC_BWT_001" / f".{'0af1' * 8}.part"
    theirs = [mine / "Downloads/.film.mkv.part", mine / own.name, directory / ".film.mkv.part"]
    export_measurements(filled, directory)
    (mine / "Downloads").mkdir(parents=True)
    for path in (mine / "letter.txt", *theirs, own, directory / own.name):
        path.write_text("incomplete")
    with pytest.raises(ExportError, match="which no export has put there"):
        export_measurements(filled, mine)
    export_measurements(filled, directory)
    assert all(path.exists() for path in theirs)
    assert sorted(directory.rglob("*.part")) == [directory / ".film.mkv.part"]


@only_sqlite
def test_a_directory_that_cannot_be_made_or_cleared_is_told(filled: Engine, tmp_path: Path) -> None:
    directory, in_file = tmp_path / "export", tmp_path / "file" / "export"
    in_file.parent.write_text("")
    export_measurements(filled, directory)
    (directory / f".{'0' * 32}.part").mkdir()
    for place in (directory, in_file):
        with pytest.raises(ExportError, match="cannot be written"):
            export_measurements(filled, place)


@only_sqlite
def test_files_and_links_put_into_an_export_are_not_taken_for_its_own(filled: Engine, tmp_path: Path) -> None:
    directory, elsewhere = tmp_path / "export", tmp_path / "elsewhere"
    export_measurements(filled, directory)
    (directory / ".hidden").write_text("of the file system")
    (directory / "centre=H/procedure_id=IMPC_BWT_001/mine.parquet").write_text("mine")
    with pytest.raises(ExportError, match=r"mine\.parquet"):
        export_measurements(filled, directory)
    (directory / "centre=H/procedure_id=IMPC_BWT_001/mine.parquet").unlink()
    (directory / "centre=H").rename(elsewhere)
    (directory / "centre=H").symlink_to(elsewhere)
    with pytest.raises(ExportError, match="centre=H"):
        export_measurements(filled, directory)


@only_sqlite
def test_what_does_not_go_on_with_an_export_is_refused(filled: Engine, tmp_path: Path) -> None:
    """An export of something else, and one whose manifest is spoilt or names files elsewhere."""
    mine, directory = tmp_path / "mine.parquet", tmp_path / "export"
    export_measurements(filled, directory)
    mine.write_text("mine")
    before = files(directory)
    others = (ALL, MeasurementFilter(centre="H"), MeasurementFilter(as_of_document=1))
    for format_, wanted in ((ExportFormat.CSV, None), *((ExportFormat.PARQUET, other) for other in others)):
        with pytest.raises(ExportError, match="or to another directory"):
            export_measurements(filled, directory, format_, wanted)
    manifest = directory / "_manifest.json"
    elsewhere = json.dumps({**json.loads(manifest.read_text()), "unfinished": ["../mine.parquet"]})
    for text in ("", "[]", '{"format_version": 99}', '{"format_version": 1, "format": "parquet"}', elsewhere):
        manifest.write_text(text)
        with pytest.raises(ExportError, match="manifest"):
            export_measurements(filled, directory)
    assert files(directory) == before
    assert mine.exists()


def test_an_export_of_the_past_is_of_the_past(filled: Engine, tmp_path: Path) -> None:
    wanted = MeasurementFilter(as_of_document=4, only_valid=False)
    report = export_measurements(filled, tmp_path / "export", criteria=wanted)
    assert_frame_equal(by_duckdb(tmp_path / "export", ExportFormat.PARQUET), load_measurements(filled, wanted))
    assert report.files == 4
    apply(filled, Action.DELETE, weight("J", 6, 1, "1"), centre="J")
    assert export_measurements(filled, tmp_path / "export", criteria=wanted).written == ()
