"""A fact, and a cause: what many facts share, who must act, and what correcting it would clear.

Facts are counted by their causes, from groups that a database counts, and are not held. Memory grows with the causes,
of which `MAX_SUBJECTS` a code and centre are counted apart, and with faulty archives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from dcc.declarations import WORDS, Declaration, acts_on, declaration_of, rule_of
from dcc.messages import Details, Message, mark, mark_plural, message, printable_detail
from dcc.phases import Phase
from dcc.rules.catalogue import CATALOGUE
from dcc.rules.findings import MORE_RULE
from dcc.runtime.json_values import fields_of
from dcc.vocabulary import FAILING, Actor, EntityKind, Severity

if TYPE_CHECKING:
    from dcc.reports.languages import Catalogue


ACTOR_SENTENCES: Final[Mapping[Actor, str]] = {
    Actor.CENTRE: mark("The centre acts."),
    Actor.DCC: mark("The Data Coordination Centre acts."),
    Actor.REGISTRY: mark("The centre or the registry acts."),
    Actor.NOBODY: mark("Nobody needs to act."),
}
"""Who acts, as a sentence to be translated."""

SEVERITY_NAMES: Final[Mapping[Severity, str]] = {
    Severity.UNCHECKED: mark("unchecked"),
    Severity.WARNING: mark("warning"),
    Severity.ERROR: mark("error"),
    Severity.FATAL: mark("fatal"),
}
"""How bad it is, in a word to be translated."""


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """A document that failed, with animals that experiments wait for: `specimens` has their ids, none if not known."""

    zip: str
    document: str
    phase: Phase
    specimens: frozenset[str] = frozenset()

    def sentence(self, catalogue: Catalogue) -> str:
        """What is in it, and how it failed."""
        names = {"document": self.document, "archive": self.zip, "phase": self.phase.short_name}
        if not self.specimens:
            return catalogue.say(_NOT_READ, **names)
        return catalogue.say_plural(*_IN_FAILED, len(self.specimens), **names)

    def as_json(self) -> dict[str, object]:
        """As an object of JSON."""
        return {**fields_of(self, "zip", "document"), "phase": self.phase.short_name, "animals": len(self.specimens)}


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is wrong: a finding of a rule, an error, or what a crawl noticed; where it is, and what should be.

    `code` is what is declared of it, and `details` what that names. `element` is the path of the element, or the name
    of the element or attribute. `permitted` are the first of the values that would do, `nearest` the one of them that
    is most like `value`. What is not known is None, or empty.
    """

    code: str = ""
    severity: Severity = Severity.ERROR
    details: Details = field(default_factory=dict)
    zip: str | None = None
    document: str | None = None
    line: int | None = None
    column: int | None = None
    element: Message | str | None = None
    value: str | None = None
    message: Message = Message("")  # noqa: RUF009 - it cannot be changed
    expected: Message | None = None
    permitted: tuple[str, ...] = ()
    nearest: str | None = None
    failed_document: FailedDocument | None = None

    @property
    def kind(self) -> str:
        """The id of the rule or error."""
        return rule_of(self.code)

    @property
    def acts(self) -> Actor:
        """Who must act: on a document that failed its centre."""
        return acts_on(self.code, self.severity) if self.failed_document is None else Actor.CENTRE

    def message_in(self, catalogue: Catalogue) -> str:
        """The message, with the failed document that has what is waited for."""
        failed = "" if self.failed_document is None else self.failed_document.sentence(catalogue)
        return f"{catalogue.tell(self.message)} {failed}".rstrip()


