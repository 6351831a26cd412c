"""What a procedure, the identifiers in it, and their values, units and terms must satisfy."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from dcc.declarations import Declaration
from dcc.documents.contents import Metadata, OntologyParameter, Procedure, SeriesParameter, SeriesValue, SimpleParameter
from dcc.messages import mark
from dcc.nearest_names import nearest_names
from dcc.reference.impress import Impress, Option, ParameterType, ValueType
from dcc.rules.context import Context
from dcc.rules.elements import (
    ElementStep,
    ParameterUse,
    ProcedureUse,
    key_of,
    metadata_of_media,
    parameters_of,
    sequence_of,
    top_level_parameters,
)
from dcc.rules.findings import Fault, fault
from dcc.rules.registry import rule_of_shape
from dcc.rules.values import UnreadableValueError, is_blank, read_float, read_value
from dcc.vocabulary import Actor, Severity

_TERM = re.compile(r"[A-Za-z][A-Za-z0-9_]*:[A-Za-z0-9_]+")
_TERM_END = re.compile(r"\s")
_LONGEST_COMPARED = 100
_VALUE_TYPES = frozenset(ValueType)
_UNDEFINED = tuple(f"{kind}Undefined" for kind in ParameterType)
"""The existing validator's ids for a parameter that the procedure lacks, or has as another type."""


@rule_of_shape(
    "P1",
    ProcedureUse,
    message=mark(
        "The procedure '{value}' does not belong to the pipeline {pipeline}: its content was not checked. Mind its "
        "version."
    ),
    cause=mark("The procedure '{value}' does not belong to the pipeline {pipeline}"),
    remedy=mark(
        "Correct the procedure, mind its version, or submit it in its own pipeline. Nothing in it was checked. An edit "
        "finds only data of the same procedure: where that is wrong, delete the old data, and add the new."
    ),
    known_as="checkProcedure",
    needs=Impress,
)
def procedure_belongs_to_the_pipeline(use: ProcedureUse, at: Context) -> Iterator[Fault]:
    """A procedure belongs to the centre's pipeline; nothing in it is checked otherwise."""
    if at.procedure_definition is None:
        yield fault(use.procedure.line, use.procedure.procedure_id, pipeline=at.block.pipeline)


@rule_of_shape(
    "P2",
    Procedure,
    message=mark(
        "The procedure {procedure} lacks required parameters: {value}. Submit them, or each with a "
        "parameterStatus that says why it has no value."
    ),
    cause=mark("{procedure} lacks required parameters: {value}"),
    remedy=mark("Submit them, or each with a parameterStatus that says why it has no value."),
    known_as="requiredNonPresentParameters",
    needs=Impress,
)
def required_parameters_are_present(procedure: Procedure, at: Context) -> Iterator[Fault]:
    """All parameters that IMPReSS requires are present, as whatever type and be it only with a status."""
    if not at.definition.required:
        return
    present = {key_of(parameter.parameter_id) for parameter in parameters_of(procedure)}
    present |= {key_of(step.parameter.parameter_id) for step in metadata_of_media(procedure)}
    missing = sorted(at.definition.required - present)
    if missing:
        yield fault(procedure.line, ", ".join(missing), procedure=procedure.procedure_id)


@rule_of_shape(
    "P3",
    ParameterUse,
    message=mark(
        "The parameter '{value}' does not belong to the procedure {procedure}. Correct its identifier or leave it out."
    ),
    cause=mark("The parameter '{value}' does not belong to {procedure}"),
    remedy=mark("Correct its identifier, mind the version, or leave it out."),
    known_as=("parametersNoBelongingToTheProcedure", "parametersNotBelonging", *_UNDEFINED),
    needs=Impress,
    any_number_passes=True,
)
def parameter_belongs_to_the_procedure(use: ParameterUse, at: Context) -> Iterator[Fault]:
    """Every parameter belongs to the procedure; each that does not is reported where it stands."""
    if at.parameter_definition is None:
        yield fault(use.parameter.line, use.parameter.parameter_id, procedure=at.definition.key)


@rule_of_shape(
    "P4",
    ParameterUse,
    message=mark("The parameterID '{value}' has blanks around it. Remove them."),
    cause=mark("The parameterID '{value}' has blanks around it"),
    remedy=mark("Remove the blanks."),
    known_as="checkProcedureParametersBlankSpaces",
    any_number_passes=True,
)
def identifier_has_no_blanks_around_it(use: ParameterUse, at: Context) -> Iterator[Fault]:
    """No parameterID has blanks before or after it; other rules go by the identifier without them."""
    identifier = use.parameter.parameter_id
    if identifier != key_of(identifier):
        yield fault(use.parameter.line, identifier)


