"""Lists and counts of submissions and documents: all states, and which submissions wait.

Every query is a fixed number of statements, for any number of archives. Nothing here writes. `tracker.crawls` has the
queries about crawls and sessions, `zip_stories` those about one submission.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, exists, func, literal, or_, select, union
from sqlalchemy.orm import aliased

from dcc.databases.columns import UtcDateTime
from dcc.databases.list_parameters import IDS, rows_about, rows_with
from dcc.errors import BadFileNameError, ConfigurationError, InternalFaultError, NotFoundError
from dcc.naming import Action
from dcc.nearest_names import nearest_sentence
from dcc.outcomes import HELD, Problem, ZipKey
from dcc.phases import ACTION_IDS, ACTIONS_BY_ID, Phase, State, Status
from dcc.tracker.decisions import DecisionKind, is_acknowledged, is_decided, is_on_hold, is_unfinished, needs_nobody
from dcc.tracker.hostings.changed_archives import is_loaded
from dcc.tracker.hostings.foreign_archives import may_be_taken
from dcc.tracker.models import (
    AnException,
    Centre,
    FileSource,
    FileSourceHasZip,
    ResourceStateRow,
    XmlFile,
    XmlLog,
    ZipAction,
    ZipActionLog,
    ZipDownload,
    ZipFile,
    ZipLog,
)
from dcc.tracker.problems import FAILING, OF_ACTION, OF_DOCUMENT, OF_DOWNLOAD, problem_of
from dcc.tracker.register.source_addresses import in_use
from dcc.tracker.states import NOT_ARRIVED, REFUSED, WAITING
from dcc.tracker.submission_rows import (
    CONTACT,
    DOCUMENTS_COUNT,
    KEY,
    group_pairs,
    is_at,
    is_of_centre,
    named_after,
    newest_downloads,
    object_of,
    with_archives,
    zip_key_of,
)

_OTHER_ACTION = aliased(ZipAction)
_OF_TWO_ACTIONS = (
    exists().where(_OTHER_ACTION.zip_id == ZipAction.zip_id, _OTHER_ACTION.id != ZipAction.id).correlate(ZipAction)
)
_LISTED_SIZE = (
    select(func.max(FileSourceHasZip.size_bytes))
    .where(FileSourceHasZip.za_id == ZipAction.id, FileSourceHasZip.gone_since.is_(None))
    .correlate(ZipAction)
    .scalar_subquery()
)
_SIZE = case((_OF_TWO_ACTIONS, func.coalesce(_LISTED_SIZE, ZipFile.size_bytes)), else_=ZipFile.size_bytes)
"""The size of a submission's archive: that of its name, unless archives under other actions have the name too."""


def select_zip_actions() -> Select[*tuple[Any, ...]]:
    """Submissions: id, todo_id, state, last_update, archive's name, size and MD5, its centre and contact if known."""
    submission = ZipAction.id, *KEY, ZipAction.phase_id, ZipAction.status_id, ZipAction.last_update
    archive = _SIZE.label("size_bytes"), ZipFile.content_md5, Centre.short_name.label("centre"), CONTACT
    return with_archives(select(*submission, *archive).select_from(ZipAction))


_AnySelect = Select[*tuple[Any, ...]]
_NAMED = 3


@dataclass(frozen=True, slots=True)
class StateCount:
    """The number of submissions or documents in one state."""

    phase: Phase
    status: Status
    count: int