@dataclass(slots=True, eq=False)
class Cause:
    """What findings of a rule, or errors of a kind, of one centre share.

    `code` is what is declared of them. `key` always names this cause: the same cause of another session has the same.
    `severity` is the worst. `entities` counts what they lie in (`specimens`, `experiments`, `lines`, `housings`) or are
    about (`sources`); `waiting_experiments` are correct themselves, but on animals that have this cause. Correcting it
    clears documents and archives that fail for nothing else; if it is a warning, those that have no other cause.
    `is_rest`: these are the findings beyond `MAX_SUBJECTS` causes of one code. `failed_documents` have the animals
    that its experiments wait for, but for `others_awaited`.
    """

    key: str
    code: str
    centre: str | None
    severity: Severity
    findings: int = 0
    documents: int = 0
    zips: int = 0
    entities: dict[str, int] = field(default_factory=dict)
    clears_documents: int = 0
    clears_zips: int = 0
    example: Fact = Fact()
    waiting_experiments: int = 0
    is_rest: bool = False
    failed_documents: tuple[FailedDocument, ...] = ()
    others_awaited: int = 0

    @property
    def kind(self) -> str:
        """The id of the rule or error."""
        return rule_of(self.code)

    @property
    def declaration(self) -> Declaration | None:
        """Its declaration; None where only text was recorded, or this version does not know the rule."""
        return None if WORDS in self.details else declaration_of(self.code)

    @property
    def is_of_former_rule(self) -> bool:
        """Whether its rule, of a package or an earlier version, is not installed any more."""
        return bool(self.kind) and self.kind not in CATALOGUE and declaration_of(self.code) is None

    @property
    def details(self) -> Details:
        """What its findings share, by name, and what its example has."""
        return self.example.details

    @property
    def acts(self) -> Actor:
        """Who must act: on documents that failed their centre."""
        return Actor.CENTRE if self.failed_documents else acts_on(self.code, self.severity)

    @property
    def subject(self) -> str:
        """The values that its findings share; empty where they share the code alone."""
        shared = () if self.declaration is None or self.is_rest else self.declaration.subject(self.details)
        return ": ".join(map(printable_detail, shared))

    @property
    def fails(self) -> bool:
        """Whether it fails documents or archives; else it warns, or says what could not be checked."""
        return self.severity.fails

    @property
    def clears_by_itself(self) -> bool:
        """Whether nobody has to act for it to go away."""
        return self.acts is Actor.NOBODY

    def statement(self, catalogue: Catalogue) -> str:
        """What is wrong, without numbers: `The colony 'X' is not registered`."""
        if self.is_rest:
            return catalogue.tell(message(_REST, rule=self.kind, most=MAX_SUBJECTS))
        if self.is_of_former_rule:
            return catalogue.say(_FORMER_RULE, rule=self.kind)
        if self.declaration is None:
            return catalogue.tell(self.example.message)
        return catalogue.tell(Message(self.declaration.cause, self.details))

    def numbers(self, catalogue: Catalogue) -> str:
        """What is affected: `40 animals, 312 experiments that wait for them`."""
        counts = {kind: number for kind, number in self.entities.items() if number}
        if not counts and self.documents:
            # Of a document as a whole, the one place says nothing more.
            places = {"findings": self.findings} if self.findings != self.documents else {}
            counts = {**places, "documents": self.documents}
        if self.zips and not self.documents:
            counts["zips"] = self.zips
        parts = [catalogue.say_plural(*COUNTS[kind], number) for kind, number in counts.items()]
        if self.waiting_experiments:
            texts = _WAITING_FOR_ONE if sum(self.entities.values()) == 1 else _WAITING
            parts.append(catalogue.say_plural(*texts, self.waiting_experiments))
        return ", ".join(parts)

    def title(self, catalogue: Catalogue) -> str:
        """What is wrong, and how much of it: `The colony 'X' is not registered: 40 animals`."""
        return catalogue.say(
            mark("{statement}: {numbers}"), statement=self.statement(catalogue), numbers=self.numbers(catalogue)
        )

    def remedy(self, catalogue: Catalogue) -> str:
        """What to do about it, with the commands of wranglers."""
        return self._what_to_do(catalogue, at_centre=False)

    def remedy_for_centre(self, catalogue: Catalogue) -> str:
        """What to do about it, without commands that centres do not have."""
        return self._what_to_do(catalogue, at_centre=True)

    def _what_to_do(self, catalogue: Catalogue, *, at_centre: bool) -> str:
        if self.failed_documents:
            return " ".join(self._remedies_of_failed(catalogue))
        if self.is_of_former_rule:
            return catalogue.say(_JUDGED_WITHOUT if at_centre else _JUDGE_WITHOUT, rule=self.kind)
        texts = (_CORRECT,) if self.declaration is None else self.declaration.what_to_do(at_centre=at_centre)
        return " ".join(catalogue.tell(Message(text, self.details)) for text in texts)

    def _remedies_of_failed(self, catalogue: Catalogue) -> Iterator[str]:
        yield catalogue.say(_CORRECT_FAILED)
        for failed in self.failed_documents[:_MAX_NAMED]:
            yield failed.sentence(catalogue)
        more = len(self.failed_documents) - _MAX_NAMED
        if more > 0:
            yield catalogue.say_plural(*_MORE_FAILED, more)
        if self.others_awaited:
            yield catalogue.say_plural(*_IN_NO_FAILED, self.others_awaited)

    def who_acts(self, catalogue: Catalogue) -> str:
        """Who must act, as a sentence."""
        return catalogue.say(ACTOR_SENTENCES[self.acts])


