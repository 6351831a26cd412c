"""The retry policy: which failed downloads each session tries again by itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlalchemy import Connection, exists, func, select, union
from sqlalchemy.orm import aliased

from dcc.messages import mark
from dcc.tracker import progress
from dcc.tracker.decisions import is_acknowledged, is_on_hold
from dcc.tracker.hostings.download_plan import load_plans_among
from dcc.tracker.models import BadCopy, FileSourceHasZip, Reopening, ZipAction
from dcc.tracker.reopened_by import RETRY_POLICY
from dcc.tracker.states import NOT_ARRIVED, NOT_EXTRACTED
from dcc.tracker.submission_rows import is_at, named_after


def reopen_failed_downloads(connection: Connection, sources: set[int] | None, centres: Collection[str] | None) -> int:
    """Failed downloads are tried again from this session's sources. Returns their number.

    Of archives of some `centres`; None: of all. They include downloads that a person asked for and that failed, and
    archives that are damaged on one source while another has a copy not known to be bad.
    """
    conditions = ~is_acknowledged(), ~is_on_hold(), named_after(centres)
    failed = [plan.za_id for plan in load_plans_among(connection, sources, _DUE, *conditions)]
    if failed:
        progress.reopen(connection, failed, RETRY_POLICY, mark("The download failed in an earlier session."))
    return len(failed)


def count_not_arrived(connection: Connection, centres: Collection[str] | None = None) -> int:
    """The number of submissions, of some `centres` or of all, that no source has delivered after an attempt."""
    query = select(func.count()).select_from(ZipAction).where(_NOT_ARRIVED, named_after(centres))
    return connection.scalar(query) or 0


_NOT_ARRIVED: Final = is_at(ZipAction, *sorted(NOT_ARRIVED))
_Newer = aliased(Reopening)
_DUE: Final = union(
    select(ZipAction.id).where(_NOT_ARRIVED),
    select(Reopening.za_id).where(
        Reopening.fell_back.is_not(None),
        ~exists().where(_Newer.za_id == Reopening.za_id, _Newer.id > Reopening.id),
    ),
    select(FileSourceHasZip.za_id).join(BadCopy).join(ZipAction).where(is_at(ZipAction, NOT_EXTRACTED)),
).subquery("due")
"""A subquery for the retry policy, so that no session needs another statement."""
