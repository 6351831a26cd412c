"""What is declared of each thing that can be wrong: its message, what causes group by, who acts, and the remedy.

The code of a rule's finding is the rule's id, or the id and a case after a point: `P10.retired`. A case that several
rules have is declared once, as a shared case. Codes of errors are their ids (`bad-file-name`), with cases too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from string import Formatter
from typing import Final

from dcc.errors import InternalFaultError
from dcc.messages import Details, Message, from_json, mark, message, names_in
from dcc.phases import UNFINISHED, Phase, Status
from dcc.vocabulary import Actor, Severity

VALUE: Final = "value"
"""The detail that is the offending text."""
WORDS: Final = "words"
"""The only detail of what was recorded as English text alone, by an earlier version or a rule that is gone."""
ORIGIN: Final = "origin"
"""The detail that is the place in what was submitted, of a document that was converted from it."""
NO_DETAILS: Final[Details] = {}

ACTOR_NAMES: Final[Mapping[Actor, str]] = {
    Actor.CENTRE: mark("centre"),
    Actor.DCC: mark("DCC"),
    Actor.REGISTRY: mark("centre or registry"),
    Actor.NOBODY: mark("nobody"),
}
"""Who acts, in a word to be translated."""

STAYS: Final = mark("No later archive clears this: it stays listed until you acknowledge it: `dcc acknowledge`.")
"""What wranglers read of findings that stay."""
STAYS_FOR_CENTRE: Final = mark(
    "No later archive clears this: it stays listed until the Data Coordination Centre acknowledges it."
)
"""What centres read of findings that stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One thing that can be wrong. All texts are marked for translation, with names of details in braces.

    `message` describes one finding; it is empty where errors bring their own. `cause` is the title of all findings with
    the same details `cause_by`: unless given, those that it names. `remedy` is what to do, `for_centre` what centres
    read instead if it names commands of wranglers. Both, and the cause, name only details that all findings of a cause
    share. `stays`: no later archive ends it, so that both go on with `STAYS` or `STAYS_FOR_CENTRE`.
    """

    cause: str
    remedy: str
    message: str = ""
    acts: Actor = Actor.CENTRE
    cause_by: tuple[str, ...] = ()
    for_centre: str = ""
    stays: bool = False

    def __post_init__(self) -> None:
        if not self.cause_by:
            names = (name for _, name, _, _ in Formatter().parse(self.cause) if name)
            object.__setattr__(self, "cause_by", tuple(dict.fromkeys(names)))

    def subject(self, details: Details) -> tuple[str, ...]:
        """What the findings of a cause share."""
        return tuple(_text(details.get(name)) for name in self.cause_by)

    def lacks(self, details: Details) -> frozenset[str]:
        """The names in its message that have no detail; the offending text is kept beside them."""
        return names_in(self.message) - details.keys() - {VALUE}

    def stray_names(self) -> frozenset[str]:
        """The names in the texts of its cause that its findings need not share."""
        return (names_in(self.cause) | names_in(self.remedy) | names_in(self.for_centre)) - {*self.cause_by}

    def what_to_do(self, *, at_centre: bool) -> tuple[str, ...]:
        """The marked texts that say what to do, to a centre or to wranglers."""
        own = self.for_centre if at_centre and self.for_centre else self.remedy
        return (own, STAYS_FOR_CENTRE if at_centre else STAYS) if self.stays else (own,)


_DECLARED: dict[str, Declaration] = {}
_SHARED: dict[str, Declaration] = {}


def declare(code: str, declaration: Declaration) -> None:
    """Declare a code. Raises InternalFaultError for one that is declared already."""
    if code in _DECLARED:
        raise InternalFaultError(f"{code} has two declarations. Give one of them another code.")
    _DECLARED[code] = declaration


def share_case(case: str, declaration: Declaration) -> None:
    """Declare a case of all rules."""
    _SHARED[case] = declaration


def declaration_of(code: str) -> Declaration | None:
    """The declaration of a code; None where this version has none."""
    return _DECLARED.get(code) or _SHARED.get(code.partition(".")[2])


def declared(kind: str) -> Mapping[str, Declaration]:
    """The declarations of a rule or error, its own first, by their codes."""
    return {code: one for code, one in _DECLARED.items() if rule_of(code) == kind}


def all_declared() -> Mapping[str, Declaration]:
    """Every declaration by its code; shared cases by the case alone."""
    return {**_DECLARED, **_SHARED}


def rule_of(code: str) -> str:
    """The rule or error of a code: `P10` of `P10.retired`."""
    return code.partition(".")[0]


def code_of(rule: str, case: str) -> str:
    """The code of a case of a rule or error; the rule's own for no case."""
    return f"{rule}.{case}" if case else rule


def acts_on(code: str, severity: Severity = Severity.ERROR) -> Actor:
    """Who must act on a code: the DCC where it could not be checked, or is not declared."""
    declaration = declaration_of(code)
    return Actor.DCC if declaration is None or severity is Severity.UNCHECKED else declaration.acts


def acting(kind: str) -> dict[Actor, list[str]]:
    """Who acts on the findings of a rule or error, first who usually does, each with the causes."""
    causes: dict[Actor, list[str]] = {}
    for declaration in declared(kind).values():
        causes.setdefault(declaration.acts, []).append(declaration.cause)
    return causes


def acts_in(phase: Phase, status: Status) -> Actor:
    """Who must act on a submission or document in a state, as far as the state alone tells."""
    if status is Status.FAILED:
        if phase is Phase.DOWNLOAD:
            return Actor.NOBODY
        return Actor.DCC if phase > Phase.DATA else Actor.CENTRE
    waits = phase is Phase.QC and status in UNFINISHED
    return Actor.DCC if waits else Actor.NOBODY


def message_of(code: str, details: Details) -> Message:
    """The message of a finding: its declaration's, or the text that is its only detail."""
    declaration = declaration_of(code)
    if declaration is None or WORDS in details:
        return Message(str(details.get(WORDS, code)))
    found = Message(declaration.message, details)
    return standing_at(found, details[ORIGIN]) if ORIGIN in details else found


def standing_at(problem: Message, origin: Message) -> Message:
    """The message of a problem in a document that was converted, with its place in what was submitted."""
    return message(mark("{problem} See {origin}."), problem=problem, origin=origin)


def stored_details(code: str | None, kept: str | None, recorded: str) -> Details:
    """The stored details of a finding; the English text `recorded` with it where its message cannot be made."""
    details, declaration = from_json(kept), declaration_of(code or "")
    if details is None or declaration is None or declaration.lacks(details):
        return {WORDS: recorded}
    return details


def cause_id(code: str, details: Details) -> int:
    """The number of a finding's cause, among those of its centre: 63 bits made of the code and the subject."""
    declaration = declaration_of(code)
    parts = (code, *(() if declaration is None else declaration.subject(details)))
    digest = blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _text(detail: object) -> str:
    if isinstance(detail, (list, tuple)):
        return ", ".join(map(_text, detail))
    return "" if detail is None else str(detail)