@rule_of_shape(
    "P5",
    ParameterUse,
    message=mark("The parameter {parameter} is submitted as {value} and is a {type}. Submit it as that."),
    cause=mark("{parameter} is submitted as {value} and is a {type}"),
    remedy=mark("Submit it as the element that IMPReSS gives it."),
    known_as=("checkParametersWrongType", *_UNDEFINED),
    needs=Impress,
    any_number_passes=True,
)
def parameter_is_of_its_type(use: ParameterUse, at: Context) -> Iterator[Fault]:
    """A parameter is submitted as the type that IMPReSS gives it."""
    definition = at.parameter_definition
    if definition is not None and definition.type is not use.type:
        yield fault(use.parameter.line, str(use.type), parameter=definition.key, type=str(definition.type))


@rule_of_shape(
    "P6",
    Procedure,
    message=mark(
        "The parameter {value} is there {number} times. Submit it once, or number the repeats with sequenceID."
    ),
    cause=mark("{value} is there several times in one procedure"),
    remedy=mark("Submit it once, or number the repeats with sequenceID."),
    cases={
        "with_sequence": mark(
            "The parameter {value} with sequenceID {sequence} is there {number} times. Submit it once, or number "
            "the repeats with sequenceID."
        ),
    },
    known_as="checkRepeatedParameters",
)
def parameters_are_not_repeated(procedure: Procedure, at: Context) -> Iterator[Fault]:
    """A parameterID with its sequenceID occurs once in a procedure; each of several is reported."""
    groups: dict[tuple[str, int | str | None], list[ElementStep]] = defaultdict(list)
    for step in top_level_parameters(procedure):
        sequence_id: str | None = getattr(step.parameter, "sequence_id", None)
        groups[key_of(step.parameter.parameter_id), sequence_of(sequence_id)].append(step)
    for (key, sequence), steps in groups.items():
        if len(steps) == 1:
            continue
        case = "" if sequence is None else "with_sequence"
        details: dict[str, Any] = {} if sequence is None else {"sequence": str(sequence)}
        for step in steps:
            yield fault(step.parameter.line, key, case, below=step.path, number=len(steps), **details)


@rule_of_shape(
    "P8",
    SimpleParameter,
    Metadata,
    message=mark("The parameter {parameter} has neither a value nor a parameterStatus. Give one of them."),
    cause=mark("{parameter} has neither a value nor a parameterStatus"),
    remedy=mark("Give a value, or a parameterStatus that says why it is missing."),
    known_as=("simpleParameterValueEmpty", "procedureMetadataNullValue"),
    any_number_passes=True,
)
def value_is_not_empty(element: SimpleParameter | Metadata, at: Context) -> Iterator[Fault]:
    """A simple parameter or metadata without a status has a value that is not blank."""
    if is_blank(element.value) and is_blank(element.status):
        yield fault(element.line, element.value, parameter=element.parameter_id)


@rule_of_shape(
    "P9",
    SimpleParameter,
    Metadata,
    SeriesValue,
    message=mark("The value '{value}' of {parameter} does not read as {type}: {reason}."),
    cause=mark("Values of {parameter} do not read as {type}"),
    remedy=mark(
        "Write the whole value as the type asks: numbers with a point and no unit, dates such as 2013-10-31, times "
        "with their zone."
    ),
    cases={
        "unknown_type": Declaration(
            message=mark(
                "Values of {parameter} could not be checked: IMPReSS gives them the type '{value}', which is not known "
                "here."
            ),
            cause=mark("IMPReSS gives {parameter} the type '{value}', which is not known here"),
            remedy=mark("The Data Coordination Centre has IMPReSS corrected, or the platform learn the type."),
            acts=Actor.DCC,
        ),
    },
    known_as=(
        "simpleParameterCastOperationFailed",
        "seriesParameterCastOperationFailed",
        "procedureMetadataCastOperationFailed",
    ),
    needs=Impress,
    any_number_passes=True,
)
def value_reads_as_its_type(element: SimpleParameter | Metadata | SeriesValue, at: Context) -> Iterator[Fault]:
    """A value reads as its value type, in full."""
    value, parameter = element.value, at.parameter
    if value is None or is_blank(value) or not parameter.value_type:
        return
    if parameter.value_type not in _VALUE_TYPES:
        severity = Severity.UNCHECKED
        yield fault(element.line, parameter.value_type, "unknown_type", severity=severity, parameter=parameter.key)
        return
    try:
        read_value(parameter.value_type, value)
    except UnreadableValueError as error:
        yield fault(element.line, value, parameter=parameter.key, type=str(parameter.value_type), reason=error.message)


