"""What documents mean, written down a second time: an in-memory model of the QC database for the tests.

It holds what each document said and which documents stand; the present is what these yield one after another, in the
order of their application. So it knows no versions, lifetimes or rows.
"""

from dataclasses import dataclass, field
from datetime import date

from dcc.naming import Action, DocumentKind

Key = tuple[str | None, ...]
"""Kind, centre, and what names the entity among those of its kind."""


@dataclass(frozen=True)
class Said:
    """An entity as a document names it; `specimens` are the keys of those that an experiment is about."""

    key: Key
    value: str
    specimens: frozenset[Key] = frozenset()


@dataclass
class ModelDocument:
    """A document that was applied; `before` and `after` say what it did to each key: what was said of it, or None."""

    id: int
    action: Action
    kind: DocumentKind
    centre: str
    created: date
    said: tuple[Said, ...]
    stands: bool = True
    before: dict[Key, Said | None] = field(default_factory=dict)
    after: dict[Key, Said | None] = field(default_factory=dict)


Present = dict[Key, Said]


def experiments_of(present: Present, specimen: Key) -> list[Said]:
    """The present experiments about a specimen."""
    return [said for said in present.values() if specimen in said.specimens]


class Model:
    """All documents and the present that they yield."""

    def __init__(self) -> None:
        self.documents: list[ModelDocument] = []
        self.pasts: dict[int, Present] = {}

    def standing(self) -> list[ModelDocument]:
        """The documents that were not withdrawn, in the order of application."""
        return [document for document in self.documents if document.stands]

    def present(self) -> Present:
        """What the standing documents yield; what was refused once stays refused."""
        present: Present = {}
        for document in self.standing():
            for key, said in document.after.items():
                if said is None:
                    del present[key]
                else:
                    present[key] = said
        return present

    def apply(self, document: ModelDocument) -> int:
        """Take a document; how many of its entities were refused."""
        present = self.present()
        refused = 0
        for said in document.said:
            there = said.key in present
            wanted = not there if document.action is Action.ADD else there
            held = document.action is Action.DELETE and experiments_of(present, said.key)
            if said.key in document.after or not wanted or held:
                refused += 1
                continue
            document.before[said.key] = present.pop(said.key, None)
            if document.action is not Action.DELETE:
                present[said.key] = said
            document.after[said.key] = present.get(said.key)
        self.documents.append(document)
        self.pasts[document.id] = self.present()
        return refused

    def late(self, document: ModelDocument) -> bool:
        """Whether something newer of the centre had been applied, and stands, before this document."""
        return any(
            earlier.centre == document.centre
            and earlier.created > document.created
            and (document.kind is DocumentKind.SPECIMEN or earlier.kind is DocumentKind.EXPERIMENT)
            for earlier in self.standing()
        )

    def builders(self, withdrawn: ModelDocument) -> set[int]:
        """The standing documents that build on one.

        They changed what it changed, brought experiments about specimens that it added, or deleted specimens, which
        are not there, of experiments that would come back.
        """
        later = [document for document in self.standing() if document.id > withdrawn.id]
        found = {document.id for document in later if document.after.keys() & withdrawn.after.keys()}
        added = {key for key, before in withdrawn.before.items() if before is None}
        for document in later:
            if any(said is not None and said.specimens & added for said in document.after.values()):
                found.add(document.id)
        present = self.present()
        for specimen in {key for said in withdrawn.before.values() if said for key in said.specimens} - present.keys():
            found |= {one.id for one in later if specimen in one.after and one.after[specimen] is None}
        return found

    def undo(self, withdrawn: ModelDocument, undo_id: int) -> None:
        """Withdraw a document; `undo_id` is the document that did so."""
        withdrawn.stands = False
        self.pasts[undo_id] = self.present()
