"""`dcc data export`: measurements as files for analysts."""

from __future__ import annotations

import sys
import time
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, open_qc, options, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.output import echo_json, echo_result, printable, progress_shown, wants_json, warn
from dcc.cli.shell.parameter_types import DAY
from dcc.errors import ConfigurationError
from dcc.messages import count_of
from dcc.runtime.json_values import fields_of

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from dcc.analysis.export import ExportFormat
    from dcc.analysis.filters import MeasurementFilter

_TEXTS = {
    "centre": "Only of this phenotyping centre (ILAR code).",
    "pipeline": "Only of this pipeline.",
    "project": "Only of this project.",
    "colony": "Only of this colony.",
    "genotype": "Only of the mutants of this colony, or `baseline`.",
    "specimen": "Only of this animal.",
    "procedure": "Only of this procedure.",
    "parameter": "Only of this parameter.",
    "status": "Only with this parameter status, such as IMPC_PARAMSC_001; empty: without one.",
}
_STDOUT = Path("-")
_EXPORTING = "Exporting measurements"
_FORMATS = ("csv", "parquet")
_DIGITS = 18
"""The most digits of a document's number."""


_filter_options = options(
    *(click.option(f"--{name}", multiple=True, metavar="TEXT", help=said) for name, said in _TEXTS.items())
)


@command(
    examples=[
        "dcc data export weights.csv --parameter IMPC_BWT_001_001 --as-of 2026-10-31",
        "dcc data export - --procedure IMPC_BWT_001 --centre H --centre J | gzip > weights.csv.gz",
        "dcc data export measurements --partitioned",
    ],
    exits={
        2: "the directory holds something else, the place cannot be written, or a filter is wrong",
        3: "another export writes to the directory",
    },
)
@click.argument("place", metavar="FILE|-|DIRECTORY", type=click.Path(path_type=Path))
@click.option("--partitioned", is_flag=True, help="Write a directory: a file for each centre and procedure.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(_FORMATS),
    help="Of the files in a directory (default: parquet). One file has the format of its suffix, - has CSV.",
)
@_filter_options
@click.option("--from", "date_from", type=DAY, help="Only experiments of this day or later.")
@click.option("--until", "date_until", type=DAY, help="Only experiments of this day or earlier.")
@click.option("--as-of", metavar="DATE|DOCUMENT", help="What was current at the end of a day, or after a document.")
@click.option("--latest-valid", is_flag=True, help="Of data replaced by some with errors, the valid ones from before.")
@click.option("--include-invalid", is_flag=True, help="Also what integrity rules found errors in, or have not judged.")
@json_option
def export(
    place: Path,
    partitioned: bool,
    format_name: str | None,
    date_from: date | None,
    date_until: date | None,
    as_of: str | None,
    latest_valid: bool,
    include_invalid: bool,
    **texts: tuple[str, ...],
) -> None:
    """Export measurements to a file, standard output or a directory.

    FILE ends with .csv or .parquet; an older one is replaced. - writes CSV to standard output. --partitioned writes a
    directory with a file for each centre and procedure, for DuckDB, pandas and others. The same command again brings it
    up to date: only files whose measurements changed are written. By default all measurements that are current and
    valid are exported. Filters may be repeated, and mean any of what they name. docs/queries.md lists the columns.

    \b
    JSON: of a file {"file", "format", "rows", "seconds"}; of a directory an object with
      directory, format
      rows, files     what the export holds
      written         a list of {"centre", "procedure_id"}, whose files were written
      rows_written    measurements in them
      unchanged, removed  numbers of files
      seconds
    """
    from dcc.analysis.export import ExportFormat
    from dcc.analysis.filters import MeasurementFilter
    from dcc.analysis.parameters import require_known

    suffix = _suffix(place, format_name, partitioned=partitioned)
    if place == _STDOUT and wants_json():
        raise ConfigurationError("Standard output has the measurements. Leave out --json, or name a file.")
    past_document, past_date = _past(as_of)
    criteria = MeasurementFilter(
        **{name: given or None for name, given in texts.items()},
        date_from=date_from,
        date_until=date_until,
        only_valid=not include_invalid,
        latest_valid=latest_valid,
        as_of_document=past_document,
        as_of_date=past_date,
    )
    with open_qc(settings_from_environment()) as qc:
        with qc.connect() as connection:
            require_known(connection, criteria)
        if suffix is None:
            _export_directory(qc, place, ExportFormat(format_name or "parquet"), criteria)
        else:
            _export_file(qc, place, ExportFormat(suffix), criteria)


