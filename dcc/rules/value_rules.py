"""P7 to P12: what statuses, values, units and terms must satisfy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache

from dcc.documents.contents import (
    MediaParameter,
    MediaSampleParameter,
    Metadata,
    OntologyParameter,
    SeriesMediaParameter,
    SeriesParameter,
    SeriesValue,
    SimpleParameter,
)
from dcc.reference.impress import Impress, Option, ValueType
from dcc.reference.snapshots import StatusCodes
from dcc.rules.codes import PARAMETER_FAMILY, fault_of_status
from dcc.rules.context import Context
from dcc.rules.findings import Fault, Severity
from dcc.rules.registry import rule
from dcc.rules.values import UnreadableValueError, is_blank, read_value

_TERM = re.compile(r"[A-Za-z][A-Za-z0-9_]*:[A-Za-z0-9_]+")
_TERM_END = re.compile(r"\s")
_LONGEST_SHOWN = 100
_VALUE_TYPES = frozenset(ValueType)
_ANY_TEXT = frozenset({"", ValueType.TEXT, ValueType.IMAGE})


@rule(
    "P7",
    SimpleParameter,
    OntologyParameter,
    SeriesParameter,
    SeriesValue,
    MediaParameter,
    MediaSampleParameter,
    SeriesMediaParameter,
    Metadata,
    severity=Severity.ERROR,
    known_as=(
        "simpleParameterStatusInvalid",
        "ontologyParameterStatusInvalid",
        "seriesParameterParameterStatusInvalid",
        "mediaParameterParameterStatusInvalid",
        "mediaSampleParameterParameterStatusInvalid",
        "seriesMediaParameterParameterStatusInvalid",
        "procedureMetadataParameterStatusInvalid",
    ),
    needs=StatusCodes,
    given=("status", "increment_status"),
    local=True,
    numeric=True,
)
def status_of_parameter_is_registered(element: SimpleParameter | SeriesValue, at: Context) -> Iterator[Fault]:
    """A parameterStatus, or the incrementStatus of a series value, is registered; a value beside it is checked too."""
    status = element.increment_status if isinstance(element, SeriesValue) else element.status
    if status is None or is_blank(status):
        return
    fault = fault_of_status(status, PARAMETER_FAMILY, at.status_codes, element.line)
    if fault is not None:
        yield fault


@rule(
    "P8",
    SimpleParameter,
    Metadata,
    severity=Severity.ERROR,
    known_as=("simpleParameterValueEmpty", "procedureMetadataNullValue"),
    local=True,
    numeric=True,
)
def value_is_not_empty(element: SimpleParameter | Metadata, at: Context) -> Iterator[Fault]:
    """A simple parameter or metadata without a status has a value that is not blank."""
    if is_blank(element.value) and is_blank(element.status):
        yield Fault(
            f"The parameter {element.parameter_id} has neither a value nor a parameterStatus. Give one of them.",
            element.line,
            element.value,
        )


@rule(
    "P9",
    SimpleParameter,
    Metadata,
    SeriesValue,
    severity=Severity.ERROR,
    known_as=(
        "simpleParameterCastOperationFailed",
        "seriesParameterCastOperationFailed",
        "procedureMetadataCastOperationFailed",
    ),
    needs=Impress,
    given="value",
    only_for=lambda parameter: parameter.value_type not in _ANY_TEXT,
    local=True,
    numeric=True,
)
def value_reads_as_its_type(element: SimpleParameter | Metadata | SeriesValue, at: Context) -> Iterator[Fault]:
    """A value reads as its value type, in full."""
    value, parameter = element.value, at.parameter
    if value is None or is_blank(value) or not parameter.value_type:
        return
    if parameter.value_type not in _VALUE_TYPES:
        yield Fault(
            f"Values of {parameter.key} could not be checked: IMPReSS gives them the type {parameter.value_type!r}, "
            "which is not known here.",
            element.line,
            parameter.value_type,
            Severity.UNCHECKED,
        )
        return
    try:
        read_value(parameter.value_type, value)
    except UnreadableValueError as error:
        yield Fault(
            f"The value {_shown(value)} of {parameter.key} does not read as {parameter.value_type}: {error}.",
            element.line,
            value,
        )


@rule(
    "P10",
    SimpleParameter,
    Metadata,
    SeriesValue,
    severity=Severity.ERROR,
    known_as=("simpleParameterNoValidOption", "seriesParameterNoValidOption", "procedureMetadataNoValidOption"),
    needs=Impress,
    given="value",
    only_for=lambda parameter: bool(parameter.options),
    local=True,
    numeric=True,
)
def value_is_an_option(element: SimpleParameter | Metadata | SeriesValue, at: Context) -> Iterator[Fault]:
    """Where IMPReSS lists options, the value is one of them to the letter; a retired one gives a warning."""
    value, options = element.value, at.parameter.options
    if not options or value is None or is_blank(value):
        return
    matching = [option for option in options if option.name == value]
    if not matching:
        nearest = _nearest(value[:_LONGEST_SHOWN], options)
        hint = f" The nearest is {nearest!r}." if nearest else ""
        yield Fault(
            f"The value {_shown(value)} of {at.parameter.key} is none of its {len(options)} options.{hint}",
            element.line,
            value,
        )
    elif not any(option.is_active for option in matching):
        yield Fault(
            f"The value {_shown(value)} of {at.parameter.key} is an option that IMPReSS has retired.",
            element.line,
            value,
            Severity.WARNING,
        )


@rule(
    "P11",
    SimpleParameter,
    SeriesParameter,
    severity=Severity.ERROR,
    needs=Impress,
    given="unit",
    local=True,
    numeric=True,
)
def unit_is_that_of_the_parameter(element: SimpleParameter | SeriesParameter, at: Context) -> Iterator[Fault]:
    """Where a unit is submitted, it is the parameter's unit; blanks around it do not count."""
    unit = element.unit
    if unit is not None and not is_blank(unit) and unit.strip() != at.parameter.unit:
        expected = f"is in {at.parameter.unit}" if at.parameter.unit else "has no unit"
        yield Fault(
            f"The unit {unit!r} of {at.parameter.key} is wrong: the parameter {expected}. Convert the value, or "
            "correct the unit.",
            element.line,
            unit,
        )


