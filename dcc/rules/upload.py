"""The rules whose findings are made as a document is applied to the QC database.

S13 and E9 are the field's rules; the others are this platform's own:

* Q1 a text is longer than its column: what holds it is refused, never cut;
* Q2 a line or housing to be added is there already, or is named twice in the document;
* Q3 what should be edited or deleted is not there, or is named twice in the document;
* Q4 a specimen to be deleted still has experiments;
* Q5 the document is older than what is uploaded already of its centre (a warning: it is applied);
* Q6 the document has data of a centre that its archive does not speak for: an edit or delete is refused, an addition
  is held (a warning);
* Q7 the document is the same as one that stands (a warning: it is not applied again).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dcc.declarations import Declaration, code_of, declare, share_case
from dcc.messages import Message, mark, message
from dcc.rules.findings import MORE_RULE, REFERENCE_RULE
from dcc.vocabulary import Actor, EntityKind, Severity

SPECIMEN_EXISTS: Final = "S13"
"""The rule for specimens to be added that exist already, or are named twice in the document."""

EXPERIMENT_EXISTS: Final = "E9"
"""The same for experiments."""

HAS_EXPERIMENTS: Final = "Q4"
"""The rule for specimens to be deleted that still have experiments."""

LATE: Final = "Q5"
"""The rule for documents that come after newer ones of their centre."""

OWNERSHIP: Final = "Q6"
"""The rule for documents with data of a centre that their archive may not change."""

DUPLICATE: Final = "Q7"
"""The rule for documents that are the same as an applied one."""

NOT_STORED: Final = "Q1"
"""The rule under which nothing of an entity is stored."""

MORE_CASE: Final = "more"
"""The case, for all rules of the upload, with the number of further findings of a rule."""
TWICE_CASE: Final = "twice"
"""The case, for the rules of the upload, of an entity that a document names twice."""
THERE_CASE: Final = "there"
"""The case, for the rules of the upload, of an entity to be added that exists already."""

MORE: Final = Declaration(
    message=mark("This rule has more findings than are listed ({number}). Correct those listed and submit all again."),
    cause=mark("This rule has more findings than are listed"),
    remedy=mark("Correct those that are listed, and submit the document again."),
)
TWICE: Final = Declaration(
    message=mark("{entity} is named before in this document; the first one counts. Name it once."),
    cause=mark("Documents name the same thing twice"),
    remedy=mark(
        "The first one counts. If another one is right, submit that in an archive of the edit folder; if it is "
        "something else, under an id of its own."
    ),
    stays=True,
)
THERE: Final = Declaration(
    message=mark("{entity} is there already, by document {document}. Submit it for edit to change it."),
    cause=mark("The data to add are there already, from document {document}"),
    remedy=mark(
        "Submit new data in an archive of the add folder, and changes to earlier data in one of the edit "
        "folder. If the same data were sent twice, nothing has to be done: the first submission counts."
    ),
    stays=True,
)
_NOT_THERE: Final = Declaration(
    message=mark(
        "{entity} is not there, so it cannot be edited. Check its ids, what was uploaded before, and whether the "
        "document names it twice."
    ),
    cause=mark("The data to edit are not there"),
    remedy=mark(
        "Check the ids and the earlier uploads. Submit new data in an archive of the add folder; nothing has to be "
        "done about what is gone already. If nothing of the archive took effect, `dcc retry` applies it once the data "
        "are there."
    ),
    for_centre=mark(
        "Check the ids and the earlier uploads. Submit new data in an archive of the add folder; you need not do "
        "anything about what is gone already."
    ),
    stays=True,
)
_DELETED_NOT_THERE: Final = replace(
    _NOT_THERE,
    message=mark(
        "{entity} is not there, so it cannot be deleted. Check its ids, what was uploaded before, and whether the "
        "document names it twice."
    ),
    cause=mark("The data to delete are not there"),
)
_HELD_EXPERIMENTS: Final = Declaration(
    message=mark("{entity} still has experiments: {experiments}. Delete these first."),
    cause=mark("Animals to delete have experiments"),
    remedy=mark(
        "Delete their experiments too, and then the animals, both in one new archive or one after the other. If "
        "nothing of the archive took effect, `dcc retry` applies it once the experiments are gone."
    ),
    for_centre=mark(
        "Delete their experiments too, and then the animals, both in one new archive or one after the other."
    ),
    stays=True,
)
_MORE_EXPERIMENTS: Final = replace(
    _HELD_EXPERIMENTS,
    message=mark("{entity} still has experiments: {experiments} and {number} more. Delete these first."),
)
_TOO_LONG: Final = Declaration(
    message=mark(
        "A text of this {kind} has {length} characters and {column} holds {limit}: nothing of the {kind} was stored. "
        "Shorten it and submit it again."
    ),
    cause=mark("Texts are longer than the {limit} characters that {column} holds"),
    remedy=mark("Shorten them, and submit what has them again, in the same directory: nothing of it was stored."),
    cause_by=("column", "limit"),
    stays=True,
)
_LATE: Final = Declaration(
    message=mark(
        "The document is of {created}, and one of {newest} of the same centre was uploaded before it. It takes effect "
        "last: check what it edits or deletes."
    ),
    cause=mark("Documents came after newer ones of their centre"),
    remedy=mark("They take effect last: check what they edit or delete."),
    acts=Actor.DCC,
)
_OF_ANOTHER: Final = Declaration(
    message=mark(
        "The centreID is {value}, and the archive is of centre {archive}. The document waits until somebody confirms "
        "it, or {value} delegates. If it is meant, ask your data wrangler."
    ),
    cause=mark("Additions have data of centre {value}, which is not their archive's"),
    remedy=mark(
        "Nothing of them was taken in yet. Ask centre {value}. Then confirm them with `dcc data confirm`, or record "
        "that it delegates with `dcc centre delegate {value} --to {archive}`, or turn them down with `dcc data undo`."
    ),
    acts=Actor.DCC,
    cause_by=("value", "archive"),
    for_centre=mark("Nothing of them was taken in yet. The Data Coordination Centre asks centre {value}, and decides."),
)
_EDITS_ANOTHER: Final = Declaration(
    message=mark(
        "The centreID is {value}, and the archive is of centre {archive}. Nothing of the document was edited: for that "
        "{value} has to delegate. If it is meant, ask your data wrangler to have that recorded."
    ),
    cause=mark("Edits have data of centre {value}, which is not their archive's"),
    remedy=mark(
        "Nothing of them took effect. Submit data of your own centre only. If you act for centre {value}, it has to "
        "tell the Data Coordination Centre. That one records it with `dcc centre delegate {value} --to {archive}`, and "
        "takes the archive again with `dcc retry`."
    ),
    cause_by=("value", "archive"),
    for_centre=mark(
        "Nothing of them took effect. Submit data of your own centre only. If you act for centre {value}, it has to "
        "tell the Data Coordination Centre, which records that and takes the archive again."
    ),
    stays=True,
)
_DELETES_ANOTHER: Final = replace(
    _EDITS_ANOTHER,
    message=mark(
        "The centreID is {value}, and the archive is of centre {archive}. Nothing of the document was deleted: for "
        "that {value} has to delegate. If it is meant, ask your data wrangler to have that recorded."
    ),
    cause=mark("Deletions have data of centre {value}, which is not their archive's"),
)
_DUPLICATE: Final = Declaration(
    message=mark(
        "The document is the same as {document} of {archive}. It is not taken again: you need not do anything."
    ),
    cause=mark("Documents are the same as earlier ones"),
    remedy=mark("You need not do anything: they were taken with the first submission."),
    acts=Actor.NOBODY,
)
_NO_REFERENCE: Final = Declaration(
    message=mark(
        "The reference data '{value}' are missing: the rules {rules} were skipped. Load them, and check "
        "the document again."
    ),
    cause=mark("Rules were skipped: the reference data '{value}' are missing"),
    remedy=mark("Load them with `dcc reference refresh`: the next session judges these documents again."),
    acts=Actor.DCC,
    for_centre=mark("The Data Coordination Centre loads them: these documents are then judged again."),
)
_MORE_FOUND: Final = Declaration(
    message=mark(
        "The document has more findings ({number}) than those recorded ({recorded}): {rules}. They are recorded once "
        "others are gone."
    ),
    cause=mark("More findings than are recorded"),
    remedy=mark("This ends with the other causes: the findings are recorded once others are gone."),
    acts=Actor.NOBODY,
)


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """A rule: what it demands, its usual severity, and the reference data that it needs.

    `known_as` are its ids in the field's existing validator, `needs` names of reference data. `at_upload`: it is
    checked when the document is applied, and an entity that breaks it has no effect. `package` has the name and version
    of the package that adds it; None for the platform's own.
    """

    id: str
    severity: Severity
    demand: str
    known_as: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    at_upload: bool = False
    package: str | None = None


def _platform_rule(
    rule_id: str,
    severity: Severity,
    demand: str,
    says: Declaration,
    *,
    known_as: tuple[str, ...] = (),
    at_upload: bool = True,
    **cases: Declaration,
) -> RuleEntry:
    """A rule that is not checked on elements; declares its messages, also by case."""
    for case, declaration in {"": says, **cases}.items():
        declare(code_of(rule_id, case), declaration)
    return RuleEntry(rule_id, severity, demand, known_as, at_upload=at_upload)


PLATFORM_RULES: Final = (
    _platform_rule(
        SPECIMEN_EXISTS,
        Severity.ERROR,
        "A specimenID is unique within its centre, in the document and in what is uploaded, unless edited or deleted.",
        THERE,
    ),
    _platform_rule(
        EXPERIMENT_EXISTS,
        Severity.ERROR,
        "An experimentID with its sequenceID is unique within centre and procedure, unless edited or deleted.",
        THERE,
    ),
    _platform_rule("Q1", Severity.ERROR, "No text is longer than the database can hold.", _TOO_LONG),
    _platform_rule("Q2", Severity.ERROR, "A line or housing that is added is not there already.", THERE),
    _platform_rule(
        "Q3",
        Severity.ERROR,
        "What is edited or deleted is there, and is named once.",
        _NOT_THERE,
        deleted=_DELETED_NOT_THERE,
    ),
    _platform_rule(
        HAS_EXPERIMENTS,
        Severity.ERROR,
        "A specimen that is deleted has no experiments.",
        _HELD_EXPERIMENTS,
        many=_MORE_EXPERIMENTS,
    ),
    _platform_rule(LATE, Severity.WARNING, "A document comes before newer ones of its centre.", _LATE),
    _platform_rule(
        OWNERSHIP,
        Severity.ERROR,
        "A centreID is the centre of the archive's name, or one that has delegated to it.",
        _EDITS_ANOTHER,
        deleted=_DELETES_ANOTHER,
        held=_OF_ANOTHER,
    ),
    _platform_rule(DUPLICATE, Severity.WARNING, "A document is not the same as one that stands.", _DUPLICATE),
    _platform_rule(
        REFERENCE_RULE,
        Severity.UNCHECKED,
        "The reference data that rules need are present.",
        _NO_REFERENCE,
        known_as=("testImitsServiceFail",),
        at_upload=False,
    ),
    _platform_rule(
        MORE_RULE, Severity.ERROR, "No more is found in a document than is recorded.", _MORE_FOUND, at_upload=False
    ),
)
"""The rules of the upload and of the check itself."""

UPLOAD_RULES: Final = frozenset(rule.id for rule in PLATFORM_RULES if rule.at_upload)
"""The rules that are checked during the upload."""

share_case(MORE_CASE, MORE)
share_case(TWICE_CASE, TWICE)
share_case(THERE_CASE, THERE)


def describe(kind: EntityKind, key: Sequence[Any]) -> Message:
    """The entity's name in messages."""
    centre = key[0]
    if kind is EntityKind.SPECIMEN:
        return message(mark("Specimen {specimen_id} of {centre}"), specimen_id=key[1], centre=centre)
    if kind is EntityKind.HOUSING:
        return message(
            mark("The housing of {centre} (procedure {procedure}, pipeline {pipeline}, last updated {updated})"),
            centre=centre,
            procedure=key[1],
            pipeline=key[2],
            updated=message(mark("at no date")) if key[4] is None else str(key[4]),
        )
    run = _procedure(key[3], key[2])
    if kind is EntityKind.EXPERIMENT:
        experiment = mark("Experiment {experiment_id} of {centre} ({of_procedure})")
        return message(experiment, experiment_id=key[1], centre=centre, of_procedure=run)
    line = mark("The line of colony {colony_id} of {centre} ({of_procedure})")
    return message(line, colony_id=key[1], centre=centre, of_procedure=run)


def _procedure(procedure: str | None, sequence: str | None) -> Message:
    if sequence is None:
        known = message(mark("procedure {procedure}"), procedure=procedure)
        return message(mark("no procedure")) if procedure is None else known
    if procedure is None:
        return message(mark("no procedure, sequence {sequence}"), sequence=str(sequence))
    return message(mark("procedure {procedure}, sequence {sequence}"), procedure=procedure, sequence=str(sequence))
