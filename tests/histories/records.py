"""What is known of archives and documents in the histories of submissions, and what is held against the databases."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from dcc.naming import Action
from tests.histories.submissions import Submission, Thing

REFUSED: Final = "upload failed"
IN_PART: Final = "data failed"
DONE: Final = "qc done"
OPEN: Final = "qc pending"
PENDING: Final = "upload pending"
UPLOADED: Final = "upload done"
UNDONE: Final = "upload cancelled"
NO_CONTEXT: Final = "context cancelled"
NO_NAME: Final = "xml_name failed"
NOT_OPENED: Final = "unzip failed"
WAITING: Final = "zip_name done"
CANCELLED: Final = "zip_name cancelled"


@dataclass(frozen=True, slots=True)
class Standing:
    """What the databases hold: states of archives and documents, which documents are duplicates, the variant of all
    that is there, the archives whose withdrawal is proposed, the steps left out of documents, the documents that wait
    to be confirmed, the archive that each waiting one is told to wait for, the archives on hold and acknowledged, and
    the number of measurements of documents that count in data contexts.
    """

    archives: dict[str, str]
    documents: dict[str, str]
    duplicates: frozenset[str]
    variants: dict[Thing, int]
    proposals: frozenset[str]
    left_out: dict[str, str]
    held: frozenset[str]
    waits: dict[str, str]
    on_hold: frozenset[str]
    acknowledged: frozenset[str]
    counted: dict[str, int]

    def without_contexts(self) -> Standing:
        """The same, as if data contexts were not looked at."""
        archives, documents = (
            {name: DONE if state == OPEN else state for name, state in states.items()}
            for states in (self.archives, self.documents)
        )
        return replace(self, archives=archives, documents=documents, counted={})


@dataclass(eq=False)
class Applied:
    """A document that took effect, or is the same as one of the archive `original` that did."""

    name: str
    number: int
    action: Action
    things: tuple[tuple[Thing, int], ...]
    original: int | None = None

    @property
    def is_of_animals(self) -> bool:
        return all(thing == thing.animals for thing, _ in self.things)


@dataclass
class Record:
    """What is known of an archive: how it was listed last, and what became of it and of its documents.

    `fetched` is the time with which it was listed when it was fetched last; `refused` is what was refused
    of documents, with its variant and the rule because of which it was.
    """

    submission: Submission
    time: int
    fetched: int | None = None
    state: str = WAITING
    gone: bool = False
    missed: bool = False
    documents: dict[str, str] = field(default_factory=dict)
    applied: dict[str, str] = field(default_factory=dict)
    refused: dict[str, list[tuple[Thing, int, str]]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    proposed: bool = False
    decided: bool = False
    on_hold: bool = False
    acknowledged: bool = False

    @property
    def is_there(self) -> bool:
        """Whether the source has it, as far as is known."""
        return not self.gone and not self.missed

    def open_again(self) -> None:
        """Have it wait for its download, and nothing of former ones count."""
        self.state, self.acknowledged = WAITING, False
        self.documents, self.left_out, self.held = {}, {}, set()

    def in_state(self, state: str) -> list[str]:
        """Its documents that are in a state."""
        return [name for name, one in self.documents.items() if one == state]
