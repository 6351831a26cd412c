"""X1 to X14: rules that wranglers miss in the existing validator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import date

from dcc.documents.contents import (
    Block,
    Experiment,
    Line,
    MediaParameter,
    MediaSampleParameter,
    Metadata,
    OntologyParameter,
    SeriesMediaParameter,
    SeriesParameter,
    SeriesValue,
    SimpleParameter,
    Specimen,
    StatusCode,
)
from dcc.documents.lexical import parse_boolean, parse_number
from dcc.reference.impress import Impress
from dcc.reference.snapshots import Colonies
from dcc.rules.codes import lacks_text
from dcc.rules.context import Context
from dcc.rules.elements import ParameterUse, ProcedureUse, values_of
from dcc.rules.findings import Fault, Severity
from dcc.rules.registry import rule
from dcc.rules.series_rules import increment_key
from dcc.rules.values import UnreadableValueError, day_of, is_blank, read_float

EARLIEST_BIRTH = date(1980, 1, 1)
"""No animal born earlier can have been phenotyped for these projects; 1900, 1904 and 1970 are programs' first days."""
_PARENTS = {"mother": "female", "father": "male"}
_TOLERANCE = 0.01
_UNKNOWN_GENDER = ("no data", "intersex")


@rule("X1", Specimen, Line, Experiment, severity=Severity.WARNING, given=("status_code", "status_codes"), local=True)
def status_of_entity_has_its_text(entity: Specimen | Line | Experiment, at: Context) -> Iterator[Fault]:
    """A status code that asks for free text, such as IMPC_PSC_015, has it after a colon."""
    statuses: tuple[StatusCode | None, ...]
    statuses = (entity.status_code,) if isinstance(entity, Specimen) else entity.status_codes
    for status in statuses:
        if status is not None and lacks_text(status.code):
            yield _no_text(status.code, status.line)


@rule(
    "X2",
    SimpleParameter,
    OntologyParameter,
    SeriesParameter,
    SeriesValue,
    MediaParameter,
    MediaSampleParameter,
    SeriesMediaParameter,
    Metadata,
    severity=Severity.WARNING,
    given=("status", "increment_status"),
    local=True,
    numeric=True,
)
def status_of_parameter_has_its_text(element: SimpleParameter | SeriesValue, at: Context) -> Iterator[Fault]:
    """A parameterStatus or incrementStatus that asks for free text has it after a colon."""
    status = element.increment_status if isinstance(element, SeriesValue) else element.status
    if status is not None and lacks_text(status):
        yield _no_text(status, element.line)


