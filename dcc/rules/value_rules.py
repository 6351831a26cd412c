"""What the values, units and terms of parameters must satisfy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from dcc.declarations import Declaration
from dcc.documents.contents import Metadata, OntologyParameter, SeriesParameter, SeriesValue, SimpleParameter
from dcc.messages import mark
from dcc.nearest_names import nearest_names
from dcc.reference.impress import Impress, Option, ValueType
from dcc.rules.context import Context
from dcc.rules.findings import Fault, fault
from dcc.rules.registry import rule_of_shape
from dcc.rules.values import UnreadableValueError, is_blank, read_float, read_value
from dcc.vocabulary import Actor, Severity

_TERM = re.compile(r"[A-Za-z][A-Za-z0-9_]*:[A-Za-z0-9_]+")
_TERM_END = re.compile(r"\s")
_LONGEST_COMPARED = 100
_VALUE_TYPES = frozenset(ValueType)


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
    message=mark("The value '{value}' of {parameter} is none of the options that IMPReSS lists ({number})."),
    cause=mark("{parameter}: '{value}' is none of its options"),
    remedy=mark("Use an option exactly as IMPReSS lists it for this parameter."),
    cases={
        "nearest": mark(
            "The value '{value}' of {parameter} is none of the options that IMPReSS lists ({number}). The nearest is "
            "'{nearest}'."
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
        number, parameter = len({option.name for option in options if option.is_active}), at.parameter.key
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
    message=mark("The term '{value}' of {parameter} is none of those that IMPReSS lists ({number}). Correct it."),
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
            in_use = len(set(listed) - at.parameter.retired_terms)
            yield fault(element.line, term, below=below, parameter=at.parameter.key, number=in_use)
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


def term_id(term: str) -> str:
    """The identifier at the beginning of a term: the part before the second colon or the first blank."""
    first, colon, rest = _TERM_END.split(term.strip(), maxsplit=1)[0].partition(":")
    return first + colon + rest.partition(":")[0]


@lru_cache(maxsize=1_000)
def _nearest(value: str, options: tuple[Option, ...]) -> str | None:
    return next(iter(nearest_names(value, [option.name for option in options if option.is_active], 1)), None)
