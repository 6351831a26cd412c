"""`dcc qc expected`: the procedures that are due, by centre, and of which animals and colonies they are missing."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, reading_qc, require_centre_of_data, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_table, warn
from dcc.cli.shell.parameter_types import DAY
from dcc.errors import ConfigurationError
from dcc.messages import count_of
from dcc.runtime.private_files import SHARED_FILE, replacement_file

if TYPE_CHECKING:
    from dcc.qc.expected_procedures import LackingProcedure, ProcedureDeliveries
    from dcc.settings import Settings

_OF_PROCEDURE = ("pipeline", "procedure", "name", "level", "due")
_CSV = (
    *("centre", "pipeline", "procedure", "level", "due", "specimen", "colony", "born", "stage", "state"),
    "status_code",
)
_NUMBERS = ("expected", "delivered", "invalid", "explained", "missing")


@command(
    examples=[
        "dcc qc expected --centre H --plot expected.svg",
        "dcc qc expected --pipeline IMPC_001 --day 2026-11-21 --csv expected.csv",
    ]
)
@click.option("--centre", help="Only of this centre (ILAR code).")
@click.option("--pipeline", help="Only of this pipeline, such as IMPC_001.")
@click.option(
    "--day",
    type=DAY,
    help="The day on which the age of animals counts, such as 2026-11-21; by default today.",
)
@click.option(
    "--csv",
    "csv_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write each animal and colony without valid data of a procedure to this file.",
)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw it into this file: .svg or .png.")
@click.option("--language", help="Language of the plot, such as de; by default that of the installation.")
@json_option
def expected(
    centre: str | None,
    pipeline: str | None,
    day: date | None,
    csv_file: Path | None,
    plot: Path | None,
    language: str | None,
    as_json: bool,
) -> None:
    """Show which procedures are due, and missing.

    IMPReSS says which procedures of a pipeline are mandatory, and at which age. For each centre, this counts the
    animals that have that age; for procedures on lines, the colonies with such an animal. Any version of a procedure
    counts.

    \b
      delivered  an experiment (or line) has it
      invalid    delivered, but the integrity rules found an error
      explained  a status code of the experiment, line or animal says why the data are missing
      missing    not delivered

    \b
    JSON: {"day", "procedures": a list of {"centre", "pipeline", "procedure", "name", "level"
      (experiment or line), "due" (16 weeks, E15.5), "expected", "delivered", "invalid",
      "explained", "missing"}, "not_covered": a list of {"centre", "pipeline", "specimens"}, of which
      IMPReSS says nothing}
    """
    from dcc.qc.expected_procedures import Deliveries, DeliveryCriteria, lacking_procedures, require_pipeline

    settings = settings_from_environment()
    criteria = DeliveryCriteria(day or datetime.now(UTC).date(), centre, pipeline)
    with reading_qc(settings) as connection:
        require_centre_of_data(connection, settings, centre)
        if pipeline is not None:
            require_pipeline(connection, pipeline)
        deliveries = Deliveries()
        lacking = lacking_procedures(connection, criteria, deliveries)
        if csv_file is None:
            deque(lacking, maxlen=0)
        else:
            _write(csv_file, lacking)
    counted = deliveries.by_procedure()
    if plot is not None:
        _draw(counted, settings, language, plot)
    note_facts(unwritten=csv_file is None and bool(counted))
    uncovered = [(*which, number) for which, number in sorted(deliveries.uncovered.items())]
    _show(criteria.day, counted, uncovered, as_json=as_json)
    for file in () if as_json else filter(None, (csv_file, plot)):
        click.echo(f"{file} written.", err=True)


def _draw(counted: Sequence[ProcedureDeliveries], settings: Settings, language: str | None, path: Path) -> None:
    from dcc.reports.languages import load_catalogue
    from dcc.reports.plots import draw_expected, use_font_cache

    use_font_cache(settings)
    draw_expected(counted, load_catalogue(language, settings)).write(path)


def _show(
    day: date, counted: Sequence[ProcedureDeliveries], uncovered: Sequence[tuple[str, str, int]], *, as_json: bool
) -> None:
    """Print the procedures, and of how many specimens of a centre and pipeline IMPReSS says nothing."""
    columns = ("centre", *_OF_PROCEDURE, *_NUMBERS)
    rows = [
        (
            procedure.centre,
            *(getattr(procedure.due, name) for name in _OF_PROCEDURE),
            *(getattr(procedure, name) for name in _NUMBERS),
        )
        for procedure in counted
    ]
    if as_json:
        not_covered = [dict(zip(("centre", "pipeline", "specimens"), one, strict=True)) for one in uncovered]
        procedures = [dict(zip(columns, row, strict=True)) for row in rows]
        echo_json({"day": day, "procedures": procedures, "not_covered": not_covered})
        return
    echo_table(columns, rows, flexible=["name", "pipeline", "level", "explained", "invalid", "delivered"])
    missing = sum(procedure.missing for procedure in counted)
    click.echo(f"{count_of(sum(one.expected for one in counted), 'procedure')} due, {missing:,} missing.", err=True)
    for of_centre, of_pipeline, number in uncovered:
        warn(
            f"IMPReSS says of {count_of(number, 'specimen')} of centre {of_centre} in pipeline {of_pipeline} nothing "
            "that is due: `dcc reference refresh` retrieves its schedules."
        )


def _write(path: Path, lacking: Iterable[LackingProcedure]) -> None:
    from dcc.analysis.spreadsheets import guarded

    try:
        with replacement_file(path, SHARED_FILE) as part, part.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(_CSV)
            for (centre, pipeline, specimen, colony, born, stage, _), due, state, code in lacking:
                texts = (centre, pipeline, due.procedure, due.level, due.due, specimen, colony)
                writer.writerow([*map(guarded, texts), born, guarded(stage), state.name.lower(), guarded(code)])
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}. Name another file.") from error
