"""E1 to E9: what a centre, line or experiment must satisfy."""

from __future__ import annotations

from collections.abc import Iterator

from dcc.documents.contents import Block, Experiment, Line
from dcc.naming import Action
from dcc.reference.impress import Impress
from dcc.reference.snapshots import Colonies, Projects, StatusCodes
from dcc.rules.codes import PROCEDURE_FAMILY, fault_of_status
from dcc.rules.context import Context, ExperimentKey
from dcc.rules.elements import BlockEnd
from dcc.rules.findings import Fault, Severity
from dcc.rules.registry import rule
from dcc.rules.values import day_of, is_blank


@rule("E1", Block, severity=Severity.FATAL, known_as="invalidPipelineID", needs=Impress)
def pipeline_exists(block: Block, at: Context) -> Iterator[Fault]:
    """A centre's pipeline exists in IMPReSS; nothing of the centre is checked otherwise."""
    if block.pipeline is not None and block.pipeline not in at.impress.pipelines:
        yield Fault(
            f"The pipeline {block.pipeline!r} of the centre {block.centre} does not exist in IMPReSS: nothing below it "
            "was checked. Correct it.",
            block.line,
            block.pipeline,
        )


@rule("E2", Block, severity=Severity.WARNING, known_as="centreProcedureAttributes_ProjectNotFound", needs=Projects)
def project_of_centre_is_known(block: Block, at: Context) -> Iterator[Fault]:
    """A centre's project is known."""
    if block.project is not None and block.project not in at.projects.names:
        yield Fault(
            f"The project {block.project!r} of the centre {block.centre} is not known. Names are compared to the "
            "letter; correct it or have the project registered.",
            block.line,
            block.project,
        )


@rule("E3", BlockEnd, severity=Severity.ERROR, known_as="noExperiments")
def centre_holds_something(end: BlockEnd, at: Context) -> Iterator[Fault]:
    """A centre holds at least one line, experiment or housing."""
    if end.entities == 0:
        yield Fault(
            f"The centre {end.block.centre} holds no housing, line or experiment. Leave it out or fill it.",
            end.block.line,
        )


@rule("E4", Experiment, severity=Severity.ERROR, known_as="testSpecimenSubmittedToDCC")
def specimens_are_uploaded(experiment: Experiment, at: Context) -> Iterator[Fault]:
    """Every specimenID of an experiment has been uploaded for that centre."""
    for number, specimen_id in enumerate(experiment.specimen_ids, 1):
        if specimen_id not in at.answers.specimens:
            yield Fault(
                f"The specimen {specimen_id!r} of experiment {experiment.experiment_id!r} has not been submitted by "
                f"{at.block.centre}. Submit it; this clears when it arrives.",
                experiment.line,
                specimen_id,
                below=f"/specimenID[{number}]",
            )


@rule(
    "E5",
    Experiment,
    severity=Severity.ERROR,
    known_as=("nullStatusCodenullProcedures", "linenullStatusCodenullProcedures"),
    local=True,
)
def experiment_has_a_procedure(experiment: Experiment, at: Context) -> Iterator[Fault]:
    """An experiment without a status code has a procedure; a line always has one, by the schema."""
    if experiment.procedure is None and not experiment.status_codes:
        yield Fault(
            f"The experiment {experiment.experiment_id!r} has neither a procedure nor a status code. Give its results, "
            "or say with a status code why there are none.",
            experiment.line,
        )


@rule(
    "E6",
    Experiment,
    Line,
    severity=Severity.ERROR,
    known_as=("experimentStatusInvalid", "lineStatusInvalid", "nullStatusCode", "line_nullStatusCode"),
    needs=StatusCodes,
    given="status_codes",
    local=True,
)
def statuses_are_registered(entity: Experiment | Line, at: Context) -> Iterator[Fault]:
    """The status codes of experiments and lines are registered and not empty."""
    for number, status in enumerate(entity.status_codes, 1):
        fault = (
            Fault("The status code is empty. Give a code or leave the element out.", status.line, status.code)
            if is_blank(status.code)
            else fault_of_status(status.code, PROCEDURE_FAMILY, at.status_codes, status.line)
        )
        if fault is not None:
            yield fault._replace(below=f"/statusCode[{number}]")


@rule("E7", Line, severity=Severity.ERROR, known_as="line_colony_no_found", needs=Colonies)
def colony_of_line_is_registered(line: Line, at: Context) -> Iterator[Fault]:
    """The colonyID of a line without a status code is not empty and is registered."""
    if line.status_codes or at.colonies.find(line.colony_id):
        return
    what = "is empty" if is_blank(line.colony_id) else "is not registered"
    yield Fault(
        f"The colonyID {line.colony_id!r} of the line {what}. Correct it or have the colony registered.",
        line.line,
        line.colony_id,
    )


@rule("E8", Experiment, severity=Severity.ERROR, known_as="experimentAttributes_DateNull")
def date_is_within_the_lives_of_the_specimens(experiment: Experiment, at: Context) -> Iterator[Fault]:
    """The dateOfExperiment is not in the future, a day allowed for time zones, nor before a specimen's birth."""
    day = day_of(experiment.date)
    if day > at.document.latest_day:
        yield Fault(
            f"The date of experiment {experiment.experiment_id!r} is {experiment.date}, in the future. Correct it.",
            experiment.line,
            experiment.date,
        )
        return
    for specimen_id in experiment.specimen_ids:
        known = at.answers.specimens.get(specimen_id, ())
        births = [specimen.dob for specimen in known if specimen.dob is not None]
        if births and len(births) == len(known) and day < min(map(day_of, births)):
            yield Fault(
                f"The date of experiment {experiment.experiment_id!r} is {experiment.date}, before {specimen_id!r} was "
                f"born on {min(births, key=day_of)}. Correct either date.",
                experiment.line,
                experiment.date,
            )


@rule("E9", Experiment, severity=Severity.ERROR)
def experiment_id_is_unique(experiment: Experiment, at: Context) -> Iterator[Fault]:
    """An experimentID with its sequenceID is unique within centre and procedure, unless edited or deleted."""
    if at.document.action is not Action.ADD:
        return
    here = (at.document.document_id, experiment.line)
    others = [where for where in at.answers.experiments.get(key_of_experiment(experiment), ()) if where != here]
    if others:
        first = others[0]
        same = first.document_id == at.document.document_id
        place = f"on line {first.line} too" if same else f"in document {first.document_id} already"
        sequence = "" if experiment.sequence_id is None else f" with sequenceID {experiment.sequence_id!r}"
        yield Fault(
            f"The centre {at.block.centre} has an experiment {experiment.experiment_id!r}{sequence} of this procedure "
            f"{place}. Number repeats with sequenceID, or submit changes in an archive of the edit folder.",
            experiment.line,
            experiment.experiment_id,
        )


def key_of_experiment(experiment: Experiment) -> ExperimentKey:
    """What names an experiment within its centre."""
    procedure = experiment.procedure
    return ExperimentKey(
        experiment.experiment_id, experiment.sequence_id, procedure.procedure_id if procedure is not None else None
    )
