"""Which of the documents that wait are uploaded together, in their order (`dcc.qc.apply.many_documents`).

Small additions that were not applied before go together, as many as its limits let, so that a session that is
killed has lost little. All others go by themselves, and so do all where there is little to upload.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence

from dcc.naming import Action
from dcc.qc.apply.building_process import LARGE
from dcc.qc.apply.documents import DocumentToApply
from dcc.qc.apply.many_documents import MOST_BYTES, MOST_DOCUMENTS, SMALL_BYTES
from dcc.qc.apply.reading_ahead import ReadingAhead, Waiting
from dcc.qc.apply.reading_turns import readers_worth
from dcc.qc.judging import checking_while_reading
from dcc.qc.judging.checked_at_upload import CheckedAtUpload
from dcc.qc.rows.documents import known_documents
from dcc.session.data.data_session import DataSession
from dcc.session.data.documents import DueDocument
from dcc.session.data.judging_basis import basis_of_today, see_to_reference_data
from dcc.session.data.staged_documents import place_in_staging
from dcc.tracker.register.delegations import Delegations


class UploadQueue:
    """Documents that wait, in their order; `stored` are the ids of the `xml_file` of those that the QC database has."""

    def __init__(self, work: DataSession, due: Sequence[DueDocument], stored: Collection[int]) -> None:
        self._waiting = deque(due)
        self._small: set[int] = set()
        self.ahead: ReadingAhead | None = None
        """What reads the documents; None where they are too little for it."""
        if sum(document.size_bytes for document in due) < LARGE:
            return
        self._small = _small_additions(work, [one for one in due if one.xml_id not in stored])
        see_to_reference_data(work)
        basis = work.read_qc(lambda connection: basis_of_today(connection, work.settings.max_document_errors))
        work.checked = CheckedAtUpload(basis)
        looking = checking_while_reading.looking(basis.reference.data, basis.today)
        side_by_side = sum(document.size_bytes for document in due if self.is_small(document))
        readers = readers_worth(side_by_side, work.settings.workers)
        self.ahead = ReadingAhead(list(self._to_read(work, due)), looking, readers)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def is_small(self, document: DueDocument) -> bool:
        """Whether a document may be uploaded with others."""
        return document.xml_id in self._small

    def take(self, lost: Collection[int]) -> list[DueDocument]:
        """Take those that are uploaded next: some that are small, or one; those of the zip actions `lost` go alone."""
        group = [self._waiting.popleft()]
        if group[0].za_id in lost:
            self._small.discard(group[0].xml_id)
        if not self.is_small(group[0]):
            return group
        size = group[0].size_bytes
        while self._waiting and len(group) < MOST_DOCUMENTS:
            following = self._waiting[0]
            size += following.size_bytes
            if size > MOST_BYTES or following.za_id in lost or not self.is_small(following):
                break
            group.append(self._waiting.popleft())
        return group

    def give_back(self, documents: Sequence[DueDocument], alone: int) -> None:
        """Give back those that were taken last and not uploaded; so many of the first then go by themselves."""
        self._small.difference_update(document.xml_id for document in documents[:alone])
        self._waiting.extendleft(reversed(documents))

    def _to_read(self, work: DataSession, due: Iterable[DueDocument]) -> Iterable[Waiting]:
        for document in due:
            path = place_in_staging(work.staging, document)
            # One of a name that no file can have is told of in its turn.
            if path is not None:
                md5 = document.md5 if self.is_small(document) else None
                name = document.name
                about = checking_while_reading.about(str(document.key), name.file_name, name.centre, document.centre)
                yield Waiting(path, name.kind, document.size_bytes, md5, about)


def document_to_apply(
    document: DueDocument, delegations: Delegations, together_from: int | None = None
) -> DocumentToApply:
    """A document of the tracker as the QC database takes it; the delegations in force say whose data it may change."""
    name = document.name
    return DocumentToApply(
        action=document.key.action,
        zip_file=document.key.file_name,
        file_name=name.file_name,
        kind=name.kind,
        centre=name.centre,
        created=name.created,
        inc=name.inc,
        md5=document.md5 or "",
        size_bytes=document.size_bytes,
        tracker_id=document.xml_id,
        rights=delegations.rights_of(document.centre),
        together_from=together_from,
    )


def _small_additions(work: DataSession, due: Iterable[DueDocument]) -> set[int]:
    """The ids of the `xml_file` of those that add, are small, and are new to the QC database."""
    small = [
        document
        for document in due
        if document.key.action is Action.ADD
        and document.md5 is not None
        and document.size_bytes <= SMALL_BYTES
        and place_in_staging(work.staging, document) is not None
    ]
    to_apply = [document_to_apply(one, work.delegations) for one in small]
    known = work.read_qc(lambda connection: known_documents(connection, to_apply))
    return {document.xml_id for place, document in enumerate(small) if place not in known}
