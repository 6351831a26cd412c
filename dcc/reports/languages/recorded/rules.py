"""What integrity rules and the upload record of documents: the messages of `dcc/rules/*_rules.py`."""

from __future__ import annotations

from typing import Final

from dcc.reports.languages.marking import mark

SENTENCES: Final = (
    # Of specimens.
    mark("The baseline animal {specimen} has neither a strainID nor a parental strain. Give its strain's MGI id."),
    mark(
        "The strainID {strain} of the baseline animal {specimen} is no known strain. Give its MGI id, such as "
        "MGI:2159965."
    ),
    mark("The animal {specimen} is no baseline and has no colonyID. Give the id of its colony."),
    mark("The colony {colony} of {specimen} is not registered. Correct its id or have the colony registered."),
    mark(
        "The colony {colony} of {specimen} has the status {statuses}, which does not permit phenotyping. It must be "
        "one of: {permitted}."
    ),
    mark(
        "Whether {centre} produced the colony {colony} could not be checked: it is registered for {registered}, and it "
        "is not known what {same_centre} is called there."
    ),
    mark("The colony {colony} of {specimen} was produced by {registered}, not by {centre}. Correct productionCentre."),
    mark("The date of birth of {specimen} is {date}, in the future. Correct it."),
    mark("The date of birth of {specimen} is {date}, before {year}. Correct it."),
    mark("The specimenID is blank. Give the animal an id of its own, and name it by that in its experiments."),
    mark(
        "The date of birth of {specimen} is {date}, before its colony {colony} was made on {made}. Correct the date or "
        "the colony."
    ),
    mark(
        "The stage {stage} of {specimen} is no DPC stage. Write a number from 0 to less than 20, such as 12.5 or E12.5."
    ),
    mark(
        "The stage {stage} of {specimen} is no Theiler stage. Write a whole number from 1 to 26, such as 20 or TS20a."
    ),
    mark(
        "The project {project} of {specimen} is not known. Names are compared to the letter; correct it or have the "
        "project registered."
    ),
    mark(
        "The centre {centre} has an animal {specimen} {place}. Give each animal an id of its own, or submit changes in "
        "an archive of the edit folder."
    ),
    mark("The {relationship} {relative} of {specimen} is not known at the centre {centre}. Submit it too."),
    # Of centres, lines and experiments.
    mark(
        "The pipeline {pipeline} of the centre {centre} does not exist in IMPReSS: nothing below it was checked. "
        "Correct it."
    ),
    mark(
        "The project {project} of the centre {centre} is not known. Names are compared to the letter; correct it or "
        "have the project registered."
    ),
    mark("The centre {centre} holds no housing, line or experiment. Leave it out or fill it."),
    mark(
        "The specimen {specimen} of experiment {experiment} has not been submitted by {centre}. Submit it; this clears "
        "when it arrives."
    ),
    mark(
        "The experiment {experiment} has neither a procedure nor a status code. Give its results, or say with a status "
        "code why there are none."
    ),
    mark("The status code is empty. Give a code or leave the element out."),
    mark("The colonyID {colony} of the line is empty. Correct it or have the colony registered."),
    mark("The colonyID {colony} of the line is not registered. Correct it or have the colony registered."),
    mark("The date of experiment {experiment} is {date}, in the future. Correct it."),
    mark("The date of experiment {experiment} is {date}, before {specimen} was born on {birth}. Correct either date."),
    mark(
        "The centre {centre} has an experiment {experiment} of this procedure {place}. Number repeats with "
        "sequenceID, or submit changes in an archive of the edit folder."
    ),
    mark(
        "The centre {centre} has an experiment {experiment} with sequenceID {sequence} of this procedure {place}. "
        "Number repeats with sequenceID, or submit changes in an archive of the edit folder."
    ),
    # Of status codes.
    mark("The status {status} has no registered code: {code}. Use one of {first} and on."),
    mark("The status {status} has a code for {meant}, not for {takers}. Use one of {first} and on."),
    mark("The status {status} says nothing without a text: write {code}:and why."),
    # Of procedures and their parameters.
    mark(
        "The procedure {procedure} does not belong to the pipeline {pipeline}: its content was not checked. Mind its "
        "version."
    ),
    mark(
        "The procedure {procedure} lacks required parameters: {parameters}. Submit them, or each with a "
        "parameterStatus that says why there is no value."
    ),
    mark(
        "The parameter {parameter} does not belong to the procedure {procedure}. Correct its identifier or leave it "
        "out."
    ),
    mark("The parameterID {parameter} has blanks around it. Remove them."),
    mark("The parameter {parameter} is submitted as {submitted} and is a {type}. Submit it as that."),
    mark("The parameter {parameter} is there {number} times. Submit it once, or number the repeats with sequenceID."),
    mark(
        "The parameter {parameter} with sequenceID {sequence} is there {number} times. Submit it once, or number the "
        "repeats with sequenceID."
    ),
    # Of values, units and terms.
    mark("The parameter {parameter} has neither a value nor a parameterStatus. Give one of them."),
    mark("Values of {parameter} could not be checked: IMPReSS gives them the type {type}, which is not known here."),
    mark("The value {value} of {parameter} does not read as {type}: {reason}."),
    mark("The value {value} of {parameter} is none of its {number} options."),
    mark("The value {value} of {parameter} is none of its {number} options. The nearest is {nearest}."),
    mark("The value {value} of {parameter} is an option that IMPReSS has retired."),
    mark(
        "The unit {unit} of {parameter} is wrong: the parameter is in {expected_unit}. Convert the value, or correct "
        "the unit."
    ),
    mark("The unit {unit} of {parameter} is wrong: the parameter has no unit. Convert the value, or correct the unit."),
    mark("The parameter {parameter} has an empty term. Give the term, or a parameterStatus."),
    mark("The term {term} of {parameter} is none of the {number} that IMPReSS lists. Correct it."),
    mark("The term {term} of {parameter} does not begin with an id such as MP:0001262. Correct it."),
    # Of series.
    mark("The parameter {parameter} has neither values nor a parameterStatus. Give one of them."),
    mark("The incrementValue is empty. Say which increment the value is for."),
    mark("The value for increment {increment} is empty and has no incrementStatus. Give one of them."),
    mark("The value for increment {increment} has an incrementStatus too. Give one of them."),
    mark(
        "The parameter {parameter} has {number} values and needs at least {minimum}. Submit the others, each with an "
        "incrementStatus where there is no value."
    ),
    mark("The incrementValue {increment} of {parameter} is one that IMPReSS has retired: {permitted}."),
    mark("The incrementValue {increment} of {parameter} is none of those that IMPReSS lists: {permitted}."),
    mark(
        "The parameter {parameter} lacks the increments {increments}. Submit them, each with an incrementStatus where "
        "there is no value."
    ),
    mark("The incrementValue {increment} of {parameter} does not read as {type}."),
    # Of media.
    mark(
        "The media are associated with {parameter}, which is no simple or ontology parameter of this procedure here. "
        "Submit that parameter too, or correct the association."
    ),
    mark(
        "The media are associated with {parameter} with sequenceID {sequence}, which is no simple or ontology "
        "parameter of this procedure here. Submit that parameter too, or correct the association."
    ),
    mark("The URI {uri} is no absolute URL. Write one that begins with {schemes}."),
    mark("The file type {type} is no known media type. Write one such as image/jpeg."),
    # Added ones.
    mark("The pipeline {pipeline} of {specimen} does not exist in IMPReSS. Correct it."),
    mark(
        "The phenotypingCentre of {specimen} is {centre}, and it stands under the centre {other_centre}. Correct one "
        "of them."
    ),
    mark(
        "The centreID is {centre}, and the document is named after {other_centre}. Submit the data of each centre in "
        "documents of its own."
    ),
    mark("The baseline animal {specimen} is {zygosity}. Correct its zygosity or isBaseline."),
    mark("The baseline animal {specimen} is of the mutant colony {colony}. Correct one of them."),
    mark("The {relationship} {relative} of {specimen} is {genders}. Correct the relationship or the gender."),
    mark("The parental strains of {specimen} on level {level} sum to {total} %, not to 100 %."),
    mark("The value {value} of {parameter} is outside of its range for quality control, {lowest} to {highest}."),
    mark("The value {value} of {parameter} is outside of its range for quality control, {lowest} to."),
    mark("The value {value} of {parameter} is outside of its range for quality control, to {highest}."),
    mark("The value {value} of {parameter} is outside of its range for quality control, {limits}."),
    mark("{identifier} has been retired. Use its successor."),
    mark("The incrementValue {increment} of {parameter} is there more than once."),
    # Of checks.
    mark(
        "The rule {rule} broke down with a {error}, so that not everything was checked. This is a fault of the "
        "platform and not of the centre: report it, and have the document checked again."
    ),
    mark(
        "There are no reference data {name}: the rules {rules} were skipped. Load them, and check the document again."
    ),
    mark(
        "There are {number} findings more than the {recorded} that are recorded: {rules}. Correct those that are "
        "recorded, and submit the document again."
    ),
    mark("There are {number} findings more than the {listed} listed here. See dcc data findings."),
    # Of the upload.
    mark("{entity} is named before in this document; the first one counts. Name it once."),
    mark("{entity} is there already, by document {document}. Submit it for edit to change it."),
    mark(
        "{entity} is not there, so it cannot be edited. Check its ids, what was uploaded before, and whether the "
        "document names it twice."
    ),
    mark(
        "{entity} is not there, so it cannot be deleted. Check its ids, what was uploaded before, and whether the "
        "document names it twice."
    ),
    mark("{entity} still has experiment {experiment}. Delete these first."),
    mark("{entity} still has experiments {experiments} and {number} more. Delete these first."),
    mark("{entity} still has experiments {experiments}. Delete these first."),
    mark("{number} more findings of this rule are not listed. Correct those listed and submit all again."),
    mark(
        "A text of this {kind} has {length} characters and {column} holds {limit}: nothing of the {same_kind} was "
        "stored. Shorten it and submit it again."
    ),
    mark(
        "The document is of {date} and arrived after one of {newest} of the same centre was uploaded. It was applied "
        "last: check what it edits or deletes."
    ),
    mark(
        "It would replace or remove {entities}, and waits to be confirmed. See what it would change: dcc data plan "
        "{archive}. Then: dcc data confirm {same_archive} --reason ..., or leave it."
    ),
    mark(
        "The centreID is {owner}, and the archive is of centre {centre}. Nothing of the document was edited: for that "
        "{same_owner} has to delegate: {command}"
    ),
    mark(
        "The centreID is {owner}, and the archive is of centre {centre}. Nothing of the document was deleted: for that "
        "{same_owner} has to delegate: {command}"
    ),
    mark(
        "The centreID is {owner}, and the archive is of centre {centre}. The document waits until somebody confirms "
        "it, or {same_owner} delegates: {command}"
    ),
    mark(
        "The centreID is {owner}, and the archive is of centre {centre}. The document waits until somebody confirms "
        "it, or {same_owner} delegates: {command}. See what it would change: dcc data plan {archive}. Then: dcc data "
        "confirm {same_archive} --reason ..., or leave it."
    ),
    mark(
        "The centreID is {owner}, and the archive is of centre {centre}. Nothing of the document was edited: for that "
        "{same_owner} has to delegate. If it is meant, ask your data wrangler to have that recorded."
    ),
    mark(
        "The centreID is {owner}, and the archive is of centre {centre}. Nothing of the document was deleted: for that "
        "{same_owner} has to delegate. If it is meant, ask your data wrangler to have that recorded."
    ),
    mark(
        "The centreID is {owner}, and the archive is of centre {centre}. The document waits until somebody confirms "
        "it, or {same_owner} delegates. If it is meant, ask your data wrangler."
    ),
    mark(
        "It has data of centre {owners}, and waits to be confirmed. See what it would change: dcc data plan {archive}. "
        "Then: dcc data confirm {same_archive} --reason ..., or turn it down: dcc data undo {next_archive} --reason ..."
    ),
    mark(
        "It has data of centre {owners}, and waits to be confirmed. See what it would change: dcc data plan {archive}. "
        "Then: dcc data confirm {same_archive} --reason ..., or turn it down: dcc data undo {next_archive} --reason "
        "... For all such documents: {command}"
    ),
    mark("Warning: {problem}"),
    mark("Not checked: {problem}"),
)

