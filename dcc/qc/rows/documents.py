"""The rows of documents: one for each application, replacing earlier ones that did not take effect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, bindparam, insert, select, update

from dcc.databases.list_parameters import IDS, only_compared, rows_about
from dcc.naming import Action, DocumentKind
from dcc.qc.models import DOCUMENT, FINDING
from dcc.rights import Rights
from dcc.runtime.clock import utc_now
from dcc.vocabulary import DocumentAction, DocumentState

_AT_ONCE: Final = 1_000
_NO_DOCUMENT: Final = 2**63 - 1
"""After all documents."""
_NOT_UNDO: Final = DOCUMENT.c.action != DocumentAction.UNDO.value

# Made once: making a statement takes as long as its execution.
_NAMED: Final = (
    select(DOCUMENT)
    .where(
        DOCUMENT.c.zip_file.in_(bindparam("zip_files", expanding=True)),
        DOCUMENT.c.file_name.in_(bindparam("file_names", expanding=True)),
        _NOT_UNDO,
    )
    .order_by(DOCUMENT.c.id.desc())
)
_PLACES: Final = select(DOCUMENT.c.zip_action, DOCUMENT.c.zip_file, DOCUMENT.c.file_name)
_TRACKER_IDS: Final = select(DOCUMENT.c.tracker_id).where(DOCUMENT.c.tracker_id.in_(IDS))
_WITH_TRACKER_ID: Final = select(DOCUMENT.c.id).where(DOCUMENT.c.tracker_id == bindparam("tracker"))
_RELEASE: Final = update(DOCUMENT).where(DOCUMENT.c.id.in_(bindparam("ids", expanding=True))).values(tracker_id=None)
_NEWER: Final = (
    select(DOCUMENT.c.created)
    .where(
        DOCUMENT.c.state == DocumentState.APPLIED.value,
        _NOT_UNDO,
        DOCUMENT.c.id < bindparam("before"),
        DOCUMENT.c.centre == bindparam("centre"),
        DOCUMENT.c.created > bindparam("created"),
        DOCUMENT.c.created <= bindparam("latest"),
    )
    .order_by(DOCUMENT.c.created.desc())
    .limit(1)
)
_NEWER_OF_KIND: Final = _NEWER.where(DOCUMENT.c.kind == bindparam("kind"))


class DocumentPlace(NamedTuple):
    """The origin of a document: its submission, such as `add/H.2013-10-31.1.impc.zip`, and its name."""

    archive: str
    file_name: str

    @property
    def path(self) -> str:
        """Both in one text, as `dcc validate` names documents."""
        return f"{self.archive}/{self.file_name}"


@dataclass(frozen=True, slots=True)
class DocumentToApply:
    """A valid document and its origin; `tracker_id` is its `xml_file.id`, None without a tracker.

    `rights` are the centres whose data it may change; None: all. `first_of_batch` is the id of the first document that
    came together with it, None if it came alone: none of these makes it late, because the platform ordered them.
    """

    action: Action
    zip_file: str
    file_name: str
    kind: DocumentKind
    centre: str
    created: date
    inc: int
    md5: str
    size_bytes: int
    tracker_id: int | None = None
    rights: Rights | None = None
    first_of_batch: int | None = None

    @property
    def place(self) -> DocumentPlace:
        """Its origin."""
        return DocumentPlace(f"{self.action}/{self.zip_file}", self.file_name)

    def may_change(self, centre: str) -> bool:
        """Whether it may change data of a centre."""
        return self.rights is None or self.rights.permit(centre)


def former_applications(connection: Connection, documents: Sequence[DocumentToApply]) -> list[list[Row[Any]]]:
    """The rows of earlier applications of each document, newest first: of the same file of its archive and action.

    Held ones of another file of that name are included: the archive was replaced before anybody confirmed it. A few
    statements for any number of documents.
    """
    former: list[list[Row[Any]]] = []
    for start in range(0, len(documents), _AT_ONCE):
        portion = documents[start : start + _AT_ONCE]
        names = {
            "zip_files": sorted({document.zip_file for document in portion}),
            "file_names": sorted({document.file_name for document in portion}),
        }
        named: defaultdict[tuple[str, ...], list[Row[Any]]] = defaultdict(list)
        for row in connection.execute(_NAMED, names):
            named[row.zip_file, row.zip_action, row.file_name].append(row)
        for one in portion:
            rows = named[one.zip_file, one.action.value, one.file_name]
            former.append([row for row in rows if row.md5 == one.md5 or row.state == DocumentState.HELD.value])
    return former


def known_documents(connection: Connection, documents: Sequence[DocumentToApply]) -> set[int]:
    """The places of the documents with `former_applications`, or with a tracker id that a row has."""
    ids = [document.tracker_id for document in documents if document.tracker_id is not None]
    known = {row.tracker_id for row in rows_about(connection, _TRACKER_IDS, ids)}
    former = former_applications(connection, documents)
    return {place for place, one in enumerate(documents) if former[place] or one.tracker_id in known}


def has_state(state: DocumentState) -> ColumnElement[bool]:
    """Condition on a document that is looked up by something else: most of all documents are in one state."""
    return only_compared(DOCUMENT.c.state) == state.value


def same_document(
    connection: Connection, document: DocumentToApply, content: str, document_id: int | None
) -> DocumentPlace | None:
    """The place of an applied document with the same bytes or content; None if there is none.

    It must be the one with `document_id`; None: one of the centre's deletions, whose entities are gone.
    """
    same = (DOCUMENT.c.md5 == document.md5) | (DOCUMENT.c.content_digest == content)
    same &= has_state(DocumentState.APPLIED)
    if document_id is not None:
        which = DOCUMENT.c.id == document_id
    else:
        which = (DOCUMENT.c.centre == document.centre) & (DOCUMENT.c.action == document.action.value)
    row = connection.execute(_PLACES.where(which, same).order_by(DOCUMENT.c.id.desc()).limit(1)).first()
    return None if row is None else _place(*row)


def path_of_document(connection: Connection, document_id: int) -> str:
    """The path of the document with an id."""
    return _place(*connection.execute(_PLACES.where(DOCUMENT.c.id == document_id)).one()).path


def _place(zip_action: str, zip_file: str, file_name: str) -> DocumentPlace:
    return DocumentPlace(f"{zip_action}/{zip_file}", file_name)


def is_confirmed(row: Row[Any], document: DocumentToApply) -> bool:
    """Whether a row is that of the document as it was held, and somebody confirmed it."""
    return row.state == DocumentState.HELD.value and row.author is not None and row.md5 == document.md5


def replace_former_applications(
    connection: Connection,
    document: DocumentToApply,
    row: Mapping[str, Any],
    former: Iterable[Row[Any]],
    confirmed: Row[Any] | None,
) -> None:
    """Write the document's row of `document_row`, replacing former applications that did not take effect.

    The author and reason of a confirmation are kept. A document that is no longer held, and took no effect, counts as
    refused.
    """
    former_ids = [one.id for one in former]
    _release_tracker_id(connection, document, former_ids)
    refuse_held_applications(connection, former)
    signature = {name: None if confirmed is None else getattr(confirmed, name) for name in ("author", "reason")}
    insert_documents(connection, [{**row, **signature}])
    for row_id in former_ids:
        close_findings(connection, row_id, row["id"])


def document_row(
    document: DocumentToApply, content: str, document_id: int, at: datetime, *, origin: str | None = None
) -> dict[str, Any]:
    """The row of a document that is applied under a new id at a time, without its results.

    `origin` is what it was converted from, as JSON.
    """
    same = ("tracker_id", "zip_file", "file_name", "centre", "created", "inc", "md5", "size_bytes")
    action = document.action.value
    row: dict[str, Any] = {"id": document_id, "zip_action": action, "action": action, "kind": document.kind.value}
    row |= {"content_digest": content, "applied_at": at, "origin": origin}
    return row | {name: getattr(document, name) for name in same}


def insert_documents(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of `document_row`, all with the same columns."""
    connection.execute(insert(DOCUMENT), rows)


