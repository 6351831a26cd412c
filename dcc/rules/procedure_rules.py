"""P1 to P6: what a procedure and the identifiers in it must satisfy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from dcc.documents.contents import Procedure
from dcc.reference.impress import Impress
from dcc.rules.context import Context
from dcc.rules.elements import (
    ParameterUse,
    ProcedureUse,
    Step,
    key_of,
    metadata_of_media,
    parameters_of,
    sequence_of,
    top_level_parameters,
)
from dcc.rules.findings import Fault, Severity
from dcc.rules.registry import rule


@rule("P1", ProcedureUse, severity=Severity.ERROR, known_as="checkProcedure", needs=Impress, local=True)
def procedure_belongs_to_the_pipeline(use: ProcedureUse, at: Context) -> Iterator[Fault]:
    """A procedure belongs to the centre's pipeline; nothing in it is checked otherwise."""
    if at.procedure_definition is None:
        procedure = use.procedure
        yield Fault(
            f"The procedure {procedure.procedure_id!r} does not belong to the pipeline {at.block.pipeline}: its "
            "content was not checked. Mind its version.",
            procedure.line,
            procedure.procedure_id,
        )


@rule("P2", Procedure, severity=Severity.ERROR, known_as="requiredNonPresentParameters", needs=Impress, local=True)
def required_parameters_are_present(procedure: Procedure, at: Context) -> Iterator[Fault]:
    """All parameters that IMPReSS requires are present, as whatever type and be it only with a status."""
    if not at.definition.required:
        return
    present = {key_of(parameter.parameter_id) for parameter in parameters_of(procedure)}
    present |= {key_of(step.parameter.parameter_id) for step in metadata_of_media(procedure)}
    missing = sorted(at.definition.required - present)
    if missing:
        yield Fault(
            f"The procedure {procedure.procedure_id} lacks required parameters: {', '.join(missing)}. Submit them, or "
            "each with a parameterStatus that says why there is no value.",
            procedure.line,
            ", ".join(missing),
        )


@rule(
    "P3",
    ParameterUse,
    severity=Severity.ERROR,
    known_as="parametersNotBelonging",
    needs=Impress,
    only_for=lambda _defined: False,
    local=True,
    numeric=True,
)
def parameter_belongs_to_the_procedure(use: ParameterUse, at: Context) -> Iterator[Fault]:
    """Every parameter belongs to the procedure; each that does not is reported where it stands."""
    if at.parameter_definition is None:
        identifier = use.parameter.parameter_id
        yield Fault(
            f"The parameter {identifier!r} does not belong to the procedure {at.definition.key}. Correct its "
            "identifier or leave it out.",
            use.parameter.line,
            identifier,
        )


@rule(
    "P4",
    ParameterUse,
    severity=Severity.ERROR,
    known_as="checkProcedureParametersBlankSpaces",
    local=True,
    numeric=True,
)
def identifier_has_no_blanks_around_it(use: ParameterUse, at: Context) -> Iterator[Fault]:
    """No parameterID has blanks before or after it; other rules go by the identifier without them."""
    identifier = use.parameter.parameter_id
    if identifier != key_of(identifier):
        yield Fault(
            f"The parameterID {identifier!r} has blanks around it. Remove them.", use.parameter.line, identifier
        )


@rule(
    "P5",
    ParameterUse,
    severity=Severity.ERROR,
    known_as="checkParametersWrongType",
    needs=Impress,
    local=True,
    numeric=True,
)
def parameter_is_of_its_type(use: ParameterUse, at: Context) -> Iterator[Fault]:
    """A parameter is submitted as the type that IMPReSS gives it."""
    definition = at.parameter_definition
    if definition is not None and definition.type is not use.type:
        yield Fault(
            f"The parameter {definition.key} is submitted as {use.type} and is a {definition.type}. Submit it as that.",
            use.parameter.line,
            use.type,
        )


@rule("P6", Procedure, severity=Severity.ERROR, known_as="checkRepeatedParameters", local=True)
def parameters_are_not_repeated(procedure: Procedure, at: Context) -> Iterator[Fault]:
    """A parameterID with its sequenceID occurs once in a procedure; each of several is reported."""
    named = [(one.parameter_id, getattr(one, "sequence_id", None)) for one in parameters_of(procedure)]
    if len({(key_of(name), None if sequence is None else sequence_of(sequence)) for name, sequence in named}) == len(
        named
    ):
        return
    groups: dict[tuple[str, int | str | None], list[Step]] = defaultdict(list)
    for step in top_level_parameters(procedure):
        sequence_id: str | None = getattr(step.parameter, "sequence_id", None)
        groups[key_of(step.parameter.parameter_id), sequence_of(sequence_id)].append(step)
    for (key, sequence), steps in groups.items():
        if len(steps) == 1:
            continue
        which = key if sequence is None else f"{key} with sequenceID {sequence}"
        for step in steps:
            yield Fault(
                f"The parameter {which} is there {len(steps)} times. Submit it once, or number the repeats with "
                "sequenceID.",
                step.parameter.line,
                key,
                below=step.path,
            )