@dataclass(frozen=True, slots=True)
class ZipFilter:
    """Selects submissions; None does not restrict. `centre` is a centre's code, or empty for none known.

    The centre is that of the archive's name or, where this names none, that on whose source it is at present.

    `kind` is the name of an error in `an_exception` or the id of a rule, for those that have it at present. `since` is
    the time from which on they changed last; `name` a pattern of the archive's name with `*` and `?`. `first_day` and
    `last_day` are the earliest and the latest date in it. `on_hold` and `acknowledged` are as in
    `dcc.tracker.decisions`; `acknowledged=False`: not those that need nobody. `faulty`: in quarantine, or a fault of
    the platform stopped them.
    """

    centre: str | None = None
    action: Action | None = None
    phase: Phase | None = None
    status: Status | None = None
    kind: str | None = None
    since: datetime | None = None
    name: str | None = None
    on_hold: bool | None = None
    acknowledged: bool | None = None
    faulty: bool | None = None
    first_day: date | None = None
    last_day: date | None = None


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """A submission: `centre` None without one in its name, `sources` the ids of those that host it now.

    `since` is the time of its last change (UTC, naive). `contact` is the e-mail addresses of its centre or, where its
    name has none, of the one whose source it is on, and `reason` why it failed. The latter two may be None. `on_hold`:
    sessions leave it alone.
    """

    file_name: str
    action: Action
    centre: str | None
    phase: Phase
    status: Status
    sources: tuple[int, ...]
    size_bytes: int | None
    since: datetime
    contact: str | None = None
    reason: Problem | None = None
    on_hold: bool = False

    @property
    def is_tried_again(self) -> bool:
        """Whether sessions try again what failed or was not finished."""
        state = State(self.phase, self.status)
        return not self.on_hold and (not state.failed or state in NOT_ARRIVED)


def count_zip_actions(connection: Connection) -> list[StateCount]:
    """The number of submissions in each state, along the pipeline; states without any are left out."""
    return _counts(connection, select(ZipAction.phase_id, ZipAction.status_id, func.count()))


def count_documents(connection: Connection, za_ids: Select[Any] | None = None) -> list[StateCount]:
    """The number of documents that count in each state: those of the latest downloads of submissions, all or those of a
    query.
    """
    latest = newest_downloads(za_ids)
    query = select(XmlFile.phase_id, XmlFile.status_id, func.count())
    query = query.join(latest, latest.c.download_id == XmlFile.download_id)
    return _counts(connection, query.join(ZipAction, ZipAction.id == latest.c.za_id).where(DOCUMENTS_COUNT))


def _counts(connection: Connection, query: _AnySelect) -> list[StateCount]:
    state = tuple(query.selected_columns)[:2]
    rows = connection.execute(query.group_by(*state).order_by(*state))
    return [StateCount(Phase(phase), Status(status), count) for phase, status, count in rows]


class HeldDocument(NamedTuple):
    """A document that waits for confirmation, with its submission, and why."""

    key: ZipKey
    file_name: str
    message: str


def held_documents(connection: Connection) -> list[HeldDocument]:
    """The documents that wait for confirmation; oldest first."""
    query = select_entries([HELD]).where(DOCUMENTS_COUNT)
    return [HeldDocument(zip_key_of(row), row.fname, row.message or "") for row in connection.execute(query)]


def select_entries(kinds: Sequence[str]) -> _AnySelect:
    """The active log entries of certain kinds for documents of latest downloads: key, file name, and the problem."""
    latest = newest_downloads()
    return (
        select(*KEY, XmlFile.fname, *OF_DOCUMENT)
        .select_from(XmlLog)
        .join(AnException)
        .join(XmlFile)
        .join(latest, latest.c.download_id == XmlFile.download_id)
        .join(ZipAction, ZipAction.id == latest.c.za_id)
        .join(ZipFile)
        .where(AnException.short_name.in_(kinds), XmlLog.cleared.is_(None))
        .order_by(XmlLog.id)
    )


def require_centre(connection: Connection, short_name: str) -> None:
    """Check that a centre is registered. Raises NotFoundError, with the nearest codes."""
    registered = connection.scalars(select(Centre.short_name)).all()
    if short_name not in registered:
        nearest = nearest_sentence(short_name, registered)
        raise NotFoundError(
            f"No centre {short_name!r} exists (codes are case-sensitive).{nearest} See `dcc centre list`."
        )


