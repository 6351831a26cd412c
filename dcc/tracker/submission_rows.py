"""Rows of submissions, downloads and documents: keys, states, parents, lookups by ids, and the latest downloads.

Parents never change, so they may be looked up before anything is locked. Lists of ids may have any length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    ScalarSelect,
    Select,
    Subquery,
    and_,
    case,
    exists,
    func,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy.orm import aliased

from dcc.databases.list_parameters import IDS, rows_about
from dcc.errors import NotFoundError
from dcc.messages import Message, mark
from dcc.nearest_names import LEAST_ALIKE, nearest_names, sentence_of
from dcc.outcomes import SubmissionKey
from dcc.phases import STATES, Phase, State, Status
from dcc.tracker.models import Centre, FileSource, FileSourceHasZip, Reopening, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.reopened_by import CRAWL
from dcc.tracker.states import NOT_DOWNLOADED

_MAX_COMPARED: Final = 2000
"""Names of archives among which the nearest are looked for, not of all that a centre has ever sent."""
_Object = TypeVar("_Object")
_Group = TypeVar("_Group")
_Member = TypeVar("_Member")

_ACTIONS_OF = select(ZipDownload.id, FileSourceHasZip.za_id).join(FileSourceHasZip).where(ZipDownload.id.in_(IDS))
_ACTION_STATES = select(ZipAction.id, ZipAction.phase_id, ZipAction.status_id).where(ZipAction.id.in_(IDS))
_PARENTS_OF = (
    select(XmlFile.id, ZipDownload.id, FileSourceHasZip.za_id)
    .join(ZipDownload, ZipDownload.id == XmlFile.download_id)
    .join(FileSourceHasZip)
    .where(XmlFile.id.in_(IDS))
)


KEY: Final = (ZipAction.todo_id, ZipFile.file_name)
"""The columns of a submission's key."""

DOCUMENTS_COUNT: Final = ZipAction.phase_id > Phase.ZIP_NAME
"""Whether a submission's documents count; those of one that was opened again or cancelled since do not."""


def of_host(column: Any, *conditions: ColumnElement[bool]) -> ScalarSelect[Any]:
    """A column of the centre on whose source a submission lies, or lay; of several, of the first by their codes."""
    hosts = _hosted(column).where(FileSourceHasZip.za_id == ZipAction.id, *conditions)
    present_first = hosts.order_by(FileSourceHasZip.gone_since.is_not(None), Centre.short_name)
    return present_first.limit(1).correlate(ZipAction).scalar_subquery()


def _hosted(column: Any) -> Select[Any]:
    return (
        select(column)
        .select_from(Centre)
        .join(FileSource, FileSource.centre_id == Centre.id)
        .join(FileSourceHasZip, FileSourceHasZip.file_source_id == FileSource.id)
    )


_IS_THERE: Final = FileSourceHasZip.gone_since.is_(None)
CENTRE: Final = func.coalesce(Centre.short_name, of_host(Centre.short_name, _IS_THERE))
"""The code of a submission's centre; without one in the archive's name, of that on whose source it is at present.

For queries of submissions and their archives with the centres of these, if any.
"""


def is_of_centre(centre: str) -> ColumnElement[bool]:
    """Whether a submission is of a centre in the sense of `CENTRE`; one on sources of several is of each of these.

    For a query `with_archives`. An empty code asks for submissions of no centre.
    """
    if not centre:
        return CENTRE.is_(None)
    hosted = _hosted(FileSourceHasZip.za_id).where(_IS_THERE, Centre.short_name == centre)
    return or_(Centre.short_name == centre, and_(ZipFile.centre_id.is_(None), ZipAction.id.in_(hosted)))


def is_on_source_of(centres: Collection[str]) -> ColumnElement[bool]:
    """Whether a submission is on a source of one of the centres or, if on none, was on one."""
    present = FileSourceHasZip.__table__.alias("present_hosting")
    is_elsewhere = exists().where(present.c.za_id == FileSourceHasZip.za_id, present.c.gone_since.is_(None))
    hosted = _hosted(FileSourceHasZip.za_id).where(Centre.short_name.in_(sorted(centres)))
    return ZipAction.id.in_(hosted.where(or_(_IS_THERE, ~is_elsewhere)))