MAX_SUBJECTS: Final = 2_000
"""How many causes of one code, at one centre, are counted apart."""
_REST: Final = mark("Rule {rule}: others like these, of more than {most} different values")
_FORMER_RULE: Final = mark("Rule {rule}, which is not installed any more")
_JUDGE_WITHOUT: Final = mark(
    "Have the documents judged without it: `dcc data recheck --rule {rule}`. Or install the package that has it."
)
_JUDGED_WITHOUT: Final = mark("Do nothing: the Data Coordination Centre has the documents judged without it.")
_CORRECT: Final = mark("Correct it, and submit the data again.")

_MAX_NAMED: Final = 2
_CORRECT_FAILED: Final = mark(
    "Correct the documents that failed, and submit them again in a new archive. You need not submit "
    "the experiments again: they count when their animals arrive."
)
_IN_FAILED: Final = mark_plural(
    "One of the animals is in {document} of {archive}, which failed in the phase {phase}.",
    "{number} of the animals are in {document} of {archive}, which failed in the phase {phase}.",
)
_NOT_READ: Final = mark(
    "Animals may be in {document} of {archive}, which failed in the phase {phase}: it could not be read."
)
_MORE_FAILED: Final = mark_plural(
    "One more document with such animals failed.", "{number} more documents with such animals failed."
)
_IN_NO_FAILED: Final = mark_plural(
    "One other animal is in no document that failed: see whether it was submitted, under the same id.",
    "{number} other animals are in no document that failed: see whether they were submitted, under the same ids.",
)

COUNTS: Final[Mapping[str, tuple[str, str]]] = {
    "specimens": mark_plural("{number} animal", "{number} animals"),
    "experiments": mark_plural("{number} experiment", "{number} experiments"),
    "lines": mark_plural("{number} line", "{number} lines"),
    "housings": mark_plural("{number} housing", "{number} housings"),
    "documents": mark_plural("{number} document", "{number} documents"),
    "zips": mark_plural("{number} archive", "{number} archives"),
    "sources": mark_plural("{number} file source", "{number} file sources"),
    "findings": mark_plural("{number} place", "{number} places"),
}
"""How many of what, to be translated."""
_WAITING: Final = mark_plural("{number} experiment that waits for them", "{number} experiments that wait for them")
_WAITING_FOR_ONE: Final = mark_plural("{number} experiment that waits for it", "{number} experiments that wait for it")


def causes_as_json(
    causes: Iterable[Cause], catalogue: Catalogue, contacts: Mapping[str, str]
) -> list[dict[str, object]]:
    """Causes as `cause_as_json` for wranglers: each with the contact of its centre."""
    return [cause_as_json(cause, catalogue) | {"contact": contacts.get(cause.centre or "")} for cause in causes]


def cause_as_json(cause: Cause, catalogue: Catalogue) -> dict[str, object]:
    """A cause as an object of JSON, with its texts in the catalogue's language."""
    example = cause.example
    texts = {
        "element": None if example.element is None else catalogue.tell(example.element),
        "message": catalogue.tell(example.message),
        "expected": None if example.expected is None else catalogue.tell(example.expected),
        "permitted": list(example.permitted),
    }
    return {
        **fields_of(cause, "key", "kind", "subject", "centre", "findings", "documents", "zips", "entities"),
        "held_up": {"experiments": cause.waiting_experiments} if cause.waiting_experiments else {},
        "acts": cause.acts.value,
        "severity": cause.severity.value,
        "title": cause.title(catalogue),
        "remedy": cause.remedy(catalogue),
        "failed_documents": [document.as_json() for document in cause.failed_documents],
        "clears": {"findings": cause.findings, "documents": cause.clears_documents, "zips": cause.clears_zips},
        "example": {**fields_of(example, "zip", "document", "line", "column", "value", "nearest"), **texts},
    }


_PLURALS: Final = {kind.value: f"{kind.value}s" for kind in EntityKind} | {"source": "sources"}


