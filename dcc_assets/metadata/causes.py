"""The causes of what fails a check of a zip action, beside that check: what, who acts, what to do.

To find causes takes tens of milliseconds a zip action, and a session does not wait for it: a run tells those of the
first archives that fail. The report, which every check links, has those of all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Engine

from dcc.errors import DatabaseUnreachableError, QcDatabaseOutdatedError
from dcc.outcomes import ZipKey
from dcc.qc.database import require_current
from dcc.rules.catalogue import CATALOGUE
from dcc.settings import Settings
from dcc.tracker.database import run_reading
from dcc_assets.partitions import open_qc, plain_key
from dcc_dagster.metadata import Metadata, table
from dcc_dagster.partition_events import Explain, Failure, Verdict

if TYPE_CHECKING:
    from dcc.reports.causes.cause import Cause
    from dcc.reports.languages import Catalogue

log = logging.getLogger(__name__)

EXPLAINED: Final = 20
"""Zip actions of a run whose causes are told beside their checks."""
CAUSES_SHOWN: Final = 20
_CAUSES_READ: Final = 200
"""Causes of a zip action among which those of a check are looked for, the worst first."""

_COLUMNS: Final = ("cause", "who acts", "what to do", "found", "document", "line")


def causes_explained(tracker: Engine, settings: Settings) -> Explain:
    """What tells the causes of failed checks, for the first `EXPLAINED` zip actions that it is asked for.

    It may be called in any thread. Databases that are away are no reason to show less: that is logged, and no cause is
    told.
    """
    known: dict[str, Sequence[Cause]] = {}

    def explain(failures: Sequence[Failure]) -> Sequence[Metadata]:
        # Looking for a zip action by a name that is not its key takes longer than its causes are worth here.
        keys = {partition: plain_key(partition) for partition, _ in failures if partition not in known}
        wanted = [key for key in keys.values() if key is not None][: max(EXPLAINED - len(known), 0)]
        try:
            if wanted:
                known.update(run_reading(tracker, lambda asked: _causes(asked, wanted, settings), patience_seconds=0))
        except DatabaseUnreachableError as error:
            log.warning("Causes are not shown beside checks: %s", error)
        if not any(partition in known for partition, _ in failures):
            return [{} for _ in failures]
        catalogue = wranglers_catalogue(settings)
        return [
            causes_table(_of_check(known.get(partition, ()), verdict), catalogue) for partition, verdict in failures
        ]

    return explain


def causes_table(causes: Sequence[Cause], catalogue: Catalogue) -> Metadata:
    """Causes as a table, the worst first; nothing where there are none."""
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
    """The catalogue of what Dagster's pages say: they are in English, as everything of Dagster's."""
    from dcc.reports.languages import load_catalogue

    return load_catalogue("en", settings)


def _of_check(causes: Sequence[Cause], verdict: Verdict) -> Sequence[Cause]:
    """The causes that a check looks for."""
    # This takes a tenth of a second to import, which a session without failures is spared.
    from dcc.reports.causes.errors import kind_of

    kinds = {kind if kind in CATALOGUE else kind_of(kind) for kind in verdict.kinds}
    return [cause for cause in causes if cause.kind in kinds]


def _causes(tracker: Connection, keys: Sequence[ZipKey], settings: Settings) -> Mapping[str, Sequence[Cause]]:
    """The causes of zip actions by their partitions."""
    from dcc.reports.causes.collecting import causes_of_zip

    with open_qc(settings) as engine:
        try:
            require_current(engine)
        except QcDatabaseOutdatedError:
            # Nothing was uploaded yet: the tracker knows it all.
            connected: AbstractContextManager[Connection | None] = nullcontext()
        else:
            connected = engine.connect()
        with connected as qc:
            return {key.partition: causes_of_zip(tracker, qc, key, most=_CAUSES_READ) for key in keys}