@rule("X3", Specimen, severity=Severity.WARNING, needs=Impress, local=True)
def pipeline_of_specimen_is_known(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A specimen's pipeline exists in IMPReSS."""
    if specimen.pipeline not in at.impress.pipelines:
        yield Fault(
            f"The pipeline {specimen.pipeline!r} of {specimen.specimen_id!r} does not exist in IMPReSS. Correct it.",
            specimen.line,
            specimen.pipeline,
        )


@rule("X4", Specimen, severity=Severity.WARNING, local=True)
def specimen_is_phenotyped_by_its_centre(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A specimen's phenotypingCentre is the centre that it stands under."""
    if specimen.phenotyping_centre != at.block.centre:
        yield Fault(
            f"The phenotypingCentre of {specimen.specimen_id!r} is {specimen.phenotyping_centre}, and it stands under "
            f"the centre {at.block.centre}. Correct one of them.",
            specimen.line,
            specimen.phenotyping_centre,
        )


@rule("X5", Block, severity=Severity.WARNING)
def centre_is_that_of_the_file_name(block: Block, at: Context) -> Iterator[Fault]:
    """A centreID is the centre of the document's file name."""
    if block.centre != at.document.centre:
        yield Fault(
            f"The centreID is {block.centre}, and the document is named after {at.document.centre}. Submit the data of "
            "each centre in documents of its own.",
            block.line,
            block.centre,
        )


@rule("X6", Specimen, severity=Severity.WARNING, local=True)
def baseline_is_wild_type(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A baseline animal is wild type."""
    if parse_boolean(specimen.is_baseline) and specimen.zygosity != "wild type":
        yield Fault(
            f"The baseline animal {specimen.specimen_id!r} is {specimen.zygosity}. Correct its zygosity or isBaseline.",
            specimen.line,
            specimen.zygosity,
        )


@rule("X7", Specimen, severity=Severity.WARNING, needs=Colonies, given="colony_id", local=True)
def baseline_is_of_no_mutant_colony(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A baseline animal has no colonyID of a registered, mutant colony."""
    colony = specimen.colony_id
    if parse_boolean(specimen.is_baseline) and colony is not None and at.colonies.find(colony):
        yield Fault(
            f"The baseline animal {specimen.specimen_id!r} is of the mutant colony {colony!r}. Correct one of them.",
            specimen.line,
            colony,
        )


@rule("X8", Specimen, severity=Severity.WARNING, given="related_specimens")
def parents_have_the_gender(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A mother is female and a father male."""
    for number, related in enumerate(specimen.related_specimens, 1):
        gender = _PARENTS.get(related.relationship)
        if gender is None:
            continue
        genders = {known.gender for known in at.answers.specimens.get(related.specimen_id, ())}
        if genders and gender not in genders and not genders & set(_UNKNOWN_GENDER):
            yield Fault(
                f"The {related.relationship} {related.specimen_id!r} of {specimen.specimen_id!r} is "
                f"{', '.join(sorted(genders))}. Correct the relationship or the gender.",
                related.line,
                related.specimen_id,
                below=f"/relatedSpecimen[{number}]",
            )


@rule("X9", Specimen, severity=Severity.WARNING, given="parental_strains", local=True)
def parental_strains_sum_to_a_whole(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """The percentages of the parental strains of a level sum to 100."""
    sums: dict[str, float] = defaultdict(float)
    for strain in specimen.parental_strains:
        number = parse_number(strain.percentage)
        sums[strain.level] += float("inf") if number is None else number
    for level, total in sums.items():
        if abs(total - 100) > _TOLERANCE:
            yield Fault(
                f"The parental strains of {specimen.specimen_id!r} on level {level} sum to {total:g} %, not to 100 %.",
                specimen.line,
                f"{total:g}",
            )


@rule(
    "X10",
    SimpleParameter,
    SeriesValue,
    severity=Severity.WARNING,
    needs=Impress,
    given="value",
    only_for=lambda parameter: parameter.qc_minimum is not None or parameter.qc_maximum is not None,
    local=True,
    numeric=True,
)
def value_is_within_the_qc_range(element: SimpleParameter | SeriesValue, at: Context) -> Iterator[Fault]:
    """A number lies within the range that IMPReSS gives for quality control."""
    lowest, highest = at.parameter.qc_minimum, at.parameter.qc_maximum
    if (lowest is None and highest is None) or element.value is None or is_blank(element.value):
        return
    try:
        number = read_float(element.value)
    except UnreadableValueError:
        return
    if (lowest is not None and number < lowest) or (highest is not None and number > highest):
        limits = f"{'' if lowest is None else f'{lowest:g}'} to {'' if highest is None else f'{highest:g}'}".strip()
        yield Fault(
            f"The value {element.value} of {at.parameter.key} is outside of its range for quality control, {limits}.",
            element.line,
            element.value,
        )


@rule(
    "X11",
    ProcedureUse,
    ParameterUse,
    severity=Severity.WARNING,
    needs=Impress,
    only_for=lambda parameter: not parameter.is_active,
    local=True,
    numeric=True,
)
def definition_is_in_use(use: ProcedureUse | ParameterUse, at: Context) -> Iterator[Fault]:
    """A procedure or parameter is one that IMPReSS has not retired."""
    definition = at.parameter_definition if isinstance(use, ParameterUse) else at.procedure_definition
    if definition is not None and not definition.is_active:
        element = use.parameter if isinstance(use, ParameterUse) else use.procedure
        yield Fault(f"{definition.key} has been retired. Use its successor.", element.line, definition.key)


@rule("X12", SeriesParameter, SeriesMediaParameter, severity=Severity.WARNING, local=True)
def increments_are_not_repeated(series: SeriesParameter | SeriesMediaParameter, at: Context) -> Iterator[Fault]:
    """An incrementValue occurs once in a series."""
    definition = at.parameter_definition
    kind = definition.increments[0].kind if definition is not None and definition.increments else ""
    seen = set()
    for number, value in enumerate(values_of(series), 1):
        key = increment_key(value.increment, kind)
        if key in seen:
            yield Fault(
                f"The incrementValue {value.increment!r} of {series.parameter_id} is there more than once.",
                value.line,
                value.increment,
                below=f"/value[{number}]",
            )
        seen.add(key)


@rule("X13", Specimen, severity=Severity.ERROR, local=True)
def specimen_has_an_id(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A specimenID is not blank."""
    if is_blank(specimen.specimen_id):
        yield Fault(
            "The specimenID is blank. Give the animal an id of its own, and name it by that in its experiments.",
            specimen.line,
            specimen.specimen_id,
        )


@rule("X14", Specimen, severity=Severity.ERROR, given="dob", local=True)
def birth_is_not_long_ago(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A mouse's date of birth is in 1980 or later."""
    if specimen.dob is not None and day_of(specimen.dob) < EARLIEST_BIRTH:
        yield Fault(
            f"The date of birth of {specimen.specimen_id!r} is {specimen.dob}, before {EARLIEST_BIRTH:%Y}. Correct it.",
            specimen.line,
            specimen.dob,
        )


def _no_text(status: str, line: int) -> Fault:
    return Fault(
        f"The status {status!r} says nothing without a text: write {status.strip().rstrip(':')}:and why.", line, status
    )
