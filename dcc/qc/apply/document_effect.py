"""Decides in memory what applying one document does, from the current versions of its entities."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sqlalchemy import Connection

from dcc.documents.origins import Origin
from dcc.naming import Action
from dcc.qc.apply.ownership import ForeignData, OtherCentre, OtherCentres
from dcc.qc.apply.upload_findings import (
    FindingCollector,
    UploadFinding,
    not_effective,
    not_permitted,
    objection,
    too_long,
)
from dcc.qc.apply.versions import Version, current_versions, experiments_about
from dcc.qc.rows.documents import DocumentToApply, path_of_document
from dcc.qc.rows.entity_keys import Key
from dcc.qc.rows.prepared_file import Entries, PreparedDocument
from dcc.vocabulary import DocumentState, EntityKind

COUNTS: Final = (*(f"{kind}s" for kind in EntityKind), "measurements")
"""The columns of `document` that count what it says."""


@dataclass(frozen=True, slots=True)
class AppliedDocument:
    """The result of a document.

    `repeated`: it was applied before, under this name or another, and nothing was changed. `said` counts its entities
    by kind, and its measurements; `procedures` its measurements by procedure; `opened` and `ended` the versions that it
    opened and ended, by kind. `refused` counts entities that did not take effect; `findings` say why, and whether the
    document came late. For a held document they say what applying it would do. `others` are the centres other than its
    archive's whose data it changed; of a held or refused one, that it names. `confirmed_by` is who confirmed it.
    """

    document_id: int
    state: DocumentState
    said: dict[str, int]
    repeated: bool = False
    late: bool = False
    opened: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    findings: tuple[UploadFinding, ...] = ()
    procedures: dict[str, int] = field(default_factory=dict)
    others: tuple[OtherCentre, ...] = ()
    confirmed_by: str | None = None


class DocumentWithRows(NamedTuple):
    """A document and its rows."""

    document: DocumentToApply
    prepared: PreparedDocument


class CurrentVersions:
    """The current versions of entities, in the database and in decided documents that are not written yet.

    None: there is none.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._known: dict[EntityKind, dict[Key, Version | None]] = {kind: {} for kind in EntityKind}
        self._paths: dict[int, str] = {}

    def ask_about(self, entries: Iterable[Entries]) -> None:
        """Query all entities of some documents at once."""
        named: dict[EntityKind, set[Key]] = {}
        for some in entries:
            if some.kind is not None:
                named.setdefault(some.kind, set()).update(some.keys)
        for kind, keys in named.items():
            self.of(kind, keys)

    def of(self, kind: EntityKind, keys: Collection[Key]) -> dict[Key, Version]:
        """The current versions of these entities, if they have one."""
        known = self._known[kind]
        unknown = [key for key in keys if key not in known]
        if unknown:
            known.update(dict.fromkeys(unknown))
            known.update(current_versions(self.connection, kind, unknown))
        return {key: version for key in keys if (version := known[key]) is not None}

    def path_of(self, document_id: int) -> str:
        """The path of the document of a version."""
        if document_id not in self._paths:
            self._paths[document_id] = path_of_document(self.connection, document_id)
        return self._paths[document_id]

    def update(self, effect: DocumentEffect) -> None:
        """Include the versions that a document opens or ends."""
        self._paths[effect.document_id] = effect.document.place.path
        for kind, versions in effect.opened.items():
            self._known[kind].update(versions)