CONTACT: Final = case((ZipFile.centre_id.is_(None), of_host(Centre.email)), else_=Centre.email).label("contact")
"""The e-mail addresses of a submission's centre; without one in the archive's name, of that on whose source it lies."""


def with_archives(query: Any) -> Select[*tuple[Any, ...]]:
    """Join the archives of submissions, and the centres of their names, if any, to a query of submissions."""
    joined = query.join(ZipFile, ZipFile.id == ZipAction.zip_id)
    of_centres: Select[*tuple[Any, ...]] = joined.outerjoin(Centre, Centre.id == ZipFile.centre_id)
    return of_centres


def submission_key_of(row: Any) -> SubmissionKey:
    """The key of the submission in a row with the columns `KEY`."""
    return SubmissionKey(row.todo_id, row.file_name)


def is_named(key: SubmissionKey) -> ColumnElement[bool]:
    """Condition on a submission and its archive: it has this key."""
    return and_(ZipFile.file_name == key.file_name, ZipAction.todo_id == key.action)


class SubmissionOwner(NamedTuple):
    """A submission of the tracker and the centre of its name; None if the tracker knows neither."""

    za_id: int | None
    centre: str | None


def find_submission(connection: Connection, key: SubmissionKey) -> SubmissionOwner:
    """The submission as the tracker knows it; an unknown one has no id. `require_submission` refuses that."""
    query = with_archives(select(ZipAction.id, Centre.short_name).select_from(ZipAction)).where(is_named(key))
    found = connection.execute(query).one_or_none()
    return SubmissionOwner(None, None) if found is None else SubmissionOwner(*found)


def require_submission(connection: Connection, key: SubmissionKey) -> None:
    """Check that the tracker knows a submission. Raises NotFoundError."""
    if find_submission(connection, key).za_id is None:
        raise not_found_error(connection, key)


def not_found_error(connection: Connection, key: SubmissionKey) -> NotFoundError:
    """The error that the tracker does not know a submission, with those of the same archive."""
    query = select(*KEY).join(ZipFile).where(ZipFile.file_name == key.file_name).order_by(ZipAction.todo_id)
    others = ", ".join(str(submission_key_of(row)) for row in connection.execute(query))
    if others:
        text = mark("No submission {key} exists. The tracker knows {others}.")
        return NotFoundError(text, key=str(key), others=others)
    text = mark(
        "No submission {key} exists: no crawl has seen it.{nearest} See `dcc zips`; `dcc crawl` looks for new ones."
    )
    return NotFoundError(text, key=str(key), nearest=nearest_submissions(connection, key.file_name))


def nearest_submissions(connection: Connection, name: str) -> Message | str:
    """A sentence with the submissions whose archives' names are nearest to one, after a space; empty if none is near.

    Those whose names begin so come first, then the latest of the centre; capitals count for nothing.
    """
    query = select(*KEY).join(ZipFile).order_by(ZipAction.id.desc()).limit(_MAX_COMPARED)
    centre, dot, _ = name.partition(".")
    for beginning, least_alike in ((name, 0.0), (centre + dot, LEAST_ALIKE)):
        begins_so = func.lower(ZipFile.file_name).startswith(beginning.lower(), autoescape=True)
        keys = [submission_key_of(row) for row in connection.execute(query.where(begins_so))]
        names = dict.fromkeys(key.file_name for key in keys)
        nearest = [
            str(key)
            for near in nearest_names(name, names, least_alike=least_alike)
            for key in keys
            if key.file_name == near
        ]
        if nearest:
            return sentence_of(nearest)
    return ""


def state_of(row: Any) -> State:
    """The state in a row with a phase and a status."""
    return STATES[row.phase_id, row.status_id]


def is_at(model: Any, *states: State) -> ColumnElement[bool]:
    """Condition on a submission, download or document (`model`): it is in one of these states."""
    return or_(*(and_(model.phase_id == phase, model.status_id == status) for phase, status in states))


