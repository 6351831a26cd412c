"""Small documents that add, many applied in one transaction: each as if it were applied by itself, in their order.

A transaction costs more than the rows of a small document, and so do its statements; here both are shared. Documents
that are more than plain additions are applied by themselves (`applying`): those that edit or delete, came before, are
large, have data of another centre than their archive's, or cannot be read or stored as they are. A failure leaves
nothing of any of those that were applied together.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import Final

from sqlalchemy import Connection, Engine, bindparam, update
from sqlalchemy.exc import IntegrityError

from dcc.databases.columns import utc_now
from dcc.databases.transactions import run_reading, run_writing
from dcc.documents.entity_paths import path_of_centre
from dcc.errors import InternalFaultError
from dcc.naming import Action, DocumentKind
from dcc.qc.apply.building_process import Order
from dcc.qc.apply.documents import COUNTED, PATIENCE_SECONDS, Applied, write_findings
from dcc.qc.apply.entity_keys import Key
from dcc.qc.apply.entity_rows import BY_NAME, DOCUMENT_TABLES, ENTITY_TABLES, LIMITS, NUMBERED_TABLES
from dcc.qc.apply.upload_findings import FindingsKept, Judgement, UploadFinding, judge, late
from dcc.qc.apply.upload_lock import let_rows_come, take_upload_lock
from dcc.qc.apply.versions import Version, current_versions
from dcc.qc.apply.whole_documents import BuiltEntities, WholeDocument
from dcc.qc.models import CentreBlock, Document, Lifetime, Measurement
from dcc.qc.rows.building import NUMBERED
from dcc.qc.rows.bulk import BulkInserter, Counters
from dcc.qc.rows.documents import (
    DocumentToApply,
    NewestDates,
    document_row,
    insert_documents,
    known_documents,
)
from dcc.vocabulary import DocumentState, EntityKind

log = logging.getLogger(__name__)

Build = Callable[[int, Order], Sequence[WholeDocument]]

SMALL_BYTES: Final = 1_000_000
"""How large a document may be that is applied with others."""
MOST_DOCUMENTS: Final = 100
MOST_BYTES: Final = 5_000_000
"""How many are applied together, and how large they are in all: so little is lost when a session is killed."""

_DOCUMENT: Final = Document.__table__
_LIFETIME: Final = Lifetime.__tablename__
_APPLIED_NOW: Final = (
    update(_DOCUMENT)
    .where(_DOCUMENT.c.id.between(bindparam("first"), bindparam("last")))
    .values(applied_at=bindparam("now"))
)
_MEASUREMENT: Final = Measurement.__tablename__
_BLOCK: Final = CentreBlock.__tablename__
_COLUMNS: Final = {kind: [column.name for column in table.columns] for kind, table in ENTITY_TABLES.items()}


def apply_together(
    engine: Engine,
    documents: Sequence[DocumentToApply],
    build: Build,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> list[Applied]:
    """Apply documents that add in one transaction; what became of the first ones, as many as could be applied so.

    The next one is to be applied by itself. `build`, given a number of documents and how their rows are to be built,
    yields as many of the first documents as are plain, anew at each call; it is called again when the transaction is.
    What it raises leaves no row behind. Raises as `apply_document`.
    """

    def apply(connection: Connection) -> list[Applied]:
        take_upload_lock(connection)
        return _prepare(connection, documents, build, ()).write(connection)

    return run_writing(engine, apply, patience_seconds=patience_seconds)


def prepare_together(
    engine: Engine,
    documents: Sequence[DocumentToApply],
    build: Build,
    former: Sequence[Prepared] = (),
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Prepared:
    """Do all that `apply_together` does but for writing, which `apply_prepared` then does.

    `former` were prepared before these, in that order, and may be on their way into the database. Of `build`, and of
    what is raised, see `apply_together`.
    """
    return run_reading(
        engine,
        lambda connection: _prepare(connection, documents, build, former),
        patience_seconds=patience_seconds,
    )


def apply_prepared(
    engine: Engine,
    prepared: Prepared,
    is_former_written: Callable[[], bool] | None = None,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> list[Applied] | None:
    """Write documents that were prepared, in one transaction; what became of them.

    Where those that come before them are on their way, `is_former_written` waits for these. The server takes the rows
    meanwhile, and the upload lock is taken after that. None: nothing was written, because those were not, somebody else
    applied documents first, or the transaction came to nothing for another passing reason; they are to be applied anew.
    Raises as `apply_document`.
    """

    def apply(connection: Connection) -> list[Applied]:
        # One try: what it waited for in vain may be what waits for it.
        if prepared.is_taken:
            raise _OvertakenError("the first try came to nothing")
        prepared.is_taken = True
        let_rows_come(connection)
        prepared.rows_come.set()
        if is_former_written is None:
            take_upload_lock(connection, rows_have_come=True)
            _expect(_next_ids(connection) == prepared.first_ids)
            return prepared.write(connection)
        applied = _write_ahead(connection, prepared)
        if not is_former_written():
            raise _OvertakenError("those before them were not written")
        take_upload_lock(connection, rows_have_come=True)
        # Whoever applies or undoes something writes a document; ids of other tables may have been left out.
        _expect(Counters(connection).following(_DOCUMENT) == prepared.next_ids[_DOCUMENT.name])
        prepared.date(connection)
        return applied

    try:
        return run_writing(engine, apply, patience_seconds=patience_seconds)
    except _OvertakenError as error:
        log.info("%d documents are applied anew: %s.", len(prepared.documents), error)
        return None


def _write_ahead(connection: Connection, prepared: Prepared) -> list[Applied]:
    """Write documents that may not be the next ones; what keeps their rows out may be those of others."""
    try:
        return prepared.write(connection)
    except (IntegrityError, InternalFaultError) as error:
        raise _OvertakenError(f"rows were not taken: {error}") from error


def _expect(are_next: bool) -> None:
    """Raise _OvertakenError if the ids of documents are not the next ones, because others were applied."""
    if not are_next:
        raise _OvertakenError("others were applied meanwhile")


class _OvertakenError(Exception):
    """What was prepared is not to be written, or what was written of it not to stand."""


NextIds = dict[str, int]
"""The ids of the next rows of `document` and of the numbered tables, by their names."""


def _next_ids(connection: Connection) -> NextIds:
    tables = [_DOCUMENT, *NUMBERED_TABLES]
    counters = Counters(connection)
    counters.read(tables)
    return {table.name: counters.following(table) for table in tables}


@dataclass(eq=False)
class Prepared:
    """Documents of which all is decided, and their rows, which are not written yet; there may be none.

    `first_ids` are those that their rows begin with. For documents that come after these: `next_ids`, which versions of
    entities are current, of those that these name, and which documents take effect. `is_taken`: somebody tries to write
    them, or has given that up. `rows_come` is set once those of documents after these may come too.
    """

    documents: Sequence[DocumentToApply]
    applied: list[Applied]
    first_ids: NextIds
    next_ids: NextIds
    current: Mapping[EntityKind, Mapping[Key, Version]]
    bulk: BulkInserter
    is_taken: bool = False
    rows_come: threading.Event = field(default_factory=threading.Event)

    @property
    def effective(self) -> list[DocumentToApply]:
        """Those that take effect."""
        pairs = zip(self.documents, self.applied, strict=True)
        return [document for document, one in pairs if one.state is DocumentState.APPLIED]

    def write(self, connection: Connection) -> list[Applied]:
        """Write all rows, once, in a transaction that is committed under the upload lock; what became of them."""
        if not self.documents:
            return []
        rows = [
            document_row(document, one.document_id) | {"state": one.state.value, "late": one.late} | one.said
            for document, one in zip(self.documents, self.applied, strict=True)
        ]
        insert_documents(connection, rows)
        self.bulk.flush(connection)
        for document, one in zip(self.documents, self.applied, strict=True):
            write_findings(connection, document, one.document_id, one.findings)
        return self.applied

    def date(self, connection: Connection) -> None:
        """Have documents that were written before the upload lock was taken be applied now, in their order."""
        ids = [one.document_id for one in self.applied]
        connection.execute(_APPLIED_NOW, {"first": ids[0], "last": ids[-1], "now": utc_now()})


def _prepare(
    connection: Connection, documents: Sequence[DocumentToApply], build: Build, former: Sequence[Prepared]
) -> Prepared:
    first_ids = former[-1].next_ids if former else _next_ids(connection)
    bulk = BulkInserter(connection, DOCUMENT_TABLES)
    number = min(_known(connection, documents, former), default=len(documents))
    built: Sequence[WholeDocument] = ()
    if number:
        ids = {name: first_ids[name] for name in NUMBERED}
        built = build(number, Order(first_ids[_DOCUMENT.name], ids, LIMITS, bulk.wants_lines))
        built = [whole for whole, _ in takewhile(_is_of_own_centre, zip(built, documents, strict=False))]
    return _Group(connection, documents[: len(built)], built, bulk, former).prepare(first_ids)


def _is_of_own_centre(pair: tuple[WholeDocument, DocumentToApply]) -> bool:
    """Whether a document has data of its archive's centre alone; any other is judged by itself (`applying`)."""
    whole, document = pair
    if document.rights is None:
        return True
    keys = (key for entities in whole.entities.values() for key in entities.keys)
    return all(key[0] == document.rights.own for key in keys)


