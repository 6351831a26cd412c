"""What a procedure and the identifiers of its parameters must satisfy.

The shape of a procedure is its identifiers. Declare a rule that looks at values in it with `rule`: `rule_of_shape` asks
no rule about a second procedure with the same parameters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from dcc.documents.contents import Procedure
from dcc.messages import mark
from dcc.reference.impress import Impress, ParameterType
from dcc.rules.context import Context, ResultKey
from dcc.rules.elements import (
    ElementStep,
    ParameterUse,
    ProcedureUse,
    key_of,
    metadata_of_media,
    parameters_of,
    result_key,
    top_level_parameters,
)
from dcc.rules.findings import Fault, fault
from dcc.rules.registry import rule_of_shape
from dcc.vocabulary import Severity

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
    groups: dict[ResultKey, list[ElementStep]] = defaultdict(list)
    for step in top_level_parameters(procedure):
        sequence_id: str | None = getattr(step.parameter, "sequence_id", None)
        groups[result_key(step.parameter.parameter_id, sequence_id)].append(step)
    for (key, sequence), steps in groups.items():
        if len(steps) == 1:
            continue
        case = "" if sequence is None else "with_sequence"
        details: dict[str, Any] = {} if sequence is None else {"sequence": str(sequence)}
        for step in steps:
            yield fault(step.parameter.line, key, case, below=step.path, number=len(steps), **details)


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
