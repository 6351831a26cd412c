"""What series and their increments must satisfy."""

from __future__ import annotations

from collections.abc import Iterator

from dcc.declarations import Declaration
from dcc.documents.contents import (
    MediaSampleParameter,
    SeriesMediaParameter,
    SeriesMediaValue,
    SeriesParameter,
    SeriesValue,
)
from dcc.messages import mark
from dcc.reference.impress import Impress, Increment, Parameter
from dcc.rules.context import Context
from dcc.rules.elements import values_of
from dcc.rules.findings import Fault, fault
from dcc.rules.registry import rule, rule_of_shape
from dcc.rules.values import UnreadableValueError, is_blank, read_date_time, read_float, read_integer
from dcc.vocabulary import Severity

_FLOAT = "float"
_DATE_TIME = "datetime"
_REPEAT = "repeat"

_INCREMENTS = mark("Submit all increments that IMPReSS lists, each with an incrementStatus where it has no value.")
_LISTED = mark("Use the increments that IMPReSS lists for this parameter.")
_TOO_FEW = Declaration(
    message=mark(
        "The parameter {parameter} has {number} of the {minimum} values that it needs. Submit the others, "
        "each with an incrementStatus where it has no value."
    ),
    cause=mark("{parameter} has fewer than the {minimum} values that it needs"),
    remedy=_INCREMENTS,
)
_NOT_LISTED = Declaration(
    message=mark("The incrementValue '{value}' of {parameter} is none of those that IMPReSS lists: {permitted}."),
    cause=mark("{parameter}: the increment '{value}' is not listed"),
    remedy=_LISTED,
)
_RETIRED = Declaration(
    message=mark(
        "The incrementValue '{value}' of {parameter} is one that IMPReSS has retired. In use are: {permitted}."
    ),
    cause=mark("{parameter}: IMPReSS has retired the increment '{value}'"),
    remedy=_LISTED,
)
_MISSING = Declaration(
    message=mark(
        "The parameter {parameter} lacks the increments {value}. Submit them, each with an "
        "incrementStatus where it has no value."
    ),
    cause=mark("{parameter} lacks the increments {value}"),
    remedy=_INCREMENTS,
)
_ILL_TYPED = Declaration(
    message=mark("The incrementValue '{value}' of {parameter} does not read as {type}."),
    cause=mark("{parameter}: increments do not read as {type}"),
    remedy=mark(
        "Write the incrementValue as the type asks: datetime with its zone, float with a point, repeat from 0 up."
    ),
)


@rule_of_shape(
    "P13",
    SeriesParameter,
    MediaSampleParameter,
    SeriesMediaParameter,
    message=mark("The parameter {parameter} has neither values nor a parameterStatus. Give one of them."),
    cause=mark("{parameter} has neither values nor a parameterStatus"),
    remedy=mark("Give a value, or a parameterStatus that says why it is missing."),
    known_as=("seriesParameterNullValue", "seriesMediaParameterNullValue", "mediaSampleNoMediaSections"),
)
def series_has_values(
    element: SeriesParameter | MediaSampleParameter | SeriesMediaParameter, at: Context
) -> Iterator[Fault]:
    """A series has values, and a media sample parameter samples, or a status."""
    inside = element.samples if isinstance(element, MediaSampleParameter) else element.values
    if not inside and is_blank(element.status):
        yield fault(element.line, parameter=element.parameter_id)


@rule_of_shape(
    "P14",
    SeriesValue,
    SeriesMediaValue,
    message=mark("The value for increment '{increment}' is empty and has no incrementStatus. Give one of them."),
    cause=mark("Series values are empty and have no incrementStatus"),
    remedy=mark("Give a value, or an incrementStatus that says why it is missing."),
    cases={
        "no_increment": Declaration(
            message=mark("The incrementValue is empty. Say which increment the value is for."),
            cause=mark("The incrementValue of series values is empty"),
            remedy=mark("Say which increment each value is for."),
        ),
        "both": Declaration(
            message=mark("The value for increment '{increment}' has an incrementStatus too. Give one of them."),
            cause=mark("Series values have an incrementStatus too"),
            remedy=mark("Give the value or the incrementStatus, not both."),
        ),
    },
    known_as=(
        "seriesParameterValueEmpty",
        "seriesParameterValueNotEmptyWithIncrementStatus",
        "seriesParameterValueIncrementStatusEmpty",
    ),
    any_number_passes=True,
)
def series_value_has_text_or_status(value: SeriesValue | SeriesMediaValue, at: Context) -> Iterator[Fault]:
    """A series value has text or an incrementStatus, not both; its incrementValue, of media too, is not empty."""
    if is_blank(value.increment):
        yield fault(value.line, value.increment, "no_increment")
    if isinstance(value, SeriesMediaValue):
        return
    if is_blank(value.value) and is_blank(value.increment_status):
        yield fault(value.line, value.value, increment=value.increment)
    elif not is_blank(value.value) and not is_blank(value.increment_status):
        yield fault(value.line, value.value, "both", increment=value.increment)


