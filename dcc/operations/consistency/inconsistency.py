"""Inconsistencies of an installation, and the rules that find them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, and_, exists, func, or_, select
from sqlalchemy.orm import aliased

from dcc.operations.backups.database_files import last_ids
from dcc.phases import Phase, State, Status
from dcc.tracker.database import TRACKER
from dcc.tracker.models import FileSource, FileSourceHasZip, Reopening, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.submission_rows import (
    KEY,
    LATEST_OF_SUBMISSION,
    archive_size,
    changed_since_last_bytes,
    state_of,
    zip_key_of,
)

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
"""What each rule demands, by its id; `dcc_assets.sync.consistency` checks C20 to C22."""


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
            shown["key"] = zip_key_of(row)
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


PAGE: Final = 500
"""How many rows are held at a time."""

_DOWNLOAD: Final = aliased(ZipDownload)
_COUNTING: Final = select(
    ZipAction.id.label("za_id"),
    LATEST_OF_SUBMISSION.label("latest"),
    select(func.coalesce(func.max(Reopening.last_download_id), 0))
    .where(Reopening.za_id == ZipAction.id, Reopening.fell_back.is_(None))
    .scalar_subquery()
    .label("reopened"),
).subquery("counting")
_COUNTS: Final = and_(_DOWNLOAD.id == _COUNTING.c.latest, _DOWNLOAD.id > _COUNTING.c.reopened)
"""The condition that a download determines its submission's state."""


def pages(
    connection: Connection, query: Select[*tuple[Any, ...]], key: Any, size: int = PAGE
) -> Iterator[list[Row[Any]]]:
    """The rows of a query in the order of `key`, its first, unique column, a page at a time."""
    last = -1
    while True:
        page = connection.execute(query.where(key > last).order_by(key).limit(size)).all()
        if page:
            yield list(page)
        if len(page) < size:
            return
        last = page[-1][0]


def zip_pages(connection: Connection) -> Iterator[list[Row[Any]]]:
    """All submissions, oldest first, a page at a time: their ids, keys and states, and the download that counts.

    That is the latest, not from before the submission was opened again: `download_id`, its phase and status, the bytes
    and MD5 of its archive (None for rows of earlier versions). All are None without one. `changed`: a crawl saw that
    the archive changed, and it has not been fetched since then.
    """
    query = (
        select(
            ZipAction.id,
            *KEY,
            ZipAction.phase_id,
            ZipAction.status_id,
            _DOWNLOAD.id.label("download_id"),
            _DOWNLOAD.phase_id.label("download_phase"),
            _DOWNLOAD.status_id.label("download_status"),
            archive_size(_DOWNLOAD).label("size_bytes"),
            _DOWNLOAD.content_md5,
            exists().where(Reopening.za_id == ZipAction.id, changed_since_last_bytes()).label("changed"),
        )
        .join(ZipFile)
        .join(_COUNTING, _COUNTING.c.za_id == ZipAction.id)
        .outerjoin(_DOWNLOAD, _COUNTS)
    )
    return pages(connection, query, ZipAction.id)


def download_state(row: Row[Any]) -> State | None:
    """The state of the download that counts in a row of `zip_pages`."""
    return None if row.download_id is None else State(Phase(row.download_phase), Status(row.download_status))


def document_pages(connection: Connection, phase: Phase) -> Iterator[list[Row[Any]]]:
    """The documents of downloads that count which have passed or failed `phase`, in the order of their ids, in pages.

    Their names (`fname`), MD5 (None if the name was refused) and states, and the keys of their submissions.
    """
    through = (XmlFile.phase_id == int(phase)) & (XmlFile.status_id >= int(Status.DONE))
    query = (
        select(XmlFile.id, XmlFile.fname, XmlFile.content_md5, XmlFile.phase_id, XmlFile.status_id, *KEY)
        .join(_DOWNLOAD, _DOWNLOAD.id == XmlFile.download_id)
        .join(FileSourceHasZip, FileSourceHasZip.id == _DOWNLOAD.zf_id)
        .join(ZipAction)
        .join(ZipFile)
        .join(_COUNTING, _COUNTING.c.za_id == ZipAction.id)
        .where(or_(XmlFile.phase_id > int(phase), through), _COUNTS)
    )
    return pages(connection, query, XmlFile.id)


def sources_were_purged(connection: Connection) -> bool:
    """Whether sources may have been removed with all their history: some given ids are missing."""
    sources = connection.scalar(select(func.count()).select_from(FileSource)) or 0
    return last_ids(connection, TRACKER).get(FileSource.__tablename__, 0) > sources