def find_zips(
    connection: Connection, criteria: ZipFilter | None = None, *, with_reasons: bool = False
) -> list[ZipEntry]:
    """The submissions that a filter selects, oldest first: by date and increment of their names.

    `with_reasons` reads why failed ones failed.

    Raises NotFoundError for a centre that is not registered.
    """
    criteria = criteria or ZipFilter()
    if criteria.centre:
        require_centre(connection, criteria.centre)
    conditions = conditions_of(criteria)
    hosting = (
        select(FileSourceHasZip.za_id, FileSourceHasZip.file_source_id)
        .where(FileSourceHasZip.gone_since.is_(None))
        .order_by(FileSourceHasZip.file_source_id)
    )
    if conditions:
        hosting = hosting.where(
            FileSourceHasZip.za_id.in_(select_zip_actions().with_only_columns(ZipAction.id).where(*conditions))
        )
    hosts = group_pairs(connection.execute(hosting))
    listed = select_zip_actions().add_columns(is_on_hold().label("on_hold"))
    rows = connection.execute(listed.where(*conditions).order_by(*OLDEST_FIRST)).all()
    explained = [row.id for row in rows if criteria.faulty or row.status_id == int(Status.FAILED)]
    failed = explained if with_reasons else []
    reasons = failure_reasons(connection, failed)
    return [
        object_of(
            ZipEntry,
            row,
            action=ACTIONS_BY_ID[row.todo_id],
            sources=tuple(hosts[row.id]),
            since=row.last_update,
            contact=row.contact or None,
            reason=reasons.get(row.id),
        )
        for row in rows
    ]


def failure_reasons(connection: Connection, za_ids: Sequence[int]) -> dict[int, Problem]:
    """Why submissions failed: the first active error of a document, else the last entry on its archive or itself.

    The documents are those that failed in the earliest phase, as the submission did. Of the latest download, by the ids
    of submissions; three statements for each chunk of them.
    """
    latest = newest_downloads()
    about_itself = (
        select(ZipActionLog.za_id, *OF_ACTION)
        .join(AnException)
        .where(ZipActionLog.za_id.in_(IDS))
        .order_by(ZipActionLog.id)
    )
    about_archive = (
        select(latest.c.za_id, *OF_DOWNLOAD)
        .join(ZipLog, ZipLog.download_id == latest.c.download_id)
        .join(AnException)
        .where(latest.c.za_id.in_(IDS))
        .order_by(ZipLog.id)
    )
    # Of a document there may be thousands.
    first_errors = (
        select(latest.c.za_id, XmlFile.phase_id, func.min(XmlLog.id).label("log_id"))
        .join(XmlFile, XmlFile.download_id == latest.c.download_id)
        .join(XmlLog)
        .join(AnException)
        .where(latest.c.za_id.in_(IDS), XmlLog.cleared.is_(None), XmlFile.status_id == int(Status.FAILED))
        .where(AnException.short_name != HELD, FAILING)
        .group_by(latest.c.za_id, XmlFile.phase_id)
        .subquery()
    )
    # The last of a submission is kept.
    about_documents = (
        select(first_errors.c.za_id, *OF_DOCUMENT)
        .join(XmlLog, XmlLog.id == first_errors.c.log_id)
        .join(AnException)
        .order_by(first_errors.c.phase_id.desc())
    )
    reasons: dict[int, Problem] = {}
    for query in (about_itself, about_archive, about_documents):
        for row in rows_about(connection, query, za_ids):
            problem = problem_of(row)
            if problem.is_error:
                reasons[row.za_id] = problem
    return reasons


OLDEST_FIRST = (ZipFile.created, ZipFile.inc, ZipAction.id)


