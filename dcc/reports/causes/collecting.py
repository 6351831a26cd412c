"""The causes of what is wrong with a submission, with what a centre submitted, or with what a session worked on."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from sqlalchemy import Connection, select

from dcc.databases.list_parameters import these_numbers
from dcc.outcomes import SubmissionKey
from dcc.reports.causes.cause import Cause, Facts, count_causes
from dcc.reports.causes.crawl_facts import crawl_facts
from dcc.reports.causes.data_facts import DataFacts
from dcc.reports.causes.failed_specimens import RULE, note_failed_documents
from dcc.reports.causes.log_facts import LogFacts
from dcc.reports.causes.scopes import Scope
from dcc.settings import Settings
from dcc.tracker.crawls import SessionEntry, require_session
from dcc.tracker.decisions import acknowledged_keys, is_acknowledged
from dcc.tracker.models import XmlLog, ZipAction, ZipActionLog, ZipFile, ZipLog
from dcc.tracker.queries.session_submissions import session_submission_ids
from dcc.tracker.register.centres import centre_ids
from dcc.tracker.submission_rows import KEY, submission_key_of

Subject: TypeAlias = SubmissionKey | str | int
"""A submission, a centre by its code, or a session by its number."""

MOST: Final = 1_000
"""How many causes are returned unless another number, or None for all, is asked for."""


class FoundCauses(NamedTuple):
    """The first causes of a subject; `total` is the number of all, and `findings` that of the findings of all.

    `scope` are the submissions that they are about.
    """

    causes: list[Cause]
    total: int
    findings: int
    scope: Scope


def find_causes(
    tracker: Connection,
    qc: Connection | None,
    subject: Subject | None,
    settings: Settings,
    *,
    limit: int | None = MOST,
    only: Collection[SubmissionKey] | None = None,
) -> FoundCauses:
    """The causes of all faults of a subject, or of all, at present, by centres, the worst and largest first.

    Of the submissions `only` those, if given. Without the QC database (None), as it is before the first upload, those
    that the tracker knows. The settings tell where documents are that failed, which are read for animals that
    experiments wait for. Raises NotFoundError for an unknown session.
    """
    about = require_session(tracker, subject) if isinstance(subject, int) else subject
    scope = _scope(tracker, about) if only is None else Scope(zips=list(only))
    scope = replace(scope, codes=list(centre_ids(tracker)))
    of_logs = [LogFacts(tracker, scope, log) for log in (XmlLog, ZipLog, ZipActionLog)]
    of_data = [] if qc is None else [DataFacts(qc, scope)]
    origins: list[Facts] = [*of_logs, *of_data, crawl_facts(tracker, about)]
    counted = count_causes(origins)
    causes = worst_first(counted)[:limit]
    found = FoundCauses(causes, len(counted), sum(cause.findings for cause in counted), scope)
    for origin in origins:
        by_id = {counted[cause].id: cause for cause in causes if counted[cause].origin is origin}
        for number, example in origin.examples(list(by_id)).items():
            by_id[number].example = example
    for findings in of_data:
        findings.count_waiting(causes)
    if qc is None or not any(cause.kind == RULE for cause in causes):
        return found
    note_failed_documents(tracker, qc, scope, causes, settings)
    return found._replace(causes=worst_first(causes))


def _scope(tracker: Connection, subject: SubmissionKey | SessionEntry | str | None) -> Scope:
    if isinstance(subject, SubmissionKey):
        return Scope(zips=[subject])
    if isinstance(subject, SessionEntry):
        touched = session_submission_ids(tracker, subject)
        query = select(ZipAction.id, *KEY).join(ZipFile).where(ZipAction.id.in_(touched), ~is_acknowledged())
        rows = tracker.execute(query).all()
        return Scope(zips=list(map(submission_key_of, rows)), za_ids=these_numbers(row.id for row in rows))
    return Scope(centre=subject, acknowledged=acknowledged_keys(tracker))


def worst_first(causes: Iterable[Cause]) -> list[Cause]:
    """Causes in order: those that fail something before others, those that somebody must act on, the largest first."""
    return sorted(
        causes,
        key=lambda cause: (
            not cause.fails,
            cause.clears_by_itself,
            -cause.findings,
            -cause.documents,
            cause.severity.rank,
            cause.key,
        ),
    )
