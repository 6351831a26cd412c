"""What the status of a specimen, line, experiment or parameter must satisfy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dcc.declarations import Declaration
from dcc.documents.contents import Experiment, Line, SeriesValue, SimpleParameter, Specimen, StatusCode
from dcc.messages import mark, message
from dcc.reference.impress import Impress
from dcc.reference.snapshots import StatusCodes
from dcc.rules.context import Context
from dcc.rules.elements import TYPE_OF, BlockEnd
from dcc.rules.findings import Fault, fault
from dcc.rules.registry import rule, rule_of_shape
from dcc.rules.values import is_blank
from dcc.vocabulary import Severity

SPECIMEN_FAMILY = "IMPC_SSC_"
PROCEDURE_FAMILY = "IMPC_PSC_"
PARAMETER_FAMILY = "IMPC_PARAMSC_"
_MEANT_FOR = {
    SPECIMEN_FAMILY: message(mark("specimens")),
    PROCEDURE_FAMILY: message(mark("lines and experiments")),
    PARAMETER_FAMILY: message(mark("parameters and their increments")),
}
_SOMETHING_ELSE = message(mark("something else"))
_NEEDING_TEXT = frozenset({"IMPC_PSC_015", "IMPC_PARAMSC_005", "IMPC_PARAMSC_006", "IMPC_SSC_003"})

_UNREGISTERED: Final = Declaration(
    message=mark("The status '{value}' has no registered code: '{status_code}'. Use one of {first_code} and on."),
    cause=mark("The status code '{status_code}' is not registered"),
    remedy=mark("Use a registered status code, which begins as the message says."),
)
_MISPLACED: Final = Declaration(
    message=mark("The status '{value}' has a code for {meant}, not for {takers}. Use one of {first_code} and on."),
    cause=mark("The status code of '{status_code}' is meant for {meant}"),
    remedy=mark("Use a registered status code, which begins as the message says."),
    cause_by=("status_code",),
)
_NO_TEXT: Final = Declaration(
    message=mark("The status '{value}' says nothing without a text: write {status_code}:and why."),
    cause=mark("The status {status_code} says nothing without a text"),
    remedy=mark("Write why after the code and a colon."),
)

_MOST_EXCUSED: Final = 0.5
"""The largest share of required results that a status may stand for: of a procedure that was done, there are most."""


def code_of(text: str) -> str:
    """The code of a status: the part before the first colon, without surrounding blanks."""
    return text.partition(":")[0].strip()


def _faults_of_code(text: str, family: str, codes: StatusCodes, line: int, below: str = "") -> Iterator[Fault]:
    """The fault of a status for a place that takes codes of one family, if it has one.

    Its case is `misplaced` for the code of another family. A procedure's code on a specimen is a warning, because
    centres got the message that it is permitted.
    """
    code = code_of(text)
    first = f"{family}001"
    if code not in codes.meanings:
        yield fault(line, text, below=below, status_code=code, first_code=first)
    elif not code.startswith(family):
        meant = next((who for which, who in _MEANT_FOR.items() if code.startswith(which)), _SOMETHING_ELSE)
        lenient = family == SPECIMEN_FAMILY and code.startswith(PROCEDURE_FAMILY)
        details = {"status_code": code, "meant": meant, "takers": _MEANT_FOR[family], "first_code": first}
        yield Fault(line, text, details, "misplaced", Severity.WARNING if lenient else None, below)


def _statuses_of(entity: Specimen | Line | Experiment) -> Iterator[tuple[str, StatusCode]]:
    """The status codes of an entity, each with its path below that."""
    if not isinstance(entity, Specimen):
        for number, status in enumerate(entity.status_codes, 1):
            yield f"/statusCode[{number}]", status
    elif entity.status_code is not None:
        yield "/statusCode", entity.status_code


def _faults_of_text(status: str, line: int, below: str = "") -> Iterator[Fault]:
    """The fault of a status whose code requires a text after the colon that is missing."""
    if code_of(status) in _NEEDING_TEXT and not status.partition(":")[2].strip():
        yield fault(line, status, below=below, status_code=status.strip().rstrip(":"))


@rule(
    "S11",
    Specimen,
    like=_UNREGISTERED,
    cases={"misplaced": _MISPLACED},
    known_as="testSpecimenStatusCode",
    needs=StatusCodes,
)
def status_of_specimen_is_registered(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A specimen's status code is registered."""
    status = specimen.status_code
    if status is not None and not is_blank(status.code):
        yield from _faults_of_code(status.code, SPECIMEN_FAMILY, at.status_codes, status.line, "/statusCode")


