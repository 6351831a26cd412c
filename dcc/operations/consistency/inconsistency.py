"""What the consistency rules demand, and an inconsistency that one of them found.

The rules themselves are functions of `tracker_rules`, `qc_rules` and `dcc_assets.sync.consistency`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Select

from dcc.tracker.submission_rows import state_of, submission_key_of

MAX_TOLD: Final = 20
"""How many inconsistencies of one rule are listed; the others are counted."""

CONSISTENCY_RULES: Final[dict[str, str]] = {
    "C1": "Every submission is hosted by a file source, and every archive has a submission.",
    "C2": "What a file source showed in its latest crawl is accounted for, archive by archive.",
    "C3": "A submission's state follows from its latest download.",
    "C4": "A download's state follows from its documents.",
    "C5": "Nothing is under way without a session.",
    "C6": "Sessions and their tasks have ended, or their process is alive.",
    "C7": "No archive has arrived twice for one turn of its submission, no document is there twice.",
    "C8": "Whatever failed has its reason in a log.",
    "C9": "An archive in staging is the one that arrived.",
    "C10": "Documents in staging are as they were extracted.",
    "C11": "Unfinished files in staging are those of unfinished work.",
    "C12": "The tracker and the QC database agree about each document.",
    "C13": "An entity has one current version at most, which one open lifetime tells of.",
    "C14": "Lifetimes are opened by documents that stand, and end after they began.",
    "C15": "A document has as many rows as its counts say.",
    "C16": "A data context has the measurements that are counted under it, and its history says so.",
    "C17": "Procedure runs are counted under the genotypes and strains that they belong to.",
    "C18": "The log of a judged document has the findings of the QC database.",
    "C19": "A finding that counts is open, one that does not was closed or waived.",
    "C20": "Dagster knows the partitions of all file sources, submissions and centres with data.",
    "C21": "Dagster shows what submissions and centres have reached.",
    "C22": "Dagster's checks fail for what is wrong, and for nothing else.",
    "C23": "The archive store has a record of what each download delivered.",
}
"""What each rule demands, by its id."""


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """An inconsistency: the rule's id, its subject, what is wrong and what to do."""

    rule: str
    subject: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule} {self.subject}: {self.message}"


def in_rows(
    connection: Connection, rule: str, query: Select[*tuple[Any, ...]], subject: str, message: str
) -> Iterator[Inconsistency]:
    """An inconsistency for each row of a query.

    `subject` and `message` name its columns in braces, and `key` and `state` if it has those of a submission's key, and
    of a phase and status.
    """
    for row in connection.execute(query):
        shown = row._asdict()
        if "todo_id" in shown:
            shown["key"] = submission_key_of(row)
        if "phase_id" in shown:
            shown["state"] = state_of(row)
        yield Inconsistency(rule, subject.format_map(shown), message.format_map(shown))


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
            yield Inconsistency(rule, f"{more:,} others", "As those before; see to these first, then look again.")
