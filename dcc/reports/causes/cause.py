"""A cause: what many findings or errors share, who must act, and what would come right if that was put right."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from dcc.reports.languages.marking import mark, mark_plural
from dcc.vocabulary import Severity

if TYPE_CHECKING:
    from dcc.reports.languages import Catalogue

EXPERIMENTS: Final = "experiments"
"""What `entities` and `held_up` call experiments."""

SHOWN_OF_VALUE: Final = 120
"""Characters of a value that titles show."""

_LONGEST_KEY: Final = 160


class Actor(StrEnum):
    """Who must act for a cause to go away."""

    CENTRE = "centre"
    DCC = "DCC"
    REGISTRY = "registry"
    NOBODY = "nobody"


ACTS_IN_WORDS: Final[Mapping[Actor, str]] = {
    Actor.CENTRE: mark("The centre acts."),
    Actor.DCC: mark("The Data Coordination Centre acts."),
    Actor.REGISTRY: mark("The centre corrects it, or has it registered."),
    Actor.NOBODY: mark("Nobody needs to act: it clears by itself."),
}
"""Who acts, as a sentence to be translated."""


ACTOR_NAMES: Final[Mapping[Actor, str]] = {
    Actor.CENTRE: mark("centre"),
    Actor.DCC: mark("DCC"),
    Actor.REGISTRY: mark("centre or registry"),
    Actor.NOBODY: mark("nobody"),
}
"""Who acts, in a word to be translated."""

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
    entities: Mapping[str, int] = field(default_factory=dict)


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
    element: str | None = None
    value: str | None = None
    message: str = ""
    expected: str | None = None
    permitted: tuple[str, ...] = ()
    nearest: str | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """What findings of a rule, or errors of a kind, of one centre share.

    `kind` is the id of the rule, the id of the error, or `listing:` and the kind of what a crawl noticed; `subject`
    the value that they share, empty where they share the kind alone. `key` names the cause for good: the same cause of
    another session has the same. `severity` is the worst. `entities` counts what they lie in (`specimens`,
    `experiments`, `lines`, `housings`); `held_up` what is as it should be and waits for them, such as experiments on
    animals of an unknown colony. `values` is how many different values they have, where they do not share theirs,
    `shared_value` the one that they share, as the documents have it. `advice` is what to do, `advice_to_centre` what
    centres are told in its place, if it names commands of wranglers.
    """

    key: str
    kind: str
    subject: str
    centre: str | None
    acts: Actor
    severity: Severity
    findings: int
    documents: int
    zips: int
    entities: Mapping[str, int]
    clears: Clears
    example: Example
    headline: str
    advice: str
    fields: Mapping[str, str]
    held_up: Mapping[str, int] = field(default_factory=dict)
    values: int | None = None
    shared_value: str | None = None
    advice_to_centre: str = ""

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
        return catalogue.text(self.headline, **_said(catalogue, self.fields))

    def numbers(self, catalogue: Catalogue) -> str:
        """What is affected: `40 animals, 312 experiments that wait for them`."""
        said = [_count(catalogue, kind, number) for kind, number in self.entities.items() if number]
        if not said and self.documents:
            said = [_count(catalogue, "findings", self.findings), _count(catalogue, "documents", self.documents)]
        if not said:
            said = [_count(catalogue, "zips", self.zips)]
        for_one = sum(self.entities.values()) == 1
        said += [
            catalogue.plural(*(_WAITING_FOR_ONE if for_one else _WAITING)[kind], number)
            for kind, number in self.held_up.items()
            if number
        ]
        return ", ".join(said)

    def title(self, catalogue: Catalogue) -> str:
        """What is wrong, and how much of it: `The colony 'X' is not registered: 40 animals`."""
        return catalogue.text(
            mark("{statement}: {numbers}"), statement=self.statement(catalogue), numbers=self.numbers(catalogue)
        )

    def remedy(self, catalogue: Catalogue) -> str:
        """What to do about it, with the commands of wranglers."""
        return catalogue.text(self.advice, **_said(catalogue, self.fields))

    def remedy_for_centre(self, catalogue: Catalogue) -> str:
        """What to do about it, as the centre is told."""
        return catalogue.text(self.advice_to_centre or self.advice, **_said(catalogue, self.fields))

    def who_acts(self, catalogue: Catalogue) -> str:
        """Who must act, as a sentence."""
        return catalogue.text(ACTS_IN_WORDS[self.acts])


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
_WAITING: Final[Mapping[str, tuple[str, str]]] = {
    "experiments": mark_plural("{number} experiment that waits for them", "{number} experiments that wait for them"),
}
_WAITING_FOR_ONE: Final[Mapping[str, tuple[str, str]]] = {
    "experiments": mark_plural("{number} experiment that waits for it", "{number} experiments that wait for it"),
}


_RECORDED: Final = ("expected", "reason", "meant")
"""Fields that the platform said itself, in English."""


def _said(catalogue: Catalogue, fields: Mapping[str, str]) -> dict[str, str]:
    return {name: catalogue.recorded(text) if name in _RECORDED else text for name, text in fields.items()}


def _count(catalogue: Catalogue, kind: str, number: int) -> str:
    return catalogue.plural(*_COUNTS[kind], number)


def key_of(*parts: str | None) -> str:
    """The key of a cause with these parts, of bounded length."""
    joined = "|".join("" if part is None else part.replace("|", "||") for part in parts)
    if len(joined) <= _LONGEST_KEY and joined.isprintable():
        return joined
    digest = hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    shown = "".join(character if character.isprintable() else "?" for character in joined[: _LONGEST_KEY - 17])
    return f"{shown}~{digest}"


def as_json(cause: Cause, catalogue: Catalogue) -> dict[str, object]:
    """A cause as an object of JSON, with what it says of itself in the catalogue's language."""
    example = cause.example
    return {
        "key": cause.key,
        "kind": cause.kind,
        "subject": cause.subject,
        "centre": cause.centre,
        "acts": cause.acts.value,
        "severity": cause.severity.value,
        "title": cause.title(catalogue),
        "remedy": cause.remedy(catalogue),
        "findings": cause.findings,
        "documents": cause.documents,
        "zips": cause.zips,
        "entities": dict(cause.entities),
        "held_up": dict(cause.held_up),
        "values": cause.values,
        "clears": {
            "findings": cause.clears.findings,
            "documents": cause.clears.documents,
            "zips": cause.clears.zips,
            "entities": dict(cause.clears.entities),
        },
        "example": {
            "zip": example.zip,
            "document": example.document,
            "line": example.line,
            "column": example.column,
            "element": example.element,
            "value": example.value,
            "message": example.message,
            "expected": example.expected,
            "permitted": list(example.permitted),
            "nearest": example.nearest,
        },
    }