def _known(connection: Connection, documents: Sequence[DocumentToApply], former: Sequence[Prepared]) -> set[int]:
    """The places of documents that are in the database, or on their way there."""
    before = {_name_of(one) for some in former for one in some.documents}
    coming = {place for place, one in enumerate(documents) if _name_of(one) in before}
    return known_documents(connection, documents) | coming


def _name_of(document: DocumentToApply) -> tuple[str, Action, str]:
    return (document.zip_file, document.action, document.file_name)


class _Group:
    """Documents that are decided upon together; `former` are those that come before them."""

    def __init__(
        self,
        connection: Connection,
        documents: Sequence[DocumentToApply],
        built: Sequence[WholeDocument],
        bulk: BulkInserter,
        former: Sequence[Prepared],
    ) -> None:
        self._connection, self._documents, self._built, self._bulk = connection, documents, built, bulk
        self._lifetimes = bulk.rows_of(Lifetime.__table__)
        self._entities = {kind: bulk.rows_of(table) for kind, table in ENTITY_TABLES.items()}
        self._newest = NewestDates(connection, documents)
        self._former = former
        for document in [one for some in former for one in some.effective]:
            self._newest.add(document)
        self._current = {kind: self._current_versions(kind) for kind in EntityKind}

    def prepare(self, first_ids: NextIds) -> Prepared:
        """Decide upon each document in turn; `first_ids` are those of the first rows."""
        lifetime_ids = count(first_ids[_LIFETIME])
        self._lifetime_id = lifetime_ids.__next__
        applied = [self._apply(*pair) for pair in zip(self._documents, self._built, strict=True)]
        next_ids = first_ids | {_DOCUMENT.name: first_ids[_DOCUMENT.name] + len(applied), _LIFETIME: next(lifetime_ids)}
        if self._built:
            next_ids |= self._built[-1].next_ids
        return Prepared(self._documents, applied, first_ids, next_ids, self._current, self._bulk)

    def _current_versions(self, kind: EntityKind) -> dict[Key, Version]:
        keys = {key for one in self._built if kind.value in one.entities for key in one.entities[kind.value].keys}
        if not keys:
            return {}
        current = current_versions(self._connection, kind, keys)
        for former in self._former:
            # The database may not have these yet.
            brought = former.current[kind]
            current.update((key, brought[key]) for key in keys & brought.keys())
        return current

    def _apply(self, document: DocumentToApply, built: WholeDocument) -> Applied:
        findings = FindingsKept()
        newest = self._newest.before(document)
        if newest is not None:
            findings.add(late(document.created, newest))
        said = dict.fromkeys(COUNTED.values(), 0)
        opened: dict[str, int] = {}
        refused = 0
        for name, entities in built.entities.items():
            kind = EntityKind(name)
            objections = self._add_entities(kind, entities, built, document.kind)
            for finding in objections:
                findings.add(finding)
            said[COUNTED[kind]] = len(entities.keys)
            refused += len(objections)
            if len(entities.keys) > len(objections):
                opened[name] = len(entities.keys) - len(objections)
        said["measurements"] = self._add_rows(built)
        state = DocumentState.REFUSED if refused and not opened else DocumentState.APPLIED
        if state is DocumentState.APPLIED:
            self._newest.add(document)
        return Applied(
            built.document_id,
            state,
            repeated=False,
            late=newest is not None,
            said=said,
            opened=opened,
            ended={},
            refused=refused,
            findings=findings.all(),
            procedures=dict(sorted(built.measured.items())),
            noted=built.noted,
        )

    def _add_rows(self, built: WholeDocument) -> int:
        """Take the rows of a document but its entities'; the number of its measurements."""
        for name, rows in built.rows.items():
            self._bulk.rows_of(BY_NAME[name]).extend(rows)
        for name, (number, lines) in built.lines.items():
            self._bulk.add_lines(name, number, lines)
        if _MEASUREMENT in built.lines:
            return built.lines[_MEASUREMENT][0]
        return len(built.rows.get(_MEASUREMENT, ()))

    def _add_entities(
        self, kind: EntityKind, entities: BuiltEntities, built: WholeDocument, of: DocumentKind
    ) -> list[UploadFinding]:
        """Take the entities of one kind, and open versions of those that are new; what keeps the others from it."""
        keys, document_id = entities.keys, built.document_id
        current, own, new_id = self._current[kind], kind.value, self._lifetime_id
        if current.keys().isdisjoint(keys) and len(set(keys)) == len(keys):
            # Nearly always so, and much faster than to judge each.
            if entities.text is None:
                self._entities[kind].extend(entities.rows)
            else:
                self._bulk.add_lines(ENTITY_TABLES[kind].name, len(keys), entities.text)
            self._lifetimes.extend([(new_id(), own, row_id, document_id, None) for row_id in entities.ids])
            current.update((key, Version(row_id, document_id)) for key, row_id in zip(keys, entities.ids, strict=True))
            return []
        return [*self._judged(kind, entities, built, of)]

    def _judged(
        self, kind: EntityKind, entities: BuiltEntities, built: WholeDocument, of: DocumentKind
    ) -> Iterator[UploadFinding]:
        current, document_id = self._current[kind], built.document_id
        numbers: Counter[str] = Counter()
        every = zip(entities.keys, entities.lines, entities.ids, entities.all_rows(), strict=True)
        for key, line, row_id, (*values, _, validity) in every:
            row = dict(zip(_COLUMNS[kind], values, strict=False))
            # The blocks of a document have the ids that follow each other.
            block = path_of_centre(of, int(row["block_id"] or 0) - built.first_ids[_BLOCK] + 1)
            element = f"{block}/{row['kind'] if kind is EntityKind.SPECIMEN else kind.value}"
            numbers[element] += 1
            judgement = Judgement(Action.ADD, kind, key, current.get(key), document_id, ())
            finding = judge(judgement, line, row_id)
            self._entities[kind].append((*values, int(finding is None), validity))
            if finding is not None:
                yield finding._replace(path=f"{element}[{numbers[element]}]")
                continue
            self._lifetimes.append((self._lifetime_id(), kind.value, row_id, document_id, None))
            current[key] = Version(row_id, document_id)
