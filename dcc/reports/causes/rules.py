"""Every rule's faces: by what its findings are grouped, who must act, and what to do; those of the upload included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dcc.reports.causes.animals import FACES_OF_ANIMALS
from dcc.reports.causes.cause import Actor
from dcc.reports.causes.errors import ERROR_FACES
from dcc.reports.causes.grouping import VALUE, Face, pattern
from dcc.reports.causes.procedures import FACES_OF_PROCEDURES
from dcc.reports.languages.marking import mark
from dcc.rules.findings import MORE_RULE, REFERENCE_RULE

_ONCE: Final = mark("Name each of them once: the first one counts.")
_NEW_OR_EDIT: Final = mark(
    "Submit what is new in an archive of the add folder, and changes to what is there in one of the edit folder. If "
    "the same data were sent twice, nothing need be done: what came first stands."
)

_OWN_DATA_ONLY: Final = mark(
    "Nothing of them took effect. Submit data of your own centre only. If you act for centre {value}, it has to tell "
    "the Data Coordination Centre, which records that. Then submit again."
)
_MORE_OF_RULE: Final = Face(
    mark("There are more findings of this rule than are listed"),
    mark("Correct those that are listed, and submit the document again."),
    Actor.CENTRE,
    (),
    pattern("<number> more findings of this rule are not listed. ..."),
)
_TWICE: Final = Face(
    mark("Documents name the same thing twice"),
    _ONCE,
    Actor.CENTRE,
    (),
    pattern("... is named before in this document; the first one counts. ..."),
)
_TWICE_AS_FOUND: Final = Face(
    mark("Documents name the same thing twice"),
    _ONCE,
    Actor.CENTRE,
    (),
    pattern("The centre ... on line <number> too. ..."),
)
_THERE: Final = Face(
    mark("What is to be added is there already, by document {earlier}"),
    _NEW_OR_EDIT,
    Actor.CENTRE,
    ("earlier",),
    pattern("... is there already, by document <earlier>. ..."),
)
_THERE_AS_FOUND: Final = Face(
    mark("What is to be added is there already, by document {earlier}"),
    _NEW_OR_EDIT,
    Actor.CENTRE,
    ("earlier",),
    pattern("The centre ... in document <earlier> already. ..."),
)
_THERE_SOMEHOW: Final = Face(mark("What is to be added is there already"), _NEW_OR_EDIT, Actor.CENTRE)
_ADDED: Final = (_MORE_OF_RULE, _TWICE, _TWICE_AS_FOUND, _THERE, _THERE_AS_FOUND, _THERE_SOMEHOW)

_FACES_OF_UPLOADS: Final[Mapping[str, tuple[Face, ...]]] = {
    "S13": _ADDED,
    "E9": _ADDED,
    "Q1": (
        _MORE_OF_RULE,
        Face(
            mark("Texts are longer than the {limit} characters that {column} holds"),
            mark("Shorten them, and submit what has them again: nothing of it was stored."),
            Actor.CENTRE,
            ("column", "limit"),
            pattern("A text of this ... characters and <column> holds <limit>: nothing of the ..."),
        ),
        Face(
            mark("Texts are longer than the database can hold"),
            mark("Shorten them, and submit what has them again: nothing of it was stored."),
            Actor.CENTRE,
        ),
    ),
    "Q2": _ADDED,
    "Q3": (
        _MORE_OF_RULE,
        _TWICE,
        Face(
            mark("What is to be edited or deleted is not there"),
            mark("Check its ids and what was uploaded before; submit what is new in an archive of the add folder."),
            Actor.CENTRE,
        ),
    ),
    "Q4": (
        _MORE_OF_RULE,
        Face(
            mark("Animals that are to be deleted have experiments"),
            mark("Delete their experiments first, or in the same archive."),
            Actor.CENTRE,
        ),
    ),
    "Q5": (
        Face(
            mark("Documents came after newer ones of their centre"),
            mark("They were applied last: check what they edit or delete."),
            Actor.DCC,
        ),
    ),
    "Q6": (
        _MORE_OF_RULE,
        Face(
            mark("Additions have data of centre {value}, which is not their archive's"),
            mark(
                "Nothing of them was taken in yet. Ask centre {value}. Then confirm them with `dcc data confirm`, or "
                "record that it delegates with `dcc centre delegate {value} --to {archive}`, or turn them down with "
                "`dcc data undo`."
            ),
            Actor.DCC,
            (VALUE, "archive"),
            pattern("The centreID is ..., and the archive is of centre <archive>. The document waits ..."),
            mark("Nothing of them was taken in yet. The Data Coordination Centre asks centre {value}, and decides."),
        ),
        Face(
            mark("Edits or deletions have data of centre {value}, which is not their archive's"),
            mark(
                "Nothing of them took effect. Submit data of your own centre only. If you act for centre {value}, it "
                "has to tell the Data Coordination Centre, which records that with `dcc centre delegate {value} --to "
                "{archive}`. Then submit again."
            ),
            Actor.CENTRE,
            (VALUE, "archive"),
            pattern("The centreID is ..., and the archive is of centre <archive>. Nothing of the document was ..."),
            _OWN_DATA_ONLY,
        ),
        Face(
            mark("Edits or deletions have data of centre {value}, which is not their archive's"),
            _OWN_DATA_ONLY,
            Actor.CENTRE,
            (VALUE,),
        ),
    ),
    REFERENCE_RULE: (
        Face(
            mark("There are no reference data '{value}', so that rules were skipped"),
            mark("Load them with `dcc reference refresh`: the next session judges these documents again."),
            Actor.DCC,
            (VALUE,),
            told=mark("The Data Coordination Centre loads them: these documents are then judged again."),
        ),
    ),
    MORE_RULE: (
        Face(
            mark("There are more findings than are recorded"),
            mark("Correct those that are recorded, and submit the document again."),
            Actor.CENTRE,
        ),
    ),
}

RULE_FACES: Final[Mapping[str, tuple[Face, ...]]] = {**FACES_OF_ANIMALS, **FACES_OF_PROCEDURES, **_FACES_OF_UPLOADS}
"""Of every rule its faces; the last of each takes what none of the others does."""

ALL_FACES: Final[Mapping[str, tuple[Face, ...]]] = {**RULE_FACES, **ERROR_FACES}
"""The faces of every rule and error: its keys are the ids that causes have."""

_UNKNOWN_FACES: Final = (
    Face(
        mark("A rule that this version does not know found something"),
        mark("See the message, and `dcc rules list`."),
        Actor.CENTRE,
    ),
)


def faces_of(kind: str) -> tuple[Face, ...]:
    """The faces of a rule or error; of a rule that is gone, whose findings are there, one that says so."""
    return ALL_FACES.get(kind, _UNKNOWN_FACES)


NEEDING_MESSAGE: Final = tuple(
    sorted(rule for rule, faces in RULE_FACES.items() if any(face.needs_message for face in faces))
)
"""The rules whose findings cannot be grouped without their messages."""