def refuse_held_applications(connection: Connection, former: Iterable[Row[Any]]) -> None:
    """Let former applications be held no longer: another one replaces them."""
    held = [row.id for row in former if row.state == DocumentState.HELD.value]
    if held:
        refused = {"state": DocumentState.REFUSED.value}
        connection.execute(update(DOCUMENT).where(DOCUMENT.c.id.in_(held)).values(refused))


def close_findings(connection: Connection, document_id: int, closed_by: int) -> None:
    """Close the findings of a document, waived ones too, because of another document."""
    is_open = (FINDING.c.document_id == document_id) & FINDING.c.closed.is_(None)
    connection.execute(update(FINDING).where(is_open).values(is_active=False, closed=utc_now(), closed_by=closed_by))


def _release_tracker_id(connection: Connection, document: DocumentToApply, former_ids: Collection[int]) -> None:
    """Remove the tracker's id from other rows; they may be of a lost tracker."""
    others = set(former_ids)
    if document.tracker_id is not None:
        others.update(connection.scalars(_WITH_TRACKER_ID, {"tracker": document.tracker_id}))
    if others:
        connection.execute(_RELEASE, {"ids": sorted(others)})


def update_tracker_id(connection: Connection, row: Row[Any], document: DocumentToApply) -> None:
    """Give the row of an applied document the tracker id with which it came last."""
    if document.tracker_id is not None and document.tracker_id != row.tracker_id:
        _release_tracker_id(connection, document, ())
        for table, column in ((DOCUMENT, DOCUMENT.c.id), (FINDING, FINDING.c.document_id)):
            connection.execute(update(table).where(column == row.id).values(tracker_id=document.tracker_id))


