"""`dcc qc`: data contexts, which wranglers check, the overviews for them, plots, and the procedures that are due."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dcc.cli.shell.context import (
    json_option,
    open_qc,
    open_tracker,
    options,
    parse_submission_key,
    reading_qc,
    require_centre_of_data,
    settings_from_environment,
    user_name,
    writing_file,
)
from dcc.cli.shell.group import CommandGroup
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_list, echo_result, echo_rows, wants_json, warn
from dcc.cli.shell.parameter_types import DAY
from dcc.errors import ConfigurationError
from dcc.messages import count_of
from dcc.runtime.clock import utc_today
from dcc.runtime.json_values import fields_of
from dcc.runtime.private_files import SHARED_FILE
from dcc.vocabulary import ContextEvent, ContextState

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dcc.qc.contexts.listings import ContextFilter
    from dcc.qc.contexts.states import DecisionResult
    from dcc.qc.expected_procedures import LackingProcedure, ProcedureDeliveries

_FILTERS = (
    ("--centre", "CODE", "Only of this centre (ILAR code)."),
    ("--pipeline", "KEY", "Only of this pipeline, such as IMPC_001."),
    ("--procedure", "KEY", "Only of this procedure, such as IMPC_CBC_001."),
    ("--parameter", "KEY", "Only of this parameter, such as IMPC_CBC_001_001."),
    ("--genotype", "COLONY", "Only of this colony, or `baseline`."),
    ("--strain", "ID", "Only of this strain, such as MGI:2159965."),
)
_OVERVIEWS = ("genotypes", "strains", "animals", "metadata-groups")
_CONTEXT = "centre, pipeline, genotype, strain, procedure, parameter"


_filtered = options(
    *(click.option(name, metavar=word, help=text) for name, word, text in _FILTERS),
    click.option(
        "--state",
        "states",
        type=click.Choice([state.value for state in ContextState]),
        multiple=True,
        help="Only in this state; may be given several times.",
    ),
    click.option("--waiting", is_flag=True, help="Only those that wait: neither qcdone nor nodata."),
)
_deciding = options(
    _filtered,
    click.option("--all", "every", is_flag=True, help="All contexts, where no other option chooses."),
    click.option("--reason", required=True, help="Why; kept in the history."),
    json_option,
)


_UNDECIDED = {2: "no context was selected, an unknown centre, or the reason is empty"}


@click.group(cls=CommandGroup)
def qc() -> None:
    """List data contexts, decide on them, show overviews.

    A data context is a centre's measurements of one parameter of a procedure on one genotype and strain. It has those
    that are current and in which no integrity rule found an error. Documents add, change and remove data; a wrangler
    checks the context and marks it as done. A document has passed the phase qc when all contexts with its measurements
    are done.

    States, from the least to the worst: nodata, qcdone, dataadded, datachanged, dataremoved, hasissues. The state is
    the worst event since the context was last marked as done.
    """


@qc.command(
    examples=["dcc qc contexts --waiting", "dcc qc contexts --centre H --state datachanged --state dataremoved"]
)
@_filtered
@json_option
def contexts(**filters: Any) -> None:
    """List data contexts.

    \b
    JSON: a list of {"centre", "pipeline", "genotype", "strain", "procedure", "parameter",
      "measurements", "checksum", "state", "issues" (open ones), "changed"}; what is not known
      of genotype and strain is ""
    """
    from dcc.qc.contexts.listings import list_contexts

    with reading_qc() as connection:
        entries = list_contexts(connection, _filter_of(connection, filters))
    echo_list(
        entries,
        f"{_CONTEXT}, measurements, state, issues, changed",
        flexible=("pipeline", "strain", "changed", "genotype"),
    )
    if not wants_json():
        click.echo(f"{count_of(len(entries), 'data context')}.", err=True)


@qc.command(
    examples=['dcc qc done --centre H --procedure IMPC_CBC_001 --reason "looked at all charts"'],
    exits=_UNDECIDED,
)
@_deciding
def done(reason: str, every: bool, **filters: Any) -> None:
    """Mark contexts as done.

    They are qcdone then, or nodata without any data, until a document changes something again. Contexts with open
    issues stay as they are. Documents whose contexts are all done become done in the tracker.

    JSON: {"changed", "left"}: how many contexts it was about, and how many were left because of open issues
    """
    decided = _decide(ContextEvent.DONE, filters, reason, every=every)
    lines = [f"{count_of(decided.changed, 'data context')} done."]
    if decided.left:
        lines.append(f"{count_of(decided.left, 'data context')} left: there are open issues. See dcc qc issue --help.")
    echo_result(decided, *lines)


@qc.command(
    "reopen",
    examples=['dcc qc reopen --centre H --reason "submitted again"'],
    exits=_UNDECIDED,
)
@_deciding
def reopen_contexts(reason: str, every: bool, **filters: Any) -> None:
    """Reopen contexts that were marked as done.

    They are dataadded then, or dataremoved without any data. The tracker follows.

    JSON: {"changed", "left"}: how many contexts it was about, and how many were left because of open issues
    """
    decided = _decide(ContextEvent.REOPENED, filters, reason, every=every)
    echo_result(decided, f"{count_of(decided.changed, 'data context')} reopened.")


@qc.command(
    examples=[
        'dcc qc issue --centre H --parameter IMPC_CBC_001_001 --reason "unit is mg, not g"',
        'dcc qc issue --centre H --parameter IMPC_CBC_001_001 --resolve --reason "submitted again"',
    ],
    exits=_UNDECIDED,
)
@_deciding
@click.option("--resolve", is_flag=True, help="Resolve all open issues of these contexts instead.")
def issue(reason: str, every: bool, resolve: bool, **filters: Any) -> None:
    """Raise an issue on contexts.

    They have issues then, whatever documents change, until all issues are resolved; the history shows the documents'
    changes meanwhile. Afterwards their state is that of their data. The tracker follows.

    JSON: {"changed", "left"}: how many contexts it was about, and how many were left because of open issues
    """
    decision = ContextEvent.ISSUE_RESOLVED if resolve else ContextEvent.ISSUE_RAISED
    decided = _decide(decision, filters, reason, every=every)
    what = "issues resolved" if resolve else "an issue raised"
    echo_result(decided, f"{count_of(decided.changed, 'data context')} with {what}.")


@qc.command()
@_filtered
@json_option
def history(**filters: Any) -> None:
    """Show the history of data contexts, oldest first.

    \b
    JSON: a list of {"centre", "pipeline", "genotype", "strain", "procedure", "parameter",
      "event" (dataadded, datachanged, dataremoved, done, reopened, issueraised, issueresolved),
      "state" (the one it led to), "measurements", "zip_action" (of the document that did it, or
      undo/<zip>; null), "document" (its file name, or null), "author", "reason", "created"}
    """
    from dcc.qc.contexts.listings import list_history

    with reading_qc() as connection:
        entries = list_history(connection, _filter_of(connection, filters))
    columns = f"created, {_CONTEXT}, event, state, measurements, zip_action, document, author, reason"
    flexible = "reason, pipeline, strain, genotype, author, document, zip_action, measurements, state"
    echo_list(entries, columns, flexible=flexible.split(", "))


@qc.command(examples=["dcc qc overview genotypes --centre H"])
@click.argument("name", type=click.Choice(_OVERVIEWS))
@click.option("--centre", metavar="CODE", help="Only of this centre (ILAR code).")
@json_option
def overview(name: str, centre: str | None) -> None:
    """Show an overview of current, valid data.

    genotypes and strains of the specimens; animals: the procedure runs with their animals; metadata-groups: the
    circumstances of comparable procedures.

    \b
    JSON: {"covers": {"specimens" and "experiments" (current ones), "specimens_covered" and
      "experiments_covered" (valid ones, which are shown), "waiting" (documents that are not
      counted yet)}, "rows": a list of objects}; what is missing says `dcc qc expected --json`
      genotypes        {"centre", "genotype", "strain_id", "gene_id", "gene_symbol", "allele_id",
                       "specimens"}
      strains          {"strain_id", "name", "specimens" (of the centre, or of all)}
      animals          {"procedure_run_id", "position", "centre", "pipeline", "project",
                       "procedure_id", "specimen_id", "genotype", "strain_id", "is_baseline",
                       "gender", "zygosity", "date", "measurements", "metadata_group"}
      metadata-groups  {"checksum", "content"}; content is the text of a JSON object
    """
    from dcc.qc.contexts.listings import list_overview, overview_coverage

    settings = settings_from_environment()
    with reading_qc(settings) as connection:
        require_centre_of_data(connection, settings, centre)
        rows = list_overview(connection, name, centre)
        covered = overview_coverage(connection, centre)
    if wants_json():
        echo_json({"covers": covered, "rows": rows})
        return
    echo_rows(rows)
    summary = (
        f"Covers {covered.specimens_covered:,} of {count_of(covered.specimens, 'current specimen')} and "
        f"{covered.experiments_covered:,} of {count_of(covered.experiments, 'experiment')}."
    )
    if covered.is_partial:
        summary += " The others have errors or are not judged yet: dcc data causes."
    if covered.waiting:
        summary += f" {count_of(covered.waiting, 'document')} not counted yet: dcc crawl."
    if name == "metadata-groups" and not rows:
        summary += " No groups: IMPReSS calls none of the submitted metadata important."
    click.echo(f"{summary} What is missing: dcc qc expected.", err=True)


@qc.command(
    examples=['dcc qc recount --reason "dcc doctor --deep found contexts that differ"'],
    exits={2: "the reason is empty or too long"},
)
@click.option("--reason", required=True, help="Why; kept in the history of what is corrected.")
@json_option
def recount(reason: str) -> None:
    """Recount all data contexts, and rebuild the overviews.

    For a QC database that was repaired by hand: sessions only count changes, and leave an error in place. Contexts that
    differ are corrected, which is in their history; the tracker follows. It takes as long as reading all measurements,
    and uploads wait meanwhile.

    JSON: {"contexts", "corrected", "seconds"}: the number of contexts, and how many were wrong
    """
    from dcc.qc.contexts.recount import recount_contexts
    from dcc.session.data.quality_control import update_qc_states

    settings, author = settings_from_environment(), user_name()
    with open_tracker(settings) as tracker, open_qc(settings) as engine:
        recounted = recount_contexts(engine, author=author, reason=reason)
        update_qc_states(tracker, engine, settings, author=author, reason=reason)
    text = f"{count_of(recounted.contexts, 'data context')} counted, {recounted.corrected:,} corrected."
    echo_result(recounted, text)


def _filter_of(qc: Connection, filters: dict[str, Any]) -> ContextFilter:
    """The contexts of the options.

    Raises NotFoundError for an unregistered centre and for a name that the QC database lacks, ConfigurationError if
    both states and waiting contexts are selected.
    """
    from dcc.analysis.parameters import require_known_value
    from dcc.qc.contexts.listings import ContextFilter
    from dcc.qc.contexts.states import WAITING

    require_centre_of_data(qc, settings_from_environment(), filters["centre"])
    for name in ("pipeline", "procedure", "parameter", "genotype", "strain"):
        if filters[name] is not None:
            require_known_value(qc, name, filters[name])
    states = tuple(map(ContextState, filters.pop("states")))
    if filters.pop("waiting"):
        if states:
            raise ConfigurationError("Give --state or --waiting, not both: --waiting is all but qcdone and nodata.")
        states = WAITING
    return ContextFilter(states=states, **filters)


def _decide(decision: ContextEvent, filters: dict[str, Any], reason: str, *, every: bool) -> DecisionResult:
    """Decide on the selected contexts, and update the tracker."""
    from dcc.qc.contexts.states import decide_on_contexts
    from dcc.session.data.quality_control import update_qc_states

    settings, author = settings_from_environment(), user_name()
    with open_tracker(settings) as tracker, open_qc(settings) as engine:
        with engine.connect() as connection:
            criteria = _filter_of(connection, filters)
        if criteria.means_all and not every:
            raise ConfigurationError(
                "No data context was chosen. Choose some with --centre, --procedure and so on, or all with --all."
            )
        decided = decide_on_contexts(engine, decision, criteria, author=author, reason=reason)
        update_qc_states(tracker, engine, settings, author=author, reason=reason)
    return decided


@qc.command(
    examples=[
        "dcc qc plot --centre H --parameter IMPC_CBC_001_001 --output chloride.svg",
        "dcc qc plot --centre H --zip add/H.2013-10-31.1.impc.zip --output weeks.png",
    ],
    exits={2: "no such data, centre or language, or the file cannot be written"},
)
@click.option("--centre", metavar="CODE", required=True, help="Data of this centre (ILAR code).")
@click.option("--parameter", help="Of this parameter, such as IMPC_CBC_001_001; without it, experiments per week.")
@click.option("--zip", "zip_name", metavar="ACTION/ZIP", help="Pick out what this submission brought.")
@click.option(
    "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write: .svg or .png."
)
@click.option("--language", help="Language of the picture, such as de; by default that of the installation.")
@json_option
def plot(centre: str, parameter: str | None, zip_name: str | None, output: Path, language: str | None) -> None:
    """Draw a centre's data.

    A numeric parameter by centre, sex and zygosity; a parameter of a series by its increments, for females and males;
    without a parameter, the number of experiments in each week. Only current data without an error are drawn. An
    outlier is a value more than 3 interquartile ranges below the first or above the third quartile.

    With --zip, the values of that archive are highlighted, and compared with the values before it.

    JSON: {"file", "title", "caption", "rule", "description", "outliers"}: outliers is how many of the new
    values the rule marks
    """
    from dcc.analysis.parameters import require_known_value
    from dcc.reports.languages import load_catalogue
    from dcc.reports.plots.bars import draw_weeks
    from dcc.reports.plots.picture import use_font_cache
    from dcc.reports.plots.selection import picture_of_parameter
    from dcc.reports.plots.values import require_documents

    settings = settings_from_environment()
    catalogue = load_catalogue(language, settings)
    use_font_cache(settings)
    key = None if zip_name is None else parse_submission_key(zip_name)
    with reading_qc(settings) as connection:
        # Analysts may have no tracker.
        require_known_value(connection, "centre", centre)
        if key is not None:
            require_documents(connection, key)
        if parameter is None:
            picture = draw_weeks(connection, catalogue, centre=centre, key=key)
        else:
            require_known_value(connection, "parameter", parameter)
            picture = picture_of_parameter(connection, catalogue, centre=centre, parameter_id=parameter, key=key)
    picture.write(output)
    facts = fields_of(picture, "title", "caption", "rule", "outliers", description="alt")
    lines = (f"{output} written.", picture.alt, f"{picture.caption} {picture.rule}".rstrip())
    echo_result({"file": output, **facts}, *lines)


_OF_PROCEDURE = ("pipeline", "procedure", "name", "level", "due")
_CSV = "centre pipeline procedure level due specimen colony born stage state status_code"
_NUMBERS = ("expected", "delivered", "invalid", "explained", "missing")


@qc.command(
    examples=[
        "dcc qc expected --centre H --plot expected.svg",
        "dcc qc expected --pipeline IMPC_001 --day 2026-11-21 --csv expected.csv",
    ]
)
@click.option("--centre", metavar="CODE", help="Only of this centre (ILAR code).")
@click.option("--pipeline", help="Only of this pipeline, such as IMPC_001.")
@click.option(
    "--day", type=DAY, help="The day on which the age of animals counts, such as 2026-11-21; by default today."
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
    from dcc.reports.languages import load_catalogue
    from dcc.reports.plots.bars import picture_of_expected
    from dcc.reports.plots.picture import use_font_cache

    settings = settings_from_environment()
    criteria = DeliveryCriteria(day or utc_today(), centre, pipeline)
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
        use_font_cache(settings)
        picture_of_expected(counted, load_catalogue(language, settings)).write(plot)
    note_facts(unwritten=csv_file is None and bool(counted))
    uncovered = [(*which, number) for which, number in sorted(deliveries.uncovered.items())]
    _show(criteria.day, counted, uncovered)
    for file in () if wants_json() else filter(None, (csv_file, plot)):
        click.echo(f"{file} written.", err=True)


def _show(day: date, counted: Sequence[ProcedureDeliveries], uncovered: Sequence[tuple[str, str, int]]) -> None:
    """Print the procedures, and of how many specimens of a centre and pipeline IMPReSS says nothing."""
    procedures = [
        {"centre": one.centre, **fields_of(one.due, *_OF_PROCEDURE), **fields_of(one, *_NUMBERS)} for one in counted
    ]
    if wants_json():
        not_covered = [dict(zip(("centre", "pipeline", "specimens"), one, strict=True)) for one in uncovered]
        echo_json({"day": day, "procedures": procedures, "not_covered": not_covered})
        return
    echo_rows(procedures, ["name", "pipeline", "level", "explained", "invalid", "delivered"])
    missing = sum(procedure.missing for procedure in counted)
    click.echo(f"{count_of(sum(one.expected for one in counted), 'procedure')} due, {missing:,} missing.", err=True)
    for of_centre, of_pipeline, number in uncovered:
        warn(
            f"IMPReSS says of {count_of(number, 'specimen')} of centre {of_centre} in pipeline {of_pipeline} nothing "
            "that is due: `dcc reference refresh` retrieves its schedules."
        )


def _write(path: Path, lacking: Iterable[LackingProcedure]) -> None:
    from dcc.analysis.spreadsheets import guarded

    with writing_file(path, SHARED_FILE) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(_CSV.split())
        for (centre, pipeline, specimen, colony, born, stage, _), due, state, code in lacking:
            texts = (centre, pipeline, due.procedure, due.level, due.due, specimen, colony)
            writer.writerow([*map(guarded, texts), born, guarded(stage), state.name.lower(), guarded(code)])
