"""What is declared of each thing that can be wrong: its message, what causes group by, who acts, and the remedy.

The code of a rule's finding is the rule's id, or the id and a case after a point: `P10.retired`. What several rules say
alike is declared once, as a shared case. Codes of errors are their ids (`bad-file-name`), with cases too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from dcc.errors import InternalFaultError
from dcc.messages import Details, Message, from_json, mark, message, names_in
from dcc.vocabulary import Actor, Severity

VALUE: Final = "value"
"""The detail that is the offending text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One thing that can be wrong. All texts are marked for translation, with names of details in braces.

    `message` is said of one finding, empty where errors bring their own; `cause` is the title of all that have the same
    details `cause_by`, without any: of all. `remedy` is what to do, `for_centre` what centres are told in its place if
    it names commands of wranglers. The cause and the remedy name no detail that findings of one cause may differ in.
    """

    cause: str
    remedy: str
    message: str = ""
    acts: Actor = Actor.CENTRE
    cause_by: tuple[str, ...] = ()
    for_centre: str = ""

    def subject(self, details: Details) -> tuple[str, ...]:
        """What findings of one cause share."""
        return tuple(_word(details.get(name)) for name in self.cause_by)


_DECLARED: dict[str, Declaration] = {}
_SHARED: dict[str, Declaration] = {}


def declare(code: str, declaration: Declaration) -> None:
    """Register what is declared of a code. Raises InternalFaultError for a code that is declared already."""
    if code in _DECLARED:
        raise InternalFaultError(f"There are two declarations of {code}. Give one of them another code.")
    _DECLARED[code] = declaration


def share_case(case: str, declaration: Declaration) -> None:
    """Register what is declared of a case of whatever rule."""
    _SHARED[case] = declaration


def declaration_of(code: str) -> Declaration | None:
    """What is declared of a code; None where this version declares nothing of it."""
    return _DECLARED.get(code) or _SHARED.get(case_of(code))


def acts_on(code: str, severity: Severity = Severity.ERROR) -> Actor:
    """Who must act on what has a code: the DCC where it could not be checked, or nothing is declared of it."""
    declaration = declaration_of(code)
    return Actor.DCC if declaration is None or severity is Severity.UNCHECKED else declaration.acts


def declared(code: str) -> Mapping[str, Declaration]:
    """All declarations of a rule or error, its own first, by their codes."""
    return {each: one for each, one in _DECLARED.items() if each == code or each.startswith(f"{code}.")}


def all_declared() -> Mapping[str, Declaration]:
    """Every declaration by its code; shared cases by the case alone."""
    return {**_DECLARED, **_SHARED}


def rule_of(code: str) -> str:
    """The rule or error of a code: `P10` of `P10.retired`."""
    return code.partition(".")[0]


def case_of(code: str) -> str:
    """The case of a code: `retired` of `P10.retired`; empty for none."""
    return code.partition(".")[2]


def code_of(rule: str, case: str) -> str:
    """The code of a case of a rule or error; the rule's own for no case."""
    return f"{rule}.{case}" if case else rule


ORIGIN: Final = "origin"
"""The detail that is the place in what was submitted, of a document that was converted from it."""
WORDS: Final = "words"
"""The only detail of what was recorded in words alone, by an earlier version or a rule that is gone."""


def message_of(code: str, details: Details) -> Message:
    """The message of a finding: of its declaration, or the words that are its only detail."""
    declaration = declaration_of(code)
    if declaration is None or WORDS in details:
        return Message(str(details.get(WORDS, code)))
    said = Message(declaration.message, details)
    return standing_at(said, details[ORIGIN]) if ORIGIN in details else said


def standing_at(problem: Message, origin: Message) -> Message:
    """What is said of a problem in a document that was converted, with its place in what was submitted."""
    return message(mark("{problem} See {origin}."), problem=problem, origin=origin)


def details_kept(code: str | None, kept: str | None, words: str) -> Details:
    """The details of a finding as they were kept; the `words` recorded with it where its message cannot be made."""
    details = from_json(kept)
    declaration = None if code is None else declaration_of(code)
    if details is None or declaration is None or names_in(declaration.message) - details.keys() - {VALUE}:
        return {WORDS: words}
    return details


def cause_id(code: str, details: Details) -> int:
    """What names the cause of a finding within its centre: a number of 63 bits made of the code and what it shares."""
    declaration = declaration_of(code)
    parts = (code, *(() if declaration is None else declaration.subject(details)))
    digest = blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _word(detail: object) -> str:
    if isinstance(detail, (list, tuple)):
        return ", ".join(map(_word, detail))
    return "" if detail is None else str(detail)


def acting(rule: str) -> list[Actor]:
    """Who acts on the findings of a rule or error, each once; nobody only where there is no one else."""
    acts = list(dict.fromkeys(one.acts for one in declared(rule).values()))
    return [one for one in acts if one is not Actor.NOBODY] or acts


ACTOR_NAMES: Final[Mapping[Actor, str]] = {
    Actor.CENTRE: mark("centre"),
    Actor.DCC: mark("DCC"),
    Actor.REGISTRY: mark("centre or registry"),
    Actor.NOBODY: mark("nobody"),
}
"""Who acts, in a word to be translated."""

NO_DETAILS: Final[Details] = {}
