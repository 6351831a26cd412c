"""The faces of the rules on procedures, parameters and values: what each cause is known by, and who must act."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dcc.reports.causes.animals import MISPLACED_CODE, OTHER_CODE, UNREGISTERED_CODE
from dcc.reports.causes.cause import Actor
from dcc.reports.causes.grouping import VALUE, Face, pattern
from dcc.reports.languages.marking import mark

_BY_VALUE: Final = (VALUE,)
_BY_PARAMETER: Final = ("parameter",)
_BOTH: Final = ("parameter", VALUE)

_STATUS_OR_VALUE: Final = mark("Give a value, or a parameterStatus that says why there is none.")
_TEXT_AFTER: Final = mark("Write why after the code and a colon.")
_INCREMENTS: Final = mark(
    "Submit all increments that IMPReSS lists, each with an incrementStatus where there is no value."
)
_LISTED: Final = mark("Use the increments that IMPReSS lists for this parameter.")
_READ: Final = mark(
    "Write the whole value as the type asks: numbers with a point and no unit, dates such as 2013-10-31, times with "
    "their zone."
)

_TOO_FEW: Final = Face(
    mark("{parameter} has fewer than the {minimum} values that it needs"),
    _INCREMENTS,
    Actor.CENTRE,
    ("parameter", "minimum"),
    pattern("The parameter <parameter> has <number> values and needs at least <minimum>. ..."),
)
_NOT_LISTED: Final = Face(
    mark("{parameter}: the increment '{value}' is not listed"),
    _LISTED,
    Actor.CENTRE,
    _BOTH,
    pattern("The incrementValue ... of <parameter> is none of those that IMPReSS lists: ..."),
)
_RETIRED_INCREMENT: Final = Face(
    mark("{parameter}: IMPReSS has retired the increment '{value}'"),
    _LISTED,
    Actor.CENTRE,
    _BOTH,
    pattern("The incrementValue ... of <parameter> is one that IMPReSS has retired: ..."),
)
_MISSING: Final = Face(
    mark("{parameter} lacks the increments {value}"),
    _INCREMENTS,
    Actor.CENTRE,
    _BOTH,
    pattern("The parameter <parameter> lacks the increments ..."),
)
_ILL_TYPED: Final = Face(
    mark("{parameter}: increments do not read as {type}"),
    mark("Write the incrementValue as the type asks: datetime with its zone, float with a point, repeat from 0 up."),
    Actor.CENTRE,
    ("parameter", "type"),
    pattern("The incrementValue ... of <parameter> does not read as <type>."),
)
_OTHER_INCREMENTS: Final = Face(mark("Increments are not those that IMPReSS lists"), _LISTED, Actor.CENTRE)

FACES_OF_PROCEDURES: Final[Mapping[str, tuple[Face, ...]]] = {
    "P1": (
        Face(
            mark("The procedure '{value}' does not belong to the pipeline {pipeline}"),
            mark(
                "Correct the procedure, mind its version, or submit it in its own pipeline. Nothing in it was checked."
            ),
            Actor.CENTRE,
            (VALUE, "pipeline"),
            pattern(
                "The procedure ... does not belong to the pipeline <pipeline...>: its content was not checked. ..."
            ),
        ),
        Face(
            mark("The procedure '{value}' does not belong to its pipeline"),
            mark(
                "Correct the procedure, mind its version, or submit it in its own pipeline. Nothing in it was checked."
            ),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "P2": (
        Face(
            mark("{procedure} lacks required parameters: {value}"),
            mark("Submit them, or each with a parameterStatus that says why there is no value."),
            Actor.CENTRE,
            ("procedure", VALUE),
            pattern("The procedure <procedure...> lacks required parameters: ..."),
        ),
        Face(
            mark("Procedures lack required parameters: {value}"),
            mark("Submit them, or each with a parameterStatus that says why there is no value."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "P3": (
        Face(
            mark("The parameter '{value}' does not belong to {procedure}"),
            mark("Correct its identifier, mind the version, or leave it out."),
            Actor.CENTRE,
            (VALUE, "procedure"),
            pattern("The parameter ... does not belong to the procedure <procedure>. Correct ..."),
        ),
        Face(
            mark("The parameter '{value}' does not belong to its procedure"),
            mark("Correct its identifier, mind the version, or leave it out."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "P4": (
        Face(
            mark("The parameterID '{value}' has blanks around it"),
            mark("Remove the blanks."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "P5": (
        Face(
            mark("{parameter} is submitted as {value} and is a {type}"),
            mark("Submit it as the element that IMPReSS gives it."),
            Actor.CENTRE,
            ("parameter", VALUE, "type"),
            pattern("The parameter <parameter> is submitted as ... and is a <type>. Submit ..."),
        ),
        Face(
            mark("Parameters are submitted as {value} and are of another type"),
            mark("Submit it as the element that IMPReSS gives it."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "P6": (
        Face(
            mark("{value} is there several times in one procedure"),
            mark("Submit it once, or number the repeats with sequenceID."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "P7": (UNREGISTERED_CODE, MISPLACED_CODE, OTHER_CODE),
    "P8": (
        Face(
            mark("{parameter} has neither a value nor a parameterStatus"),
            _STATUS_OR_VALUE,
            Actor.CENTRE,
            _BY_PARAMETER,
            pattern("The parameter <parameter...> has neither a value nor a parameterStatus. ..."),
        ),
        Face(mark("Parameters have neither a value nor a parameterStatus"), _STATUS_OR_VALUE, Actor.CENTRE),
    ),
    "P9": (
        Face(
            mark("IMPReSS gives {parameter} the type '{value}', which is not known here"),
            mark("The Data Coordination Centre has IMPReSS corrected, or the platform learn the type."),
            Actor.DCC,
            _BOTH,
            pattern("Values of <parameter> could not be checked: IMPReSS gives them the type ..."),
        ),
        Face(
            mark("Values of {parameter} do not read as {type}"),
            _READ,
            Actor.CENTRE,
            ("parameter", "type"),
            pattern("The value ... of <parameter> does not read as <type>: ..."),
        ),
        Face(mark("Values do not read as their type"), _READ, Actor.CENTRE),
    ),
    "P10": (
        Face(
            mark("{parameter}: '{value}' is none of its options"),
            mark("Use an option that IMPReSS lists for this parameter, to the letter."),
            Actor.CENTRE,
            _BOTH,
            pattern("The value ... of <parameter> is none of its <number> options...."),
        ),
        Face(
            mark("{parameter}: IMPReSS has retired the option '{value}'"),
            mark("Use an option that is in use."),
            Actor.CENTRE,
            _BOTH,
            pattern("The value ... of <parameter> is an option that IMPReSS has retired."),
        ),
        Face(
            mark("'{value}' is no option of its parameter"),
            mark("Use an option that IMPReSS lists for this parameter, to the letter."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "P11": (
        Face(
            mark("{parameter} is in {expected}, not in '{value}'"),
            mark("Convert the values, or correct the unit."),
            Actor.CENTRE,
            ("parameter", VALUE, "expected"),
            pattern("The unit ... of <parameter> is wrong: the parameter is in <expected...>. Convert ..."),
        ),
        Face(
            mark("{parameter} has no unit, and is submitted in '{value}'"),
            mark("Leave the unit out."),
            Actor.CENTRE,
            _BOTH,
            pattern("The unit ... of <parameter> is wrong: the parameter has no unit. ..."),
        ),
        Face(
            mark("The unit '{value}' is not that of its parameter"),
            mark("Convert the values, or correct the unit."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "P12": (
        Face(
            mark("{parameter} has an empty term"),
            mark("Give the term, or a parameterStatus."),
            Actor.CENTRE,
            _BY_PARAMETER,
            pattern("The parameter <parameter> has an empty term. ..."),
        ),
        Face(
            mark("{parameter}: IMPReSS does not list the term '{value}'"),
            mark("Correct the term's id, or have IMPReSS list it for this parameter."),
            Actor.REGISTRY,
            _BOTH,
            pattern("The term ... of <parameter> is none of the <number> that IMPReSS lists. ..."),
        ),
        Face(
            mark("{parameter}: terms do not begin with an id such as MP:0001262"),
            mark("Write the term's id before its name."),
            Actor.CENTRE,
            _BY_PARAMETER,
            pattern("The term ... of <parameter> does not begin with an id such as ..."),
        ),
        Face(mark("Ontology terms are not those that IMPReSS lists"), mark("Correct the terms."), Actor.CENTRE),
    ),
    "P13": (
        Face(
            mark("{parameter} has neither values nor a parameterStatus"),
            _STATUS_OR_VALUE,
            Actor.CENTRE,
            _BY_PARAMETER,
            pattern("The parameter <parameter...> has neither values nor a parameterStatus. ..."),
        ),
        Face(mark("Series have neither values nor a parameterStatus"), _STATUS_OR_VALUE, Actor.CENTRE),
    ),
    "P14": (
        Face(
            mark("The incrementValue of series values is empty"),
            mark("Say which increment each value is for."),
            Actor.CENTRE,
            (),
            pattern("The incrementValue is empty. ..."),
        ),
        Face(
            mark("Series values are empty and have no incrementStatus"),
            mark("Give a value, or an incrementStatus that says why there is none."),
            Actor.CENTRE,
            (),
            pattern("The value for increment ... is empty and has no incrementStatus. ..."),
        ),
        Face(
            mark("Series values have an incrementStatus too"),
            mark("Give the value or the incrementStatus, not both."),
            Actor.CENTRE,
        ),
    ),
    "P15": (_TOO_FEW, _OTHER_INCREMENTS),
    "P16": (_NOT_LISTED, _RETIRED_INCREMENT, _MISSING, _OTHER_INCREMENTS),
    "P17": (_ILL_TYPED, _OTHER_INCREMENTS),
    "P18": (_TOO_FEW, _NOT_LISTED, _RETIRED_INCREMENT, _MISSING, _ILL_TYPED, _OTHER_INCREMENTS),
    "P19": (
        Face(
            mark("Media are associated with '{value}', which is not submitted with them"),
            mark("Submit that parameter in the same procedure, or correct the association."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "P20": (
        Face(
            mark("URIs of media are no absolute URLs"),
            mark("Write URLs that begin with ftp://, sftp://, http:// or https://."),
            Actor.CENTRE,
            (),
            pattern("The URI ... is no absolute URL. ..."),
        ),
        Face(
            mark("The file type '{value}' is no known media type"),
            mark("Write a media type such as image/jpeg."),
            Actor.CENTRE,
            _BY_VALUE,
        ),
    ),
    "X2": (
        Face(
            mark("The status {code} says nothing without a text"),
            _TEXT_AFTER,
            Actor.CENTRE,
            ("code",),
            pattern("The status ... says nothing without a text: write <code>:and why."),
        ),
        Face(mark("Status codes lack the text that they ask for"), _TEXT_AFTER, Actor.CENTRE),
    ),
    "X10": (
        Face(
            mark("Values of {parameter} are outside of the range for quality control, {range}"),
            mark(
                "Look whether these values are right: units, typing errors, a wrong animal. Correct those that are not."
            ),
            Actor.CENTRE,
            ("parameter", "range"),
            pattern("The value ... of <parameter> is outside of its range for quality control, <range...>."),
        ),
        Face(
            mark("Values are outside of their range for quality control"),
            mark(
                "Look whether these values are right: units, typing errors, a wrong animal. Correct those that are not."
            ),
            Actor.CENTRE,
        ),
    ),
    "X11": (Face(mark("IMPReSS has retired {value}"), mark("Use its successor."), Actor.CENTRE, _BY_VALUE),),
    "X12": (
        Face(
            mark("{parameter}: increments are there more than once"),
            mark("Submit each increment once."),
            Actor.CENTRE,
            _BY_PARAMETER,
            pattern("The incrementValue ... of <parameter...> is there more than once."),
        ),
        Face(mark("Increments are there more than once"), mark("Submit each increment once."), Actor.CENTRE),
    ),
}
"""Of each rule its faces, the last of which takes what none of the others does."""