class FindingGroup(NamedTuple):
    """Facts of one document, code, cause and severity: how many, and in how many entities of a kind.

    `cause` is one of `dcc.declarations.cause_id`, `first` the id of one of them. Facts on an archive as a whole have no
    document; those on a file source have no archive, but perhaps a number of `zips`.
    """

    zip_action: str
    zip_file: str
    document: int | None
    centre: str
    code: str
    cause: int
    severity: str
    first: int
    number: int = 1
    entity_kind: str | None = None
    entities: int = 0
    zips: int = 0


class Facts(Protocol):
    """Facts of one origin."""

    def groups(self) -> Iterable[FindingGroup]:
        """The facts, counted: the groups of a document one after the other, and so those of an archive."""

    def examples(self, ids: Sequence[int]) -> Mapping[int, Fact]:
        """Those of the facts with these ids that are still there."""


class FactPlace(NamedTuple):
    """A fact, by its origin and its id there."""

    origin: Facts
    id: int


def count_causes(origins: Iterable[Facts]) -> dict[Cause, FactPlace]:
    """The causes of all facts, in no order, each with a fact that is its example."""
    counter = _Counter()
    for facts in origins:
        for key, groups in groupby(facts.groups(), attrgetter("zip_action", "zip_file")):
            counter.count_submission(facts, key, groups)
    for decisive in counter.zips.values():
        if len(decisive) == 1:
            (cause,) = decisive
            cause.clears_zips += 1
    return counter.examples


class _Counter:
    def __init__(self) -> None:
        self.examples: Final[dict[Cause, FactPlace]] = {}
        self.zips: Final[dict[tuple[str, str], dict[Cause, bool]]] = {}
        self._causes: dict[tuple[str, str, int | None], Cause] = {}
        self._subjects: Counter[tuple[str, str]] = Counter()

    def count_submission(self, facts: Facts, key: tuple[str, str], groups: Iterable[FindingGroup]) -> None:
        of_zip: dict[Cause, bool] = {}
        for document, of_document in groupby(groups, attrgetter("document")):
            found: dict[Cause, bool] = {}
            for group in of_document:
                cause = self._count(facts, group)
                found[cause] = group.severity in FAILING or found.get(cause, False)
            decisive = _decisive(found)
            for cause, fails in found.items():
                cause.documents += document is not None
                cause.clears_documents += document is not None and decisive.keys() == {cause}
                of_zip[cause] = fails or of_zip.get(cause, False)
        _, file_name = key
        if file_name:
            for cause in of_zip:
                cause.zips += 1
            # Other origins may have told of it before.
            self.zips[key] = _decisive(self.zips.get(key, {}) | _decisive(of_zip))

    def _count(self, facts: Facts, group: FindingGroup) -> Cause:
        cause = self._causes.get((group.centre, group.code, group.cause)) or self._added(facts, group)
        if Severity(group.severity).rank < cause.severity.rank:
            cause.severity = Severity(group.severity)
            self.examples[cause] = FactPlace(facts, group.first)
        cause.findings += group.number
        cause.zips += group.zips
        if group.entity_kind in _PLURALS:
            plural = _PLURALS[group.entity_kind]
            cause.entities[plural] = cause.entities.get(plural, 0) + group.entities
        return cause

    def _added(self, facts: Facts, group: FindingGroup) -> Cause:
        of_code = (group.centre, group.code)
        number = group.cause if self._subjects[of_code] < MAX_SUBJECTS else None
        cause = self._causes.get((*of_code, number))
        if cause is None:
            self._subjects[of_code] += 1
            key = f"{group.code}|{group.centre}|{'*' if number is None else f'{number:x}'}"
            cause = Cause(key, group.code, group.centre or None, Severity(group.severity), is_rest=number is None)
            self._causes[*of_code, number] = cause
            self.examples[cause] = FactPlace(facts, group.first)
        return cause


def _decisive(found: Mapping[Cause, bool]) -> dict[Cause, bool]:
    """Those that fail something or, where none does, all: two at most, as of several none clears it alone."""
    # What is not recorded is mostly of the same causes.
    recorded = {cause: fails for cause, fails in found.items() if cause.kind != MORE_RULE}
    failing = {cause: True for cause, fails in recorded.items() if fails}
    return dict(islice((failing or recorded).items(), 2))
