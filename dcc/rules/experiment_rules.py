"""What a centre, line or experiment must satisfy, but for its status."""

from __future__ import annotations

from collections.abc import Iterator

from dcc.declarations import Declaration
from dcc.documents.contents import Block, Experiment, Line
from dcc.messages import mark
from dcc.reference.impress import Impress
from dcc.reference.snapshots import Colonies, Projects
from dcc.rules.context import Context, latest_day
from dcc.rules.elements import BlockEnd, runs_of
from dcc.rules.findings import Fault, fault
from dcc.rules.registry import rule
from dcc.rules.values import day_of, is_blank
from dcc.vocabulary import Actor, Severity


@rule(
    "E1",
    Block,
    severity=Severity.FATAL,
    message=mark(
        "The pipeline '{value}' of the centre {centre} does not exist in IMPReSS: nothing below it was checked. "
        "Correct it."
    ),
    cause=mark("The pipeline '{value}' does not exist in IMPReSS"),
    remedy=mark("Correct the pipeline: IMPReSS lists those that exist. Identifiers are compared exactly."),
    known_as="invalidPipelineID",
    needs=Impress,
)
def pipeline_exists(block: Block, at: Context) -> Iterator[Fault]:
    """A centre's pipeline exists in IMPReSS; nothing in the centre is checked otherwise."""
    if block.pipeline is not None and block.pipeline not in at.impress.pipelines:
        yield fault(block.line, block.pipeline, centre=block.centre)


@rule(
    "E2",
    Block,
    severity=Severity.WARNING,
    message=mark(
        "The project '{value}' of the centre {centre} is not known. Names are compared exactly; correct "
        "it or have the project registered."
    ),
    cause=mark("The project '{value}' is not known"),
    remedy=mark(
        "Correct the project's name, which is compared exactly; a new project the Data Coordination Centre registers."
    ),
    known_as="centreProcedureAttributes_ProjectNotFound",
    needs=Projects,
)
def project_of_centre_is_known(block: Block, at: Context) -> Iterator[Fault]:
    """A centre's project is known."""
    if block.project is not None and block.project not in at.projects.names:
        yield fault(block.line, block.project, centre=block.centre)


@rule(
    "E3",
    BlockEnd,
    message=mark("The centre {centre} holds no housing, line or experiment. Leave it out or fill it."),
    cause=mark("Centre elements hold no housing, line or experiment"),
    remedy=mark("Leave such elements out, or fill them."),
    known_as="noExperiments",
)
def centre_holds_something(end: BlockEnd, at: Context) -> Iterator[Fault]:
    """A centre holds at least one line, experiment or housing."""
    if end.entities == 0:
        yield fault(end.block.line, centre=end.block.centre)


@rule(
    "E4",
    Experiment,
    message=mark(
        "The specimen '{value}' of experiment '{experiment}' has not been submitted by {centre}. This clears when it "
        "arrives."
    ),
    cause=mark("Animals of experiments have not been submitted"),
    remedy=mark(
        "This clears when the animals arrive: nobody has to submit the experiments again. If they do not, look whether "
        "the ids are the same in both. If the document with them failed, the report names it, and the centre corrects "
        "it."
    ),
    acts=Actor.NOBODY,
    known_as="testSpecimenSubmittedToDCC",
    needs_other_documents=True,
    awaits_animals=True,
)
def specimens_are_uploaded(experiment: Experiment, at: Context) -> Iterator[Fault]:
    """Every specimenID of an experiment has been uploaded for that centre."""
    for number, specimen_id in enumerate(experiment.specimen_ids, 1):
        if specimen_id not in at.answers.specimens:
            below, named = f"/specimenID[{number}]", experiment.experiment_id
            yield fault(experiment.line, specimen_id, below=below, experiment=named, centre=at.block.centre)


@rule(
    "E5",
    Experiment,
    message=mark(
        "The experiment '{experiment}' has neither a procedure nor a status code. Give its results, or a "
        "status code that says why they are missing."
    ),
    cause=mark("Experiments have neither a procedure nor a status code"),
    remedy=mark("Give their results, or a status code that says why they are missing."),
    known_as=("nullStatusCodenullProcedures", "linenullStatusCodenullProcedures"),
)
def experiment_has_a_procedure(experiment: Experiment, at: Context) -> Iterator[Fault]:
    """An experiment without a status code has a procedure; a line always has one, by the schema."""
    if experiment.procedure is None and not experiment.status_codes:
        yield fault(experiment.line, experiment=experiment.experiment_id)


