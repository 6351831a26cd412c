"""P13 to P18: what series and their increments must satisfy."""

from __future__ import annotations

from collections.abc import Iterator

from dcc.documents.contents import (
    MediaSampleParameter,
    SeriesMediaParameter,
    SeriesParameter,
    SeriesValue,
)
from dcc.reference.impress import Impress, Increment, Parameter
from dcc.rules.context import Context
from dcc.rules.elements import values_of
from dcc.rules.findings import Fault, Severity
from dcc.rules.registry import rule
from dcc.rules.values import UnreadableValueError, is_blank, read_date_time, read_float, read_integer

_FLOAT = "float"
_DATE_TIME = "datetime"
_REPEAT = "repeat"


@rule(
    "P13",
    SeriesParameter,
    MediaSampleParameter,
    SeriesMediaParameter,
    severity=Severity.ERROR,
    known_as=("seriesParameterNullValue", "seriesMediaParameterNullValue"),
    local=True,
)
def series_has_values(
    element: SeriesParameter | MediaSampleParameter | SeriesMediaParameter, at: Context
) -> Iterator[Fault]:
    """A series has values, and a media sample parameter samples, or a status."""
    inside = element.samples if isinstance(element, MediaSampleParameter) else element.values
    if not inside and is_blank(element.status):
        yield Fault(
            f"The parameter {element.parameter_id} has neither values nor a parameterStatus. Give one of them.",
            element.line,
        )


@rule(
    "P14",
    SeriesValue,
    severity=Severity.ERROR,
    known_as=(
        "seriesParameterValueEmpty",
        "seriesParameterValueNotEmptyWithIncrementStatus",
        "seriesParameterValueIncrementStatusEmpty",
    ),
    local=True,
    numeric=True,
)
def series_value_has_text_or_status(value: SeriesValue, at: Context) -> Iterator[Fault]:
    """A series value has either text or an incrementStatus, not both nor neither; its incrementValue is not empty."""
    if is_blank(value.increment):
        yield Fault("The incrementValue is empty. Say which increment the value is for.", value.line, value.increment)
    if is_blank(value.value) and is_blank(value.increment_status):
        yield Fault(
            f"The value for increment {value.increment!r} is empty and has no incrementStatus. Give one of them.",
            value.line,
            value.value,
        )
    elif not is_blank(value.value) and not is_blank(value.increment_status):
        yield Fault(
            f"The value for increment {value.increment!r} has an incrementStatus too. Give one of them.",
            value.line,
            value.value,
        )


@rule(
    "P15",
    SeriesParameter,
    severity=Severity.ERROR,
    known_as="seriesParameterEnoughParameters",
    needs=Impress,
    local=True,
)
def there_are_enough_increments(series: SeriesParameter, at: Context) -> Iterator[Fault]:
    """With one increment rule that has a minimum, there are at least that many values."""
    if series.values:
        yield from _too_few(series, at.parameter)


@rule(
    "P16",
    SeriesParameter,
    severity=Severity.ERROR,
    known_as=("seriesParameterNoValidIncrement", "seriesParameterMissingIncrement"),
    needs=Impress,
    local=True,
)
def increments_are_those_listed(series: SeriesParameter, at: Context) -> Iterator[Fault]:
    """With listed increments, each incrementValue is listed and each listed one is there."""
    if series.values:
        yield from _not_as_listed(series, at.parameter)


@rule(
    "P17",
    SeriesParameter,
    severity=Severity.ERROR,
    known_as="seriesParameterNoValidIncrementType",
    needs=Impress,
    local=True,
)
def increments_read_as_their_type(series: SeriesParameter, at: Context) -> Iterator[Fault]:
    """Increments that are not listed read as their type: datetime, float, or repeat, a number from 0 up."""
    yield from _ill_typed(series, at.parameter)


@rule(
    "P18",
    SeriesMediaParameter,
    severity=Severity.ERROR,
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
        yield from _too_few(series, at.parameter)
        yield from _not_as_listed(series, at.parameter)
        yield from _ill_typed(series, at.parameter)


def listed_increments(parameter: Parameter) -> tuple[Increment, ...]:
    """The increments that a parameter lists by name and that are in use."""
    return tuple(increment for increment in parameter.increments if increment.text and increment.is_active)


def increment_key(text: str, kind: str) -> str | float:
    """What increments are compared by: the number for the type `float`, where it reads as one, else the text."""
    if kind == _FLOAT:
        try:
            return read_float(text.strip())
        except UnreadableValueError:
            return text
    return text


def _too_few(series: SeriesParameter | SeriesMediaParameter, parameter: Parameter) -> Iterator[Fault]:
    if len(parameter.increments) != 1:
        return
    minimum = parameter.increments[0].minimum
    if len(series.values) < minimum:
        yield Fault(
            f"The parameter {parameter.key} has {len(series.values)} values and needs at least {minimum}. Submit the "
            "others, each with an incrementStatus where there is no value.",
            series.line,
            str(len(series.values)),
        )


def _not_as_listed(series: SeriesParameter | SeriesMediaParameter, parameter: Parameter) -> Iterator[Fault]:
    listed = {
        increment_key(increment.text, increment.kind): increment.text for increment in listed_increments(parameter)
    }
    if not listed:
        return
    kind = parameter.increments[0].kind
    retired = {
        increment_key(increment.text, increment.kind) for increment in parameter.increments if not increment.is_active
    }
    submitted = set()
    for number, value in enumerate(values_of(series), 1):
        key = increment_key(value.increment, kind)
        submitted.add(key)
        if key not in listed and not is_blank(value.increment):
            what = "one that IMPReSS has retired" if key in retired else "none of those that IMPReSS lists"
            yield Fault(
                f"The incrementValue {value.increment!r} of {parameter.key} is {what}: {', '.join(listed.values())}.",
                value.line,
                value.increment,
                below=f"/value[{number}]",
            )
    missing = [text for key, text in listed.items() if key not in submitted]
    if missing:
        yield Fault(
            f"The parameter {parameter.key} lacks the increments {', '.join(missing)}. Submit them, each with an "
            "incrementStatus where there is no value.",
            series.line,
            ", ".join(missing),
        )


def _ill_typed(series: SeriesParameter | SeriesMediaParameter, parameter: Parameter) -> Iterator[Fault]:
    if not parameter.increments or listed_increments(parameter):
        return
    kind = parameter.increments[0].kind
    for number, value in enumerate(values_of(series), 1):
        if not is_blank(value.increment) and not _reads_as(value.increment, kind):
            yield Fault(
                f"The incrementValue {value.increment!r} of {parameter.key} does not read as {kind}.",
                value.line,
                value.increment,
                below=f"/value[{number}]",
            )


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
