"""X1 and on: rules that wranglers miss in the existing validator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import date

from dcc.documents.contents import (
    Block,
    Experiment,
    Line,
    SeriesMediaParameter,
    SeriesParameter,
    SeriesValue,
    SimpleParameter,
    Specimen,
    StatusCode,
)
from dcc.documents.lexical import parse_boolean, parse_integer, parse_number
from dcc.messages import mark
from dcc.reference.impress import Impress
from dcc.reference.snapshots import Colonies
from dcc.rules.codes import NO_TEXT, fault_without_text, lacks_text
from dcc.rules.context import Context
from dcc.rules.elements import TYPE_OF, ParameterUse, ProcedureUse, values_of
from dcc.rules.findings import Fault, fault
from dcc.rules.registry import rule, rule_of_shape
from dcc.rules.series_rules import increment_key
from dcc.rules.values import UnreadableValueError, day_of, is_blank, read_float
from dcc.vocabulary import Severity

EARLIEST_BIRTH = date(1980, 1, 1)
"""No animal born earlier can be phenotyped for these projects; 1900, 1904 and 1970 are the first days of programs."""
_PARENTS = {"mother": "female", "father": "male"}
_TOLERANCE = 0.01
_UNKNOWN_GENDER = ("no data", "intersex")


@rule_of_shape(
    "X1",
    Specimen,
    Line,
    Experiment,
    severity=Severity.WARNING,
    like=NO_TEXT,
)
def status_of_entity_has_its_text(entity: Specimen | Line | Experiment, at: Context) -> Iterator[Fault]:
    """A status code that asks for text, such as IMPC_PSC_015, has it after a colon."""
    statuses: tuple[StatusCode | None, ...]
    statuses = (entity.status_code,) if isinstance(entity, Specimen) else entity.status_codes
    for status in statuses:
        if status is not None and lacks_text(status.code):
            yield fault_without_text(status.code, status.line)


@rule_of_shape(
    "X2",
    *TYPE_OF,
    SeriesValue,
    severity=Severity.WARNING,
    like=NO_TEXT,
    any_number_passes=True,
)
def status_of_parameter_has_its_text(element: SimpleParameter | SeriesValue, at: Context) -> Iterator[Fault]:
    """A parameterStatus or incrementStatus that asks for text has it after a colon."""
    status = element.increment_status if isinstance(element, SeriesValue) else element.status
    if status is not None and lacks_text(status):
        yield fault_without_text(status, element.line)


@rule_of_shape(
    "X3",
    Specimen,
    severity=Severity.WARNING,
    message=mark("The pipeline '{value}' of '{specimen}' does not exist in IMPReSS. Correct it."),
    cause=mark("The pipeline '{value}' does not exist in IMPReSS"),
    remedy=mark("Correct the pipeline: IMPReSS lists those that exist. Identifiers are compared exactly."),
    needs=Impress,
)
def pipeline_of_specimen_is_known(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A specimen's pipeline exists in IMPReSS."""
    if specimen.pipeline not in at.impress.pipelines:
        yield fault(specimen.line, specimen.pipeline, specimen=specimen.specimen_id)


