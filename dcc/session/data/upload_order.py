"""Valid documents, the order of their upload, and how many are applied together.

Processes that replay archives load this, and nothing of the tracker's tables.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Final, TypeVar

from dcc.naming import ACTION_ORDER, Action, DocumentKind, DocumentName
from dcc.outcomes import SubmissionKey
from dcc.phases import State
from dcc.qc.rows.documents import DocumentToApply
from dcc.rights import Delegations

MAX_DOCUMENTS: Final = 100
MAX_BYTES: Final = 5_000_000
"""The most documents of a transaction, and their size in all: a killed session loses little."""


@dataclass(frozen=True, slots=True)
class DueDocument:
    """A valid document, by the id of its `xml_file`, with its state.

    `centre` is that of the archive's name, None without one; `md5` is that of the extracted document; `source` is the
    file source of the archive.
    """

    xml_id: int
    za_id: int
    key: SubmissionKey
    centre: str | None
    name: DocumentName
    size_bytes: int
    md5: str | None
    state: State
    source: int = 0

    @property
    def upload_order(self) -> tuple[bool, date, int, str, int, str, str]:
        """Sort key: specimens first, then date, increment and centre; then by submission and name."""
        return (
            *self.name.processing_order,
            ACTION_ORDER[self.key.action],
            self.key.file_name,
            self.name.file_name,
        )

    @property
    def moment(self) -> tuple[date, int]:
        """The date and increment of its name."""
        return self.name.created, self.name.inc

    @property
    def takes_away_specimens(self) -> bool:
        """Whether it deletes specimens."""
        return self.key.action is Action.DELETE and self.name.kind is DocumentKind.SPECIMEN


Due = TypeVar("Due", bound=DueDocument)


def in_order_of_upload(documents: Iterable[Due]) -> list[Due]:
    """The documents in the order of upload, whatever their archives.

    Specimens before experiments, then by date, increment and centre. Exception: before a document deletes specimens
    come the experiment documents of the same centre up to that date and increment, which may delete their experiments.
    Those up to the last of the same archive come first too.
    """
    ordered = sorted(documents, key=lambda document: document.upload_order)
    waiting: dict[str, deque[Due]] = defaultdict(deque)
    last_of_zip: dict[tuple[int, str], tuple[date, int]] = {}
    for document in ordered:
        if document.name.kind is DocumentKind.EXPERIMENT:
            waiting[document.name.centre].append(document)
            last_of_zip[document.za_id, document.name.centre] = document.moment
    sent: set[int] = set()
    result: list[Due] = []
    for document in ordered:
        if document.takes_away_specimens:
            experiments = waiting[document.name.centre]
            until = max(document.moment, last_of_zip.get((document.za_id, document.name.centre), document.moment))
            while experiments and experiments[0].moment <= until:
                first = experiments.popleft()
                sent.add(first.xml_id)
                result.append(first)
        if document.xml_id not in sent:
            result.append(document)
    return result


def groups_to_apply(
    documents: Iterable[Due],
    file_of: Callable[[Due], Hashable],
    max_files: int,
    known: Container[int] = frozenset(),
) -> Iterator[list[Due]]:
    """Documents in their order, in groups for one transaction each: new additions, as many as it takes, or one other.

    Those of a group have their rows in `max_files` prepared files at most, which `file_of` tells apart. Additions with
    a `known` `xml_id` are not new.
    """

    def is_new(document: Due) -> bool:
        return document.key.action is Action.ADD and document.xml_id not in known

    group: list[Due] = []
    size, files = 0, set[Hashable]()
    for document in documents:
        size += document.size_bytes
        files.add(file_of(document))
        is_full = len(group) == MAX_DOCUMENTS or size > MAX_BYTES or len(files) > max_files
        if group and (is_full or not is_new(group[0]) or not is_new(document)):
            yield group
            group, size, files = [], document.size_bytes, {file_of(document)}
        group.append(document)
    if group:
        yield group


def document_to_apply(
    document: DueDocument, delegations: Delegations | None, first_of_batch: int | None = None
) -> DocumentToApply:
    """A document of the tracker for the QC database; it may change what the delegations in force permit, None: all."""
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
        rights=None if delegations is None else delegations.rights_of(document.centre),
        first_of_batch=first_of_batch,
    )