def has_failed_as_whole(model: Any) -> ColumnElement[bool]:
    """Condition on a submission or download: it failed before its documents."""
    return and_(model.status_id == Status.FAILED, model.phase_id <= Phase.UNZIP)


def object_of(kind: type[_Object], row: Any, /, **given: object) -> _Object:
    """An object of a dataclass; its fields are the columns with their names, except those that are `given`.

    `key`, `phase` and `status` are those of a submission, or of what else has such columns.
    """
    found = row._asdict()
    if "todo_id" in found and "file_name" in found:
        found["key"] = submission_key_of(row)
    if "phase_id" in found and "status_id" in found:
        found["phase"], found["status"] = state_of(row)
    return kind(**{each.name: found[each.name] for each in fields(kind) if each.name in found} | given)  # type: ignore[arg-type]


def count_submissions(connection: Connection, *conditions: ColumnElement[bool]) -> int:
    """The number of submissions for which conditions hold."""
    return connection.scalar(select(func.count()).select_from(ZipAction).where(*conditions)) or 0


def named_after(centres: Collection[str] | None) -> ColumnElement[bool]:
    """Condition on a submission: its archive's name has one of the centres; None: any archive."""
    if centres is None:
        return true()
    own = select(Centre.id).where(Centre.short_name.in_(sorted(centres)))
    return ZipAction.zip_id.in_(select(ZipFile.id).where(ZipFile.centre_id.in_(own)))


def of_names_in(query: Select[*tuple[Any, ...]], centres: Collection[str] | None) -> Select[*tuple[Any, ...]]:
    """The submissions of a query whose archive's name has one of the centres; for None the query as it is."""
    return query if centres is None else query.where(named_after(centres))


def has_archive_bytes(download: Any = ZipDownload) -> ColumnElement[bool]:
    """Condition on a download: it had an archive's bytes, and was not given up before they were judged."""
    given_up = and_(download.status_id == Status.CANCELLED, download.phase_id <= Phase.XSD)
    return and_(download.phase_id > Phase.DOWNLOAD, not_(given_up))


def is_without_bytes_since() -> ColumnElement[bool]:
    """Condition on a re-opening: it counts, and no archive's bytes have come since then, though some had before."""
    last_with_bytes = (
        select(func.max(ZipDownload.id))
        .join(FileSourceHasZip)
        .where(FileSourceHasZip.za_id == Reopening.za_id, has_archive_bytes())
        .correlate(Reopening)
        .scalar_subquery()
    )
    return and_(Reopening.fell_back.is_(None), Reopening.last_download_id >= last_with_bytes)


def changed_since_last_bytes() -> ColumnElement[bool]:
    """Condition on a re-opening: a crawl saw that the archive changed, and has not been fetched since then."""
    return and_(Reopening.requested_by == CRAWL, is_without_bytes_since())


_Later = aliased(ZipDownload)
_LaterHosting = aliased(FileSourceHasZip)
IS_SUPERSEDED: Final = (
    exists()
    .where(
        _LaterHosting.za_id == FileSourceHasZip.za_id,
        _Later.zf_id == _LaterHosting.id,
        _Later.id > ZipDownload.id,
        has_archive_bytes(_Later),
    )
    .correlate(FileSourceHasZip, ZipDownload)
)
"""Condition on a download and its hosting: a later one of the submission had an archive's bytes."""


def archive_size(download: Any = ZipDownload) -> ColumnElement[Any]:
    """The size of an attempt's archive, in bytes, even if nothing was sent."""
    return func.coalesce(download.content_size_bytes, download.downloaded_size_bytes)


def archive_md5() -> ColumnElement[Any]:
    """The MD5 of an attempt's archive. That of its name counts for rows of earlier versions; add, edit and delete may
    have different archives of one name.
    """
    return func.coalesce(ZipDownload.content_md5, ZipFile.content_md5)


