"""Data contexts and overviews as recorded in the QC database, in the same form as a session yields them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, FromClause, func, select

from dcc.data_outcomes import ContextCounts, ContextsBuilt, OverviewsBuilt
from dcc.databases.columns import utc_now
from dcc.qc.models import CONTEXT, OVERVIEW_ANIMAL, OVERVIEW_GENOTYPE
from dcc.vocabulary import ContextState

_COUNTED: Final[Mapping[FromClause, Mapping[str, ColumnElement[Any]]]] = {
    OVERVIEW_GENOTYPE: {
        "genotypes": OVERVIEW_GENOTYPE.c.genotype,
        "strains": func.nullif(OVERVIEW_GENOTYPE.c.strain_id, ""),
    },
    OVERVIEW_ANIMAL: {
        "procedure_runs": OVERVIEW_ANIMAL.c.procedure_run_id,
        "animals": OVERVIEW_ANIMAL.c.specimen_id,
        "metadata_groups": OVERVIEW_ANIMAL.c.metadata_group,
    },
}
_NAMES: Final = [name for columns in _COUNTED.values() for name in columns]


def recorded_contexts(connection: Connection, centres: Collection[str] | None = None) -> ContextsBuilt:
    """The data contexts of all centres that have any, or of `centres`."""
    columns = (CONTEXT.c.centre, CONTEXT.c.state, CONTEXT.c.procedure_id)
    number, total = func.count().label("contexts"), func.sum(CONTEXT.c.measurements).label("measurements")
    states: dict[str, Counter[ContextState]] = defaultdict(Counter)
    procedures: dict[str, Counter[str]] = defaultdict(Counter)
    for row in connection.execute(select(*columns, number, total).group_by(*columns)):
        if centres is None or row.centre in centres:
            states[row.centre][ContextState(row.state)] += row.contexts
            procedures[row.centre][row.procedure_id] += int(row.measurements)
    counts = tuple(
        ContextCounts(
            centre,
            dict(states[centre]),
            measurements=procedures[centre].total(),
            procedures={name: number for name, number in procedures[centre].items() if number},
        )
        for centre in sorted(states)
    )
    return ContextsBuilt(counts, 0, 0.0, utc_now())


def recorded_overviews(connection: Connection, centres: Collection[str] | None = None) -> OverviewsBuilt:
    """The overviews of all centres that have any, or of `centres`."""
    found: dict[str, dict[str, int]] = {}
    for overview, columns in _COUNTED.items():
        numbers = [func.count(func.distinct(expression)).label(name) for name, expression in columns.items()]
        for row in connection.execute(select(overview.c.centre, *numbers).group_by(overview.c.centre)).mappings():
            if centres is None or row["centre"] in centres:
                counts = found.setdefault(row["centre"], dict.fromkeys(_NAMES, 0))
                counts.update({name: row[name] for name in columns})
    return OverviewsBuilt(found, 0.0, utc_now())