@rule_of_shape(
    "P15",
    SeriesParameter,
    like=_TOO_FEW,
    known_as="seriesParameterEnoughParameters",
    needs=Impress,
)
def there_are_enough_increments(series: SeriesParameter, at: Context) -> Iterator[Fault]:
    """With one increment rule in use that has a minimum, the series has at least that many values."""
    if series.values:
        yield from _too_few(series, at.parameter)


@rule_of_shape(
    "P16",
    SeriesParameter,
    like=_NOT_LISTED,
    cases={"retired": _RETIRED, "missing": _MISSING},
    known_as=("seriesParameterNoValidIncrement", "seriesParameterMissingIncrement"),
    needs=Impress,
)
def increments_are_those_listed(series: SeriesParameter, at: Context) -> Iterator[Fault]:
    """With listed increments, each incrementValue is listed, and each in use is there; retired ones warn."""
    if series.values:
        yield from _not_as_listed(series, at.parameter)


@rule_of_shape(
    "P17",
    SeriesParameter,
    like=_ILL_TYPED,
    known_as="seriesParameterNoValidIncrementType",
    needs=Impress,
)
def increments_read_as_their_type(series: SeriesParameter, at: Context) -> Iterator[Fault]:
    """Increments that are not listed read as their type: datetime, float, or repeat, a number from 0 up."""
    yield from _ill_typed(series, at.parameter)


@rule(
    "P18",
    SeriesMediaParameter,
    like=_NOT_LISTED,
    cases={"too_few": _TOO_FEW, "retired": _RETIRED, "missing": _MISSING, "ill_typed": _ILL_TYPED},
    known_as=(
        "seriesMediaParameterEnoughParameters",
        "seriesMediaParameterNoValidIncrement",
        "seriesMediaParameterMissingIncrement",
        "seriesMediaParameterNoValidIncrementType",
    ),
    needs=Impress,
)
def increments_of_media_are_right(series: SeriesMediaParameter, at: Context) -> Iterator[Fault]:
    """P15 to P17 hold for the values of series media too; P9 and P10 are checked for each value of a series."""
    if series.values:
        for few in _too_few(series, at.parameter):
            yield few._replace(case="too_few")
        yield from _not_as_listed(series, at.parameter)
        for ill_typed in _ill_typed(series, at.parameter):
            yield ill_typed._replace(case="ill_typed")


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
        key = _increment_key(value.increment, kind)
        if key in seen:
            yield fault(value.line, value.increment, below=f"/value[{number}]", parameter=series.parameter_id)
        seen.add(key)


def _listed_increments(parameter: Parameter) -> tuple[Increment, ...]:
    """The increments that a parameter lists by name and that are not retired."""
    return tuple(increment for increment in parameter.increments if increment.text and increment.is_active)


def _increment_key(text: str, kind: str) -> str | float:
    """The key for comparing increments: the number for the type `float`, if it reads as one, else the text."""
    if kind == _FLOAT:
        try:
            return read_float(text.strip())
        except UnreadableValueError:
            return text
    return text


def _too_few(series: SeriesParameter | SeriesMediaParameter, parameter: Parameter) -> Iterator[Fault]:
    in_use = [increment for increment in parameter.increments if increment.is_active]
    minimum = in_use[0].minimum if len(in_use) == 1 else 0
    if len(series.values) < minimum:
        number = len(series.values)
        yield fault(series.line, str(number), parameter=parameter.key, number=number, minimum=minimum)


def _not_as_listed(series: SeriesParameter | SeriesMediaParameter, parameter: Parameter) -> Iterator[Fault]:
    listed = {
        _increment_key(increment.text, increment.kind): increment.text for increment in _listed_increments(parameter)
    }
    if not listed:
        return
    kind = parameter.increments[0].kind
    retired = {
        _increment_key(increment.text, increment.kind) for increment in parameter.increments if not increment.is_active
    }
    submitted = set()
    for number, value in enumerate(values_of(series), 1):
        key = _increment_key(value.increment, kind)
        submitted.add(key)
        if key not in listed and not is_blank(value.increment):
            below, permitted = f"/value[{number}]", list(listed.values())
            found = fault(value.line, value.increment, below=below, parameter=parameter.key, permitted=permitted)
            yield found._replace(case="retired", severity=Severity.WARNING) if key in retired else found
    missing = [text for key, text in listed.items() if key not in submitted]
    if missing:
        yield fault(series.line, ", ".join(missing), "missing", parameter=parameter.key)


def _ill_typed(series: SeriesParameter | SeriesMediaParameter, parameter: Parameter) -> Iterator[Fault]:
    if not parameter.increments or _listed_increments(parameter):
        return
    kind = parameter.increments[0].kind
    for number, value in enumerate(values_of(series), 1):
        if not is_blank(value.increment) and not _reads_as(value.increment, kind):
            yield fault(value.line, value.increment, below=f"/value[{number}]", parameter=parameter.key, type=kind)


def _reads_as(text: str, kind: str) -> bool:
    try:
        if kind == _FLOAT:
            read_float(text)
        elif kind == _DATE_TIME:
            read_date_time(text)
        elif kind == _REPEAT:
            return read_integer(text) >= 0
    except UnreadableValueError:
        return False
    return True
