"""The causes of what is wrong with a zip, a centre's submissions, or what a session had to do with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection

from dcc.errors import NotFoundError
from dcc.outcomes import ZipKey
from dcc.reports.causes.cause import Cause
from dcc.reports.causes.findings import count_data_causes, with_examples
from dcc.reports.causes.sources import causes_held, causes_noticed, causes_of_crawls, causes_of_sources
from dcc.reports.causes.submissions import Counted, count_submission_causes, with_logged_examples
from dcc.reports.causes.zip_scopes import Scope, faulty_zips
from dcc.tracker.crawls import SessionEntry, list_sessions
from dcc.tracker.hostings.foreign_archives import held_archives
from dcc.tracker.queries.session_zips import session_zip_ids, session_zips
from dcc.vocabulary import Severity

MOST: Final = 1_000
"""How many causes are told unless another number, or None for all, is asked for."""

_WORST_FIRST: Final = {severity: -rank for rank, severity in enumerate(Severity)}


def causes_of_zip(tracker: Connection, qc: Connection | None, key: ZipKey, *, most: int | None = MOST) -> list[Cause]:
    """The causes of all that is wrong with a zip action and its documents, the worst and largest first.

    Without the QC database (None), as it is before the first upload, those that the tracker knows.
    """
    of_sources = [*causes_noticed(tracker, key), *causes_held(held_archives(tracker, key=key))]
    return _collected(tracker, qc, Scope(zips=[key]), of_sources, most)


def causes_of_centre(
    tracker: Connection, qc: Connection | None, centre: str, *, most: int | None = MOST
) -> list[Cause]:
    """The causes of all that is wrong with a centre's submissions and sources at present, worst and largest first."""
    of_sources = [*causes_of_sources(tracker, centre), *causes_held(held_archives(tracker), centre)]
    return _collected(tracker, qc, Scope(centre=centre), of_sources, most)


def causes_of_all(tracker: Connection, qc: Connection | None, *, most: int | None = MOST) -> list[Cause]:
    """The causes of all that is wrong at present, of each centre by itself, the worst and largest first."""
    of_sources = [*causes_of_sources(tracker), *causes_held(held_archives(tracker))]
    return _collected(tracker, qc, Scope(), of_sources, most)


def causes_of_session(
    tracker: Connection, qc: Connection | None, session_id: int, *, most: int | None = MOST
) -> list[Cause]:
    """The causes of what is wrong at present with the zip actions of a session, and of what its crawls came up against.

    Those of each centre are by themselves, the worst and largest first. Raises NotFoundError.
    """
    session = _session(tracker, session_id)
    held = held_archives(tracker, session_zip_ids(tracker, session))
    of_sources = [*causes_of_crawls(tracker, session), *causes_held(held)]
    return _collected(tracker, qc, _scope_of(tracker, session), of_sources, most)


def scope_of_session(tracker: Connection, session_id: int) -> Scope:
    """The zip actions of a session. Raises NotFoundError."""
    return _scope_of(tracker, _session(tracker, session_id))


def _scope_of(tracker: Connection, session: SessionEntry) -> Scope:
    return Scope(zips=[each.key for each in session_zips(tracker, session)])


def _session(tracker: Connection, session_id: int) -> SessionEntry:
    sessions = list_sessions(tracker, ids=[session_id])
    if not sessions:
        raise NotFoundError(f"There is no session {session_id}. See `dcc sessions`.")
    return sessions[0]


def worst_first(causes: Sequence[Cause]) -> list[Cause]:
    """Causes in the order in which they are told: those that fail something before others, the largest first.

    Those that clear by themselves come after those for which somebody must act.
    """
    return sorted(causes, key=_place)


def _place(cause: Cause) -> tuple[bool, bool, int, int, int, str]:
    rank = _WORST_FIRST[cause.severity]
    return (not cause.fails, cause.clears_by_itself, -cause.findings, -cause.documents, rank, cause.key)


def _collected(
    tracker: Connection, qc: Connection | None, scope: Scope, of_sources: Sequence[Cause], most: int | None
) -> list[Cause]:
    faulty = faulty_zips(tracker, scope)
    submitted, of_sources = _together(count_submission_causes(tracker, scope, faulty), of_sources)
    in_data = [] if qc is None else count_data_causes(qc, scope, faulty.as_a_whole | faulty.in_documents)
    told = worst_first([*(cause for *_, cause in submitted), *(cause for _, cause in in_data), *of_sources])[:most]
    keys = {cause.key for cause in told}
    examples = [
        *with_logged_examples(tracker, [each for each in submitted if each[-1].key in keys]),
        *([] if qc is None else with_examples(qc, scope, [each for each in in_data if each[-1].key in keys])),
        *(cause for cause in of_sources if cause.key in keys),
    ]
    return worst_first(examples)


def _together(submitted: Sequence[Counted], of_sources: Sequence[Cause]) -> tuple[list[Counted], list[Cause]]:
    """The same, with what keeps crawls and downloads from a source told once: as a cause of the archives."""
    crawled = {cause.key: cause for cause in of_sources}
    joined = []
    for log, first, cause in submitted:
        same = crawled.pop(cause.key, None)
        if same is not None:
            cause = replace(cause, findings=cause.findings + same.findings)
        joined.append((log, first, cause))
    return joined, list(crawled.values())
