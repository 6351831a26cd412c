"""A cause: what many findings or errors share, who must act, and what would come right if that was put right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from dcc.declarations import WORDS, Declaration, acts_on, declaration_of, rule_of
from dcc.messages import Details, Message, mark, mark_plural, message, shown
from dcc.vocabulary import Actor, Severity

if TYPE_CHECKING:
    from dcc.reports.languages import Catalogue

EXPERIMENTS: Final = "experiments"
"""What `entities` and `held_up` call experiments."""

ACTS_IN_WORDS: Final[Mapping[Actor, str]] = {
    Actor.CENTRE: mark("The centre acts."),
    Actor.DCC: mark("The Data Coordination Centre acts."),
    Actor.REGISTRY: mark("The centre corrects it, or has it registered."),
    Actor.NOBODY: mark("Nobody needs to act: it clears by itself."),
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
class Clears:
    """What would be right if a cause was put right: what has this cause and no other that is as bad.

    A document that fails counts where nothing else fails it; one with warnings only, where it has no other.
    """

    findings: int = 0
    documents: int = 0
    zips: int = 0


_NOTHING: Final = Message("")


@dataclass(frozen=True, slots=True)
class Example:
    """One finding or error of a cause: where it is, what stands there, and what should.

    `element` is the path of the element, or the name of the element or attribute; `permitted` are the first of the
    values that would do, `nearest` the one of them that is most like `value`. What is not known is None, or empty.
    """

    zip: str | None = None
    document: str | None = None
    line: int | None = None
    column: int | None = None
    element: Message | str | None = None
    value: str | None = None
    said: Message = _NOTHING
    expected: Message | None = None
    permitted: tuple[str, ...] = ()
    nearest: str | None = None

    @property
    def message(self) -> str:
        """What was found, in English."""
        return str(self.said)


@dataclass(frozen=True, slots=True)
class Cause:
    """What findings of a rule, or errors of a kind, of one centre share.

    `code` is what is declared of them; `kind` the id of the rule or the error, or `listing:` and the kind of what a
    crawl noticed; `details` what they share by name, of which `example` is one. `key` names the cause for good: the
    same cause of another session has the same. `severity` is the worst. `entities` counts what they lie in
    (`specimens`, `experiments`, `lines`, `housings`); `held_up` what is as it should be and waits for them, such as
    experiments on animals of an unknown colony. `is_rest` says that they are what is not told apart: of too many causes
    of one code.
    """

    key: str
    code: str
    centre: str | None
    severity: Severity
    findings: int
    documents: int
    zips: int
    entities: Mapping[str, int]
    clears: Clears
    example: Example = Example()
    details: Details = field(default_factory=dict)
    held_up: Mapping[str, int] = field(default_factory=dict)
    is_rest: bool = False

    @property
    def kind(self) -> str:
        """The id of the rule or error."""
        return rule_of(self.code)

    @property
    def declaration(self) -> Declaration | None:
        """What is declared of it; None where only words were recorded, or this version does not know the rule."""
        return None if WORDS in self.details else declaration_of(self.code)

    @property
    def acts(self) -> Actor:
        """Who must act."""
        return acts_on(self.code, self.severity)

    @property
    def subject(self) -> str:
        """The values that its findings share, empty where they share the kind alone."""
        shared = () if self.declaration is None or self.is_rest else self.declaration.subject(self.details)
        return ": ".join(map(shown, shared))

    @property
    def fails(self) -> bool:
        """Whether it fails documents or archives; else it warns, or says what could not be checked."""
        return self.severity in (Severity.ERROR, Severity.FATAL)

    @property
    def clears_by_itself(self) -> bool:
        """Whether nobody has to act for it to go away."""
        return self.acts is Actor.NOBODY

    def statement(self, catalogue: Catalogue) -> str:
        """What is wrong, without numbers: `The colony 'X' is not registered`."""
        if self.is_rest:
            return catalogue.tell(message(_REST, rule=self.kind, most=MOST_SUBJECTS))
        if self.declaration is None:
            return catalogue.tell(self.example.said)
        return catalogue.tell(Message(self.declaration.cause, self.details))

    def numbers(self, catalogue: Catalogue) -> str:
        """What is affected: `40 animals, 312 experiments that wait for them`."""
        said = [_count(catalogue, kind, number) for kind, number in self.entities.items() if number]
        if not said and self.documents:
            said = [_count(catalogue, "findings", self.findings), _count(catalogue, "documents", self.documents)]
        if not said:
            said = [_count(catalogue, "zips", self.zips)]
        waiting = self.held_up.get(EXPERIMENTS)
        if waiting:
            texts = _WAITING_FOR_ONE if sum(self.entities.values()) == 1 else _WAITING
            said.append(catalogue.say_plural(*texts, waiting))
        return ", ".join(said)

    def title(self, catalogue: Catalogue) -> str:
        """What is wrong, and how much of it: `The colony 'X' is not registered: 40 animals`."""
        return catalogue.say(
            mark("{statement}: {numbers}"), statement=self.statement(catalogue), numbers=self.numbers(catalogue)
        )

    def remedy(self, catalogue: Catalogue) -> str:
        """What to do about it, with the commands of wranglers."""
        return catalogue.tell(Message(_SEE if self.declaration is None else self.declaration.remedy, self.details))

    def remedy_for_centre(self, catalogue: Catalogue) -> str:
        """What to do about it, as the centre is told."""
        if self.declaration is None or not self.declaration.for_centre:
            return self.remedy(catalogue)
        return catalogue.tell(Message(self.declaration.for_centre, self.details))

    def who_acts(self, catalogue: Catalogue) -> str:
        """Who must act, as a sentence."""
        return catalogue.say(ACTS_IN_WORDS[self.acts])


MOST_SUBJECTS: Final = 2_000
"""How many causes of one code, at one centre, are told apart."""
_REST: Final = mark("Rule {rule}: others like these, of more than {most} different values")
_SEE: Final = mark("Correct it, and submit the data again.")

_COUNTS: Final[Mapping[str, tuple[str, str]]] = {
    "specimens": mark_plural("{number} animal", "{number} animals"),
    "experiments": mark_plural("{number} experiment", "{number} experiments"),
    "lines": mark_plural("{number} line", "{number} lines"),
    "housings": mark_plural("{number} housing", "{number} housings"),
    "documents": mark_plural("{number} document", "{number} documents"),
    "zips": mark_plural("{number} archive", "{number} archives"),
    "sources": mark_plural("{number} file source", "{number} file sources"),
    "findings": mark_plural("{number} place", "{number} places"),
}
_WAITING: Final = mark_plural("{number} experiment that waits for them", "{number} experiments that wait for them")
_WAITING_FOR_ONE: Final = mark_plural("{number} experiment that waits for it", "{number} experiments that wait for it")


def _count(catalogue: Catalogue, kind: str, number: int) -> str:
    return catalogue.say_plural(*_COUNTS[kind], number)


def as_json(cause: Cause, catalogue: Catalogue) -> dict[str, object]:
    """A cause as an object of JSON, with what it says of itself in the catalogue's language."""
    example = cause.example
    told = {
        "element": None if example.element is None else catalogue.tell(example.element),
        "message": catalogue.tell(example.said),
        "expected": None if example.expected is None else catalogue.tell(example.expected),
        "permitted": list(example.permitted),
    }
    return {
        **_fields(cause, "key", "kind", "subject", "centre", "findings", "documents", "zips", "entities", "held_up"),
        "acts": cause.acts.value,
        "severity": cause.severity.value,
        "title": cause.title(catalogue),
        "remedy": cause.remedy(catalogue),
        "clears": asdict(cause.clears),
        "example": {**_fields(example, "zip", "document", "line", "column", "value", "nearest"), **told},
    }


def _fields(of: Cause | Example, *names: str) -> dict[str, object]:
    return {name: getattr(of, name) for name in names}