class DocumentEffect:
    """What one document does to the entities that it names, in rows with their final ids.

    `opened` are the versions that it leaves, `ended` those that it ends, and `not_current` its own ones that do not
    take effect. `owners` are the documents of the current versions of its entities; None for an entity that is missing,
    or cannot be stored. `id_offsets` and `are_current` are for `copy_rows`.
    """

    def __init__(
        self,
        current: CurrentVersions,
        one: DocumentWithRows,
        document_id: int,
        id_offsets: dict[str, int],
        foreign_data: ForeignData,
    ) -> None:
        self._current, self.document_id, self._foreign_data = current, document_id, foreign_data
        self.document, self.prepared = one
        self.are_current = self.document.action is not Action.DELETE and foreign_data is not ForeignData.REFUSE
        self.id_offsets = {**id_offsets, "document": document_id - self.prepared.number}
        self.ended: defaultdict[EntityKind, list[int]] = defaultdict(list)
        self.not_current: defaultdict[EntityKind, list[int]] = defaultdict(list)
        self._counts, self._opened = Counter[EntityKind](), Counter[EntityKind]()
        self._refused = 0
        self.owners: set[int | None] = set()
        self.opened: dict[EntityKind, dict[Key, Version | None]] = {kind: {} for kind in EntityKind}
        self.others = OtherCentres(self.document.rights)
        self.findings = FindingCollector(Origin.from_json(self.prepared.origin))

    def decide(self, entries: Iterable[Entries], *, is_late: bool) -> AppliedDocument:
        """Decide all entities of the document; returns its result, if nothing else keeps it from taking effect."""
        for some in entries:
            if some.kind is None:
                self._take_blocks(some)
            else:
                self._take(some, some.kind)
        ended = {kind.value: len(ids) for kind, ids in self.ended.items()}
        opened = {kind.value: self._opened[kind] for kind in EntityKind if self._opened[kind]}
        state = DocumentState.REFUSED if self._refused and not (opened or ended) else DocumentState.APPLIED
        counts = {f"{kind}s": self._counts[kind] for kind in EntityKind}
        return AppliedDocument(
            self.document_id,
            state,
            counts | {"measurements": sum(self.prepared.measured.values())},
            late=is_late,
            opened=opened,
            ended=ended,
            refused=self._refused,
            findings=self.findings.all(),
            procedures=dict(self.prepared.measured),
            others=self.others.counts(effective=state is DocumentState.APPLIED),
        )

    def _take_blocks(self, some: Entries) -> None:
        """Record too long texts in centre elements, and data that the document may not change."""
        document, named = self.document, set(self.prepared.centres)
        own = None if document.rights is None else document.rights.own
        for line, path, (name,), excess in zip(some.lines, some.paths, some.keys, some.too_long, strict=True):
            centre = str(name)
            if excess is not None:
                self.findings.add(too_long(line, path, "centre element", excess))
            if self._foreign_data is not ForeignData.ALLOW and centre in named and not document.may_change(centre):
                self.findings.add(not_permitted(document.action, own, centre, line, path))

    def _take(self, some: Entries, kind: EntityKind) -> None:
        """Decide entities; those without a row do not take effect."""
        self._counts[kind] += len(some.keys)
        self.others.name(some.keys, kind)
        if None in some.row_ids:
            some = self._stored(some, kind)
        if self._foreign_data is ForeignData.REFUSE:
            self._refused += len(some.keys)
            return
        offset = self.id_offsets[kind.value]
        self._judge(kind, some, [offset + (row_id or 0) for row_id in some.row_ids])

    def _stored(self, some: Entries, kind: EntityKind) -> Entries:
        """Those with rows; the others are recorded and refused."""
        entries = list(zip(*some[1:], strict=True))
        for line, path, key, row_id, excess in entries:
            if row_id is None:
                self._refused += 1
                self.owners.add(None)
                if excess is not None:
                    self.findings.add(too_long(line, path, kind.value, excess, key))
        stored = [entry for entry in entries if entry[3] is not None]
        return Entries(kind, *(map(list, zip(*stored, strict=True)) if stored else ([], [], [], [], [])))

    def _judge(self, kind: EntityKind, some: Entries, row_ids: Sequence[int]) -> None:
        action, keys = self.document.action, set(some.keys)
        asked = keys | {_without_results(action, kind, key) for key in keys}
        current = self._current.of(kind, asked)
        changed = self.opened[kind]
        for key in asked & changed.keys():
            current.pop(key, None)
            if (version := changed[key]) is not None:
                current[key] = version
        experiments: dict[Key, list[str]] = {}
        if action is Action.DELETE and kind is EntityKind.SPECIMEN:
            experiments = experiments_about(self._current.connection, keys)
        for line, path, key, row_id in zip(some.lines, some.paths, some.keys, row_ids, strict=True):
            there_as = key if key in current else _without_results(action, kind, key)
            current_version = current.get(there_as)
            if current_version is None or current_version.document_id != self.document_id:
                self.owners.add(current_version and current_version.document_id)
            of_specimen = experiments.get(key, ())
            found = objection(action, kind, current_version, self.document_id, of_specimen, self._current.path_of)
            if found is not None:
                self._refused += 1
                self.findings.add(not_effective(found, kind, key, line, path, row_id))
                if self.are_current:
                    self.not_current[kind].append(row_id)
                continue
            self.others.take_effect([key], kind)
            if current_version is not None:
                self.ended[kind].append(current_version.id)
                del current[there_as]
                changed[there_as] = None
            if self.are_current:
                current[key] = changed[key] = Version(row_id, self.document_id)
                self._opened[kind] += 1


class DecidedDocument(NamedTuple):
    """A document's effect, and its result, which says whether that takes place."""

    effect: DocumentEffect
    applied: AppliedDocument

    @property
    def keeps_rows(self) -> bool:
        """Whether more than its own row is kept."""
        return self.applied.state is not DocumentState.HELD and not self.applied.repeated


def _without_results(action: Action, kind: EntityKind, key: Key) -> Key:
    """The key that an edited experiment had without results, with a status code alone; else its own."""
    return (*key[:3], None) if action is Action.EDIT and kind is EntityKind.EXPERIMENT else key