_FETCHED_NOTHING: Final = or_(
    is_at(ZipDownload, NOT_DOWNLOADED),
    and_(ZipDownload.status_id == Status.CANCELLED, ZipDownload.phase_id <= Phase.UNZIP),
)
LATEST: Final = case(
    (
        func.max(ZipDownload.id) == func.max(case((_FETCHED_NOTHING, ZipDownload.id))),
        func.coalesce(
            func.max(case((has_archive_bytes(), ZipDownload.id))),
            func.max(case((ZipDownload.status_id != Status.CANCELLED, ZipDownload.id))),
            func.max(ZipDownload.id),
        ),
    ),
    else_=func.max(ZipDownload.id),
)
"""The latest download of a group; if it fetched nothing, or was given up, the last one that had the bytes.

If none had them, the last one that was not given up: it has the reason.
"""

LATEST_OF_SUBMISSION: Final = (
    select(LATEST)
    .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
    .where(FileSourceHasZip.za_id == ZipAction.id)
    .correlate(ZipAction)
    .scalar_subquery()
)
"""The latest download of a submission, in queries of these."""

_LATEST_DOWNLOADS = (
    select(
        FileSourceHasZip.za_id,
        LATEST,
        select(func.max(Reopening.last_download_id))
        .where(Reopening.za_id == FileSourceHasZip.za_id, Reopening.fell_back.is_(None))
        .correlate(FileSourceHasZip)
        .scalar_subquery(),
    )
    .join(ZipDownload)
    .where(FileSourceHasZip.za_id.in_(IDS))
    .group_by(FileSourceHasZip.za_id)
)


def newest_downloads(za_ids: Any = None) -> Subquery:
    """The latest download of each submission, or of those of a query of ids or `IDS`: `za_id` and `download_id`."""
    query = (
        select(FileSourceHasZip.za_id, LATEST.label("download_id")).join(ZipDownload).group_by(FileSourceHasZip.za_id)
    )
    wanted = query if za_ids is None else query.where(FileSourceHasZip.za_id.in_(za_ids))
    return wanted.subquery("latest_download")


class Parents(NamedTuple):
    """The parent of each document (id of a `zip_download`) and of each download (id of a `zip_action`)."""

    documents: dict[int, int]
    downloads: dict[int, int]


def group_pairs(pairs: Iterable[tuple[_Group, _Member]]) -> defaultdict[_Group, list[_Member]]:
    """The second of some pairs by the first, in their order; other keys have none."""
    found: defaultdict[_Group, list[_Member]] = defaultdict(list)
    for group, member in pairs:
        found[group].append(member)
    return found


def action_states(connection: Connection, za_ids: Iterable[int]) -> dict[int, State]:
    """The states of submissions; missing ones are left out."""
    return {row.id: state_of(row) for row in rows_about(connection, _ACTION_STATES, za_ids)}


def actions_of(connection: Connection, download_ids: Iterable[int]) -> dict[int, int]:
    """The submission of each download."""
    return dict(rows_about(connection, _ACTIONS_OF, download_ids))


def find_parents(connection: Connection, download_ids: Iterable[int], document_ids: Iterable[int]) -> Parents:
    """The parents of downloads and of documents, and of the documents' downloads; missing ones are left out."""
    parents = Parents({}, actions_of(connection, download_ids))
    for document_id, download_id, za_id in rows_about(connection, _PARENTS_OF, document_ids):
        parents.documents[document_id] = download_id
        parents.downloads[download_id] = za_id
    return parents


class LatestDownload(NamedTuple):
    """The latest download of a submission, and the last one before it was opened again, or 0."""

    za_id: int
    download_id: int
    before_reopening: int

    @property
    def counts(self) -> bool:
        """Whether it decides the submission's state: it came after the re-opening."""
        return self.download_id > self.before_reopening


def latest_downloads(connection: Connection, za_ids: Iterable[int]) -> Iterator[LatestDownload]:
    """The latest download of each submission with downloads.

    An attempt that fetched nothing is not the latest if an earlier one had the bytes.
    """
    for za_id, latest, before_reopening in rows_about(connection, _LATEST_DOWNLOADS, za_ids):
        yield LatestDownload(za_id, latest, before_reopening or 0)