@rule(
    "E6",
    Experiment,
    Line,
    like=_UNREGISTERED,
    cases={
        "misplaced": _MISPLACED,
        "empty": Declaration(
            message=mark("The status code is empty. Give a code or leave the element out."),
            cause=mark("Status codes are empty"),
            remedy=mark("Give a code, or leave the element out."),
        ),
    },
    known_as=("experimentStatusInvalid", "lineStatusInvalid", "nullStatusCode", "line_nullStatusCode"),
    needs=StatusCodes,
)
def statuses_of_experiment_are_registered(entity: Experiment | Line, at: Context) -> Iterator[Fault]:
    """The status codes of experiments and lines are registered and not empty; procedures beside one are not checked."""
    for below, status in _statuses_of(entity):
        if is_blank(status.code):
            yield fault(status.line, status.code, "empty", below=below)
        else:
            yield from _faults_of_code(status.code, PROCEDURE_FAMILY, at.status_codes, status.line, below)


@rule_of_shape(
    "P7",
    *TYPE_OF,
    SeriesValue,
    like=_UNREGISTERED,
    cases={"misplaced": _MISPLACED},
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
    any_number_passes=True,
)
def status_of_parameter_is_registered(element: SimpleParameter | SeriesValue, at: Context) -> Iterator[Fault]:
    """A parameterStatus, or the incrementStatus of a series value, is registered; a value beside it is checked too."""
    status = element.increment_status if isinstance(element, SeriesValue) else element.status
    if status is not None and not is_blank(status):
        yield from _faults_of_code(status, PARAMETER_FAMILY, at.status_codes, element.line)


@rule(
    "X1",
    Specimen,
    Line,
    Experiment,
    severity=Severity.WARNING,
    like=_NO_TEXT,
)
def status_of_entity_has_its_text(entity: Specimen | Line | Experiment, at: Context) -> Iterator[Fault]:
    """A status code that asks for text, such as IMPC_PSC_015, has it after a colon."""
    for below, status in _statuses_of(entity):
        yield from _faults_of_text(status.code, status.line, below)


@rule_of_shape(
    "X2",
    *TYPE_OF,
    SeriesValue,
    severity=Severity.WARNING,
    like=_NO_TEXT,
    any_number_passes=True,
)
def status_of_parameter_has_its_text(element: SimpleParameter | SeriesValue, at: Context) -> Iterator[Fault]:
    """A parameterStatus or incrementStatus that asks for text has it after a colon."""
    status = element.increment_status if isinstance(element, SeriesValue) else element.status
    if status is not None:
        yield from _faults_of_text(status, element.line)


@rule(
    "X16",
    BlockEnd,
    severity=Severity.WARNING,
    message=mark(
        "Of {number} required results of {value}, {excused} are missing and have a parameterStatus instead, which is "
        "more than half. Look whether the export lost them."
    ),
    cause=mark("Most required results of {value} are missing and have a parameterStatus instead"),
    remedy=mark(
        "Look whether the export lost them, and edit the data. Where the procedure was not done, give a status code "
        "of the experiment in place of the procedure."
    ),
    needs=Impress,
)
def most_required_results_are_there(end: BlockEnd, at: Context) -> Iterator[Fault]:
    """At most half of a procedure's required parameters have a status and no value."""
    for procedure, results in end.results.items():
        if results.excused > _MOST_EXCUSED * results.required:
            yield fault(end.block.line, procedure, number=results.required, excused=results.excused)
