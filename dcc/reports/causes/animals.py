"""The faces of the rules on specimens, lines and experiments: what each cause is known by, and who must act."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from dcc.reports.causes.cause import Actor
from dcc.reports.causes.grouping import VALUE, Face, pattern
from dcc.reports.languages.marking import mark

_BY_VALUE: Final = (VALUE,)

_DATES: Final = mark("Correct the dates in the source system and export the data again.")
_PIPELINE: Final = mark("Correct the pipeline: IMPReSS lists those that exist. Identifiers are compared to the letter.")
_PROJECT: Final = mark(
    "Correct the project's name, which is compared to the letter; a new project the Data Coordination Centre registers."
)
_STATUS: Final = mark("Use a registered status code, which begins as the message says.")

UNREGISTERED_CODE: Final = Face(
    mark("The status code '{code}' is not registered"),
    _STATUS,
    Actor.CENTRE,
    ("code",),
    pattern("The status ... has no registered code: <'code'>. Use one of ..."),
)
MISPLACED_CODE: Final = Face(
    mark("The status code of '{status}' is meant for {meant}"),
    _STATUS,
    Actor.CENTRE,
    ("status", "meant"),
    re.compile(
        r"The status ['\"](?P<status>[^'\":]*).* has a code for (?P<meant>.*), not for .*\. Use one of .*", re.DOTALL
    ),
)
OTHER_CODE: Final = Face(mark("Status codes are not registered"), _STATUS, Actor.CENTRE)

FACES_OF_ANIMALS: Final[Mapping[str, tuple[Face, ...]]] = {
    "S1": (
        Face(
            mark("Baseline animals have neither a strainID nor a parental strain"),
            mark("Give the MGI id of their strain, such as MGI:2159965."),
            Actor.CENTRE,
        ),
    ),
    "S2": (
        Face(
            mark("The strain '{value}' is not known"),
            mark("Correct the strainID, which is an MGI id such as MGI:2159965; MGI registers new strains."),
            Actor.REGISTRY,
            _BY_VALUE,
        ),
    ),
    "S3": (
        Face(
            mark("Animals that are no baseline have no colonyID"),
            mark("Give the id of their colony."),
            Actor.CENTRE,
        ),
    ),
    "S4": (
        Face(
            mark("The colony '{value}' is not registered"),
            mark(
                "Correct its id, which is compared to the letter, or have the colony registered. When it is, "
                "the next session clears this: nothing need be submitted again."
            ),
            Actor.REGISTRY,
            _BY_VALUE,
        ),
    ),
    "S5": (
        Face(
            mark("The status of the colony '{value}' does not permit phenotyping: {status}"),
            mark("Have the colony's status brought up to date where it is registered, or correct the colonyID."),
            Actor.REGISTRY,
            (VALUE, "status"),
            pattern("The colony ... has the status <status...>, which does not permit phenotyping. It must be ..."),
        ),
        Face(
            mark("The status of the colony '{value}' does not permit phenotyping"),
            mark("Have the colony's status brought up to date where it is registered, or correct the colonyID."),
            Actor.REGISTRY,
            _BY_VALUE,
        ),
    ),
    "S6": (
        Face(
            mark("It is not known what the centre {value} is called where colonies are registered ({registered})"),
            mark("The Data Coordination Centre has the platform learn the centre's name there."),
            Actor.DCC,
            (VALUE, "registered"),
            pattern("Whether ... could not be checked: it is registered for <registered...>, and it is not known ..."),
        ),
        Face(
            mark("The colony '{colony}' was produced by {registered}, not by {value}"),
            mark("Correct productionCentre, or the colonyID."),
            Actor.CENTRE,
            (VALUE, "colony", "registered"),
            pattern("The colony <'colony'> of ... was produced by <registered...>, not by ..."),
        ),
        Face(
            mark("Colonies were not produced by {value}"),
            mark("Correct productionCentre, or the colonyID."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "S7": (Face(mark("Dates of birth are in the future"), _DATES, Actor.CENTRE),),
    "X13": (
        Face(
            mark("Animals have a blank specimenID"),
            mark("Give each animal an id of its own, and name it by that in its experiments."),
            Actor.CENTRE,
        ),
    ),
    "X14": (Face(mark("Dates of birth are before 1980"), _DATES, Actor.CENTRE),),
    "S8": (
        Face(
            mark("Animals of the colony '{colony}' were born before it was made on {made}"),
            mark("Correct the dates of birth or the colonyID, or the day on which the colony is registered as made."),
            Actor.CENTRE,
            ("colony", "made"),
            pattern("The date of birth of ..., before its colony <'colony'> was made on <made>. Correct ..."),
        ),
        Face(mark("Animals were born before their colonies were made"), _DATES, Actor.CENTRE),
    ),
    "S9": (
        Face(
            mark("'{value}' is no DPC stage"),
            mark("Write a number from 0 to less than 20, such as 12.5 or E12.5."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "S10": (
        Face(
            mark("'{value}' is no Theiler stage"),
            mark("Write a whole number from 1 to 26, such as 20 or TS20a."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "S11": (UNREGISTERED_CODE, MISPLACED_CODE, OTHER_CODE),
    "S12": (Face(mark("The project '{value}' is not known"), _PROJECT, Actor.CENTRE, _BY_VALUE),),
    "S14": (
        Face(
            mark("Related animals have not been submitted"),
            mark("This clears when they are submitted. Nothing need be submitted again."),
            Actor.NOBODY,
        ),
    ),
    "E1": (Face(mark("The pipeline '{value}' does not exist in IMPReSS"), _PIPELINE, Actor.CENTRE, _BY_VALUE),),
    "E2": (Face(mark("The project '{value}' is not known"), _PROJECT, Actor.CENTRE, _BY_VALUE),),
    "E3": (
        Face(
            mark("Centre elements hold no housing, line or experiment"),
            mark("Leave such elements out, or fill them."),
            Actor.CENTRE,
        ),
    ),
    "E4": (
        Face(
            mark("Animals of experiments have not been submitted"),
            mark(
                "This clears when the animals arrive: nobody has to submit the experiments again. If they do not, "
                "look whether the documents with them failed, and whether the ids are the same in both."
            ),
            Actor.NOBODY,
        ),
    ),
    "E5": (
        Face(
            mark("Experiments have neither a procedure nor a status code"),
            mark("Give their results, or say with a status code why there are none."),
            Actor.CENTRE,
        ),
    ),
    "E6": (
        Face(
            mark("Status codes are empty"),
            mark("Give a code, or leave the element out."),
            Actor.CENTRE,
            (),
            pattern("The status code is empty. ..."),
        ),
        UNREGISTERED_CODE,
        MISPLACED_CODE,
        OTHER_CODE,
    ),
    "E7": (
        Face(
            mark("The colonyID of lines is empty"),
            mark("Give the id of the colony."),
            Actor.CENTRE,
            (),
            pattern("The colonyID ... of the line is empty. ..."),
        ),
        Face(
            mark("The colony '{value}' of lines is not registered"),
            mark("Correct its id, which is compared to the letter, or have the colony registered."),
            Actor.REGISTRY,
            _BY_VALUE,
        ),
    ),
    "E8": (
        Face(
            mark("Dates of experiments are in the future"),
            _DATES,
            Actor.CENTRE,
            (),
            pattern("The date of experiment ..., in the future. ..."),
        ),
        Face(mark("Experiments were done before their animals were born"), _DATES, Actor.CENTRE),
    ),
    "X1": (
        Face(
            mark("The status {code} says nothing without a text"),
            mark("Write why after the code and a colon."),
            Actor.CENTRE,
            ("code",),
            pattern("The status ... says nothing without a text: write <code>:and why."),
        ),
        Face(
            mark("Status codes lack the text that they ask for"),
            mark("Write why after the code and a colon."),
            Actor.CENTRE,
        ),
    ),
    "X3": (Face(mark("The pipeline '{value}' does not exist in IMPReSS"), _PIPELINE, Actor.CENTRE, _BY_VALUE),),
    "X4": (
        Face(
            mark("Animals with the phenotypingCentre '{value}' stand under another centre"),
            mark("Correct phenotypingCentre, or have them stand under the centre that phenotyped them."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "X5": (
        Face(
            mark("Data of the centre '{value}' are in documents named after another"),
            mark("Submit the data of each centre in documents of its own."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "X6": (
        Face(
            mark("Baseline animals have the zygosity '{value}'"),
            mark("Baseline animals are wild type: correct zygosity or isBaseline."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "X7": (
        Face(
            mark("Baseline animals are of the mutant colony '{value}'"),
            mark("Correct isBaseline or the colonyID."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "X8": (
        Face(
            mark("Mothers are not female, or fathers not male"),
            mark("Correct the relationship or the gender."),
            Actor.CENTRE,
        ),
    ),
    "X9": (
        Face(
            mark("The parental strains of a level do not sum to 100 %"),
            mark("Correct the percentages, or give the strains that are missing."),
            Actor.CENTRE,
        ),
    ),
}
"""Of each rule its faces, the last of which takes what none of the others does."""