@rule(
    "E7",
    Line,
    message=mark("The colonyID '{value}' of the line is not registered. Correct it or have the colony registered."),
    cause=mark("The colony '{value}' of lines is not registered"),
    remedy=mark(
        "Correct its id, which is compared exactly, or have the colony registered. An edit finds only lines of the "
        "same colony: where its id is wrong, delete the old line, and add the new."
    ),
    acts=Actor.REGISTRY,
    cases={
        "empty": Declaration(
            message=mark("The colonyID '{value}' of the line is empty. Correct it or have the colony registered."),
            cause=mark("The colonyID of lines is empty"),
            remedy=mark("Give the id of the colony: delete the line without one, and add it again."),
        ),
    },
    known_as="line_colony_no_found",
    needs=Colonies,
)
def colony_of_line_is_registered(line: Line, at: Context) -> Iterator[Fault]:
    """The colonyID of a line without a status code is not empty and is registered."""
    if line.status_codes or at.colonies.find(line.colony_id):
        return
    yield fault(line.line, line.colony_id, "empty" if is_blank(line.colony_id) else "")


@rule(
    "E8",
    Experiment,
    message=mark("The date of experiment '{experiment}' is {value}, in the future. Correct it."),
    cause=mark("Dates of experiments are in the future"),
    remedy=mark("Correct the dates in the source system and export the data again."),
    cases={
        "before_birth": Declaration(
            message=mark(
                "The date of experiment '{experiment}' is {value}, before '{specimen}' was born on {birth}. Correct "
                "either date."
            ),
            cause=mark("Experiments were done before their animals were born"),
            remedy=mark("Correct the dates in the source system and export the data again."),
        ),
    },
    known_as="experimentAttributes_DateNull",
    needs_other_documents=True,
)
def date_is_within_the_lives_of_the_specimens(experiment: Experiment, at: Context) -> Iterator[Fault]:
    """The dateOfExperiment is not in the future, a day allowed for time zones, nor before a specimen's birth."""
    day = day_of(experiment.date)
    named = experiment.experiment_id
    if day > latest_day(at.document.today):
        yield fault(experiment.line, experiment.date, experiment=named)
        return
    for specimen_id in experiment.specimen_ids:
        known = at.answers.specimens.get(specimen_id, ())
        births = [specimen.dob for specimen in known if specimen.dob is not None]
        if births and len(births) == len(known) and day < min(map(day_of, births)):
            birth = min(births, key=day_of)
            yield fault(
                experiment.line, experiment.date, "before_birth", experiment=named, specimen=specimen_id, birth=birth
            )


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
    if at.document.centre and block.centre != at.document.centre:
        yield fault(block.line, block.centre, centre=at.document.centre)


@rule(
    "X17",
    Experiment,
    severity=Severity.WARNING,
    message=mark(
        "The experiments '{experiment}' and '{other}' ({document}) are both {procedure} on '{value}' on {day}. Delete "
        "or edit the wrong one, or number meant repeats by sequenceID."
    ),
    cause=mark("Animals have {procedure} twice on one day"),
    remedy=mark(
        "Delete or edit the wrong experiments; both count until then. If repeats are meant, number them by sequenceID. "
        "An edit finds only experiments with the same sequenceID: delete the old one, and add the new."
    ),
    needs_other_documents=True,
)
def procedure_is_done_once_a_day(experiment: Experiment, at: Context) -> Iterator[Fault]:
    """An animal has a procedure once a day, unless the sequenceIDs differ."""
    named = experiment.experiment_id
    for number, run in enumerate(runs_of(experiment), 1):
        known = at.answers.runs.get(run, {})
        other = next((name for name in known if name != named), None)
        # What was refused, or is of a former version, is not among those known.
        if other is not None and named in known:
            yield fault(
                experiment.line,
                run.specimen_id,
                below=f"/specimenID[{number}]",
                experiment=named,
                other=other,
                document=known[other],
                procedure=run.procedure_id,
                day=run.day.isoformat(),
            )