def _suffix(place: Path, format_name: str | None, *, partitioned: bool) -> str | None:
    """The format of the one file to write; None for a directory."""
    if partitioned:
        if place == _STDOUT:
            raise ConfigurationError("--partitioned writes a directory. Name one instead of -.")
        if place.expanduser().is_file():
            raise ConfigurationError(
                f"{printable(place)} is a file, and --partitioned writes a directory. "
                "Name a directory, or leave out --partitioned."
            )
        suffix, written = place.suffix.removeprefix(".").lower(), format_name or "parquet"
        if suffix in _FORMATS and suffix != written and not place.expanduser().is_dir():
            raise ConfigurationError(
                f"{printable(place)} is written as a directory of {written} files. Name a directory without that "
                "suffix, or leave out --partitioned."
            )
        return None
    suffix = "csv" if place == _STDOUT else place.suffix.removeprefix(".").lower()
    if suffix and suffix not in _FORMATS and not place.expanduser().is_dir():
        raise ConfigurationError(
            f"{printable(place)} has an unknown suffix. Give a file .csv or .parquet, name - for standard output, "
            "or add --partitioned for a directory."
        )
    if suffix not in _FORMATS or place.is_dir():
        warn(
            f"{printable(place)} is written as a directory. Add --partitioned, which the next release needs for that; "
            "a file's name ends with .csv or .parquet."
        )
        return None
    if format_name not in {None, suffix}:
        raise ConfigurationError(f"{place} is written as {suffix}. Leave out --format, or give the file that suffix.")
    return suffix


def _export_directory(qc: Engine, place: Path, format_: ExportFormat, criteria: MeasurementFilter) -> None:
    from dcc.analysis.export import export_measurements

    with progress_shown() as show:
        directory = place.expanduser().absolute()
        report = export_measurements(
            qc, directory, format_, criteria, on_progress=lambda at: show(_EXPORTING, at.rows, at.of_rows)
        )
    if wants_json():
        names = ("directory", "format", "rows", "files", "rows_written", "unchanged", "removed", "written")
        echo_json({**fields_of(report, *names), "seconds": round(report.seconds, 3)})
        return
    if not report.rows:
        click.echo(f"No measurement fits: {printable(report.directory)} holds no files.")
    else:
        held = f"{count_of(report.rows, 'measurement')} in {count_of(report.files, 'file')}"
        click.echo(f"{printable(report.directory)} holds {held}.")
    changes = f"{len(report.written):,} written, {report.unchanged:,} unchanged, {report.removed:,} removed"
    click.echo(f"{changes}, in {report.seconds:.1f} s.", err=True)


def _export_file(qc: Engine, place: Path, format_: ExportFormat, criteria: MeasurementFilter) -> None:
    from dcc.analysis.export import export_to_file, write_measurements

    if place == _STDOUT:
        write_measurements(qc, sys.stdout.buffer, format_, criteria)
        return
    file, began = place.expanduser().absolute(), time.monotonic()
    with progress_shown() as show:
        rows = export_to_file(qc, file, format_, criteria, on_rows=lambda rows: show(_EXPORTING, rows, None))
    echo_result(
        {"file": file, "format": format_, "rows": rows, "seconds": round(time.monotonic() - began, 3)},
        f"{printable(file)} holds {count_of(rows, 'measurement')}.",
    )


def _past(text: str | None) -> tuple[int | None, date | None]:
    """The document or the day of --as-of."""
    if text is None:
        return None, None
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS:
        return int(text), None
    try:
        return None, date.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{text!r} is neither a day nor a document. Write a day as 2026-10-31, or the number of a document."
        ) from None
