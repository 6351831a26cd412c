"""The causes of what is wrong with a zip action, beside the checks that it failed: what, who acts, what to do.

To find causes takes tens of milliseconds a zip action, and a session is not to wait: so a run has those of the first
ones that fail, and the report, which every check links, has those of all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Engine

from dcc.errors import DatabaseUnreachableError, QcDatabaseOutdatedError
from dcc.outcomes import ZipKey
from dcc.qc.database import require_current
from dcc.settings import Settings
from dcc.tracker.database import run_reading
from dcc_assets.partitions import open_qc, plain_key
from dcc_dagster.metadata import Metadata, table

if TYPE_CHECKING:
    from dcc.reports.causes.cause import Cause
    from dcc.reports.languages import Catalogue

log = logging.getLogger(__name__)

EXPLAINED: Final = 20
"""Zip actions of a run whose causes are told beside their checks."""
CAUSES_SHOWN: Final = 20

_COLUMNS: Final = ("cause", "who acts", "what to do", "found", "document", "line")

Explain = Callable[[Sequence[str]], Mapping[str, Metadata]]
"""What tells the causes for partitions of zip actions; nothing for those of which it tells none."""


def explain_nothing(_partitions: Sequence[str]) -> Mapping[str, Metadata]:
    """Where no causes are told."""
    return {}


def zips_explained(tracker: Engine, settings: Settings) -> Explain:
    """What tells the causes of the first `EXPLAINED` zip actions that it is asked for, by their partitions.

    It may be called in any thread. Databases that are away are no reason to show less than there is to be shown: that
    is logged, and no cause is told.
    """
    told: set[str] = set()

    def explain(partitions: Sequence[str]) -> Mapping[str, Metadata]:
        # Looking for a zip action by a name that is not its key takes longer than its causes are worth here.
        keys = {partition: plain_key(partition) for partition in dict.fromkeys(partitions) if partition not in told}
        wanted = [key for key in keys.values() if key is not None][: EXPLAINED - len(told)]
        told.update(key.partition for key in wanted)
        if not wanted:
            return {}
        try:
            return run_reading(tracker, lambda connection: _explained(connection, wanted, settings), patience_seconds=0)
        except DatabaseUnreachableError as error:
            log.warning("Causes are not shown beside checks: %s", error)
            return {}

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


def _explained(tracker: Connection, keys: Sequence[ZipKey], settings: Settings) -> Mapping[str, Metadata]:
    # These take a tenth of a second to import, which a session without failures is spared.
    from dcc.reports.causes.collecting import causes_of_zip

    catalogue = wranglers_catalogue(settings)
    with open_qc(settings) as engine:
        try:
            require_current(engine)
        except QcDatabaseOutdatedError:
            # Nothing was uploaded yet: the tracker knows it all.
            connected: AbstractContextManager[Connection | None] = nullcontext()
        else:
            connected = engine.connect()
        with connected as qc:
            return {
                key.partition: causes_table(causes_of_zip(tracker, qc, key, most=CAUSES_SHOWN), catalogue)
                for key in keys
            }
