"""What the consistency rules demand, and an inconsistency that one of them found.

The rules are functions of `tracker_rules` and `qc_rules`, and those of `dcc_assets.sync.consistency`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, ParamSpec

from sqlalchemy import Connection, Select

from dcc.messages import count_of
from dcc.tracker.submission_rows import state_of, submission_key_of

_Asked = ParamSpec("_Asked")
MAX_TOLD: Final = 20
"""How many inconsistencies of one rule are listed; the others are counted."""

CONSISTENCY_RULES: Final[dict[str, str]] = {}
"""What each rule demands, by its id."""


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """An inconsistency: the rule's id, its subject, what is wrong and what to do."""

    rule: str
    subject: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule} {self.subject}: {self.message}"


Wrong = Iterator[tuple[str, str]]
"""What is wrong: the subject and message of each inconsistency."""


def consistency_rule(rule_id: str) -> Callable[[Callable[_Asked, Wrong]], Callable[_Asked, Iterator[Inconsistency]]]:
    """A decorator that makes a function a rule; the first line of its docstring is what the rule demands."""

    def made(find: Callable[_Asked, Wrong]) -> Callable[_Asked, Iterator[Inconsistency]]:
        CONSISTENCY_RULES[rule_id] = (find.__doc__ or "").partition("\n")[0]

        @wraps(find)
        def found(*arguments: _Asked.args, **named: _Asked.kwargs) -> Iterator[Inconsistency]:
            return (Inconsistency(rule_id, subject, message) for subject, message in find(*arguments, **named))

        return found

    return made


def in_rows(connection: Connection, query: Select[*tuple[Any, ...]], subject: str, message: str) -> Wrong:
    """What is wrong with each row of a query.

    `subject` and `message` name its columns in braces, and `key` and `state` if it has those of a submission's key, and
    of a phase and status.
    """
    for row in connection.execute(query):
        shown = row._asdict()
        if "todo_id" in shown:
            shown["key"] = submission_key_of(row)
        if "phase_id" in shown:
            shown["state"] = state_of(row)
        yield subject.format_map(shown), message.format_map(shown)


def bounded(found: Iterable[Inconsistency]) -> Iterator[Inconsistency]:
    """The first `MAX_TOLD` of each rule as they come, then one for each rule with more."""
    counts: Counter[str] = Counter()
    for inconsistency in found:
        counts[inconsistency.rule] += 1
        if counts[inconsistency.rule] <= MAX_TOLD:
            yield inconsistency
    for rule, number in counts.items():
        if number > MAX_TOLD:
            more = number - MAX_TOLD
            yield Inconsistency(rule, count_of(more, "other"), "As those before; see to these first, then look again.")
