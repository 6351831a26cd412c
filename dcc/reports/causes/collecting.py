"""The causes of what is wrong with a submission, with what a centre submitted, or with what a session worked on."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from sqlalchemy import Connection

from dcc.outcomes import ZipKey
from dcc.reports.causes.cause import Cause
from dcc.reports.causes.counting import Facts, count_causes
from dcc.reports.causes.crawl_facts import (
    CrawlFacts,
    crawl_facts_of_centre,
    crawl_facts_of_session,
    crawl_facts_of_zip,
)
from dcc.reports.causes.data_facts import DataFacts
from dcc.reports.causes.failed_specimens import RULE, note_failed_documents
from dcc.reports.causes.log_facts import LogFacts
from dcc.reports.causes.scopes import Scope
from dcc.settings import Settings
from dcc.tracker.crawls import SessionEntry, require_session
from dcc.tracker.decisions import acknowledged_keys
from dcc.tracker.models import XmlLog, ZipActionLog, ZipLog
from dcc.tracker.queries.session_zips import session_zips
from dcc.vocabulary import Severity

MOST: Final = 1_000
"""How many causes are returned unless another number, or None for all, is asked for."""

_WORST_FIRST: Final = {severity: -rank for rank, severity in enumerate(Severity)}


def causes_of_zip(
    tracker: Connection, qc: Connection | None, key: ZipKey, settings: Settings, *, most: int | None = MOST
) -> list[Cause]:
    """The causes of all faults of a submission and its documents, the worst and largest first.

    Without the QC database (None), as it is before the first upload, those that the tracker knows. The settings tell
    where documents are that failed, which are read for animals that experiments wait for.
    """
    return _causes(tracker, qc, Scope(zips=[key]), crawl_facts_of_zip(tracker, key), settings, most)


def causes_of_centre(
    tracker: Connection, qc: Connection | None, centre: str, settings: Settings, *, most: int | None = MOST
) -> list[Cause]:
    """The causes of all faults of a centre's submissions and sources at present, worst and largest first."""
    scope = Scope(centre=centre, acknowledged=acknowledged_keys(tracker))
    return _causes(tracker, qc, scope, crawl_facts_of_centre(tracker, centre), settings, most)


def causes_of_all(
    tracker: Connection, qc: Connection | None, settings: Settings, *, most: int | None = MOST
) -> list[Cause]:
    """The causes of all faults at present, of each centre by itself, the worst and largest first."""
    scope = Scope(acknowledged=acknowledged_keys(tracker))
    return _causes(tracker, qc, scope, crawl_facts_of_centre(tracker, None), settings, most)


def causes_of_session(
    tracker: Connection,
    qc: Connection | None,
    session_id: int,
    settings: Settings,
    *,
    most: int | None = MOST,
    only: Collection[ZipKey] | None = None,
) -> list[Cause]:
    """The causes of what is wrong at present with a session's submissions, and of what its crawls met with.

    Of the submissions `only` those, if given. Those of each centre are by themselves, the worst and largest first.
    Raises NotFoundError.
    """
    session = require_session(tracker, session_id)
    scope = _scope(tracker, session) if only is None else Scope(zips=list(only))
    return _causes(tracker, qc, scope, crawl_facts_of_session(tracker, session), settings, most)


def scope_of_session(tracker: Connection, session_id: int) -> Scope:
    """The submissions of a session. Raises NotFoundError."""
    return _scope(tracker, require_session(tracker, session_id))


def _scope(tracker: Connection, session: SessionEntry) -> Scope:
    return Scope(zips=[each.key for each in session_zips(tracker, session)])


def worst_first(causes: Iterable[Cause]) -> list[Cause]:
    """Causes in order: those that fail something before others, those that somebody must act on, the largest first."""
    return sorted(
        causes,
        key=lambda cause: (
            not cause.fails,
            cause.clears_by_itself,
            -cause.findings,
            -cause.documents,
            _WORST_FIRST[cause.severity],
            cause.key,
        ),
    )


def _causes(
    tracker: Connection,
    qc: Connection | None,
    scope: Scope,
    of_crawls: CrawlFacts,
    settings: Settings,
    most: int | None,
) -> list[Cause]:
    of_logs = [LogFacts(tracker, scope, log) for log in (XmlLog, ZipLog, ZipActionLog)]
    of_data = [] if qc is None else [DataFacts(qc, scope)]
    origins: list[Facts] = [*of_logs, *of_data, of_crawls]
    counted = count_causes(origins)
    causes = worst_first(counted)[:most]
    for origin in origins:
        by_id = {number: cause for cause in causes for facts, number in [counted[cause]] if facts is origin}
        for number, example in origin.examples(list(by_id)).items():
            by_id[number].example = example
    for findings in of_data:
        findings.count_waiting(causes)
    if qc is None or not any(cause.kind == RULE for cause in causes):
        return causes
    note_failed_documents(tracker, qc, scope, causes, settings)
    return worst_first(causes)
