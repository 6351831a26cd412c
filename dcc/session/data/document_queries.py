"""The documents that wait for the phases after validation, their number, and their rows in the QC database.

Only documents of a submission's latest download count, and none while it waits to be downloaded again. A row belongs
to the document of its `xml_file` id only if it is of the same file. A tracker that was made again gives the ids of a
lost one to other documents.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, false, func, or_, select

from dcc.databases.list_parameters import IDS, rows_about
from dcc.databases.schema import current
from dcc.errors import BadFileNameError
from dcc.naming import ANY_CENTRE, Action, NamingConvention
from dcc.outcomes import SubmissionKey
from dcc.phases import STATES, UNFAILED, UNFINISHED, Phase, State, Status
from dcc.qc.database import open_qc_database
from dcc.qc.models import DOCUMENT
from dcc.session.data.upload_order import DueDocument, in_order_of_upload
from dcc.settings import Settings
from dcc.tracker.decisions import DecisionKind, is_decided, is_on_hold
from dcc.tracker.hostings.older_archives import waiting_for_older
from dcc.tracker.models import Centre, FileSourceHasZip, Reopening, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.states import AWAITING_QC
from dcc.tracker.submission_rows import IS_SUPERSEDED, named_after, state_of
from dcc.vocabulary import DocumentAction, DocumentState

log = logging.getLogger(__name__)


_BEFORE: Final = {phase: Phase(phase - 1) for phase in Phase if phase >= Phase.UPLOAD}
"""The phases after validation, each with the one before."""
_MAY_LACK: Final = (Phase.DATA, Phase.OVERVIEW)
"""Steps without which documents go on where they are left out."""


def load_due(
    connection: Connection, phase: Phase, naming: NamingConvention, keys: Collection[SubmissionKey] | None = None
) -> list[DueDocument]:
    """The documents that wait for a phase, in the order of upload; only of the submissions `keys`, if given.

    They are those at (the phase before, done), and those that a session left pending or running in it. A document whose
    name no longer follows `naming` is left waiting, and logged.
    """
    return in_order_of_upload(_due_documents(connection.execute(_DUE[phase]), naming, keys))


def waiting_for_upload(connection: Connection, za_id: int | None, naming: NamingConvention) -> list[DueDocument]:
    """The documents of a submission that wait for upload, in the sense of `load_due`, whether it is on hold or not."""
    waiting = _current(*_COLUMNS).where(_due(Phase.UPLOAD), FileSourceHasZip.za_id == za_id)
    return in_order_of_upload(_due_documents(connection.execute(waiting), naming, None))


def load_unfinished(connection: Connection) -> dict[int, State]:
    """The states of all documents that have come to qc, except (qc, done), by the ids of their `xml_file`.

    Includes documents that do not count, because excluding them is expensive; `load_documents` leaves them out.
    """
    return {row.id: state_of(row) for row in connection.execute(_UNSETTLED)}


def load_qc_states(connection: Connection, xml_ids: Iterable[int]) -> dict[int, State]:
    """The states of those documents that have come to qc, by the ids of their `xml_file`."""
    return {row.id: state_of(row) for row in rows_about(connection, _QC_STATES, xml_ids)}


def load_documents(connection: Connection, xml_ids: Iterable[int], naming: NamingConvention) -> list[DueDocument]:
    """The documents with these ids that count, in the order of upload, in any state."""
    return in_order_of_upload(_due_documents(rows_about(connection, _BY_ID, xml_ids), naming, None))


def archives_from(connection: Connection, sources: Collection[int]) -> set[str]:
    """The names of the archives that were fetched from some file sources."""
    if not sources:
        return set()
    query = (
        select(ZipFile.file_name)
        .join(ZipAction, ZipAction.zip_id == ZipFile.id)
        .join(FileSourceHasZip, FileSourceHasZip.za_id == ZipAction.id)
        .join(ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id)
        .where(FileSourceHasZip.file_source_id.in_(sources))
        .distinct()
    )
    return set(connection.scalars(query))


def count_waiting(connection: Connection, centres: Collection[str] | None = None, until: Phase = Phase.QC) -> int:
    """The number of documents for the phases after validation up to `until`, including held ones.

    Only those in archives of some `centres`, if given.
    """
    # Documents that wait for a wrangler wait for no session.
    waits = {phase: _due(phase) for phase in _BEFORE} | {Phase.QC: _REACHED_QC}
    due = [found for phase, found in waits.items() if phase <= until]
    if not due:
        return 0
    # Apart from the states, for which both databases then use the index.
    left_alone = or_(*(and_(waits[phase], those) for phase, those in _LEFT_ALONE.items()))
    return connection.scalar(_current(func.count()).where(or_(*due), ~left_alone, named_after(centres))) or 0


_COLUMNS: Final = (
    XmlFile.id,
    XmlFile.fname,
    XmlFile.size_bytes,
    XmlFile.content_md5,
    XmlFile.phase_id,
    XmlFile.status_id,
    FileSourceHasZip.za_id,
    ZipFile.file_name,
    ZipAction.todo_id,
    Centre.short_name,
    FileSourceHasZip.file_source_id,
)


def _current(*columns: Any) -> Select[*tuple[Any, ...]]:
    """Conditions for documents that count: of the latest downloads, not from before a re-opening."""
    reopened = (
        select(Reopening.id)
        .where(
            Reopening.za_id == FileSourceHasZip.za_id,
            Reopening.last_download_id >= ZipDownload.id,
            Reopening.fell_back.is_(None),
        )
        .correlate(FileSourceHasZip, ZipDownload)
    )
    return (
        select(*columns)
        .select_from(XmlFile)
        .join(ZipDownload, ZipDownload.id == XmlFile.download_id)
        .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
        .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .outerjoin(Centre, Centre.id == ZipFile.centre_id)
        .where(~IS_SUPERSEDED, ~exists(reopened))
    )


def _due(phase: Phase) -> ColumnElement[bool]:
    # One equality on the phase for each term: both databases then use the index on (phase_id, status_id).
    return or_(_passed(_BEFORE[phase]), _in_state(phase, *UNFINISHED))


def _passed(phase: Phase) -> ColumnElement[bool]:
    """Whether a document is done with a phase, or without it."""
    return _in_state(phase, Status.DONE, *([Status.CANCELLED] if phase in _MAY_LACK else []))


def _in_state(phase: Phase, *statuses: Status) -> ColumnElement[bool]:
    return and_(XmlFile.phase_id == phase, XmlFile.status_id.in_(statuses))


_BY_ID: Final = _current(*_COLUMNS).where(XmlFile.id.in_(IDS))
_LEFT_ALONE: Final = {Phase.UPLOAD: is_on_hold(), Phase.DATA: is_decided(DecisionKind.QUARANTINE)}
"""The submissions that a phase leaves alone."""
_DUE: Final = {phase: _current(*_COLUMNS).where(_due(phase), ~_LEFT_ALONE.get(phase, false())) for phase in _BEFORE}
_REACHED_QC: Final = _passed(_BEFORE[Phase.QC])
_THROUGH: Final = or_(_REACHED_QC, _in_state(Phase.QC, *UNFAILED))
_STATES_OF: Final = select(XmlFile.id, XmlFile.phase_id, XmlFile.status_id)
_QC_STATES: Final = _STATES_OF.where(XmlFile.id.in_(IDS), _THROUGH)
_UNSETTLED: Final = _STATES_OF.where(_due(Phase.QC))


def _due_documents(
    rows: Iterable[Any], naming: NamingConvention, keys: Collection[SubmissionKey] | None
) -> Iterator[DueDocument]:
    # Documents of one archive, centre or state share objects: a session may have 50,000 of them.
    of_actions: dict[int, SubmissionKey] = {}
    for xml_id, file_name, size_bytes, md5, phase, status, za_id, zip_name, action, centre, source in rows:
        key = of_actions.get(za_id)
        if key is None:
            key = of_actions[za_id] = SubmissionKey(action, zip_name)
        if keys is not None and key not in keys:
            continue
        try:
            name = naming.parse_document_name(file_name, ANY_CENTRE)
        except BadFileNameError as error:
            log.warning("%s goes on waiting: %s Its name did follow DCC_DOCUMENT_PATTERN once.", key, error)
            continue
        if centre == name.centre:
            centre = name.centre
        yield DueDocument(xml_id, za_id, key, centre, name, size_bytes or 0, md5, STATES[phase, status], source)


_NOT_UNDO: Final = DOCUMENT.c.action != DocumentAction.UNDO.value


class QcDocument(NamedTuple):
    """A document of the QC database, with the id of its `xml_file` in the tracker; `author` is who confirmed it."""

    id: int
    xml_id: int | None
    state: DocumentState
    author: str | None
    key: SubmissionKey
    file_name: str
    md5: str

    @property
    def is_held(self) -> bool:
        """Whether it waits for confirmation."""
        return self.state is DocumentState.HELD and self.author is None

    def is_of(self, document: DueDocument) -> bool:
        """Whether it belongs to a document of the tracker: the same file, not only the same id."""
        mine = (self.xml_id, self.key, self.file_name, self.md5)
        return mine == (document.xml_id, document.key, document.name.file_name, document.md5 or "")


def documents_of(connection: Connection, documents: Iterable[DueDocument]) -> dict[int, QcDocument]:
    """The rows of these documents of the tracker, by the ids of their `xml_file`."""
    wanted = {document.xml_id: document for document in documents}
    # They share equal names with the tracker's documents, to save memory.
    return {
        document.xml_id: found._replace(key=document.key, file_name=document.name.file_name, md5=document.md5 or "")
        for found in _documents_of_rows(rows_about(connection, _OF_TRACKER, wanted))
        if found.xml_id and found.is_of(document := wanted[found.xml_id])
    }


def documents_by_id(connection: Connection, document_ids: Iterable[int]) -> list[QcDocument]:
    """The documents with these ids."""
    return list(_documents_of_rows(rows_about(connection, _QC_BY_ID, document_ids)))


class CountedDocument(NamedTuple):
    """A document as the tracker has it, and as the QC database has it."""

    due: DueDocument
    stored: QcDocument


def counted_by_tracker(
    connection: Connection, documents: Iterable[QcDocument], naming: NamingConvention
) -> list[CountedDocument]:
    """Those documents that the tracker counts, in the order of upload."""
    by_xml_id = {found.xml_id: found for found in documents if found.xml_id is not None}
    known = [CountedDocument(due, by_xml_id[due.xml_id]) for due in load_documents(connection, by_xml_id, naming)]
    return [document for document in known if document.stored.is_of(document.due)]


def in_state(connection: Connection, state: DocumentState, key: SubmissionKey | None = None) -> list[QcDocument]:
    """The documents in a state that the tracker knows; of one submission only, if given."""
    known = DOCUMENT.c.tracker_id.is_not(None)
    query = _documents().where(DOCUMENT.c.state == state.value, known).order_by(DOCUMENT.c.id)
    if key is not None:
        query = query.where(DOCUMENT.c.zip_file == key.file_name, DOCUMENT.c.zip_action == key.action.value)
    return list(_documents_of_rows(connection.execute(query)))


def standing_documents(connection: Connection, centre: str | None) -> list[int]:
    """The ids of the applied documents, of one centre only, if given."""
    query = select(DOCUMENT.c.id).where(DOCUMENT.c.state == DocumentState.APPLIED.value, _NOT_UNDO)
    return list(connection.scalars(query if centre is None else query.where(DOCUMENT.c.centre == centre)))


_QC_COLUMNS: Final = ("id", "tracker_id", "state", "author", "zip_action", "zip_file", "file_name", "md5")


def _documents() -> Any:
    return select(*(DOCUMENT.c[name] for name in _QC_COLUMNS)).where(_NOT_UNDO)


_OF_TRACKER: Final = _documents().where(DOCUMENT.c.tracker_id.in_(IDS))
_QC_BY_ID: Final = _documents().where(DOCUMENT.c.id.in_(IDS))


def _documents_of_rows(rows: Iterable[Any]) -> Iterator[QcDocument]:
    for document_id, xml_id, state, author, action, zip_file, file_name, md5 in rows:
        key = SubmissionKey(Action(action), zip_file)
        yield QcDocument(document_id, xml_id, DocumentState(state), author, key, file_name, md5 or "")


def count_due_documents(tracker: Connection, settings: Settings, centres: Collection[str] | None, until: Phase) -> int:
    """The number of documents of centres, or of all, that wait for the steps after validation up to `until`.

    Without those that wait for a person, or for an older archive. Raises QcDatabaseOutdatedError and
    QcDatabaseUnreachableError.
    """
    if count_waiting(tracker, centres, until) == 0:
        return 0
    found = [
        document
        for phase in Phase
        if Phase.UPLOAD <= phase <= until
        for document in load_due(tracker, phase, settings.naming)
        if document.state != AWAITING_QC and (centres is None or document.centre in centres)
    ]
    to_upload = [document for document in found if document.state.phase <= Phase.UPLOAD]
    # The session that takes the older archive, or the next one after the decision about it, takes these too.
    # An addition waits only after a session that saw to it.
    may_wait = [one for one in to_upload if one.key.action is not Action.ADD or one.state.phase is Phase.UPLOAD]
    older = waiting_for_older(tracker, {document.za_id for document in may_wait})
    left = {document.xml_id for document in may_wait if document.za_id in older}
    if any(document.state.phase is Phase.UPLOAD for document in to_upload):
        with current(open_qc_database(settings)) as engine, engine.connect() as qc:
            left |= {one.xml_id for one in in_state(qc, DocumentState.HELD) if one.is_held and one.xml_id is not None}
    return len({document.xml_id for document in found} - left)
