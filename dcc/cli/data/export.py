"""`dcc data export`: measurements as files for analysts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dcc.cli.shell.context import json_option, open_qc, settings_from_environment
from dcc.cli.shell.output import count_of, echo_json, printable
from dcc.errors import ConfigurationError

if TYPE_CHECKING:
    from dcc.analysis.export import ExportProgress, ExportReport

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
_DAY = click.DateTime(formats=["%Y-%m-%d"])
_DIGITS = 18
"""What the number of a document has at most."""


def _filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of the filter; those with texts may be repeated."""
    for name, said in reversed(_TEXTS.items()):
        command = click.option(f"--{name}", multiple=True, metavar="TEXT", help=said)(command)
    return command


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["parquet", "csv"]),
    default="parquet",
    show_default=True,
    help="Of the files.",
)
@_filter_options
@click.option("--from", "date_from", type=_DAY, metavar="DATE", help="Only experiments of this day or later.")
@click.option("--until", "date_until", type=_DAY, metavar="DATE", help="Only experiments of this day or earlier.")
@click.option("--as-of", metavar="DATE|DOCUMENT", help="What was current at the end of a day, or after a document.")
@click.option("--include-invalid", is_flag=True, help="Also what integrity rules found errors in, or have not judged.")
@json_option
def export(
    directory: Path,
    format_name: str,
    date_from: datetime | None,
    date_until: datetime | None,
    as_of: str | None,
    include_invalid: bool,
    as_json: bool,
    **texts: tuple[str, ...],
) -> None:
    """Export measurements to DIRECTORY, for DuckDB, pandas and others.

    A file for each centre and procedure. The same command again brings the directory up to date: only files whose
    measurements changed are written. By default all measurements that are current and valid are exported.
    Filters may be repeated, and mean any of what they name. docs/analysts.md tells of the columns.

    \b
    Examples:
      dcc data export measurements
      dcc data export weights --procedure IMPC_BWT_001 --centre H --centre J
      dcc data export weights.csv --format csv --parameter IMPC_BWT_001_001 --as-of 2026-10-31

    \b
    JSON: an object with
      directory, format
      rows, files     what the export holds
      written         a list of {"centre", "procedure_id"}, whose files were written
      rows_written    measurements in them
      unchanged, removed  numbers of files
      seconds

    Exit codes: 0, also when there is nothing to export; 2 the directory holds something else or cannot be written, or
    a filter is wrong; 3 another export writes to it; 4 the QC database cannot be reached.
    """
    from dcc.analysis.export import ExportFormat, MeasurementFilter, export_measurements
    from dcc.analysis.known_values import require_known

    past_document, past_date = _past(as_of)
    wanted = MeasurementFilter(
        **{name: given or None for name, given in texts.items()},
        date_from=date_from.date() if date_from else None,
        date_until=date_until.date() if date_until else None,
        only_valid=not include_invalid,
        as_of_document=past_document,
        as_of_date=past_date,
    )
    with open_qc(settings_from_environment()) as qc, _progress_shown() as on_progress:
        with qc.connect() as connection:
            require_known(connection, wanted)
        format_ = ExportFormat(format_name)
        report = export_measurements(qc, directory.expanduser().absolute(), format_, wanted, on_progress=on_progress)
    if as_json:
        echo_json(_report_json(report))
        return
    _print_report(report)


def _past(text: str | None) -> tuple[int | None, date | None]:
    """The document or the day that --as-of names."""
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


@contextmanager
def _progress_shown() -> Iterator[Callable[[ExportProgress], None]]:
    """What shows how far an export is, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("Exporting measurements", total=None)

        def show(progress: ExportProgress) -> None:
            bars.update(bar, completed=progress.rows, total=progress.of_rows)

        yield show


def _report_json(report: ExportReport) -> dict[str, Any]:
    return {
        "directory": report.directory,
        "format": report.format,
        "rows": report.rows,
        "files": report.files,
        "written": [partition._asdict() for partition in report.written],
        "rows_written": report.rows_written,
        "unchanged": report.unchanged,
        "removed": report.removed,
        "seconds": round(report.seconds, 3),
    }


def _print_report(report: ExportReport) -> None:
    if not report.rows:
        click.echo(f"No measurement fits: {printable(report.directory)} holds no files.")
    else:
        held = f"{count_of(report.rows, 'measurement')} in {count_of(report.files, 'file')}"
        click.echo(f"{printable(report.directory)} holds {held}.")
    changes = f"{len(report.written):,} written, {report.unchanged:,} unchanged, {report.removed:,} removed"
    click.echo(f"{changes}, in {report.seconds:.1f} s.", err=True)