@rule_of_shape(
    "X4",
    Specimen,
    severity=Severity.WARNING,
    message=mark(
        "The phenotypingCentre of '{specimen}' is {value}, and it stands under the centre {centre}. Correct one of "
        "them."
    ),
    cause=mark("Animals with the phenotypingCentre '{value}' stand under another centre"),
    remedy=mark("Correct phenotypingCentre, or have them stand under the centre that phenotyped them."),
)
def specimen_is_phenotyped_by_its_centre(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A specimen's phenotypingCentre is the centre that it stands under."""
    if specimen.phenotyping_centre != at.block.centre:
        yield fault(specimen.line, specimen.phenotyping_centre, specimen=specimen.specimen_id, centre=at.block.centre)


@rule(
    "X5",
    Block,
    severity=Severity.WARNING,
    message=mark(
        "The centreID is {value}, and the document is named after {centre}. Submit the data of each centre in "
        "documents of its own."
    ),
    cause=mark("Data of the centre '{value}' are in documents named after another"),
    remedy=mark("Submit the data of each centre in documents of its own."),
)
def centre_is_that_of_the_file_name(block: Block, at: Context) -> Iterator[Fault]:
    """A centreID is the centre of the document's file name."""
    if block.centre != at.document.centre:
        yield fault(block.line, block.centre, centre=at.document.centre)


@rule_of_shape(
    "X6",
    Specimen,
    severity=Severity.WARNING,
    message=mark("The baseline animal '{specimen}' is {value}. Correct its zygosity or isBaseline."),
    cause=mark("Baseline animals have the zygosity '{value}'"),
    remedy=mark("Baseline animals are wild type: correct zygosity or isBaseline."),
)
def baseline_is_wild_type(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A baseline animal is wild type."""
    if parse_boolean(specimen.is_baseline) and specimen.zygosity != "wild type":
        yield fault(specimen.line, specimen.zygosity, specimen=specimen.specimen_id)


@rule_of_shape(
    "X7",
    Specimen,
    severity=Severity.WARNING,
    message=mark("The baseline animal '{specimen}' is of the mutant colony '{value}'. Correct one of them."),
    cause=mark("Baseline animals are of the mutant colony '{value}'"),
    remedy=mark("Correct isBaseline or the colonyID."),
    needs=Colonies,
)
def baseline_is_of_no_mutant_colony(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A baseline animal has no colonyID of a registered, mutant colony."""
    colony = specimen.colony_id
    if parse_boolean(specimen.is_baseline) and colony is not None and at.colonies.find(colony):
        yield fault(specimen.line, colony, specimen=specimen.specimen_id)


@rule(
    "X8",
    Specimen,
    severity=Severity.WARNING,
    message=mark("The {relationship} '{value}' of '{specimen}' is {genders}. Correct the relationship or the gender."),
    cause=mark("Mothers are not female, or fathers not male"),
    remedy=mark("Correct the relationship or the gender."),
    needs_other_documents=True,
)
def parents_have_the_gender(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A mother is female and a father male."""
    for number, related in enumerate(specimen.related_specimens, 1):
        gender = _PARENTS.get(related.relationship)
        if gender is None:
            continue
        genders = {known.gender for known in at.answers.specimens.get(related.specimen_id, ())}
        if genders and gender not in genders and not genders & set(_UNKNOWN_GENDER):
            yield fault(
                related.line,
                related.specimen_id,
                below=f"/relatedSpecimen[{number}]",
                relationship=related.relationship,
                specimen=specimen.specimen_id,
                genders=sorted(genders),
            )


@rule_of_shape(
    "X9",
    Specimen,
    severity=Severity.WARNING,
    message=mark("The parental strains of '{specimen}' on level {level} sum to {value} %, not to 100 %."),
    cause=mark("The parental strains of a level do not sum to 100 %"),
    remedy=mark("Correct the percentages, or give the strains that are missing."),
)
def parental_strains_sum_to_a_whole(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """The percentages of the parental strains of a level sum to 100."""
    sums: dict[str, float] = defaultdict(float)
    for strain in specimen.parental_strains:
        number, level = parse_number(strain.percentage), parse_integer(strain.level)
        sums[strain.level if level is None else str(level)] += float("inf") if number is None else number
    for named, total in sums.items():
        if abs(total - 100) > _TOLERANCE:
            yield fault(specimen.line, f"{total:g}", specimen=specimen.specimen_id, level=named)


@rule_of_shape(
    "X10",
    SimpleParameter,
    SeriesValue,
    severity=Severity.WARNING,
    message=mark("The value {value} of {parameter} is outside of its range for quality control, {range}."),
    cause=mark("Values of {parameter} are outside of the range for quality control, {range}"),
    remedy=mark(
        "Look whether these values are right: units, typing errors, a wrong animal. Correct those that are not."
    ),
    needs=Impress,
    any_number_passes=True,
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
        yield fault(element.line, element.value, parameter=at.parameter.key, range=limits)


@rule_of_shape(
    "X11",
    ProcedureUse,
    ParameterUse,
    severity=Severity.WARNING,
    message=mark("{value} has been retired. Use its successor."),
    cause=mark("IMPReSS has retired {value}"),
    remedy=mark("Use its successor."),
    needs=Impress,
    any_number_passes=True,
)
def definition_is_in_use(use: ProcedureUse | ParameterUse, at: Context) -> Iterator[Fault]:
    """A procedure or parameter is one that IMPReSS has not retired."""
    definition = at.parameter_definition if isinstance(use, ParameterUse) else at.procedure_definition
    if definition is not None and not definition.is_active:
        element = use.parameter if isinstance(use, ParameterUse) else use.procedure
        yield fault(element.line, definition.key)


@rule_of_shape(
    "X12",
    SeriesParameter,
    SeriesMediaParameter,
    severity=Severity.WARNING,
    message=mark("The incrementValue '{value}' of {parameter} is there more than once."),
    cause=mark("{parameter}: increments are there more than once"),
    remedy=mark("Submit each increment once."),
)
def increments_are_not_repeated(series: SeriesParameter | SeriesMediaParameter, at: Context) -> Iterator[Fault]:
    """An incrementValue occurs once in a series."""
    definition = at.parameter_definition
    kind = definition.increments[0].kind if definition is not None and definition.increments else ""
    seen = set()
    for number, value in enumerate(values_of(series), 1):
        key = increment_key(value.increment, kind)
        if key in seen:
            yield fault(value.line, value.increment, below=f"/value[{number}]", parameter=series.parameter_id)
        seen.add(key)


@rule_of_shape(
    "X13",
    Specimen,
    message=mark("The specimenID is blank. Give the animal an id of its own, and name it by that in its experiments."),
    cause=mark("Animals have a blank specimenID"),
    remedy=mark(
        "Give each animal an id of its own, and name it by that in its experiments. An edit finds only animals with "
        "the same id: delete those without one, and add them again."
    ),
)
def specimen_has_an_id(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A specimenID is not blank."""
    if is_blank(specimen.specimen_id):
        yield fault(specimen.line, specimen.specimen_id)


@rule_of_shape(
    "X14",
    Specimen,
    message=mark("The date of birth of '{specimen}' is {value}, before 1980. Correct it."),
    cause=mark("Dates of birth are before 1980"),
    remedy=mark("Correct the dates in the source system and export the data again."),
)
def birth_is_not_long_ago(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A mouse's date of birth is in 1980 or later."""
    if specimen.dob is not None and day_of(specimen.dob) < EARLIEST_BIRTH:
        yield fault(specimen.line, specimen.dob, specimen=specimen.specimen_id)