class NewestDates:
    """The newest dates of centres' documents, which show whether one of several documents is late.

    They are queried once for each centre and kind, without documents that came together with these. Specimens come
    before experiments of any date, so that only a specimen document is late after an experiment document. A date in the
    future is a mistake, and makes no other document late; a day is allowed for time zones.
    """

    def __init__(self, connection: Connection, documents: Iterable[DocumentToApply]) -> None:
        oldest: dict[tuple[str, DocumentKind], DocumentToApply] = {}
        for document in documents:
            first = oldest.setdefault((document.centre, document.kind), document)
            if document.created < first.created:
                oldest[document.centre, document.kind] = document
        self._newest: dict[tuple[str, DocumentKind], date | None] = {}
        self._latest = utc_now().date() + timedelta(days=1)
        for place, one in oldest.items():
            before = _NO_DOCUMENT if one.first_of_batch is None else one.first_of_batch
            until = {"before": before, "created": one.created, "latest": self._latest}
            values = {"centre": one.centre, "kind": one.kind.value, **until}
            newer = _NEWER if one.kind is DocumentKind.SPECIMEN else _NEWER_OF_KIND
            self._newest[place] = connection.scalar(newer, values)

    def before(self, document: DocumentToApply) -> date | None:
        """The newest date of a document that should have come after this one; None if none is newer."""
        newest = self._newest[document.centre, document.kind]
        return newest if newest is not None and newest > document.created else None

    def add(self, document: DocumentToApply) -> None:
        """Include a document that took effect, unless the others came together with it."""
        if document.first_of_batch is not None or document.created > self._latest:
            return
        for kind in {document.kind, DocumentKind.SPECIMEN}:
            place = (document.centre, kind)
            if place in self._newest:
                self._newest[place] = max(document.created, self._newest[place] or document.created)


def is_edited_since(connection: Connection, document: DocumentToApply, document_id: int) -> bool:
    """Whether it is an edit whose data were changed by other documents after `document_id`, which still count.

    Repeating it is then an edit of these changes.
    """
    if document.action is not Action.EDIT:
        return False
    table = DOCUMENT.c
    named = (table.zip_file == document.zip_file) & (table.zip_action == document.action.value)
    named &= (table.file_name == document.file_name) & (table.md5 != document.md5)
    stands = (table.state == DocumentState.APPLIED.value) & _NOT_UNDO & (table.id > document_id)
    return connection.scalar(select(table.id).where(named, stands).limit(1)) is not None
