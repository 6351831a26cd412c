"""Which submissions a person or a program asks for: a filter, and the query that it restricts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, literal, or_, select, union
from sqlalchemy.orm import aliased

from dcc.databases.columns import UtcDateTime
from dcc.errors import BadFileNameError, InternalFaultError
from dcc.naming import Action
from dcc.phases import Phase, Status
from dcc.tracker.decisions import DecisionKind, is_acknowledged, is_decided, is_on_hold, is_unfinished, needs_nobody
from dcc.tracker.models import (
    AnException,
    Centre,
    FileSourceHasZip,
    XmlFile,
    XmlLog,
    ZipAction,
    ZipActionLog,
    ZipDownload,
    ZipFile,
    ZipLog,
)
from dcc.tracker.states import REFUSED
from dcc.tracker.submission_rows import CENTRE, CONTACT, KEY, is_at, is_of_centre, newest_downloads, with_archives

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


def submission_query() -> Select[*tuple[Any, ...]]:
    """Submissions: id, todo_id, state, last_update, archive's name, size and MD5, its centre and contact if known."""
    submission = ZipAction.id, *KEY, ZipAction.phase_id, ZipAction.status_id, ZipAction.last_update
    archive = _SIZE.label("size_bytes"), ZipFile.content_md5, Centre.short_name.label("centre"), CONTACT
    return with_archives(select(*submission, *archive).select_from(ZipAction))


@dataclass(frozen=True, slots=True)
class SubmissionFilter:
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


OLDEST_FIRST = (ZipFile.created, ZipFile.inc, ZipAction.id)


def conditions_of(criteria: SubmissionFilter) -> list[ColumnElement[bool]]:
    """The conditions of a filter on the rows of `submission_query`."""
    met_fault = and_(ZipAction.id.in_(_with_kind(InternalFaultError.short_name())), is_unfinished())
    is_faulty = or_(is_decided(DecisionKind.QUARANTINE), met_fault)
    made: tuple[tuple[Any, Callable[[Any], ColumnElement[bool]]], ...] = (
        (criteria.centre, is_of_centre),
        (criteria.first_day, lambda day: ZipFile.created >= day),
        (criteria.last_day, lambda day: ZipFile.created <= day),
        (criteria.action, lambda action: ZipAction.todo_id == action),
        (criteria.phase, lambda phase: ZipAction.phase_id == phase),
        (criteria.status, lambda status: ZipAction.status_id == status),
        (criteria.kind, lambda kind: ZipAction.id.in_(_with_kind(kind))),
        # SQLite compares texts, and only this type binds times as the database wrote them.
        (criteria.since, lambda since: ZipAction.last_update >= literal(since, UtcDateTime())),
        (criteria.name, _has_name),
        (criteria.acknowledged, lambda wished: is_acknowledged() if wished else ~needs_nobody()),
        (criteria.on_hold, lambda wished: is_on_hold() if wished else ~is_on_hold()),
        (criteria.faulty, lambda wished: is_faulty if wished else ~is_faulty),
    )
    return [condition(value) for value, condition in made if value is not None]


def selected_ids(criteria: SubmissionFilter) -> Select[*tuple[Any, ...]]:
    """The ids of the submissions that a filter selects, as a query."""
    return submission_query().with_only_columns(ZipAction.id).where(*conditions_of(criteria))


def centre_of_selected(criteria: SubmissionFilter) -> ColumnElement[str]:
    """The centre of the selected archives: what is on sources of several counts for the one that is asked for."""
    return literal(criteria.centre) if criteria.centre else CENTRE


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
