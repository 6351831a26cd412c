"""The rows of documents: one for each application, in the place of earlier ones that did not stand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, insert, or_, select, update

from dcc_resources.databases.columns import utc_now
from dcc_resources.naming import Action, DocumentKind
from dcc_resources.qc_database.models import Document, Finding
from dcc_resources.qc_database.vocabulary import DocumentAction, DocumentState

_DOCUMENT: Final = Document.__table__
_FINDING: Final = Finding.__table__
_NOT_UNDO: Final = _DOCUMENT.c.action != DocumentAction.UNDO.value

# Made once: making a statement takes as long as its execution.
_SAME_FILE: Final = or_(_DOCUMENT.c.md5 == bindparam("md5"), _DOCUMENT.c.state == DocumentState.HELD.value)
_FORMER: Final = (
    select(_DOCUMENT)
    .where(
        _DOCUMENT.c.zip_file == bindparam("zip_file"),
        _DOCUMENT.c.zip_action == bindparam("action"),
        _DOCUMENT.c.file_name == bindparam("file_name"),
        _SAME_FILE,
        _NOT_UNDO,
    )
    .order_by(_DOCUMENT.c.id.desc())
)
_WITH_TRACKER_ID: Final = select(_DOCUMENT.c.id).where(_DOCUMENT.c.tracker_id == bindparam("tracker"))
_RELEASE: Final = update(_DOCUMENT).where(_DOCUMENT.c.id.in_(bindparam("ids", expanding=True))).values(tracker_id=None)
_INSERT: Final = insert(_DOCUMENT)
_NEWER: Final = (
    select(_DOCUMENT.c.created)
    .where(
        _DOCUMENT.c.state == DocumentState.APPLIED.value,
        _NOT_UNDO,
        _DOCUMENT.c.id != bindparam("document_id"),
        _DOCUMENT.c.centre == bindparam("centre"),
        _DOCUMENT.c.created > bindparam("created"),
    )
    .order_by(_DOCUMENT.c.created.desc())
    .limit(1)
)
_NEWER_OF_KIND: Final = _NEWER.where(_DOCUMENT.c.kind == bindparam("kind"))


@dataclass(frozen=True, slots=True)
class DocumentToApply:
    """A valid document and where it came from; `tracker_id` is its `xml_file.id`, None without a tracker."""

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


def former_applications(connection: Connection, document: DocumentToApply) -> Sequence[Row[Any]]:
    """The rows of earlier applications of a document, the newest first: of the same file of the same zip and action.

    What is held of another file of that name gives way too: the archive was replaced before anybody confirmed it.
    """
    named = {
        "zip_file": document.zip_file,
        "action": document.action.value,
        "file_name": document.file_name,
        "md5": document.md5,
    }
    return connection.execute(_FORMER, named).all()


def is_confirmed(row: Row[Any], document: DocumentToApply) -> bool:
    """Whether a row is that of the document as it was held, and somebody confirmed it."""
    return row.state == DocumentState.HELD.value and row.author is not None and row.md5 == document.md5


def give_way(
    connection: Connection,
    document: DocumentToApply,
    document_id: int,
    former: Iterable[Row[Any]],
    confirmed: Row[Any] | None,
) -> None:
    """Write the document's row under a new id, in the place of former applications that did not stand.

    Who confirmed it, and why, go with it. What was held and is not any more, took no effect: it counts as refused.
    """
    former_ids = [row.id for row in former]
    _release_tracker_id(connection, document, former_ids)
    refuse_held(connection, former)
    connection.execute(
        _INSERT,
        {
            "id": document_id,
            "tracker_id": document.tracker_id,
            "zip_action": document.action.value,
            "zip_file": document.zip_file,
            "file_name": document.file_name,
            "kind": document.kind.value,
            "centre": document.centre,
            "created": document.created,
            "inc": document.inc,
            "action": document.action.value,
            "md5": document.md5,
            "size_bytes": document.size_bytes,
            "state": DocumentState.APPLIED.value,
            "applied_at": utc_now(),
            "author": None if confirmed is None else confirmed.author,
            "reason": None if confirmed is None else confirmed.reason,
        },
    )
    for row_id in former_ids:
        close_findings(connection, row_id, document_id)


def refuse_held(connection: Connection, former: Iterable[Row[Any]]) -> None:
    """Have those of the former applications that are held not be so any more: another one came in their place."""
    held = [row.id for row in former if row.state == DocumentState.HELD.value]
    if held:
        refused = {"state": DocumentState.REFUSED.value}
        connection.execute(update(_DOCUMENT).where(_DOCUMENT.c.id.in_(held)).values(refused))


def close_findings(connection: Connection, document_id: int, closed_by: int) -> None:
    """Make the findings of a document inactive, because of another document."""
    finding = Finding.__table__
    active = (finding.c.document_id == document_id) & finding.c.is_active
    connection.execute(update(finding).where(active).values(is_active=False, closed=utc_now(), closed_by=closed_by))


def _release_tracker_id(connection: Connection, document: DocumentToApply, former_ids: Collection[int]) -> None:
    """Have no other row stand for the tracker's document; it may be of a tracker that was made anew since."""
    others = set(former_ids)
    if document.tracker_id is not None:
        others.update(connection.scalars(_WITH_TRACKER_ID, {"tracker": document.tracker_id}))
    if others:
        connection.execute(_RELEASE, {"ids": sorted(others)})


def follow_tracker(connection: Connection, row: Row[Any], document: DocumentToApply) -> None:
    """Have the row of a document that stands be known by the tracker id that it came with last."""
    if document.tracker_id is not None and document.tracker_id != row.tracker_id:
        _release_tracker_id(connection, document, ())
        for table, column in ((_DOCUMENT, _DOCUMENT.c.id), (_FINDING, _FINDING.c.document_id)):
            connection.execute(update(table).where(column == row.id).values(tracker_id=document.tracker_id))


def newest_before(connection: Connection, document: DocumentToApply, document_id: int) -> date | None:
    """The newest date of the centre's documents that should have come after this one; None if none is newer.

    Specimens come before experiments of any date, so that only a specimen document is late after an experiment
    document.
    """
    asked: dict[str, object] = {"document_id": document_id, "centre": document.centre, "created": document.created}
    if document.kind is DocumentKind.SPECIMEN:
        return connection.scalar(_NEWER, asked)
    return connection.scalar(_NEWER_OF_KIND, asked | {"kind": document.kind.value})


def is_edited_since(connection: Connection, document: DocumentToApply, document_id: int) -> bool:
    """Whether it is an edit that came with other contents after it was applied as `document_id`, and these stand.

    To come as it was before is then an edit of what it changed since.
    """
    if document.action is not Action.EDIT:
        return False
    table = _DOCUMENT.c
    named = (table.zip_file == document.zip_file) & (table.zip_action == document.action.value)
    named &= (table.file_name == document.file_name) & (table.md5 != document.md5)
    stands = (table.state == DocumentState.APPLIED.value) & _NOT_UNDO & (table.id > document_id)
    return connection.scalar(select(table.id).where(named, stands).limit(1)) is not None