PARTS: Final = (
    mark("on line {line} too"),
    mark("in document {document} already"),
    mark("specimens"),
    mark("lines and experiments"),
    mark("parameters and their increments"),
    mark("something else"),
    mark("it is no whole number"),
    mark("it is beyond the range of whole numbers"),
    mark("it is no finite number"),
    mark("it is none of true, false, 1 and 0"),
    mark("it is not written yyyy-mm-dd"),
    mark("it is not in the calendar"),
    mark("it is not written hh:mm:ss"),
    mark("it is no time of day"),
    mark("it is not written yyyy-mm-ddThh:mm:ss with Z or an offset such as +0100 after it"),
    mark("its offset from UTC is more than 14 hours"),
    mark("there are blanks around it"),
    mark("a comma separates thousands, in groups of three digits; write a decimal point"),
    mark("Specimen {specimen_id} of {centre}"),
    mark("Experiment {experiment_id} of {centre} ({of_procedure})"),
    mark("The line of colony {colony_id} of {centre} ({of_procedure})"),
    mark("The housing of {centre} (procedure {procedure}, pipeline {pipeline}, last updated {updated})"),
    mark("at no date"),
    mark("procedure {procedure}, sequence {sequence}"),
    mark("procedure {procedure}"),
    mark("no procedure, sequence {sequence}"),
    mark("no procedure"),
    mark("specimen"),
    mark("experiment"),
    mark("line"),
    mark("housing"),
    mark("centre element"),
)
"""What may stand for a value in a sentence."""

PART_NAMES: Final = frozenset(
    {
        "place",
        "meant",
        "takers",
        "reason",
        "limits",
        "entity",
        "of_procedure",
        "updated",
        "kind",
        "same_kind",
        "problem",
    }
)

FROM_THE_END: Final = frozenset({"problem", "entity", "specimen_id", "experiment_id", "colony_id"})
"""Names of what may hold the words that follow it: names without quotes around them, and whole sentences."""
