"""Judges valid documents by all rules, and documents that are checked together by the rules that need other documents.

`checking` imports this module only to judge by rules: checking against the schema needs none.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import chain, count
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from dcc.declarations import message_of
from dcc.documents.content_digest import ContentDigest
from dcc.documents.contents import Block, Content, Entity, Experiment, Housing, Line, Procedure, Specimen, kind_of
from dcc.documents.origins import Origin, read_origin
from dcc.documents.reading import read_document
from dcc.documents.schema_set import SchemaSet
from dcc.naming import Action
from dcc.outcomes import Problem, ZipKey
from dcc.qc.apply.entity_rows import LIMITS
from dcc.qc.apply.upload_findings import FindingCollector, UploadFinding, duplicate, too_long
from dcc.qc.rows.building import NUMBERED, RowBuilder
from dcc.qc.rows.documents import DocumentPlace
from dcc.qc.rows.entity_keys import Key, key_of
from dcc.qc.rows.types import Row, TooLong
from dcc.reference.loading import ReferenceData
from dcc.rules.checking import (
    ABOUT_SPECIMENS,
    AWAITING_SPECIMENS,
    JUDGED_AT_UPLOAD,
    NEEDING_OTHERS,
    all_rules,
    check_contents,
)
from dcc.rules.context import DocumentContext, EntityLocation, ExperimentKey, KnownSpecimen, Lookups
from dcc.rules.experiment_rules import key_of_experiment
from dcc.rules.findings import Finding, with_value
from dcc.session.data.due_documents import DueDocument, in_order_of_upload
from dcc.session.validation.verdicts import DocumentToJudge, DraftFile, DraftVerdict, LaterFindings
from dcc.tracker.states import VALID
from dcc.vocabulary import EntityKind, Severity


class TextLimits:
    """Finds the texts of a document that the QC database cannot hold, as its upload does: rule Q1.

    `findings` has one for each entity or centre element with such a text.
    """

    def __init__(self, origin: Origin | None) -> None:
        self.findings: Final = FindingCollector(origin)
        self._tables: dict[str, list[Row]] = {table: [] for table in LIMITS}
        self._rows = RowBuilder(1, dict.fromkeys(NUMBERED, count(1).__next__), self._tables, LIMITS)
        self._block: Block | None = None

    def permit(self, content: Content) -> bool:
        """Whether the database can hold the next element of the document, and the centre element that it is in."""
        if isinstance(content, Block):
            excess = self._rows.add_block(content)
            self._block = content if excess is None else None
            if excess is not None:
                self.findings.add(too_long(content.line, "centre element", excess))
        elif self._block is not None:
            row = self._rows.add_entity(content)
            if isinstance(row, TooLong):
                key = key_of(self._block, content)
                self.findings.add(too_long(content.line, kind_of(content).value, row, key))
                return False
        for rows in self._tables.values():
            rows.clear()
        return self._block is not None


_NOTHING: Final = ReferenceData()
_Key = TypeVar("_Key")
_Known = TypeVar("_Known")


@dataclass
class JudgedDocument:
    """What is kept of a document until all are judged: the parts of its contents that matter to others.

    The `refused` blocks are judged by the upload only. A document that `takes_no_effect`, because the upload refuses
    all its entities or it is the same as one that stands, is judged by no other rule. Of `contents`, the `stored` ones
    are those that the QC database can hold. `presumed` counts entities of an edit that no checked document submits.
    """

    name: str
    submitted: DocumentToJudge
    origin: Origin | None = None
    contents: list[Content] = field(default_factory=list)
    stored: list[Content] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    entities: int = 0
    storable: int = 0
    takes_no_effect: bool = False
    presumed: int = 0
    digest: ContentDigest = field(default_factory=ContentDigest)

    @property
    def action(self) -> Action:
        """What is done with the document's contents."""
        return self.submitted.action

    def noting(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Pass on the findings of other rules, and record the blocks that they refuse."""
        for finding in findings:
            if finding.severity is Severity.FATAL and finding.block is not None:
                self.refused.add(finding.block)
            yield finding

    def keeping(self, contents: Iterable[Content], limits: TextLimits) -> Iterator[Content]:
        """Pass the contents on, and keep the necessary parts."""
        for content in contents:
            self.digest.take(content)
            self.digest.flush()
            is_stored = limits.permit(content)
            if not isinstance(content, Block):
                self.entities += 1
                self.storable += is_stored
            kept = content if isinstance(content, Block | Specimen) else _without_measurements(content)
            self.contents.append(kept)
            if is_stored:
                self.stored.append(kept)
            yield content

    def stored_entities(self) -> Iterator[tuple[Block, Entity]]:
        """The entities that the QC database can hold, each with the block that it is in."""
        block: Block | None = None
        for content in self.stored:
            if isinstance(content, Block):
                block = content
            elif block is not None:
                yield block, content

    @property
    def content_digest(self) -> str:
        """A digest of what it says."""
        return self.digest.hexdigest()

    @property
    def centre(self) -> str:
        """The centre of its name, if that conforms."""
        return "" if self.submitted.name is None else self.submitted.name.centre

    @property
    def place(self) -> DocumentPlace:
        """Its origin: the archive, or the folder or table, that it was found in, and its name there."""
        if (archive := self.submitted.archive) is not None:
            return DocumentPlace(str(archive), self.name.removeprefix(f"{archive}/"))
        path = Path(self.name).absolute()
        return DocumentPlace(str(path.parent), path.name)


_NO_RESULTS: Final = ((), (), (), (), (), (), ())


def _without_measurements(entity: Experiment | Line | Housing) -> Content:
    procedure = entity.procedure
    if procedure is None:
        return entity
    return entity._replace(procedure=Procedure(procedure.line, procedure.procedure_id, *_NO_RESULTS))


class _Applied(NamedTuple):
    """An experiment that was applied: its place, and its animals."""

    where: EntityLocation
    animals: tuple[str, ...]


_NO_EXPERIMENT: Final = _Applied(EntityLocation(0, 0, 0), ())


@dataclass(frozen=True, slots=True)
class _Submitted:
    """`Lookups` without what is only presumed to be there."""

    neighbours: Neighbours

    def known_specimens(self, centre: str, ids: Collection[str]) -> Mapping[str, tuple[KnownSpecimen, ...]]:
        """See `Lookups`."""
        presumed = self.neighbours.presumed
        return self.neighbours.known_specimens(
            centre, {one for one in ids if (EntityKind.SPECIMEN, (centre, one)) not in presumed}
        )

    def known_experiments(
        self, centre: str, keys: Collection[ExperimentKey]
    ) -> Mapping[ExperimentKey, tuple[EntityLocation, ...]]:
        """See `Lookups`."""
        return self.neighbours.known_experiments(centre, keys)


class Neighbours:
    """The applied animals and experiments while documents are applied in order; `Lookups` for the rules.

    What an edit names is taken to be there, and `presumed` while no other document submits it.
    """

    def __init__(self, documents: Collection[JudgedDocument]) -> None:
        self._documents = [*_of_archives(documents), *_outside_of_archives(documents)]
        self._specimens: dict[tuple[str, str], KnownSpecimen] = {}
        self._experiments: dict[tuple[str, ExperimentKey], _Applied] = {}
        self._experiments_on: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._further: dict[tuple[EntityKind, Key], int] = {}
        self._deletions: dict[tuple[str, str], int] = {}
        self.presumed: set[tuple[EntityKind, Key]] = set()

    def judge(self, today: date) -> Iterator[tuple[JudgedDocument, Iterator[Finding | UploadFinding]]]:
        """Each document with the findings of the rules about other documents; take these before the next document."""
        numbered = list(enumerate(self._documents))
        refusals: list[list[Finding | UploadFinding]] = []
        for number, document in numbered:
            original = self._original_of(document)
            if original is not None:
                # A session does not apply it again, and judges nothing of it.
                document.takes_no_effect = True
                refusals.append([duplicate(self._documents[original].place)])
                continue
            self._apply(number, document)
            found = [
                self._named(finding)
                for finding in self._check(number, document, document.stored, today, JUDGED_AT_UPLOAD, self)
            ]
            document.takes_no_effect = document.entities > 0 and document.storable == len(found)
            refusals.append([*found])
        for (number, document), refused in zip(numbered, refusals, strict=True):
            yield document, chain(refused, self._about_specimens(number, document, today))

    def _about_specimens(self, number: int, document: JudgedDocument, today: date) -> Iterator[Finding]:
        """The findings that a session has too; see `takes_no_effect`."""
        if document.takes_no_effect:
            return
        # If what it names is not there, all of it is refused, and a session judges nothing of it.
        missing_from = self if document.presumed == document.storable else _Submitted(self)
        for rules, lookups in ((ABOUT_SPECIMENS - AWAITING_SPECIMENS, self), (AWAITING_SPECIMENS, missing_from)):
            for finding in self._check(number, document, document.contents, today, rules, lookups):
                if finding.block not in document.refused:
                    yield finding

    def _check(
        self,
        number: int,
        document: JudgedDocument,
        contents: Sequence[Content],
        today: date,
        rules: Collection[str],
        lookups: Lookups,
    ) -> Iterator[Finding]:
        if document.action is Action.DELETE:
            return iter(())
        context = DocumentContext(number, document.action, "", today, _NOTHING, lookups, origin=document.origin)
        found = check_contents(contents, context, all_rules().keys() - rules)
        return (finding for finding in found if finding.rule in rules)

    def known_specimens(self, centre: str, ids: Collection[str]) -> Mapping[str, tuple[KnownSpecimen, ...]]:
        """See `Lookups`."""
        found = ((name, self._specimens.get((centre, name))) for name in ids)
        return {name: (known,) for name, known in found if known is not None}

    def known_experiments(
        self, centre: str, keys: Collection[ExperimentKey]
    ) -> Mapping[ExperimentKey, tuple[EntityLocation, ...]]:
        """See `Lookups`."""
        found = ((key, self._experiments.get((centre, key))) for key in keys)
        return {key: (known.where,) for key, known in found if known is not None}

    def _original_of(self, document: JudgedDocument) -> int | None:
        """The number of the document that stands and is the same, as the upload finds it; None if there is none."""
        owners = {self._owner(block, entity) for block, entity in document.stored_entities()}
        if document.storable < document.entities or self._adds_presumed(document):
            owners.add(None)
        if len(owners) != 1:
            return None
        (owner,) = owners
        if document.action is Action.DELETE:
            return self._deletions.get((document.centre, document.content_digest)) if owner is None else None
        return owner if owner is not None and self._documents[owner].content_digest == document.content_digest else None

    def _adds_presumed(self, document: JudgedDocument) -> bool:
        """Whether it adds what was only presumed to be there: it was not, or nobody would add it."""
        return document.action is Action.ADD and any(
            (kind_of(entity), key_of(block, entity)) in self.presumed for block, entity in document.stored_entities()
        )

    def _owner(self, block: Block, entity: Entity) -> int | None:
        """The number of the document that an entity stands as, None if it is not there."""
        if isinstance(entity, Specimen):
            known = self._specimens.get((block.centre, entity.specimen_id))
            return None if known is None else known.where.document_id
        if isinstance(entity, Experiment):
            applied = self._experiments.get((block.centre, key_of_experiment(entity)))
            return None if applied is None else applied.where.document_id
        return self._further.get((kind_of(entity), key_of(block, entity)))

    def _apply(self, number: int, document: JudgedDocument) -> None:
        action = document.action
        for block, entity in document.stored_entities():
            key = (kind_of(entity), key_of(block, entity))
            is_there, is_presumed = self._owner(block, entity) is not None, key in self.presumed
            if action is Action.EDIT and (is_presumed or not is_there):
                self.presumed.add(key)
                document.presumed += 1
            else:
                self.presumed.discard(key)
            if action is Action.DELETE and is_there:
                self._deletions[document.centre, document.content_digest] = number
            # What is added takes the place of what was only presumed to be there.
            done = Action.EDIT if action is Action.ADD and is_presumed else action
            where = EntityLocation(number, block.position, entity.position)
            if isinstance(entity, Specimen):
                self._apply_specimen(block.centre, entity, where, done)
            elif isinstance(entity, Experiment):
                # What is only presumed to be there keeps no animal from being deleted.
                animals = () if key in self.presumed else entity.specimen_ids
                self._apply_experiment((block.centre, key_of_experiment(entity)), _Applied(where, animals), done)
            else:
                _take(self._further, key, number, done)

    def _apply_specimen(self, centre: str, specimen: Specimen, where: EntityLocation, action: Action) -> None:
        if action is Action.DELETE and self._experiments_on[centre][specimen.specimen_id]:
            # Rule Q4: it stays.
            return
        key = (centre, specimen.specimen_id)
        _take(self._specimens, key, KnownSpecimen(where, specimen.gender, specimen.dob), action)

    def _apply_experiment(self, key: tuple[str, ExperimentKey], applied: _Applied, action: Action) -> None:
        on_animals = self._experiments_on[key[0]]
        on_animals.subtract(self._experiments.get(key, _NO_EXPERIMENT).animals)
        _take(self._experiments, key, applied, action)
        on_animals.update(self._experiments.get(key, _NO_EXPERIMENT).animals)

    def _named(self, finding: Finding) -> Finding:
        """A finding of the upload with the name of the document that it refers to, if any, instead of its number."""
        number = finding.details.get("document")
        if number is None:
            return finding
        return replace(finding, details={**finding.details, "document": self._documents[int(number)].name})


def _of_archives(documents: Iterable[JudgedDocument]) -> list[JudgedDocument]:
    """The documents of archives, in the order in which a session applies them."""
    found: list[JudgedDocument] = []
    due: list[DueDocument] = []
    archives: dict[Path, int] = {}
    # Threads give them in any order, in which those of one name would stay.
    for document in sorted(documents, key=lambda one: one.name):
        _, action, name, archive = document.submitted
        if archive is not None and name is not None:
            za_id = archives.setdefault(archive, len(archives))
            key = ZipKey(action, archive.name)
            due.append(DueDocument(len(found), za_id, key, None, name, 0, None, VALID))
            found.append(document)
    return [found[document.xml_id] for document in in_order_of_upload(due)]


def _outside_of_archives(documents: Iterable[JudgedDocument]) -> list[JudgedDocument]:
    """The other documents, by the date and increment of their names; those with none come last."""

    def turn(document: JudgedDocument) -> tuple[date, int, str]:
        name = document.submitted.name
        return (date.max, 0, document.name) if name is None else (name.created, name.inc, name.file_name)

    return sorted((document for document in documents if document.submitted.archive is None), key=turn)


def _take(known: dict[_Key, _Known], key: _Key, one: _Known, action: Action) -> None:
    """Apply an entity: an added one keeps its first version, an edit replaces it, a deletion removes it."""
    if action is Action.ADD:
        known.setdefault(key, one)
    elif action is Action.EDIT:
        known[key] = one
    else:
        known.pop(key, None)


class Judge:
    """Adds the findings of rules to drafts, at most `max_problems` errors and as many warnings for a document.

    Threads may share it.
    """

    def __init__(self, schemas: SchemaSet, reference: ReferenceData, max_problems: int) -> None:
        self._schemas: Final = schemas
        self._reference: Final = reference
        self._max_problems: Final = max_problems
        self._judged: dict[str, JudgedDocument] = {}

    def judge(self, document: DocumentToJudge, draft: DraftVerdict) -> None:
        """Add the rules' findings on a document, if it is valid, without rules about other documents."""
        actual = None if draft.errors else self._schemas.kind_of_file(document.path)
        if actual is None:
            return
        # Without a name that has the centre, none can be compared with it.
        without = NEEDING_OTHERS if document.name is not None else NEEDING_OTHERS | {"X5"}
        centre = "" if document.name is None else document.name.centre
        origin = read_origin(document.path)
        judged = JudgedDocument(draft.path, document, origin)
        limits = TextLimits(origin)
        contents = judged.keeping(read_document(document.path, actual), limits)
        context = DocumentContext(0, document.action, centre, _today(), self._reference, origin=origin)
        if document.action is Action.DELETE:
            # A session checks no rule on documents that delete.
            deque(contents, maxlen=0)
        else:
            self._add(draft, map(_problem_of, judged.noting(check_contents(contents, context, without))))
        self._add(draft, map(_problem_of, limits.findings.all()))
        self._judged[draft.path] = judged

    def judge_together(self, kept: DraftFile) -> None:
        """Store the findings of the rules about other documents, and forget the documents."""
        for judged, findings in Neighbours(self._judged.values()).judge(_today()):
            kept.add(judged.name, judged.takes_no_effect, map(_problem_of, findings))
        self._judged.clear()

    def add_later(self, draft: DraftVerdict, later: LaterFindings) -> None:
        """Add to a draft what was stored by `judge_together`."""
        if later.takes_no_effect:
            draft.errors = [error for error in draft.errors if error.kind not in all_rules()]
            draft.warnings = [warning for warning in draft.warnings if warning.kind not in all_rules()]
        self._add(draft, (problem for problem in later.problems if problem.kind not in AWAITING_SPECIMENS))
        draft.missing += (problem for problem in later.problems if problem.kind in AWAITING_SPECIMENS)

    def _add(self, draft: DraftVerdict, problems: Iterable[Problem]) -> None:
        """Add findings: those that fail a document, and of others as many as are recorded, in order of lines."""
        for problem in problems:
            of_sort = draft.errors if problem.is_error else draft.warnings
            if len(of_sort) < self._max_problems:
                of_sort.append(problem)
        for of_sort in (draft.errors, draft.warnings):
            of_sort.sort(key=lambda problem: problem.line or 0)


def _today() -> date:
    return datetime.now(UTC).date()


def _problem_of(finding: Finding | UploadFinding) -> Problem:
    text = message_of(finding.code, with_value(finding.details, finding.value))
    return Problem(finding.rule, text, finding.line, code=finding.code, severity=finding.severity)
