"""The causes of a submission's failed check, shown with the check: what, who acts, what to do.

Finding causes takes tens of milliseconds for a submission, and a session does not wait for it: a run shows those of the
first archives that fail. The report, which every check links to, has all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Engine

from dcc.databases.transactions import run_reading
from dcc.declarations import ACTOR_NAMES
from dcc.errors import DatabaseUnreachableError
from dcc.outcomes import SubmissionKey
from dcc.rules.catalogue import CATALOGUE
from dcc.settings import Settings
from dcc_assets.partitions import plain_key
from dcc_dagster.metadata import Metadata, table
from dcc_dagster.partition_events import CheckVerdict, Explain, ReportedVerdict
from dcc_resources.databases import qc_if_made

if TYPE_CHECKING:
    from dcc.reports.causes.cause import Cause
    from dcc.reports.languages import Catalogue

log = logging.getLogger(__name__)

EXPLAINED: Final = 20
"""How many of a run's submissions get their causes."""
CAUSES_SHOWN: Final = 20
_CAUSES_READ: Final = 200
"""How many of a submission's worst causes are searched for those of a check."""

_COLUMNS: Final = ("cause", "who acts", "what to do", "found", "document", "line")


def causes_explained(tracker: Engine, settings: Settings) -> Explain:
    """A function that returns the causes of failed checks, for the first `EXPLAINED` submissions.

    It may be called in any thread. If a database is away, that is logged, and it returns no cause.
    """
    known: dict[str, Sequence[Cause]] = {}

    def explain(failures: Sequence[ReportedVerdict]) -> Sequence[Metadata]:
        # Searching for a submission whose key is not its name takes too long here.
        partitions = [failure.report.partition for failure in failures]
        keys = {partition: plain_key(partition) for partition in partitions if partition not in known}
        wanted = [key for key in keys.values() if key is not None][: max(EXPLAINED - len(known), 0)]
        try:
            if wanted:
                known.update(
                    run_reading(tracker, lambda connection: _causes(connection, wanted, settings), patience_seconds=0)
                )
        except DatabaseUnreachableError as error:
            log.warning("Causes are not shown beside checks: %s", error)
        if not any(partition in known for partition in partitions):
            return [{} for _ in failures]
        catalogue = wranglers_catalogue(settings)
        found = (_of_check(known.get(failure.report.partition, ()), failure.verdict) for failure in failures)
        return [_actors(causes) | causes_table(causes, catalogue) for causes in found]

    return explain


def _actors(causes: Sequence[Cause]) -> Metadata:
    """Who acts on causes that fail, as their table says; a check knows only what its rules declare."""
    actors = dict.fromkeys(ACTOR_NAMES[cause.acts] for cause in causes if cause.fails)
    return {"Who acts": ", ".join(actors)} if actors else {}


def causes_table(causes: Sequence[Cause], catalogue: Catalogue) -> Metadata:
    """Causes as a table, the worst first; nothing without causes."""
    rows = [
        (
            cause.title(catalogue),
            cause.who_acts(catalogue),
            cause.remedy(catalogue),
            cause.findings,
            cause.example.document,
            cause.example.line,
        )
        for cause in causes[:CAUSES_SHOWN]
    ]
    return {"Causes": table(_COLUMNS, rows)} if rows else {}


def wranglers_catalogue(settings: Settings) -> Catalogue:
    """The catalogue of Dagster's pages: English, like the rest of them."""
    from dcc.reports.languages import load_catalogue

    return load_catalogue("en", settings)


def _of_check(causes: Sequence[Cause], verdict: CheckVerdict) -> Sequence[Cause]:
    # Takes a tenth of a second to import; a session without failures saves that.
    from dcc.error_declarations import kind_of

    kinds = {kind if kind in CATALOGUE else kind_of(kind) for kind in verdict.kinds}
    return [cause for cause in causes if cause.kind in kinds]


def _causes(tracker: Connection, keys: Sequence[SubmissionKey], settings: Settings) -> Mapping[str, Sequence[Cause]]:
    from dcc.reports.causes.collecting import find_causes

    with qc_if_made(settings) as qc:
        return {key.partition: find_causes(tracker, qc, key, settings, limit=_CAUSES_READ).causes for key in keys}
