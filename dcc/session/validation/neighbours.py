"""Judges documents that are checked together by the rules that need other documents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from dcc.documents.content_digest import ContentDigest
from dcc.documents.contents import Block, Content, Experiment, Procedure, Specimen
from dcc.documents.origins import Origin
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.phases import Phase, Status
from dcc.reference.loading import ReferenceData
from dcc.rules.checking import ABOUT_SPECIMENS, JUDGED_AT_UPLOAD, all_rules, check_contents
from dcc.rules.context import DocumentContext, ExperimentKey, KnownSpecimen, Where
from dcc.rules.experiment_rules import key_of_experiment
from dcc.rules.findings import Finding
from dcc.session.data.due_documents import DueDocument, in_order_of_upload
from dcc.session.validation.verdicts import DocumentToJudge
from dcc.tracker.states import State
from dcc.vocabulary import Severity

if TYPE_CHECKING:
    # A process that prepares documents loads no database.
    from dcc.session.validation.text_limits import TextLimits

MISSING: Final = frozenset({"E4", "S14"})
"""The rules about missing things, which may have been submitted before."""
_NOTHING: Final = ReferenceData()
_VALID: Final = State(Phase.XSD, Status.DONE)
_Key = TypeVar("_Key")
_Known = TypeVar("_Known")


@dataclass
class JudgedDocument:
    """What is kept of a document until all are judged: the parts of its animals and experiments that matter to others.

    The `refused` blocks are judged by the upload only. A document that `takes_no_effect`, because the upload refuses
    all its entities, is judged by no other rule. Of `contents`, the `stored` ones are those that the QC database can
    hold.
    """

    name: str
    submitted: DocumentToJudge
    origin: Origin | None = None
    contents: list[Content] = field(default_factory=list)
    stored: list[Content] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    has_entities: bool = False
    storable: int = 0
    takes_no_effect: bool = False
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
                self.has_entities = True
                self.storable += is_stored
            kept = _without_measurements(content) if isinstance(content, Experiment) else content
            if isinstance(kept, Block | Specimen | Experiment):
                self.contents.append(kept)
                if is_stored:
                    self.stored.append(kept)
            yield content


_NO_RESULTS: Final = ((), (), (), (), (), (), ())


def _without_measurements(experiment: Experiment) -> Experiment:
    procedure = experiment.procedure
    if procedure is None:
        return experiment
    return experiment._replace(procedure=Procedure(procedure.line, procedure.procedure_id, *_NO_RESULTS))


class _Applied(NamedTuple):
    """An experiment that was applied: its place, and its animals."""

    where: Where
    animals: tuple[str, ...]


_NO_EXPERIMENT: Final = _Applied(Where(0, 0, 0), ())


class Neighbours:
    """The applied animals and experiments while documents are applied in order; `Lookups` for the rules."""

    def __init__(self, documents: Collection[JudgedDocument]) -> None:
        self._documents = [*_of_archives(documents), *_outside_of_archives(documents)]
        self._numbers = self._numbered()
        self._specimens: dict[tuple[str, str], KnownSpecimen] = {}
        self._experiments: dict[tuple[str, ExperimentKey], _Applied] = {}
        self._experiments_on: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def judge(self, today: date) -> Iterator[tuple[JudgedDocument, Iterator[Finding]]]:
        """Each document with the findings of the rules about other documents; take these before the next document."""
        numbered = list(zip(self._numbers, self._documents, strict=True))
        refusals = []
        for number, document in numbered:
            self._apply(number, document)
            found = self._check(number, document, document.stored, today, JUDGED_AT_UPLOAD)
            refusals.append([self._named(finding) for finding in found])
        for (number, document), refused in zip(numbered, refusals, strict=True):
            document.takes_no_effect = document.has_entities and document.storable == len(refused)
            yield document, chain(refused, self._about_specimens(number, document, today))

    def _about_specimens(self, number: int, document: JudgedDocument, today: date) -> Iterator[Finding]:
        """The findings that a session has too; see `takes_no_effect`."""
        if not document.takes_no_effect:
            for finding in self._check(number, document, document.contents, today, ABOUT_SPECIMENS):
                if finding.block not in document.refused:
                    yield finding

    def _check(
        self, number: int, document: JudgedDocument, contents: Sequence[Content], today: date, rules: Collection[str]
    ) -> Iterator[Finding]:
        if document.action is Action.DELETE:
            return iter(())
        context = DocumentContext(number, document.action, "", today, _NOTHING, self, origin=document.origin)
        found = check_contents(contents, context, all_rules().keys() - rules)
        return (finding for finding in found if finding.rule in rules)

    def known_specimens(self, centre: str, ids: Collection[str]) -> Mapping[str, tuple[KnownSpecimen, ...]]:
        """See `Lookups`."""
        found = ((name, self._specimens.get((centre, name))) for name in ids)
        return {name: (known,) for name, known in found if known is not None}

    def known_experiments(
        self, centre: str, keys: Collection[ExperimentKey]
    ) -> Mapping[ExperimentKey, tuple[Where, ...]]:
        """See `Lookups`."""
        found = ((key, self._experiments.get((centre, key))) for key in keys)
        return {key: (known.where,) for key, known in found if known is not None}

    def _numbered(self) -> list[int]:
        """A number for each document, used by the rules; one that says the same as another has the number of the first.

        So nothing in a copy is there already: a session does not apply it again.
        """
        first: dict[str, int] = {}
        return [
            first.setdefault(document.digest.hexdigest(), number) for number, document in enumerate(self._documents)
        ]

    def _apply(self, number: int, document: JudgedDocument) -> None:
        centre, block = "", 0
        for content in document.stored:
            if isinstance(content, Block):
                centre, block = content.centre, content.position
            elif isinstance(content, Specimen):
                if document.action is Action.DELETE and self._experiments_on[centre][content.specimen_id]:
                    # Rule Q4: it stays.
                    continue
                known = KnownSpecimen(Where(number, block, content.position), content.gender, content.dob)
                _take(self._specimens, (centre, content.specimen_id), known, document.action)
            elif isinstance(content, Experiment):
                self._apply_experiment(centre, content, Where(number, block, content.position), document.action)

    def _apply_experiment(self, centre: str, experiment: Experiment, where: Where, action: Action) -> None:
        key = (centre, key_of_experiment(experiment))
        before = self._experiments.get(key, _NO_EXPERIMENT)
        _take(self._experiments, key, _Applied(where, experiment.specimen_ids), action)
        after = self._experiments.get(key, _NO_EXPERIMENT)
        self._experiments_on[centre].subtract(before.animals)
        self._experiments_on[centre].update(after.animals)

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
            due.append(DueDocument(len(found), za_id, key, None, name, 0, None, _VALID))
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