def conditions_of(criteria: ZipFilter) -> list[ColumnElement[bool]]:
    """The conditions of a filter on the rows of `select_zip_actions`."""
    met_fault = and_(ZipAction.id.in_(_with_kind(InternalFaultError.short_name())), is_unfinished())
    is_faulty = or_(is_decided(DecisionKind.QUARANTINE), met_fault)
    made: tuple[tuple[Any, Callable[[Any], ColumnElement[bool]]], ...] = (
        (criteria.centre, is_of_centre),
        (criteria.first_day, lambda day: ZipFile.created >= day),
        (criteria.last_day, lambda day: ZipFile.created <= day),
        (criteria.action, lambda action: ZipAction.todo_id == ACTION_IDS[action]),
        (criteria.phase, lambda phase: ZipAction.phase_id == int(phase)),
        (criteria.status, lambda status: ZipAction.status_id == int(status)),
        (criteria.kind, lambda kind: ZipAction.id.in_(_with_kind(kind))),
        # SQLite compares texts, and only this type binds times as the database wrote them.
        (criteria.since, lambda since: ZipAction.last_update >= literal(since, UtcDateTime())),
        (criteria.name, _has_name),
        (criteria.acknowledged, lambda wished: is_acknowledged() if wished else ~needs_nobody()),
        (criteria.on_hold, lambda wished: is_on_hold() if wished else ~is_on_hold()),
        (criteria.faulty, lambda wished: is_faulty if wished else ~is_faulty),
    )
    return [condition(value) for value, condition in made if value is not None]