@rule_of_shape(
    "P10",
    SimpleParameter,
    Metadata,
    SeriesValue,
    message=mark("The value '{value}' of {parameter} is none of its {number} options."),
    cause=mark("{parameter}: '{value}' is none of its options"),
    remedy=mark("Use an option exactly as IMPReSS lists it for this parameter."),
    cases={
        "nearest": mark(
            "The value '{value}' of {parameter} is none of its {number} options. The nearest is '{nearest}'."
        ),
        "retired": Declaration(
            message=mark("The value '{value}' of {parameter} is an option that IMPReSS has retired."),
            cause=mark("{parameter}: IMPReSS has retired the option '{value}'"),
            remedy=mark("Use an option that is in use."),
        ),
    },
    known_as=("simpleParameterNoValidOption", "seriesParameterNoValidOption", "procedureMetadataNoValidOption"),
    needs=Impress,
    any_number_passes=True,
)
def value_is_an_option(element: SimpleParameter | Metadata | SeriesValue, at: Context) -> Iterator[Fault]:
    """Where IMPReSS lists options, the value is exactly one of them; a retired one gives a warning."""
    value, options = element.value, at.parameter.options
    if not options or value is None or is_blank(value):
        return
    matching = [option for option in options if option.name == value]
    if not matching:
        nearest = _nearest(value[:_LONGEST_COMPARED], options)
        number, parameter = len(options), at.parameter.key
        if nearest:
            yield fault(element.line, value, "nearest", parameter=parameter, number=number, nearest=nearest)
        else:
            yield fault(element.line, value, parameter=parameter, number=number)
    elif not any(option.is_active for option in matching):
        yield fault(element.line, value, "retired", severity=Severity.WARNING, parameter=at.parameter.key)


@rule_of_shape(
    "P11",
    SimpleParameter,
    SeriesParameter,
    message=mark(
        "The unit '{value}' of {parameter} is wrong: the parameter is in {unit}. Convert the value, or correct the "
        "unit."
    ),
    cause=mark("{parameter} is in {unit}, not in '{value}'"),
    remedy=mark("Convert the values, or correct the unit."),
    cause_by=("parameter", "value", "unit"),
    cases={
        "no_unit": Declaration(
            message=mark(
                "The unit '{value}' of {parameter} is wrong: the parameter has no unit. Convert the value, or correct "
                "the unit."
            ),
            cause=mark("{parameter} has no unit, and is submitted in '{value}'"),
            remedy=mark("Leave the unit out."),
        ),
    },
    needs=Impress,
    any_number_passes=True,
)
def unit_is_that_of_the_parameter(element: SimpleParameter | SeriesParameter, at: Context) -> Iterator[Fault]:
    """Where a unit is submitted, it is the parameter's unit; blanks around it do not count."""
    unit = element.unit
    if unit is not None and not is_blank(unit) and unit.strip() != at.parameter.unit:
        if at.parameter.unit:
            yield fault(element.line, unit, parameter=at.parameter.key, unit=at.parameter.unit)
        else:
            yield fault(element.line, unit, "no_unit", parameter=at.parameter.key)


@rule_of_shape(
    "P12",
    OntologyParameter,
    message=mark("The term '{value}' of {parameter} is none of the {number} that IMPReSS lists. Correct it."),
    cause=mark("{parameter}: IMPReSS does not list the term '{value}'"),
    remedy=mark("Correct the term's id, or have IMPReSS list it for this parameter."),
    acts=Actor.REGISTRY,
    cases={
        "empty": Declaration(
            message=mark("The parameter {parameter} has an empty term. Give the term, or a parameterStatus."),
            cause=mark("{parameter} has an empty term"),
            remedy=mark("Give the term, or a parameterStatus."),
        ),
        "no_id": Declaration(
            message=mark("The term '{value}' of {parameter} does not begin with an id such as MP:0001262. Correct it."),
            cause=mark("{parameter}: terms do not begin with an id such as MP:0001262"),
            remedy=mark("Write the term's id before its name."),
        ),
        "retired": Declaration(
            message=mark("The term '{value}' of {parameter} is one that IMPReSS has retired."),
            cause=mark("{parameter}: IMPReSS has retired the term '{value}'"),
            remedy=mark("Use a term that is in use."),
        ),
    },
    known_as=("ontologyParameterTermEmpty", "ontologyParameterTermInvalid"),
    needs=Impress,
)
def terms_are_listed(element: OntologyParameter, at: Context) -> Iterator[Fault]:
    """Terms are not empty, and have listed ids where the parameter lists any; retired ones warn."""
    if is_blank(element.status) and (not element.terms or any(map(is_blank, element.terms))):
        yield fault(element.line, "", "empty", parameter=at.parameter.key)
        return
    listed = at.parameter.ontology_terms
    for number, term in enumerate(element.terms, 1):
        if is_blank(term):
            continue
        identifier = term_id(term)
        below = f"/term[{number}]"
        if listed and identifier not in listed:
            yield fault(element.line, term, below=below, parameter=at.parameter.key, number=len(listed))
        elif identifier in at.parameter.retired_terms:
            severity = Severity.WARNING
            yield fault(element.line, term, "retired", below=below, severity=severity, parameter=at.parameter.key)
        elif not listed and _TERM.fullmatch(identifier) is None:
            yield fault(element.line, term, "no_id", below=below, parameter=at.parameter.key)


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


def term_id(term: str) -> str:
    """The identifier at the beginning of a term: the part before the second colon or the first blank."""
    first, colon, rest = _TERM_END.split(term.strip(), maxsplit=1)[0].partition(":")
    return first + colon + rest.partition(":")[0]


@lru_cache(maxsize=1_000)
def _nearest(value: str, options: tuple[Option, ...]) -> str | None:
    return next(iter(nearest_names(value, [option.name for option in options if option.is_active], 1)), None)