@rule(
    "P12",
    OntologyParameter,
    severity=Severity.ERROR,
    known_as=("ontologyParameterTermEmpty", "ontologyParameterTermInvalid"),
    needs=Impress,
    local=True,
)
def terms_are_listed(element: OntologyParameter, at: Context) -> Iterator[Fault]:
    """Ontology terms are not empty, and each has a listed id where the parameter lists any."""
    if any(map(is_blank, element.terms)) or not element.terms:
        if is_blank(element.status):
            yield Fault(
                f"The parameter {at.parameter.key} has an empty term. Give the term, or a parameterStatus.",
                element.line,
                "",
            )
        return
    listed = at.parameter.ontology_terms
    for number, term in enumerate(element.terms, 1):
        identifier = term_id(term)
        if listed and identifier not in listed:
            what = f"is none of the {len(listed)} that IMPReSS lists"
        elif not listed and _TERM.fullmatch(identifier) is None:
            what = "does not begin with an id such as MP:0001262"
        else:
            continue
        yield Fault(
            f"The term {_shown(term)} of {at.parameter.key} {what}. Correct it.",
            element.line,
            term,
            below=f"/term[{number}]",
        )


def term_id(term: str) -> str:
    """The identifier that a term begins with: what is before the second colon or the first blank."""
    first, colon, rest = _TERM_END.split(term.strip(), maxsplit=1)[0].partition(":")
    return first + colon + rest.partition(":")[0]


@lru_cache(maxsize=1_000)
def _nearest(value: str, options: tuple[Option, ...]) -> str | None:
    active = {option.name.casefold(): option.name for option in options if option.is_active}
    nearest = get_close_matches(value.casefold(), active, 1)
    return active[nearest[0]] if nearest else None


def _shown(value: str) -> str:
    return repr(value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}...")