def _has_name(pattern: str) -> ColumnElement[bool]:
    plain = pattern.translate({ord(each): f"\\{each}" for each in "\\%_"})
    is_like = ZipFile.file_name.like(plain.replace("*", "%").replace("?", "_"), escape="\\")
    # LIKE of SQLite takes small letters for capitals.
    exactly = "".join({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in pattern)
    return and_(is_like, ZipFile.file_name.regexp_match(f"^{exactly}$"))


def _with_kind(kind: str) -> Select[Any]:
    """The ids of submissions with a problem of a kind: by themselves, in their latest download or its documents."""
    of_kind = select(AnException.id).where(AnException.short_name == kind).scalar_subquery()
    downloads = select(ZipLog.download_id.label("download_id")).where(ZipLog.exception_id == of_kind)
    active = XmlLog.exception_id == of_kind, XmlLog.cleared.is_(None)
    documents = select(XmlFile.download_id.label("download_id")).join(XmlLog).where(*active)
    found = union(downloads, documents).subquery()
    candidates = select(FileSourceHasZip.za_id).join(ZipDownload).where(ZipDownload.id.in_(select(found.c.download_id)))
    latest = newest_downloads(candidates)
    itself = select(ZipActionLog.za_id).where(ZipActionLog.exception_id == of_kind)
    if kind == BadFileNameError.short_name():
        # The entry stays when the name conforms, because its centre was registered.
        itself = itself.join(ZipAction, ZipAction.id == ZipActionLog.za_id).where(is_at(ZipAction, REFUSED))
    fetched = select(latest.c.za_id).where(latest.c.download_id.in_(select(found.c.download_id)))
    return select(union(itself, fetched).subquery())


@dataclass(frozen=True, slots=True)
class SelectedZip:
    """A submission that a person selected, with its state; `loaded`: documents of it came to the QC database."""

    id: int
    key: ZipKey
    phase: Phase
    status: Status
    on_hold: bool
    acknowledged: bool
    loaded: bool

    @property
    def is_stopped(self) -> bool:
        """Whether it failed, was cancelled, or is left alone by sessions."""
        return self.on_hold or self.status in (Status.FAILED, Status.CANCELLED)


def select_zips(connection: Connection, criteria: ZipFilter, names: Sequence[str] | None = None) -> list[SelectedZip]:
    """The submissions that a filter selects, oldest first; with `names`, of these alone.

    A name is `<action>/<archive>`, or the archive's alone where it has one submission. Raises NotFoundError for a name
    that the tracker does not know and for an unknown centre, ConfigurationError for an archive with several.
    """
    if criteria.centre:
        require_centre(connection, criteria.centre)
    facts = is_on_hold().label("on_hold"), is_acknowledged().label("acknowledged")
    query = select_zip_actions().add_columns(*facts, is_loaded(ZipAction.id).label("loaded"))
    query = query.where(*conditions_of(criteria)).order_by(*OLDEST_FIRST)
    rows = connection.execute(query) if names is None else _rows_named(connection, query, names)
    return [object_of(SelectedZip, row) for row in rows]


def _rows_named(connection: Connection, query: _AnySelect, names: Sequence[str]) -> Iterator[Row[Any]]:
    of_archives: dict[str, set[str]] = {}
    for name in names:
        action, slash, archive = name.partition("/")
        of_archives.setdefault(archive if slash else action, set()).add(action if slash else "")
    listed = select(ZipFile.file_name, ZipAction.todo_id).join(ZipAction)
    rows = rows_with(connection, listed, ZipFile.file_name, of_archives)
    known = group_pairs((archive, ACTIONS_BY_ID[todo].value) for archive, todo in rows)
    wanted: dict[str, set[str]] = {}
    unknown: list[str] = []
    for archive, actions in of_archives.items():
        if "" in actions and len(known[archive]) > 1:
            several = ", ".join(f"{action}/{archive}" for action in known[archive])
            raise ConfigurationError(f"{archive!r} names several submissions: {several}. Name one of them.")
        wanted[archive] = set(known[archive][:1] if "" in actions else ()) | (actions - {""})
        unknown += [f"{action}/{archive}" for action in sorted(wanted[archive] - set(known[archive]))]
        unknown += [archive] if not wanted[archive] else []
    if unknown:
        more = f" and {len(unknown) - _NAMED:,} more" if len(unknown) > _NAMED else ""
        raise NotFoundError(f"The tracker knows no {', '.join(unknown[:_NAMED])}{more}. Look for it with: dcc zips")
    for row in rows_with(connection, query, ZipFile.file_name, wanted):
        if ACTIONS_BY_ID[row.todo_id].value in wanted[row.file_name]:
            yield row


def actions_of_archive(connection: Connection, file_name: str) -> list[Action]:
    """The actions of an archive with that name; none if there is no such archive."""
    query = select(ZipAction.todo_id).join(ZipFile)
    ids = connection.scalars(query.where(ZipFile.file_name == file_name).order_by(ZipAction.todo_id))
    return [ACTIONS_BY_ID[number] for number in ids]


def waiting_zip_actions(
    connection: Connection,
    *,
    centres: Collection[str] | None = None,
    sources: Collection[int] | None = None,
    limit: int | None = None,
) -> list[ZipKey]:
    """The submissions that a session would process, oldest first; of archives of some `centres` alone, if given.

    Those at (zip_name, done) that an available source of an active centre hosts now, complete, wait for their download.
    `sources` are the ids of those that may be used, if not all may. Those between (zip_md5, pending) and (xsd, running)
    were left unfinished by a dead session.
    """
    obtainable = _obtainable()
    if sources is not None:
        obtainable = obtainable.where(FileSourceHasZip.file_source_id.in_(sorted(sources)))
    waiting = and_(is_at(ZipAction, WAITING), obtainable.exists())
    query = (
        select(*KEY)
        .join(ZipFile)
        .where(or_(waiting, _interrupted()), ~is_on_hold(), named_after(centres))
        .order_by(*OLDEST_FIRST)
        .limit(limit)
    )
    return [zip_key_of(row) for row in connection.execute(query)]


def _interrupted() -> ColumnElement[bool]:
    # One equality on the phase for each term: both databases then use the index on (phase_id, status_id) only.
    phases = (Phase.ZIP_MD5, Phase.UNZIP, Phase.XML_NAME, Phase.XSD)
    under_way = [State(phase, status) for phase in phases for status in (Status.PENDING, Status.RUNNING, Status.DONE)]
    return is_at(ZipAction, *under_way[:-1])


def _obtainable() -> Select[int]:
    return (
        select(FileSourceHasZip.id)
        .join(FileSource)
        .join(ResourceStateRow)
        .join(Centre, Centre.id == FileSource.centre_id)
        .where(
            FileSourceHasZip.za_id == ZipAction.id,
            FileSourceHasZip.gone_since.is_(None),
            FileSourceHasZip.missed_since.is_(None),
            FileSourceHasZip.uploading_since.is_(None),
            in_use(),
            may_be_taken(),
        )
        .correlate(ZipAction, ZipFile)
    )
